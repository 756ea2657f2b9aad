"""One writer at a time, tried with processes that start at once and are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from partlabel.core.errors import UserError
from partlabel.core.lock import holding

#: writes its number into a file of the folder and looks whether another did so too before it ends
WORK = """
import sys, time
from pathlib import Path
from partlabel.core.errors import UserError
from partlabel.core.lock import holding
folder, number, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
held = mixed = 0
for _ in range(rounds):
    try:
        with holding(folder, f"work {number}", make=True):
            (folder / "who").write_text(number)
            time.sleep(0.001)
            mixed += (folder / "who").read_text() != number
            (folder / "who").unlink()
            held += 1
    except UserError as error:
        assert "is in use by" in str(error), error
print(held, mixed, flush=True)
"""


def start(*words: str) -> subprocess.Popen[str]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", WORK, *words], **pipes)


@pytest.mark.parametrize("count", [2, 8])
def test_processes_that_start_at_once_never_write_together(tmp_path, count):
    folder = tmp_path / "run"
    workers = [start(str(folder), str(i), "50") for i in range(count)]
    for worker in workers:
        worker.stdout.readline()
    for worker in workers:
        worker.stdin.write("\n")
        worker.stdin.flush()
    found = [tuple(map(int, worker.communicate(timeout=600)[0].split())) for worker in workers]
    assert sum(held for held, _ in found) > 0
    assert sum(mixed for _, mixed in found) == 0
    assert not folder.exists()  # made by the lock and left empty


@pytest.mark.linux
def test_the_second_is_told_who_holds_it_and_a_killed_one_holds_nothing(tmp_path):
    script = (
        "import sys, time; from partlabel.core.lock import holding\n"
        "with holding(sys.argv[1], 'partlabel train'):\n    print('held', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    said = rf"{tmp_path}: is in use by partlabel train \(process {process.pid}, since \d\d:\d\d:\d\d\); wait"
    with pytest.raises(UserError, match=said), holding(tmp_path, "partlabel thresholds"):
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()
    with holding(tmp_path, "partlabel thresholds"):
        assert sorted(os.listdir(tmp_path)) == [".lock", ".lock.json"]
    assert os.listdir(tmp_path) == []


def test_a_process_may_take_its_own_lock_again(tmp_path):
    with holding(tmp_path, "a"), holding(tmp_path / "." / "", "b"):
        assert Path(tmp_path, ".lock").is_file()
    assert os.listdir(tmp_path) == []


def test_a_file_is_locked_beside_it(tmp_path):
    target = tmp_path / "labels.parquet"
    with holding(target, "partlabel import"):
        assert sorted(os.listdir(tmp_path)) == [".labels.parquet.lock", ".labels.parquet.lock.json"]
    assert os.listdir(tmp_path) == []
    with pytest.raises(UserError, match="no such folder"), holding(tmp_path / "none" / "x", "y"):
        pass


def test_a_folder_that_was_made_stays_where_something_was_written(tmp_path):
    with holding(tmp_path / "a" / "run", "train", make=True):
        (tmp_path / "a" / "run" / "run.json").touch()
    assert os.listdir(tmp_path / "a" / "run") == ["run.json"]
    with pytest.raises(UserError, match="cannot be made"), holding(tmp_path / "a" / "run" / "run.json", "x", make=True):
        pass
