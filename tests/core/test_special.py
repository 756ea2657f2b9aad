"""Pipes, sockets, devices and links where a file is expected; tests.strangers.kinds draws them at random."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

import pytest

from partlabel import LabelTable, formats
from partlabel.core.errors import UserError
from partlabel.core.lock import holding
from partlabel.core.records import read_record
from partlabel.core.sealed import open_sealed
from partlabel.core.special import check_folder, refuse_special, special
from partlabel.models.score_files import ScoreFile
from partlabel.models.stored import read_state

pytestmark = pytest.mark.linux


@pytest.fixture
def odd(tmp_path, monkeypatch):
    """A folder with one of each."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "plain").touch()
    os.mkfifo("inner/pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("inner/socket")
    os.symlink("/dev/zero", "inner/device")
    os.symlink("pipe", "inner/link")
    os.symlink("loop", "inner/loop")
    os.symlink("nothing", "inner/nothing")
    return tmp_path / "inner"


def test_what_lies_there(odd):
    found = {path.name: special(path) for path in odd.iterdir()}
    assert found == {
        "plain": None,
        "pipe": "a pipe",
        "socket": "a socket",
        "device": "a device",
        "link": "a pipe",
        "loop": None,
        "nothing": None,
    }
    assert special(odd) is special(odd / "not there") is special("a\0b") is None
    with pytest.raises(UserError, match=r"pipe: is a pipe, not a file$"):
        refuse_special(odd / "pipe")


def test_all_in_a_folder_are_named(odd):
    with pytest.raises(UserError) as caught:
        check_folder(odd.parent)
    assert [line.rpartition("/")[2] for line in caught.value.offenders] == [
        "device: is a device, not a file",
        "link: is a pipe, not a file",
        "pipe: is a pipe, not a file",
        "socket: is a socket, not a file",
    ]


def test_links_that_lead_out_are_refused_where_something_is_written(tmp_path):
    (tmp_path / "run" / "last").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run" / "inside").symlink_to("last")
    (tmp_path / "whole").symlink_to("run")
    with holding(tmp_path / "whole", "test"):
        pass
    (tmp_path / "run" / "checkpoints").symlink_to(tmp_path / "elsewhere")
    check_folder(tmp_path / "run")
    with pytest.raises(UserError, match="checkpoints: is a link that leads out"), holding(tmp_path / "run", "test"):
        pass
    assert not list((tmp_path / "run").glob(".lock*"))


@pytest.mark.parametrize("name", [".lock", ".lock.json"])
@pytest.mark.parametrize("kind", ["there", "not there", "pipe"])
def test_a_lock_is_written_through_no_link(name, kind, tmp_path):
    outside, run = tmp_path / "outside", tmp_path / "run"
    run.mkdir()
    if kind == "there":
        outside.write_text("mine")
    if kind == "pipe":
        os.mkfifo(run / name)
    else:
        (run / name).symlink_to(outside)
    with suppress(UserError), holding(run, "test"):
        pass
    assert outside.exists() == (kind == "there")
    assert kind != "there" or outside.read_text() == "mine"


@pytest.mark.parametrize(
    "read",
    [LabelTable.read_parquet, ScoreFile, read_record, read_state, lambda path: formats.read("coco", path)],
)
def test_what_is_a_pipe_is_not_waited_for(read, odd):
    with pytest.raises(UserError, match="is a pipe, not a file"):
        read(odd / "pipe")


@pytest.mark.parametrize("format", ["voc", "labelme", "fiftyone", "yolo"])
def test_a_folder_of_annotations_with_a_pipe_in_it(format, odd):
    with pytest.raises(UserError, match="holds what is no file"):
        formats.read(format, odd)


def test_a_file_that_an_option_names(odd, tmp_path):
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(UserError, match="pipe: is a pipe"):
        formats.read("coco", tmp_path / "a.json", classes=str(odd / "pipe"))


def test_stored_features_that_are_a_pipe_count_as_damaged(odd):
    with pytest.raises(ValueError, match="is a pipe"):
        open_sealed(odd / "pipe")
