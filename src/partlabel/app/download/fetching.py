"""One file over HTTP: resumed after a cut, also in a later run; checked; there whole or not at all."""

from __future__ import annotations

import base64
import binascii
import errno
import hashlib
import json
import os
import re
import shutil
import socket
import ssl
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from email.message import Message
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import BinaryIO
from urllib.error import HTTPError, URLError
from urllib.request import Request, build_opener

from partlabel.core.errors import UserError
from partlabel.core.files import write_json

#: seconds without a byte after which a connection counts as cut
TIMEOUT = 60.0
#: failures in a row, without a byte more than before, after which a file is given up
TRIES = 5
#: seconds before the second try; doubled for each further one, up to a minute
WAIT = 1.0

_CHUNK = 1 << 20
#: answers that another try will not change
_FINAL = range(400, 500)
_PASSING = {408, 425, 429}
#: the disk or the user's share of it is full; Windows knows no shares
_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}


class FetchError(UserError):
    """A file could not be fetched.

    Attributes:
        absent: the server answered that it does not have the file.
    """

    def __init__(self, message: str, absent: bool = False) -> None:
        super().__init__(message)
        self.absent = absent


@dataclass(frozen=True)
class Fetched:
    """A file that arrived.

    Attributes:
        bytes: its size.
        md5: its MD5 in hex.
        checked: what it was compared with: "published checksum", "checksum of the server", "size", or "nothing".
    """

    bytes: int
    md5: str
    checked: str


@dataclass(frozen=True)
class _State:
    """What a part file is a part of; kept beside it for the next run."""

    address: str
    validator: str | None = None
    total: int | None = None
    md5: str | None = None


class _Cut(Exception):
    """The connection ended before the file did, or the answer does not fit what is already here."""


def digest(path: Path) -> str:
    """Give the MD5 of a file in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def fetch(
    address: str,
    target: Path,
    md5: str | None = None,
    say: Callable[[str], None] = lambda text: None,
    bar: Callable[[int, int], None] = lambda done, total: None,
    resumable: bool = True,
) -> Fetched:
    """Fetch one file.

    What has arrived lies in ``NAME.part`` until it is whole and right. A part that an earlier run left is gone on
    from, if the server says that the file is still the same one, or a published checksum will tell. Proxies are taken
    from the environment (``http_proxy``, ``https_proxy``, ``no_proxy``).

    Args:
        address: an http or https address.
        target: where the file belongs; its folder exists.
        md5: the published MD5 in hex; where it is None, the checksum that the server names is taken if it names one.
        say: is told about cuts and further tries.
        bar: is told (bytes here, bytes in all; 0 where unknown).
        resumable: False spares a small file the note that going on needs.

    Raises:
        FetchError: it cannot be had, or is wrong twice; what arrived last is then kept as ``NAME.bad``.
        UserError: it cannot be written; the disk is full.
    """
    part = _Part(target, resumable)
    for last in (False, True):
        state = _complete(address, part, md5, say, bar)
        size, found, wanted = part.size(), digest(part.path), md5 or state.md5
        if wanted in (None, found):
            with _disk(target):
                os.replace(part.path, target)
            part.forget()
            kind = "published checksum" if md5 else "checksum of the server" if wanted else "size"
            return Fetched(size, found, kind if wanted or state.total is not None else "nothing")
        bad = target.with_name(f"{target.name}.bad")
        os.replace(part.path, bad)
        part.forget()
        if not last:
            say(f"{target.name}: has the MD5 {found} instead of {wanted}; fetching it once more from the start")
            time.sleep(WAIT)
    raise FetchError(f"{address} has the MD5 {found} instead of {wanted}; what arrived is kept as {bad}")


def _complete(
    address: str, part: _Part, md5: str | None, say: Callable[[str], None], bar: Callable[[int, int], None]
) -> _State:
    """Receive until the part is whole, going on after each cut."""
    failures, best = 0, part.size()
    while True:
        pause = 0.0
        try:
            return _receive(address, part, md5, bar)
        except HTTPError as error:
            with error:
                reason = f"the server answers {error.code} {error.reason}"
                pause = _seconds(error.headers.get("Retry-After"))
            if error.code in _FINAL and error.code not in _PASSING:
                raise FetchError(f"{address} cannot be fetched: {reason}", error.code in (403, 404, 410)) from None
        except (OSError, HTTPException, _Cut) as error:
            reason = _reason(error)
            if isinstance(error, URLError) and isinstance(error.reason, ssl.SSLCertVerificationError):
                raise FetchError(f"{address} cannot be fetched: {reason}") from None
        here = part.size()
        failures = 0 if here > best else failures + 1
        best = max(best, here)
        if failures >= TRIES:
            raise FetchError(f"{address} cannot be fetched: {reason}")
        pause = min(60.0, max(pause, WAIT * 2 ** max(failures - 1, 0)))
        after = f" after {here / 1e6:,.1f} MB" if here else ""
        say(f"{part.target.name}: {reason}{after}; trying again in {pause:,.0f} s")
        time.sleep(pause)


def _receive(address: str, part: _Part, md5: str | None, bar: Callable[[int, int], None]) -> _State:
    """Ask for what is missing and write it down.

    Raises:
        _Cut: less arrived than there is.
        OSError, HTTPException: the connection failed.
        UserError: the answer is no file, or it cannot be written.
    """
    state = part.state(address)
    offset = part.size() if state.validator or md5 else 0
    if offset and offset == state.total:  # an earlier run was stopped after the last byte
        return state
    request = Request(address, headers={"User-Agent": "partlabel", "Accept-Encoding": "identity"})
    if offset:
        request.add_header("Range", f"bytes={offset}-")
        if state.validator:
            request.add_header("If-Range", state.validator)
    try:
        response: HTTPResponse = build_opener().open(request, timeout=TIMEOUT)
    except HTTPError as error:
        if error.code != 416 or not offset:
            raise
        error.close()
        part.drop()
        raise _Cut("the part that was here does not fit the file") from None
    with response:
        fresh = _described(address, response.headers)
        if response.status == 206:
            start, total = _range(response.headers.get("Content-Range", ""))
            if start != offset or (state.total is not None and total != state.total):
                part.drop()
                raise _Cut("the part that was here does not fit the file")
            state = _State(address, fresh.validator or state.validator, total, fresh.md5 or state.md5)
        else:  # the file from its start: the first time, or it has changed, or the server takes no ranges
            offset, state = 0, fresh
        _room(part.target, (state.total or 0) - offset)
        with part.opened(offset, state) as file:
            _copy(response, file, offset, state.total, part.target, bar)
    return state


def _described(address: str, headers: Message) -> _State:
    """Read from an answer what the file is."""
    if headers.get_content_type() == "text/html":
        raise FetchError(f"{address} cannot be fetched: the answer is a web page instead of the file")
    if headers.get("Content-Encoding", "identity") != "identity":
        raise FetchError(f"{address} cannot be fetched: the server packs it as {headers['Content-Encoding']}")
    length = headers.get("Content-Length", "")
    etag = headers.get("ETag", "")
    strong = etag if etag.startswith('"') else None
    md5 = None
    for word in re.split(r"[,\s]+", ",".join(headers.get_all("x-goog-hash", []))):
        if word.startswith("md5="):
            md5 = _unpacked_md5(word.removeprefix("md5="))
    if headers.get("Server") == "AmazonS3" and re.fullmatch(r'"[0-9a-f]{32}"', etag):
        md5 = etag.strip('"')  # true of S3 for files that were put there in one piece; others have a hyphen
    return _State(address, strong or headers.get("Last-Modified"), int(length) if length.isdigit() else None, md5)


def _unpacked_md5(text: str) -> str | None:
    try:
        return base64.b64decode(text, validate=True).hex()
    except binascii.Error:
        return None


def _range(text: str) -> tuple[int, int | None]:
    """Read ``bytes 100-199/200``: the first byte and how many there are in all."""
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", text.strip(), re.IGNORECASE)
    if match is None:
        return -1, None
    return int(match[1]), None if match[2] == "*" else int(match[2])


def _copy(
    response: HTTPResponse,
    file: BinaryIO,
    here: int,
    total: int | None,
    target: Path,
    bar: Callable[[int, int], None],
) -> None:
    while chunk := response.read(_CHUNK):
        with _disk(target):
            file.write(chunk)
            file.flush()
        here += len(chunk)
        bar(here, total or 0)
    if total is not None and here < total:  # http.client does not complain when it reads in chunks
        raise _Cut("the connection was cut")


class _Part:
    """The unfinished file beside its target, and what it is a part of."""

    def __init__(self, target: Path, noted: bool) -> None:
        self.target = target
        self._noted = noted
        self.path = target.with_name(f"{target.name}.part")
        self._note = target.with_name(f"{target.name}.part.json")

    def size(self) -> int:
        """How many bytes are here."""
        return self.path.stat().st_size if self.path.is_file() else 0

    def state(self, address: str) -> _State:
        """What the bytes that are here belong to; from another address, only a published checksum can tell."""
        try:
            state = _State(**json.loads(self._note.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return _State(address)
        return state if state.address == address else _State(address)

    @contextmanager
    def opened(self, offset: int, state: _State) -> Generator[BinaryIO]:
        """Open it to be gone on with, or emptied when ``offset`` is 0."""
        with _disk(self.target), open(self.path, "ab" if offset else "wb"):
            pass
        # After the old bytes are gone: a stop in between leaves no part that is described wrongly.
        if self._noted:
            write_json(self._note, asdict(state))
        with open(self.path, "ab") as file:
            yield file

    def drop(self) -> None:
        """Start anew."""
        self.path.unlink(missing_ok=True)
        self.forget()

    def forget(self) -> None:
        """Remove the note."""
        self._note.unlink(missing_ok=True)


@contextmanager
def _disk(target: Path) -> Generator[None]:
    """Make a sentence of what the disk refuses."""
    try:
        yield
    except OSError as error:
        full = error.errno in _FULL
        after = "; make room and run the same command again, it goes on where it stopped" if full else ""
        raise UserError(f"{target}: cannot be written ({error.strerror}){after}") from error


def _room(target: Path, needed: int) -> None:
    free = shutil.disk_usage(target.parent).free
    if needed > free:
        raise UserError(f"{target}: {needed / 1e9:,.2f} GB are to come, and the disk has {free / 1e9:,.2f} GB left")


def _seconds(text: str | None) -> float:
    return float(text) if text and text.isdigit() else 0.0


def _reason(error: Exception) -> str:
    inner = error.reason if isinstance(error, URLError) else error
    if isinstance(inner, TimeoutError):
        return f"nothing came for {TIMEOUT:,.0f} s"
    if isinstance(inner, socket.gaierror):
        return "there is no network, or no such server"
    if isinstance(inner, ConnectionResetError | HTTPException):
        return "the connection was cut"
    if isinstance(inner, OSError) and inner.strerror:
        return inner.strerror
    return str(inner)
