"""Downloads from a server on loopback that cuts, lies and fails; archives that want out of their folder."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import shlex
import signal
import socket
import stat
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel.download import DATASETS, download, fetching, sources, unpacking
from partlabel.download.fetching import FetchError, fetch
from partlabel.download.pictures import read_list
from partlabel.download.unpacking import ArchiveError, unpack, unpacked
from partlabel.errors import UserError

BODY = bytes(range(256)) * 4096  # 1 MiB


@dataclass
class Served:
    """A file of the server and how it behaves.

    ``script`` holds one word for each coming request, after which the server behaves well: ``cut``, ``reset``, a status
    such as ``404``, ``wrong``, ``page``, ``slow``, ``silent``, ``long`` (a Content-Length that is too large),
    ``misplaced`` (a range that was not asked for).
    """

    body: bytes
    script: list[str] = field(default_factory=list)
    etag: str | None = '"v1"'
    ranges: bool = True
    headers: dict[str, str] = field(default_factory=dict)
    chunked: bool = False
    #: stops sending for good after so many bytes until told to go on
    hang_after: int | None = None


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, Served] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.go_on = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address) -> None:
        """A client that went away is what some tests want."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args) -> None:
        pass

    def do_GET(self) -> None:
        path = self.path.removeprefix("http://example.invalid")
        self.server.asked.append((self.path, self.headers.get("Range")))
        file = self.server.files.get(path)
        step = file.script.pop(0) if file is not None and file.script else ""
        self.close_connection = True
        if file is None or step.isdigit():
            self.send_response(int(step or 404))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.answer(file, step)

    def answer(self, file: Served, step: str) -> None:
        body, first = file.body, 0
        if step == "wrong":
            body = body[::-1]
        wanted = self.headers.get("Range")
        same = self.headers.get("If-Range") in (None, file.etag)
        if wanted and file.ranges and same:
            first = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if first >= len(body):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(body)}")
                self.end_headers()
                return
            self.send_response(206)
            start = 0 if step == "misplaced" else first
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        self.send_header("Content-Type", "text/html" if step == "page" else "application/octet-stream")
        if file.etag:
            self.send_header("ETag", file.etag)
        for name, value in file.headers.items():
            self.send_header(name, value)
        if file.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(body) - first + (5000 if step == "long" else 0)))
        self.end_headers()
        self.send(file, step, body[first:])

    def send(self, file: Served, step: str, body: bytes) -> None:
        if step == "slow":
            time.sleep(0.2)
        if step == "silent":
            self.server.go_on.wait(20)
        if step == "reset":
            self.wfile.write(body[: len(body) // 2])
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            self.connection.close()
            return
        if file.hang_after is not None:
            self.wfile.write(body[: file.hang_after])
            self.server.go_on.wait(20)
            return
        if file.chunked:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(body), body))
            self.wfile.write(b"" if step == "cut" else b"0\r\n\r\n")
            return
        self.wfile.write(body[: len(body) // 2] if step == "cut" else body)


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr(fetching, "WAIT", 0.001)
    running = Server()
    thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield running
    running.go_on.set()
    running.shutdown()
    running.server_close()


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


def get(server, target, said=None, **changes):
    """Serve BODY with the changes given, and fetch it with its published checksum unless ``published`` is False."""
    published = changes.pop("published", True)
    server.files["/file"] = Served(BODY, **changes)
    return fetch(
        f"{server.address}/file", target, md5(BODY) if published else None, ([] if said is None else said).append
    )


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_arrives_and_nothing_else_is_left(server, tmp_path):
    got = get(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == BODY
    assert left(tmp_path) == ["file"]
    assert (got.bytes, got.md5, got.checked) == (1 << 20, md5(BODY), "published checksum")


@pytest.mark.parametrize("step", ["cut", "reset"])
def test_a_cut_connection_goes_on_where_it_was(server, tmp_path, step):
    said: list[str] = []
    get(server, tmp_path / "file", said, script=[step, step])
    assert (tmp_path / "file").read_bytes() == BODY
    ranges = [asked for _, asked in server.asked]
    assert len(ranges) == 3
    assert len(said) == 2
    assert "the connection was cut" in said[0]
    if step == "cut":  # a reset may take bytes along that are on their way
        assert ranges == [None, f"bytes={1 << 19}-", f"bytes={3 << 18}-"]


def test_a_server_that_ignores_ranges_sends_from_the_start(server, tmp_path):
    get(server, tmp_path / "file", script=["cut"], ranges=False)
    assert (tmp_path / "file").read_bytes() == BODY
    assert len(server.asked) == 2


def test_a_server_that_ignores_ranges_and_always_cuts_is_given_up(server, tmp_path):
    with pytest.raises(FetchError, match="the connection was cut"):
        get(server, tmp_path / "file", script=["cut"] * 50, ranges=False)
    assert len(server.asked) == 1 + fetching.TRIES
    assert not (tmp_path / "file").exists()


def test_many_cuts_are_no_failure_while_bytes_come(server, tmp_path):
    get(server, tmp_path / "file", script=["cut"] * (3 * fetching.TRIES))
    assert (tmp_path / "file").read_bytes() == BODY


def test_a_later_run_goes_on_if_the_file_is_the_same(server, tmp_path):
    interrupted(server, tmp_path / "file", published=False)
    got = get(server, tmp_path / "file", published=False)
    assert server.asked[-1] == ("/file", f"bytes={1 << 19}-")
    assert (tmp_path / "file").read_bytes() == BODY
    assert got.checked == "size"


def interrupted(server, target, **changes):
    """A run that was stopped halfway."""
    with pytest.raises(FetchError):
        get(server, target, script=["cut"] + ["500"] * fetching.TRIES, **changes)
    assert target.with_name("file.part").stat().st_size == 1 << 19


def test_a_file_that_has_changed_is_fetched_from_the_start(server, tmp_path):
    interrupted(server, tmp_path / "file", published=False)
    other = BODY[::-1]
    server.files["/file"] = Served(other, etag='"v2"')
    fetch(f"{server.address}/file", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == other


def test_without_a_name_for_its_version_and_without_a_checksum_nothing_is_gone_on_from(server, tmp_path):
    for etag in (None, 'W/"v1"'):
        interrupted(server, tmp_path / "file", published=False, etag=etag)
        get(server, tmp_path / "file", published=False, etag=etag)
        assert server.asked[-1] == ("/file", None)
        assert (tmp_path / "file").read_bytes() == BODY


def test_the_time_of_the_last_change_names_a_version_too(server, tmp_path):
    date = {"Last-Modified": "Tue, 10 Jul 2018 00:00:00 GMT"}
    interrupted(server, tmp_path / "file", published=False, etag=None, headers=date)
    assert json.loads((tmp_path / "file.part.json").read_text())["validator"] == date["Last-Modified"]


def test_with_a_published_checksum_another_server_goes_on(server, tmp_path):
    interrupted(server, tmp_path / "file")
    server.files["/mirror/file"] = Served(BODY, etag='"other"')
    fetch(f"{server.address}/mirror/file", tmp_path / "file", md5(BODY))
    assert server.asked[-1] == ("/mirror/file", f"bytes={1 << 19}-")
    assert (tmp_path / "file").read_bytes() == BODY


def test_stopped_after_the_last_byte(server, tmp_path):
    interrupted(server, tmp_path / "file")
    (tmp_path / "file.part").write_bytes(BODY)
    before = len(server.asked)
    get(server, tmp_path / "file")
    assert len(server.asked) == before
    assert left(tmp_path) == ["file"]


@pytest.mark.parametrize("note", ["", "[]", '{"address": 1}', "{", '{"unknown": 1}'])
def test_a_damaged_note_is_as_good_as_none(server, tmp_path, note):
    interrupted(server, tmp_path / "file")
    (tmp_path / "file.part.json").write_text(note)
    get(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == BODY


def test_a_part_that_is_longer_than_the_file_is_dropped(server, tmp_path):
    interrupted(server, tmp_path / "file")
    (tmp_path / "file.part").write_bytes(BODY + b"more")
    get(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == BODY


def test_an_answer_with_another_range_is_not_written_down(server, tmp_path):
    get(server, tmp_path / "file", script=["cut", "misplaced"])
    assert (tmp_path / "file").read_bytes() == BODY


def test_wrong_bytes_are_fetched_once_more(server, tmp_path):
    said: list[str] = []
    get(server, tmp_path / "file", said, script=["wrong"])
    assert (tmp_path / "file").read_bytes() == BODY
    assert f"has the MD5 {md5(BODY[::-1])} instead of {md5(BODY)}" in said[0]


def test_bytes_that_are_wrong_twice_are_refused(server, tmp_path):
    with pytest.raises(FetchError, match=f"has the MD5 .* instead of {md5(BODY)}.*file.bad"):
        get(server, tmp_path / "file", script=["wrong"] * 9)
    assert left(tmp_path) == ["file.bad"]
    assert len(server.asked) == 2


def test_a_wrong_half_of_an_earlier_run_is_found_out(server, tmp_path):
    interrupted(server, tmp_path / "file")
    (tmp_path / "file.part").write_bytes(bytes(1 << 19))
    get(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == BODY


@pytest.mark.parametrize(
    ("headers", "etag"),
    [
        ({"x-goog-hash": f"crc32c=AAAAAA==,md5={base64.b64encode(hashlib.md5(BODY).digest()).decode()}"}, '"v1"'),
        ({"Server": "AmazonS3"}, f'"{md5(BODY)}"'),
    ],
)
def test_the_checksum_that_the_server_names_is_compared(server, tmp_path, headers, etag, monkeypatch):
    monkeypatch.setattr(Handler, "send_response", lambda self, code: self.send_response_only(code))  # no Server line
    got = get(server, tmp_path / "file", published=False, headers=headers, etag=etag)
    assert got.checked == "checksum of the server"
    with pytest.raises(FetchError, match="MD5"):
        get(server, tmp_path / "two", published=False, headers=headers, etag=etag, script=["wrong", "wrong"])


def test_an_etag_of_another_server_is_no_checksum(server, tmp_path):
    got = get(server, tmp_path / "file", published=False, etag=f'"{"0" * 32}"')
    assert got.checked == "size"


def test_errors_of_the_server_pass(server, tmp_path):
    get(server, tmp_path / "file", script=["500", "503", "429"])
    assert len(server.asked) == 4


def test_errors_of_the_server_that_do_not_pass(server, tmp_path):
    with pytest.raises(FetchError, match="the server answers 500"):
        get(server, tmp_path / "file", script=["500"] * 99)
    assert len(server.asked) == fetching.TRIES


def test_what_is_not_there_is_not_asked_for_again(server, tmp_path):
    with pytest.raises(FetchError, match="the server answers 404") as caught:
        get(server, tmp_path / "file", script=["404"])
    assert caught.value.absent
    assert len(server.asked) == 1
    get(server, tmp_path / "file")  # and is there the next day
    assert (tmp_path / "file").read_bytes() == BODY


def test_a_web_page_is_not_the_file(server, tmp_path):
    with pytest.raises(FetchError, match="web page"):
        get(server, tmp_path / "file", published=False, script=["page"])
    assert left(tmp_path) == []


def test_packed_on_the_way(server, tmp_path):
    with pytest.raises(FetchError, match="gzip"):
        get(server, tmp_path / "file", headers={"Content-Encoding": "gzip"})


def test_a_slow_start_is_waited_for(server, tmp_path):
    get(server, tmp_path / "file", script=["slow"])
    assert len(server.asked) == 1


def test_silence_counts_as_a_cut(server, tmp_path, monkeypatch):
    monkeypatch.setattr(fetching, "TIMEOUT", 0.1)
    monkeypatch.setattr(fetching, "TRIES", 2)
    with pytest.raises(FetchError, match="nothing came"):
        get(server, tmp_path / "file", script=["silent"] * 9)


def test_a_length_that_is_too_large_is_given_up(server, tmp_path):
    with pytest.raises(FetchError, match="cannot be fetched: the "):
        get(server, tmp_path / "file", script=["long"] * 99)
    assert not (tmp_path / "file").exists()


def test_without_a_length(server, tmp_path):
    got = get(server, tmp_path / "file", published=False, chunked=True)
    assert (got.bytes, got.checked) == (1 << 20, "nothing")
    get(server, tmp_path / "cut", chunked=True, script=["cut"])
    assert (tmp_path / "cut").read_bytes() == BODY


def test_nobody_listens(tmp_path, server):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/file"
    with pytest.raises(FetchError, match="Connection refused"):
        fetch(address, tmp_path / "file")


def test_proxies_come_from_the_environment(server, tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", server.address)
    monkeypatch.setenv("no_proxy", "")
    server.files["/file"] = Served(BODY)
    fetch("http://example.invalid/file", tmp_path / "file", md5(BODY))
    assert server.asked == [("http://example.invalid/file", None)]


def test_a_full_disk_keeps_what_is_here(server, tmp_path, monkeypatch):
    monkeypatch.setattr(fetching.shutil, "disk_usage", lambda folder: _Usage(1000))
    with pytest.raises(UserError, match=r"the disk has 0.00 GB left") as caught:
        get(server, tmp_path / "file")
    assert not isinstance(caught.value, FetchError)


class _Usage:
    def __init__(self, free: int) -> None:
        self.free = free


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_disk_that_fills_up(server, tmp_path):
    (tmp_path / "file.part").symlink_to("/dev/full")
    with pytest.raises(UserError, match=r"No space left.*make room") as caught:
        get(server, tmp_path / "file")
    assert not isinstance(caught.value, FetchError)
    assert len(server.asked) == 1


# Archives


def tar_of(members: dict[str, bytes | tarfile.TarInfo]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
                continue
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def zip_of(members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("make", [tar_of, zip_of])
@pytest.mark.parametrize("top", ["", "tree/", "./tree/"])
def test_unpacking_fills_the_folder(tmp_path, make, top):
    (tmp_path / "a").write_bytes(make({f"{top}x/one.txt": b"1", f"{top}two.txt": b"22", f"{top}x/none": b""}))
    assert unpack(tmp_path / "a", tmp_path / "tree", 100) == 3
    assert contents(tmp_path / "tree") == {"x/one.txt": b"1", "two.txt": b"22", "x/none": b""}
    assert left(tmp_path) == ["a", "tree"]
    assert unpacked(tmp_path / "a", tmp_path / "tree", 100)
    (tmp_path / "tree" / "two.txt").write_bytes(b"2")
    assert not unpacked(tmp_path / "a", tmp_path / "tree", 100)


def test_unpacking_adds_to_what_is_there(tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "mine.txt").write_bytes(b"kept")
    (tmp_path / "tree" / "two.txt").write_bytes(b"old")
    other_name = tmp_path / "other"
    os.link(tmp_path / "tree" / "two.txt", other_name)
    (tmp_path / "a").write_bytes(zip_of({"two.txt": b"new"}))
    unpack(tmp_path / "a", tmp_path / "tree", 100)
    assert contents(tmp_path / "tree") == {"mine.txt": b"kept", "two.txt": b"new"}
    assert other_name.read_bytes() == b"old"


def test_the_folder_may_be_a_link_to_another_disk(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "tree").symlink_to(tmp_path / "disk")
    (tmp_path / "a").write_bytes(zip_of({"tree/two.txt": b"new"}))
    unpack(tmp_path / "a", tmp_path / "tree", 100)
    assert (tmp_path / "tree").is_symlink()
    assert contents(tmp_path / "disk") == {"two.txt": b"new"}


def odd(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


EVIL_NAMES = ["/abs.txt", "../up.txt", "x/../../up.txt", "..\\up.txt", "C:/x.txt", "C:x.txt", "\\\\host\\share\\x.txt"]
EVIL_TARS = [
    odd("link", tarfile.SYMTYPE, "/etc/passwd"),
    odd("link", tarfile.SYMTYPE, "good.txt"),
    odd("link", tarfile.LNKTYPE, "../outside"),
    odd("pipe", tarfile.FIFOTYPE),
    odd("device", tarfile.CHRTYPE),
    odd("disk", tarfile.BLKTYPE),
]


def refused_archive(tmp_path: Path, data: bytes, said: str) -> ArchiveError:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(data)
    with pytest.raises(ArchiveError, match=said) as caught:
        unpack(tmp_path / "in" / "a", tmp_path / "in" / "tree", 10_000)
    assert left(tmp_path / "in") == ["a"]
    assert left(tmp_path) == ["in"]
    return caught.value


@pytest.mark.parametrize("make", [tar_of, zip_of])
def test_members_outside_the_folder_are_refused_all_at_once(tmp_path, make):
    error = refused_archive(tmp_path, make({"good.txt": b"1", **dict.fromkeys(EVIL_NAMES, b"2")}), "what it holds")
    assert [line.rpartition(": ")[2] for line in error.offenders] == ["lies outside the folder"] * len(EVIL_NAMES)


@pytest.mark.parametrize("member", EVIL_TARS, ids=lambda member: f"{member.type}-{member.linkname}")
def test_links_and_devices_in_a_tar_are_refused(tmp_path, member):
    error = refused_archive(tmp_path, tar_of({"good.txt": b"1", "odd": member}), "what it holds")
    assert error.offenders == [f"{member.name!r}: is a {'link' if 'link' in member.name else 'device'}"]


def test_a_file_behind_a_link_of_the_archive_is_refused(tmp_path):
    link = odd("out", tarfile.SYMTYPE, str(tmp_path))
    refused_archive(tmp_path, tar_of({"out": link, "out/x.txt": b"1"}), "what it holds")


def test_links_in_a_zip_are_refused(tmp_path):
    info = zipfile.ZipInfo("link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    error = refused_archive(tmp_path, zip_of({info: b"/etc/passwd", "good.txt": b"1"}), "what it holds")
    assert error.offenders == ["'link': is a link"]


def test_names_that_are_there_twice(tmp_path):
    error = refused_archive(tmp_path, zip_of({"x": b"1", "./x": b"2", "x/y": b"3"}), "what it holds")
    assert error.offenders == ["'./x': is there twice", "'./x': is a file and a folder"]


@pytest.mark.parametrize("make", [tar_of, zip_of])
def test_more_than_the_limit_is_refused(tmp_path, make):
    refused_archive(tmp_path, make({"bomb": bytes(10_001)}), "at most 0.00 GB")


def test_more_members_than_there_may_be(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "MEMBERS", 2)
    refused_archive(tmp_path, zip_of({"a": b"", "b": b"", "c": b""}), "more than 2 members")


def test_a_size_that_is_a_lie_gives_no_more_than_was_said(tmp_path):
    data = bytearray(zip_of({"x": bytes(9000)}))
    for at in (22, data.index(b"PK\x01\x02") + 24):  # the sizes in the local and in the central header
        data[at : at + 4] = (10).to_bytes(4, "little")
    refused_archive(tmp_path, bytes(data), "damaged at x")


@pytest.mark.parametrize("data", [b"", b"<html>not here</html>", bytes(2000)[:700], zip_of({"x": b"1" * 99})[:-30]])
def test_what_is_no_archive(tmp_path, data):
    refused_archive(tmp_path, data, "damaged, or no zip or tar archive")


def test_a_damaged_byte_is_found(tmp_path):
    data = bytearray(zip_of({"good": b"1", "x": b"abc" * 200}, zipfile.ZIP_STORED))
    data[data.index(b"abcabc")] ^= 1
    refused_archive(tmp_path, bytes(data), "damaged at x")


@settings(max_examples=40)
@given(st.data())
def test_a_damaged_archive_is_an_error_or_right(tmp_path_factory, data):
    members = {"tree/a.txt": b"a" * 300, "tree/b/c.txt": bytes(range(200))}
    make = data.draw(st.sampled_from([tar_of, zip_of]))
    damaged = bytearray(make(members))
    for at, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(damaged) - 1), st.integers(0, 255)), min_size=1, max_size=3)
    ):
        damaged[at] = value
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "a").write_bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    try:
        unpack(folder / "a", folder / "tree", 10_000)
    except UserError:
        assert left(folder) == ["a"]
    else:
        assert left(folder) == ["a", "tree"]


def test_a_failure_while_writing_keeps_what_was_there(tmp_path, monkeypatch):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "mine.txt").write_bytes(b"kept")
    (tmp_path / "a").write_bytes(zip_of({"two.txt": b"new"}))
    monkeypatch.setattr(unpacking.shutil, "copyfileobj", _no_space)
    with pytest.raises(UserError, match="No space left"):
        unpack(tmp_path / "a", tmp_path / "tree", 100)
    assert contents(tmp_path / "tree") == {"mine.txt": b"kept"}
    assert left(tmp_path) == ["a", "tree"]


def _no_space(*_args) -> None:
    raise OSError(28, os.strerror(28))


def test_no_room_to_unpack(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(zip_of({"two.txt": b"new"}))
    monkeypatch.setattr(unpacking.shutil, "disk_usage", lambda folder: _Usage(2))
    with pytest.raises(UserError, match="the disk of"):
        unpack(tmp_path / "a", tmp_path / "tree", 100)


def test_stopped_between_the_two_moves(tmp_path):
    (tmp_path / ".tree.old").mkdir()
    (tmp_path / ".tree.old" / "mine.txt").write_bytes(b"kept")
    (tmp_path / ".tree.unpacking").mkdir()
    (tmp_path / "a").write_bytes(zip_of({"two.txt": b"new"}))
    unpack(tmp_path / "a", tmp_path / "tree", 100)
    assert contents(tmp_path / "tree") == {"mine.txt": b"kept", "two.txt": b"new"}
    assert left(tmp_path) == ["a", "tree"]


# Whole data sets

XML = b"<annotation><filename>%b.jpg</filename><object><name>cat</name></object></annotation>"
VOC = {
    f"VOC{part}_06-Nov-2007.tar": tar_of(
        {
            f"VOCdevkit/VOC2007/Annotations/{image}.xml": XML % image.encode(),
            f"VOCdevkit/VOC2007/ImageSets/Main/{part}.txt": f"{image}\n".encode(),
            f"VOCdevkit/VOC2007/ImageSets/Main/cat_{part}.txt": f"{image}  1\n".encode(),
            f"VOCdevkit/VOC2007/JPEGImages/{image}.jpg": BODY[:50_000],
        }
    )
    for part, image in (("trainval", "000005"), ("test", "000001"))
}
INSTANCES = {
    "images": [{"id": 9, "file_name": "COCO_train2014_000000000009.jpg"}],
    "annotations": [{"id": 1, "image_id": 9, "category_id": 17}],
    "categories": [{"id": 17, "name": "cat"}, {"id": 18, "name": "dog"}],
}
COCO = {
    "annotations_trainval2014.zip": zip_of(
        {f"annotations/instances_{part}2014.json": json.dumps(INSTANCES).encode() for part in ("train", "val")}
    ),
    "train2014.zip": zip_of({"train2014/COCO_train2014_000000000009.jpg": b"9"}),
    "val2014.zip": zip_of({"val2014/COCO_val2014_000000000042.jpg": b"42"}),
}
NUS = {
    "Groundtruth.zip": zip_of({"AllLabels/Labels_sky.txt": b"1\n0\n", "TrainTestLabels/Labels_sky_Train.txt": b"1\n"}),
    "ImageList.zip": zip_of(
        {
            "ImageList/Imagelist.txt": b"actor\\0001_2124494179.jpg\nzoo\\0002_1.jpg\n",
            "ImageList/TrainImagelist.txt": b"actor\\0001_2124494179.jpg\n",
        }
    ),
    "ConceptsList.zip": zip_of({"Concepts81.txt": b"sky\n"}),
}
DESCRIBED = b"LabelName,DisplayName\n/m/01yrx,Cat\n"
ROWS = b"ImageID,Source,LabelName,Confidence\n000002b66c9c498e,%b,/m/01yrx,1\n"


@pytest.fixture
def mirror(server, monkeypatch):
    """Small archives of the same layout under the names of the real ones, with their checksums."""
    for name, files in (("voc2007", VOC), ("coco2014", COCO), ("nuswide-lists", NUS)):
        server.files |= {f"/{name}/{file}": Served(body) for file, body in files.items()}
        dataset = DATASETS[name]
        known = tuple(replace(file, md5=file.md5 and md5(files[file.name])) for file in dataset.files)
        monkeypatch.setitem(sources.DATASETS, name, replace(dataset, files=known))
    for file in DATASETS["openimages"].files:
        source = b"machine" if "machine" in file.name else b"verification"
        server.files[f"/openimages/{file.name}"] = Served(ROWS % source if file.part else DESCRIBED)
    return server


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_voc2007_is_one_folder(mirror, tmp_path):
    done = download("voc2007", tmp_path / "data", mirror=mirror.address)
    assert [file["checked"] for file in done.files] == ["published checksum"] * 2
    assert left(tmp_path / "data" / "VOCdevkit" / "VOC2007" / "JPEGImages") == ["000001.jpg", "000005.jpg"]
    lists = left(tmp_path / "data" / "VOCdevkit" / "VOC2007" / "ImageSets" / "Main")
    assert lists == ["cat_test.txt", "cat_trainval.txt", "test.txt", "trainval.txt"]


def test_what_is_here_is_not_fetched_again(mirror, tmp_path):
    download("voc2007", tmp_path, mirror=mirror.address)
    before = (tmp_path / "VOCdevkit").stat().st_ino
    mirror.asked.clear()
    done = download("voc2007", tmp_path, mirror=mirror.address)
    assert mirror.asked == []
    assert [file["state"] for file in done.files] == ["here already"] * 2
    assert [file["address"] for file in done.files] == [f"{mirror.address}/voc2007/{name}" for name in VOC]
    assert (tmp_path / "VOCdevkit").stat().st_ino == before


def test_archives_may_be_deleted(mirror, tmp_path):
    download("voc2007", tmp_path, mirror=mirror.address)
    for name in VOC:
        (tmp_path / name).unlink()
    mirror.asked.clear()
    done = download("voc2007", tmp_path, mirror=mirror.address)
    assert mirror.asked == []
    assert [file["state"] for file in done.files] == ["unpacked already"] * 2


def test_what_is_missing_from_the_folder_is_unpacked_again(mirror, tmp_path):
    download("voc2007", tmp_path, mirror=mirror.address)
    lost = tmp_path / "VOCdevkit" / "VOC2007" / "JPEGImages" / "000005.jpg"
    lost.write_bytes(b"")
    download("voc2007", tmp_path, mirror=mirror.address)
    assert lost.read_bytes() == BODY[:50_000]


def test_a_file_that_is_here_and_wrong_is_put_aside(mirror, tmp_path):
    (tmp_path / "VOCtest_06-Nov-2007.tar").write_bytes(b"half of it")
    download("voc2007", tmp_path, ["test"], mirror=mirror.address)
    assert (tmp_path / "VOCtest_06-Nov-2007.tar.bad").read_bytes() == b"half of it"
    assert (tmp_path / "VOCdevkit" / "VOC2007" / "JPEGImages" / "000001.jpg").is_file()


def test_parts(mirror, tmp_path):
    download("coco2014", tmp_path, ["annotations", "val"], mirror=mirror.address)
    assert {"annotations", "val2014"} <= set(left(tmp_path))
    assert "train2014" not in left(tmp_path)
    with pytest.raises(UserError, match="annotations, train, val") as caught:
        download("coco2014", tmp_path, ["trian", "test", "val"], mirror=mirror.address)
    assert caught.value.offenders == ["trian", "test"]


@pytest.mark.parametrize(
    ("parts", "wanted"),
    [
        ([], {f"{split}-annotations-human-imagelabels-boxable.csv" for split in ("train", "validation", "test")}),
        (["human"], {f"oidv7-{split}-annotations-human-imagelabels.csv" for split in ("train", "val", "test")}),
        (["machine-validation"], {"oidv7-val-annotations-machine-imagelabels.csv"}),
    ],
)
def test_openimages_labels(mirror, tmp_path, parts, wanted):
    done = download("openimages", tmp_path, parts, mirror=mirror.address)
    described = {"oidv7-class-descriptions.csv", "oidv7-class-descriptions-boxable.csv"}
    assert {file["name"] for file in done.files} == wanted | described
    assert {file["checked"] for file in done.files} == {"size"}


def test_a_file_without_a_published_checksum_is_known_by_the_one_that_was_noted(mirror, tmp_path):
    download("openimages", tmp_path, ["human-test"], mirror=mirror.address)
    file = tmp_path / "oidv7-test-annotations-human-imagelabels.csv"
    file.write_bytes(b"changed")
    download("openimages", tmp_path, ["human-test"], mirror=mirror.address)
    assert file.read_bytes() == ROWS % b"verification"
    assert (tmp_path / f"{file.name}.bad").read_bytes() == b"changed"


def test_nuswide_lists_have_a_folder_each(mirror, tmp_path):
    download("nuswide-lists", tmp_path, mirror=mirror.address)
    found = names(tmp_path)
    assert "Groundtruth/AllLabels/Labels_sky.txt" in found
    assert "ImageList/Imagelist.txt" in found
    assert "ConceptsList/Concepts81.txt" in found


def test_nuswide_by_hand(mirror, tmp_path):
    for name in NUS:
        del mirror.files[f"/nuswide-lists/{name}"]
    with pytest.raises(UserError, match=r"404.*yourself first .*web.archive.org") as caught:
        download("nuswide-lists", tmp_path, mirror=mirror.address)
    assert caught.value.offenders == [f"{mirror.address}/nuswide-lists/{name} -> {tmp_path / name}" for name in NUS]
    for name, body in NUS.items():
        (tmp_path / name).write_bytes(body)
    done = download("nuswide-lists", tmp_path, mirror=mirror.address)
    assert [(file["state"], file["checked"], file["address"]) for file in done.files] == [
        ("here already", "nothing", None)
    ] * 3
    assert (tmp_path / "Groundtruth" / "AllLabels" / "Labels_sky.txt").is_file()


def test_a_damaged_archive_without_a_checksum_is_fetched_anew_the_next_time(mirror, tmp_path):
    mirror.files["/nuswide-lists/ImageList.zip"].script = ["wrong"]
    with pytest.raises(UserError, match=r"ImageList.zip: is damaged.*ImageList.zip.bad"):
        download("nuswide-lists", tmp_path, ["images"], mirror=mirror.address)
    download("nuswide-lists", tmp_path, ["images"], mirror=mirror.address)
    assert (tmp_path / "ImageList" / "Imagelist.txt").is_file()


def test_no_network_names_every_address_and_where_the_file_goes(mirror, tmp_path):
    for name in VOC:
        mirror.files[f"/voc2007/{name}"].script = ["500"] * 99
    with pytest.raises(UserError, match="yourself first:") as caught:
        download("voc2007", tmp_path, mirror=mirror.address)
    assert caught.value.offenders == [f"{mirror.address}/voc2007/{name} -> {tmp_path / name}" for name in VOC]


def test_two_processes_do_not_share_a_folder(mirror, tmp_path):
    from filelock import FileLock

    with FileLock(tmp_path / ".download.lock"), pytest.raises(UserError, match="another process"):
        download("voc2007", tmp_path, mirror=mirror.address)


@pytest.mark.parametrize(
    "address", ["", "mirror.example", "file:///etc", "ftp://127.0.0.1/x", "http://", "http://a b", "http://a:x"]
)
def test_a_mirror_is_a_web_address(tmp_path, address):
    with pytest.raises(UserError, match="http://"):
        download("voc2007", tmp_path / "data", mirror=address)
    assert not (tmp_path / "data").exists()


def test_the_real_addresses_and_checksums_are_well_formed():
    for dataset in DATASETS.values():
        assert len({file.name for file in dataset.files}) == len(dataset.files)
        assert dataset.select(dataset.default)
        for file in dataset.files:
            assert file.address.startswith(("https://", "http://images.cocodataset.org/"))
            assert file.md5 is None or (len(file.md5) == 32 and int(file.md5, 16) >= 0)
            assert (file.tree is None) == (file.limit == 0) == file.name.endswith(".csv")
    assert sources.mirrored(
        "https://open-images-dataset.s3.amazonaws.com/train/0a.jpg", DATASETS["openimages"], "http://m/"
    ) == ("http://m/openimages/train/0a.jpg")


# Pictures of Open Images


def test_pictures_of_a_list(mirror, tmp_path):
    listed = [f"train/{number:016x}" for number in range(8)] + ["validation/00000000000000ff"]
    for name in listed[2:]:
        mirror.files[f"/openimages/{name}.jpg"] = Served(name.encode())
    mirror.files[f"/openimages/{listed[2]}.jpg"].script = ["cut", "500"]
    (tmp_path / "list.txt").write_text("\n".join([*listed, "", f"{listed[5]}.jpg "]) + "\n")
    done = download("openimages", tmp_path / "data", ["boxable-test"], tmp_path / "list.txt", mirror.address)
    assert done.pictures == 9
    assert done.absent == [f"{name}.jpg" for name in listed[:2]]
    assert (tmp_path / "data" / "absent.txt").read_text().split() == done.absent
    for name in listed[2:]:
        assert (tmp_path / "data" / f"{name}.jpg").read_bytes() == name.encode()
    assert "7 of 9" in done.text()
    mirror.asked.clear()
    download("openimages", tmp_path / "data", ["boxable-test"], tmp_path / "list.txt", mirror.address)
    assert {path for path, _ in mirror.asked} == {f"/openimages/{name}.jpg" for name in listed[:2]}


def test_a_list_with_other_lines(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("train/000002b66c9c498e\n000002b66c9c498e\ntrain/../../x\n")
    with pytest.raises(UserError, match="each line names one picture") as caught:
        read_list(path)
    assert caught.value.offenders == [f"{path}:2 000002b66c9c498e", f"{path}:3 train/../../x"]
    with pytest.raises(UserError, match="nowhere"):
        read_list(tmp_path / "nowhere")
    with pytest.raises(UserError, match="belongs to openimages"):
        download("voc2007", tmp_path, pictures=path)


def test_pictures_stop_when_the_server_is_ill(mirror, tmp_path):
    mirror.files["/openimages/train/0000000000000001.jpg"] = Served(b"", script=["500"] * 99)
    (tmp_path / "list.txt").write_text("train/0000000000000001\n")
    with pytest.raises(UserError, match="500"):
        download("openimages", tmp_path / "data", ["boxable-test"], tmp_path / "list.txt", mirror.address)


# The command


def test_the_command(mirror, tmp_path, capsys):
    from partlabel.cli import main

    assert main(["download", "voc2007", "-o", str(tmp_path / "data"), "--mirror", mirror.address, "--json"]) == 0
    out, _ = capsys.readouterr()
    result = json.loads(out)
    assert [file["state"] for file in result["files"]] == ["fetched", "fetched"]
    assert result["files"] == list(json.loads((tmp_path / "data" / "download.json").read_text()).values())
    words = ["download", "voc2007", "-o", str(tmp_path / "data"), "--parts", "test", "--mirror", mirror.address]
    assert main(words) == 0
    out, _ = capsys.readouterr()
    assert "VOCtest_06-Nov-2007.tar: here already" in out
    assert "Terms: " in out
    assert f"partlabel import voc {tmp_path}/data/VOCdevkit/VOC2007 --set test" in out


@pytest.mark.parametrize("name", list(DATASETS))
def test_the_commands_that_come_next_work(mirror, tmp_path, capsys, monkeypatch, name):
    from partlabel.cli import main
    from partlabel.labels import LabelTable

    parts = ["boxable", "human", "machine"] if name == "openimages" else []
    done = download(name, tmp_path / "my data", parts, mirror=mirror.address)
    monkeypatch.chdir(tmp_path)
    for command in done.next:
        words = shlex.split(command)
        assert main(words[1:]) == 0, capsys.readouterr().err
        assert LabelTable.read_parquet(words[-1]).num_known >= 1
    assert len(done.next) == {"voc2007": 2, "coco2014": 1, "openimages": 9, "nuswide-lists": 1}[name]


def test_the_command_explains_what_failed(server, tmp_path, capsys):
    from partlabel.cli import main

    assert main(["download", "voc2007", "-o", str(tmp_path), "--mirror", server.address]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"partlabel: {server.address}/voc2007/VOCtrainval_06-Nov-2007.tar cannot be fetched: ")
    assert f"  {server.address}/voc2007/VOCtest_06-Nov-2007.tar -> {tmp_path}/VOCtest_06-Nov-2007.tar" in err


# Killed

RUN = """
import sys
from pathlib import Path
from partlabel.download import download
download("nuswide-lists", Path(sys.argv[1]), ["images"], mirror=sys.argv[2])
"""
SLOW_RUN = f"""
import time
from partlabel.download import unpacking
write = unpacking._write
unpacking._write = lambda archive, member, path: (write(archive, member, path), path.name == "1.txt" and time.sleep(60))
{RUN}"""


def killed(process: subprocess.Popen, ready) -> None:
    """Kill a process, as nothing can catch, once ``ready()`` holds."""
    deadline = time.monotonic() + 60
    while not ready():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_killed_while_fetching(mirror, tmp_path):
    file = mirror.files["/nuswide-lists/ImageList.zip"]
    file.body = zip_of({"Imagelist.txt": os.urandom(300_000)})
    file.hang_after = 200_000
    part = tmp_path / "ImageList.zip.part"
    with subprocess.Popen(
        [sys.executable, "-c", RUN, str(tmp_path), mirror.address], stderr=subprocess.DEVNULL
    ) as process:
        killed(process, lambda: part.exists() and (tmp_path / "ImageList.zip.part.json").exists())
    assert "ImageList.zip" not in left(tmp_path)
    part.write_bytes(file.body[:200_000])  # what a kill some milliseconds later would have left
    file.hang_after = None
    download("nuswide-lists", tmp_path, ["images"], mirror=mirror.address)
    assert mirror.asked[-1] == ("/nuswide-lists/ImageList.zip", "bytes=200000-")
    assert len((tmp_path / "ImageList" / "Imagelist.txt").read_bytes()) == 300_000


def test_killed_while_unpacking(mirror, tmp_path):
    mirror.files["/nuswide-lists/ImageList.zip"].body = zip_of({f"{number}.txt": b"x" for number in range(4)})
    with subprocess.Popen(
        [sys.executable, "-c", SLOW_RUN, str(tmp_path), mirror.address], stderr=subprocess.DEVNULL
    ) as process:
        killed(process, (tmp_path / ".ImageList.unpacking" / "1.txt").exists)
    assert left(tmp_path / ".ImageList.unpacking") == ["0.txt", "1.txt"]
    assert not (tmp_path / "ImageList").exists()
    download("nuswide-lists", tmp_path, ["images"], mirror=mirror.address)
    assert left(tmp_path / "ImageList") == ["0.txt", "1.txt", "2.txt", "3.txt"]
    assert not (tmp_path / ".ImageList.unpacking").exists()
    assert [path for path, _ in mirror.asked].count("/nuswide-lists/ImageList.zip") == 1
