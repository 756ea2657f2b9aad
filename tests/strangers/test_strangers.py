"""A few changed files of a run, and things that are no files; the programs try thousands."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.linux]


@pytest.mark.parametrize(("program", "tries"), [("tests.strangers", 60), ("tests.strangers.kinds", 40)])
def test_a_few(program, tries):
    words = [sys.executable, "-m", program, "--tries", str(tries)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=1500, env=environment)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert f"{tries} tries, 0 wrong" in done.stdout
