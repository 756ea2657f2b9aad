"""Archives that want out of their folder, lie, are damaged, or find no room."""

from __future__ import annotations

import os
import stat
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel.app.download import unpacking
from partlabel.app.download.unpacking import ArchiveError, unpack, unpacked
from partlabel.core.errors import UserError
from tests.app.download.archives import contents, tar_of, zip_of
from tests.app.download.server import left


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


@pytest.mark.parametrize(
    "data",
    [b"", b"<html>not here</html>", bytes(2000)[:700], zip_of({"x": b"1" * 99})[:-30]],
    ids=["empty", "page", "zeros", "cut"],
)
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
    monkeypatch.setattr(unpacking.shutil, "disk_usage", lambda folder: SimpleNamespace(free=2))
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
