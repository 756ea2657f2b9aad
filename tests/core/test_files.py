"""Whole files or none: many writers of one name, refusals of the disk, and what killed processes leave."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch

from partlabel.core import files
from partlabel.core.errors import UserError
from partlabel.core.files import (
    machine,
    new_array,
    refusal,
    replacing,
    replacing_together,
    temporary_files_in,
    temporary_folder,
    write_json,
    write_text,
)
from tests.processes import context


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_many_threads_write_one_name_and_each_sees_a_whole_file(tmp_path):
    target, wrong = tmp_path / "one.txt", []

    def write(letter: str) -> None:
        for _ in range(40):
            with replacing(target) as temporary, open(temporary, "w", encoding="utf-8") as file:
                for _ in range(50):
                    file.write(letter * 100)
                    file.flush()
            if len(set(read := target.read_text())) != 1 or len(read) != 5000:
                wrong.append(read[:20])

    threads = [threading.Thread(target=write, args=(letter,)) for letter in "abcdefgh"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert names(tmp_path) == ["one.txt"]


@pytest.mark.linux
def test_a_killed_writer_leaves_the_old_file_and_the_next_write_removes_its_rest(tmp_path):
    target = tmp_path / ("long" * 60 + ".txt")  # 244 characters, near the limit of file systems
    write_text(target, "old")
    script = (
        "import sys, time; from partlabel.core.files import replacing\n"
        "with replacing(sys.argv[1]) as temporary:\n"
        "    temporary.write_text('half'); print('go', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(target)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    files._swept.clear()
    write_text(tmp_path / "other.txt", "while it runs its file stays")
    assert len(names(tmp_path)) == 3
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert target.read_text() == "old"
    files._swept.clear()
    write_text(target, "new")
    assert names(tmp_path) == [target.name, "other.txt"]


@pytest.mark.linux
def test_a_folder_beside_a_file_goes_with_the_block_or_with_the_next_write(tmp_path):
    path = tmp_path / "weights"
    with files.folder_beside(path) as folder:
        (folder / ".tmpABC").write_text("of a library")
    assert names(tmp_path) == []
    if not (child := os.fork()):
        with files.folder_beside(path) as folder:
            (folder / ".tmpABC").write_text("of a library")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert len(names(tmp_path)) == 1
    files.forget_sweeps()
    write_text(path, "new")
    assert names(tmp_path) == ["weights"]


def test_what_other_machines_leave_is_removed_after_a_day(tmp_path):
    young, old = (tmp_path / f".x.{'0' * 8}-1-{'0' * 11}{i}.tmp" for i in (0, 1))
    foreign = tmp_path / ".x.tmp"
    for path in (young, old, foreign):
        path.touch()
    os.utime(old, (time.time() - 2 * 24 * 3600,) * 2)
    write_text(tmp_path / "new", "")
    assert names(tmp_path) == sorted([young.name, foreign.name, "new"])
    assert machine() != "0" * 8


def test_a_folder_in_the_place_of_the_file_and_a_missing_folder_are_said(tmp_path):
    (tmp_path / "run").mkdir()
    with pytest.raises(UserError, match="run: is a folder, not a file to write"):
        write_text(tmp_path / "run", "")
    with pytest.raises(UserError, match=r"the folder .* does not exist"):
        write_text(tmp_path / "none" / "x", "")


def _save(path: Path) -> None:
    with open(path, "wb") as file:
        np.save(file, np.zeros(50_000))


WRITERS = {
    "bytes": lambda path: path.write_bytes(b"x" * 200_000),
    "parquet": lambda path: pyarrow.parquet.write_table(
        pa.table({"a": np.random.default_rng(0).random(50_000)}), path, compression="none"
    ),
    "torch": lambda path: torch.save({"a": torch.rand(50_000)}, path),
    "safetensors": lambda path: __import__("safetensors.torch").torch.save_file({"a": torch.rand(50_000)}, path),
    "numpy": lambda path: _save(path),
    "array": lambda path: new_array(path, (50_000,), np.float32),
}


@pytest.mark.linux
@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_that_the_system_limits_is_one_sentence_and_the_old_file_stays(tmp_path, kind):
    """In a process of its own, whose files may not grow beyond 100 kB."""
    target = tmp_path / "file"
    target.write_text("old")
    said = context().Queue()
    process = context().Process(target=_limited, args=(target, kind, said))
    process.start()
    text = said.get(timeout=600)
    process.join()
    assert text.startswith(f"{target}: cannot be written ("), text
    assert target.read_text() == "old"
    assert names(tmp_path) == ["file"]


def _limited(target: Path, kind: str, said) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with replacing(target) as temporary:
            WRITERS[kind](temporary)
    except UserError as error:
        said.put(error.message)
    except BaseException as error:
        said.put(f"{type(error).__name__}: {error}")
    else:
        said.put("written")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_refusals_of_the_disk_are_told_from_other_errors(tmp_path, number):
    here, other = tmp_path / "here", tmp_path / "other"
    assert refusal(OSError(number, os.strerror(number)), here) == os.strerror(number)
    assert refusal(OSError(number, os.strerror(number), str(here)), here) == os.strerror(number)
    assert refusal(OSError(number, os.strerror(number), str(other)), here) is None
    assert refusal(RuntimeError(f"I/O error: {os.strerror(number)} (os error {number})"), here)
    assert refusal(RuntimeError("basic_ios::clear: iostream error"), here)  # torch, at the end of a file
    assert refusal(ValueError("out of range"), here) is None
    with pytest.raises(UserError, match="cannot be written"), replacing(here) as temporary:
        raise OSError(number, os.strerror(number), str(temporary))
    with pytest.raises(OSError, match="other"), replacing(here):
        raise OSError(number, os.strerror(number), str(other))


def test_json_without_a_number_is_refused(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "x.json", {"a": float("nan")})
    assert names(tmp_path) == []


@pytest.mark.linux
def test_a_folder_of_a_killed_process_is_gone_at_the_next_one(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(files.tempfile, "tempdir", None)
    script = (
        "import time; from partlabel.core.files import temporary_folder\n"
        "with temporary_folder() as folder:\n"
        "    (folder / 'half').write_text('x'); print('go', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    with temporary_folder() as folder:
        assert len(names(tmp_path)) == 2  # while it runs its folder stays
    assert not folder.exists()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(names(tmp_path)) == 1
    with temporary_folder() as folder:
        assert names(tmp_path) == [folder.name]
    assert names(tmp_path) == []


def test_threads_that_move_temporary_files_leave_the_folder_as_it_was(tmp_path):
    before, seen = files.tempfile.gettempdir(), []

    def move(number):
        own = tmp_path / str(number)
        for _ in range(50):
            with temporary_files_in(own):
                seen.append(files.tempfile.gettempdir() == str(own))
                time.sleep(0.001)

    threads = [threading.Thread(target=move, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [True] * 150
    assert files.tempfile.gettempdir() == before


@pytest.mark.parametrize("fails", range(4))
def test_a_file_and_what_is_about_it_are_never_mixed(tmp_path, monkeypatch, fails):
    paths = [tmp_path / name for name in ("t", "t.json", "t.txt")]

    def write(text: str) -> None:
        with replacing_together(*paths) as temporary:
            for path in temporary:
                path.write_text(text)

    write("old")
    assert {path.read_text() for path in paths} == {"old"}
    moved: list[str] = []

    def move(source, target):
        seen = {path.read_text() for path in paths if path.exists()}
        assert len(seen) == 1  # a crash here would leave only those that belong together
        if len(moved) == fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(source))
        moved.append(str(target))
        rename(source, target)

    rename = os.replace
    monkeypatch.setattr(os, "replace", move)
    if fails == 3:
        write("new")
        assert [path.read_text() for path in paths] == ["new"] * 3
        assert moved[0] == str(paths[0])
        return
    with pytest.raises(UserError, match="cannot be written"):
        write("new")
    left = {path.name: path.read_text() for path in paths if path.exists()}
    assert set(left.values()) == {"new" if moved else "old"}
    assert len(left) == (len(moved) if moved else 3)


def test_a_refusal_names_the_file_and_not_its_temporary_name(tmp_path):
    def refused(path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    with pytest.raises(UserError) as caught, replacing(tmp_path / "t") as outer, replacing(outer) as inner:
        refused(inner)
    assert str(caught.value) == f"{tmp_path / 't'}: cannot be written (No space left on device)"
    assert names(tmp_path) == []
