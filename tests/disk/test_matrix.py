"""Every command but exports on a disk that is full from some call on; tests/disk/matrix.py tries every call.

What libraries write for exports, at every call: tests/disk/writers.py.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.disk import layer
from tests.disk.commands import COMMANDS

pytestmark = [pytest.mark.slow, pytest.mark.linux, pytest.mark.skipif(not layer.usable(), reason="needs a C compiler")]


NAMES = [name for name in COMMANDS if not name.startswith("export")]
HALF = NAMES[::2]  # the matrix takes all whose names begin so
REST = [name for name in NAMES if not name.startswith(tuple(HALF))]


@pytest.mark.parametrize("names", [HALF, REST], ids=["one half", "the rest"])
def test_a_few_calls_of_each_command(names):
    words = [
        sys.executable,
        "-m",
        "tests.disk.layer",
        "tests.disk.matrix",
        "--points",
        "2",
        "--errors",
        "full,killed",
        *names,
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=1200)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "tries went as they should" in done.stdout


def test_every_call_of_what_libraries_write():
    words = [sys.executable, "-m", "tests.disk.writers"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=1200)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert not done.stderr
    assert "EP Error" not in done.stdout
    assert "int8         52 tries, 0 wrong" in done.stdout
