"""Files from a server on loopback that cuts, lies and fails."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from partlabel.app.download import fetching
from partlabel.app.download.fetching import FetchError, fetch
from partlabel.core.errors import UserError
from tests.app.download.server import BODY, Handler, Served, get, left, md5


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
    monkeypatch.setattr(fetching.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1000))
    with pytest.raises(UserError, match=r"the disk has 0.00 GB left") as caught:
        get(server, tmp_path / "file")
    assert not isinstance(caught.value, FetchError)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_disk_that_fills_up(server, tmp_path):
    (tmp_path / "file.part").symlink_to("/dev/full")
    with pytest.raises(UserError, match=r"No space left.*make room") as caught:
        get(server, tmp_path / "file")
    assert not isinstance(caught.value, FetchError)
    assert len(server.asked) == 1
