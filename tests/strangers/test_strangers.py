"""A few changed files of a run; ``python -m tests.strangers`` tries thousands."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.linux]


def test_a_few_changed_files():
    words = [sys.executable, "-m", "tests.strangers", "--tries", "60"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=1500, env=environment)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "60 tries, 0 wrong" in done.stdout


def test_a_few_things_that_are_no_files():
    words = [sys.executable, "-m", "tests.strangers.kinds", "--tries", "40"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=1500, env=environment)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "40 tries, 0 wrong" in done.stdout
