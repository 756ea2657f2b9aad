"""What is in image files, found by reading each once: its hash, and whether it is a whole image.

What was found is remembered by the facts of the file, good and bad alike, so that a file is read again only where they
have changed. The records lie in immutable files that are written whole: any number of processes may read and add to
them at the same time, over a network too, and a damaged one is left out.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partlabel.core.compute import cores
from partlabel.core.errors import UserError
from partlabel.core.files import cache_folder, make_folder
from partlabel.core.sealed import open_sealed, write_sealed
from partlabel.core.trouble import short_of_memory
from partlabel.images.contents import facts_of, is_settled
from partlabel.images.decoding import MAX_PIXELS, Facts, ImageError, decode_with_facts
from partlabel.images.locate import content_hash
from partlabel.images.near_copies import BYTES, SIDE, fingerprint

#: one row for each file. ``state``: 0 only hashed, 1 a whole image, 2 none. ``flags``: bits in the order of ``FLAGS``.
#: ``content``: hash of its bytes, empty where they cannot be read. ``print``: fingerprint, by which near-copies are
#: found
ROW = np.dtype([("state", "u1"), ("flags", "u1"), ("format", "S10"), ("content", "S32"), ("print", "u1", BYTES)])
HASHED, GOOD, BAD = 0, 1, 2
FLAGS = ("animated", "turned", "cmyk", "transparent", "deep", "dark")
#: files that are looked at before the progress is shown
_BLOCK = 256
#: seconds after which what was found is written down, so that little is lost where the process is killed
_NOTED = 60.0
#: files of records of one part of the store, above which they are put together
_MANY = 8


@dataclass(frozen=True, eq=False)
class Looked:
    """What is in N files.

    ``rows``: (N,) ``ROW``. ``reasons``: why a file is no whole image, by its number.
    """

    rows: NDArray[np.void]
    reasons: dict[int, str]

    @staticmethod
    def of(parts: Sequence[Looked]) -> Looked:
        """Put together what was found in some files and in those after them."""
        starts = np.cumsum([0, *(len(part.rows) for part in parts)]).tolist()
        pairs = zip(starts, parts, strict=False)
        reasons = {start + i: why for start, part in pairs for i, why in part.reasons.items()}
        return Looked(np.concatenate([np.zeros(0, ROW), *(part.rows for part in parts)]), reasons)


def record_folder() -> Path:
    """Where records lie."""
    return cache_folder() / "files-1"


def look(
    paths: Sequence[str | os.PathLike[str]],
    *,
    decode: bool = True,
    max_pixels: int = MAX_PIXELS,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    store: Path | None = None,
) -> Looked:
    """Hash and decode each file that is not remembered.

    A file that changes while it is read is read again.

    Args:
        paths: N files.
        decode: decode all of each image; False only hashes it.
        max_pixels: width times height above which an image is bad.
        workers: threads (decoders and hashes work outside Python's lock); None: one per core.
        progress: called with (files looked at, files to be looked at) after each block of files.
        store: where records lie, such as :func:`record_folder`; None remembers nothing. Where it cannot be written, the
            files are read again the next time.
    """
    files, limit = [os.fspath(path) for path in paths], max_pixels if decode else None
    if store is None:
        found = Looked(np.zeros(len(files), ROW), {})
        todo = list(range(len(files)))
    else:
        found = _remembered(store, files, max_pixels)
        todo = np.flatnonzero(found.rows["content"] == b"").tolist()
        if todo and not decode:
            hashed = _remembered(store, [files[i] for i in todo], None)
            found.rows[todo] = hashed.rows
            todo = [i for i in todo if found.rows[i]["content"] == b""]
    new, noted = _New(store, files), time.monotonic()
    # Pillow warns about oddities that do not matter here; entered once, around all threads
    with warnings.catch_warnings(), ThreadPoolExecutor(workers or cores()) as pool:
        warnings.filterwarnings("ignore", module=r"PIL\.")
        for low in range(0, len(todo), _BLOCK):
            block = todo[low : low + _BLOCK]
            seen = pool.map(lambda path: _look(path, limit), [files[i] for i in block])
            for i, (key, row, reason) in zip(block, seen, strict=True):
                found.rows[i] = row
                found.reasons.pop(i, None)
                if reason:
                    found.reasons[i] = reason
                new.add(i, key, row, reason)
            if time.monotonic() - noted > _NOTED:
                new.write()
                noted = time.monotonic()
            if progress is not None:
                progress(low + len(block), len(todo))
    new.write()
    return found


def contents(paths: Sequence[str | os.PathLike[str]]) -> NDArray[np.bytes_]:
    """The hash of each file, (N,) of 32 hexadecimal digits each; files that are remembered are not read.

    Raises:
        UserError: naming all files that cannot be read.
    """
    found = look(paths, decode=False, store=record_folder())
    unread = np.flatnonzero(found.rows["content"] == b"").tolist()
    if unread:
        bad = [f"{os.fspath(paths[i])}: {found.reasons.get(i, 'cannot be read')}" for i in unread]
        raise UserError(f"{len(bad)} images cannot be read", bad)
    return found.rows["content"]


def _facts(file: str) -> tuple[int, int, int, int] | None:
    try:
        return facts_of(os.stat(file))
    except (OSError, ValueError):
        return None


def _key(file: str, facts: tuple[int, int, int, int] | None, limit: int | None) -> bytes:
    """What a record is found by: path and facts of the file, and the pixels allowed (None: it was only hashed).

    16 bytes; empty where the file has no facts.
    """
    if facts is None:
        return b""
    asked = struct.pack("<5q", *facts, -1 if limit is None else limit)
    return hashlib.blake2b(asked + os.fsencode(os.path.abspath(file)), digest_size=16).digest()


def _look(path: str, limit: int | None) -> tuple[bytes, Any, str]:
    """The key, the row and the reason of one file; the key is empty where nothing can be remembered."""
    while True:
        row, before, reason, short = np.zeros((), ROW), _facts(path), "", False
        now = time.time_ns()
        try:
            row["content"] = content_hash(path).encode() if os.path.isfile(path) else b""
            if limit is not None:
                pixels, facts = decode_with_facts(path, SIDE, max_pixels=limit)
                row["print"] = fingerprint(pixels)
                row["state"], row["format"], row["flags"] = GOOD, facts.format.encode(), _bits(facts)
            elif row["content"] == b"":
                raise ImageError(path, "is not a regular file" if os.path.exists(path) else "does not exist")
        except ImageError as error:
            reason, row["state"] = error.reason, HASHED if limit is None else BAD
            short = short_of_memory(error)  # which is no fact about the file
        if _facts(path) == before:
            lasts = before is not None and is_settled(before, now) and row["content"] != b"" and not short
            return (_key(path, before, limit) if lasts else b""), row, reason


def _bits(facts: Facts) -> int:
    return sum(bool(getattr(facts, name)) << i for i, name in enumerate(FLAGS))


# --- records ---


def _bucket(file: str) -> str:
    """The part of the store that holds the files of a folder."""
    return hashlib.blake2b(os.fsencode(os.path.dirname(os.path.abspath(file))), digest_size=1).hexdigest()


class _New:
    """What was found and is not written down yet."""

    def __init__(self, store: Path | None, files: Sequence[str]) -> None:
        self.store, self.files = store, files
        self.found: dict[str, list[tuple[bytes, Any, str]]] = {}

    def add(self, number: int, key: bytes, row: Any, reason: str) -> None:
        if self.store is not None and key:
            self.found.setdefault(_bucket(self.files[number]), []).append((key, row.copy(), reason))

    def write(self) -> None:
        if self.store is None:
            return
        with suppress(OSError, UserError):  # it only saves time
            for bucket, found in self.found.items():
                rows = np.array([row for _, row, _ in found], ROW)
                reasons = {i: reason for i, (_, _, reason) in enumerate(found) if reason}
                _write(make_folder(self.store / bucket), _as_keys([key for key, _, _ in found]), rows, reasons)
        self.found = {}


def _as_keys(keys: Sequence[bytes]) -> NDArray[np.bytes_]:
    return np.frombuffer(b"".join(key.ljust(16, b"\0") for key in keys), "S16")


def _write(folder: Path, keys: NDArray[np.bytes_], rows: NDArray[np.void], reasons: dict[int, str]) -> Path:
    words = np.frombuffer(json.dumps(reasons).encode(), np.uint8)
    target = folder / f"{hashlib.blake2b(keys.tobytes(), digest_size=16).hexdigest()}.records"
    write_sealed(target, [keys, rows, words])
    return target


def _read(folder: Path) -> Iterator[tuple[Path, NDArray[np.bytes_], NDArray[np.void], dict[int, str]]]:
    """The records of one part of the store, damaged ones left out."""
    for path in sorted(folder.glob("*.records")):
        try:
            keys, rows, words = open_sealed(path)
            reasons = {int(i): str(why) for i, why in json.loads(words.tobytes()).items()}
        except (OSError, ValueError):
            continue
        if keys.dtype == "S16" and rows.dtype == ROW and 0 < len(keys) == len(rows):
            yield path, np.asarray(keys), np.asarray(rows), reasons


def _remembered(store: Path, files: Sequence[str], limit: int | None) -> Looked:
    """What is remembered of files, with empty rows where nothing is."""
    found = Looked(np.zeros(len(files), ROW), {})
    keys = [_key(file, _facts(file), limit) for file in files]
    buckets: dict[str, list[int]] = {}
    of_folder: dict[str, str] = {}
    for i, file in enumerate(files):
        folder = os.path.dirname(file)
        if keys[i]:
            buckets.setdefault(of_folder.get(folder) or of_folder.setdefault(folder, _bucket(file)), []).append(i)
    for bucket, members in buckets.items():
        read = list(_read(store / bucket))
        if len(read) > _MANY:
            with suppress(OSError, UserError):
                read = [_put_together(store / bucket, read)]
        own, wanted = np.array(members), _as_keys([keys[i] for i in members])
        for path, stored, rows, reasons in read:
            with suppress(OSError):
                os.utime(path)
            order = np.argsort(stored)
            at = order[np.minimum(np.searchsorted(stored, wanted, sorter=order), len(order) - 1)]
            hit = stored[at] == wanted
            found.rows[own[hit]] = rows[at[hit]]
            if reasons:
                pairs = zip(own[hit].tolist(), at[hit].tolist(), strict=True)
                found.reasons.update({i: reasons[place] for i, place in pairs if place in reasons})
    return found


def _put_together(folder: Path, read: list[Any]) -> tuple[Path, NDArray[Any], NDArray[np.void], dict[int, str]]:
    """Make one file of many; where another process does the same, both write the same."""
    keys, rows = np.concatenate([each[1] for each in read]), np.concatenate([each[2] for each in read])
    starts = np.cumsum([0, *(len(each[1]) for each in read)]).tolist()
    reasons = {start + i: why for start, each in zip(starts, read, strict=False) for i, why in each[3].items()}
    kept, first = np.unique(keys, return_index=True)
    why = {new: reasons[old] for new, old in enumerate(first.tolist()) if old in reasons}
    path = _write(folder, kept, rows[first], why)
    for each in read:
        if each[0] != path:
            each[0].unlink(missing_ok=True)
    return path, kept, rows[first], why
