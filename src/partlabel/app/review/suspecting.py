"""The queue of suspects, which takes a while: it is made when it is first asked for, in a process of its own, and kept.

A review can end at any moment, and a thread cannot be ended: one that is inside PyTorch while Python ends aborts the
process. The other process ends with the review, also where that is killed.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from multiprocessing.spawn import get_executable
from pathlib import Path
from typing import IO

import numpy as np

from partlabel.app.review.board import Keys
from partlabel.core.errors import UserError
from partlabel.core.records import read_array, write_array
from partlabel.core.trouble import keep, machine_says
from partlabel.labels.table import LabelTable

NOT_YET = "Not looked for yet. Opening this list starts the search, which takes a while."
AT_WORK = "Looking for suspects. This takes a while; you can go on with another list."
#: what the other process runs
PROGRAM = "from partlabel.app.review.suspecting import look; look()"
_WORDS = ["partlabel", "review", "suspects"]


class Suspecting:
    """Suspects among the labels given by people.

    Args:
        run: run folder.
        table: the labels.
        folder: folder of the images.
        path: where the list is kept.

    Attributes:
        reason: why there is no list, in words; None where there is one.
    """

    def __init__(self, run: Path, table: LabelTable, folder: Path, path: Path) -> None:
        self._task = (run, table, folder, path)
        self._lock = threading.Lock()
        self._started = self._closed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._keys: Keys | None = read_array(path, None, np.int64)
        self.reason: str | None = NOT_YET if self._keys is None else None

    def keys(self, *, start: bool) -> Keys | None:
        """The suspects, the surest first; None while they are not there.

        Args:
            start: begin to look for them if nobody has.
        """
        with self._lock:
            if self._keys is None and start and not self._started:
                self._started, self.reason = True, AT_WORK
                threading.Thread(target=self._wait, name="suspects", daemon=True).start()
            return self._keys

    def close(self) -> None:
        """End the search."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()
                self._process.wait()

    def _wait(self) -> None:
        """Let the other process look, and take what it found."""
        found = None
        try:
            with tempfile.TemporaryFile() as said:
                reason = self._ask(said)
            found = None if reason else read_array(self._task[-1], None, np.int64)
        except Exception as error:
            reason = _because(error)
        with self._lock:
            self._keys = found
            self.reason = None if found is not None else f"Suspects cannot be found: {reason or 'the list is gone'}."

    def _ask(self, said: IO[bytes]) -> str:
        """Why there are no suspects, empty where there are."""
        executable = get_executable()  # a program that Python is a part of may set another one than its own
        if not executable:
            raise UserError("Python does not know where its own program is")
        path = os.pathsep.join(each for each in sys.path if each and isinstance(each, str))  # Python passes over others
        with self._lock:
            if self._closed:
                return "the review has ended"
            self._process = subprocess.Popen(
                [executable, "-P", "-c", PROGRAM],  # without -P, a queue.py of the current folder would be imported
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said,
                env=os.environ | {"PYTHONPATH": path},
                start_new_session=True,  # Ctrl+C is for the review, which ends the search
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # the same on Windows
            )  # fmt: skip
        with self._process as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                pickle.dump(self._task, process.stdin)
                process.stdin.flush()  # not closed, as the other process ends where its input does
                lines = process.stdout.read().splitlines()
            except OSError:  # it has ended before it read all
                lines = []
            finally:
                with suppress(OSError):
                    process.stdin.close()
        try:
            return json.loads(lines[-1])["reason"]
        except (IndexError, KeyError, TypeError, ValueError):
            return "the review has ended" if self._closed else _broke_off(process.returncode, said)


def _broke_off(status: int, said: IO[bytes]) -> str:
    """What became of a process that did not tell why there are no suspects."""
    said.seek(0)
    path = keep(RuntimeError(said.read().decode(errors="replace")), _WORDS)
    ended = "the machine, which may lack memory, ended the search"
    how = ended if status < 0 else f"the search broke off with status {status}"
    return how + ("" if path is None else f"; see {path}")


def _because(error: Exception) -> str:
    """Why something went wrong, as a part of a sentence."""
    if isinstance(error, UserError):
        return error.message
    reason = machine_says(error) or "by a fault of partlabel"
    path = keep(error, _WORDS)
    return reason + ("" if path is None else f"; see {path}")


def look() -> None:
    """Look for suspects as :class:`Suspecting` asks on standard input, and say there why there are none."""
    task = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_the_review, daemon=True).start()
    print(json.dumps({"reason": _look(*task)}), flush=True)
    os._exit(0)  # the thread that waits is inside a read


def _end_with_the_review() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def _look(run: Path, table: LabelTable, folder: Path, path: Path) -> str:
    """Store the suspects; why that cannot be done, empty where it is."""
    from partlabel.tasks.suspects import check_run

    try:
        found = check_run(run, table, folder)
        rows = table.image_index(found.table.images)
        columns = np.array([table.class_index(name) for name in found.table.classes], np.int64)
        keys = columns[found.suspects.cls] * table.num_images + rows[found.suspects.image]
        write_array(path, keys.astype(np.int64))
    except Exception as error:
        return _because(error)
    return ""
