"""The short form of the soak: python -m tests.soak is the long one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.disk import layer

pytestmark = [pytest.mark.slow, pytest.mark.linux, pytest.mark.skipif(not layer.usable(), reason="needs a C compiler")]


def test_a_few_tries():
    words = ["--tries", "14", "--seed", "0", "--commands", "import,train,predict,thresholds,labels"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.disk.layer", "tests.soak", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert done.stdout.startswith("14 tries") or "\n14 tries" in done.stdout
    assert ", 0 wrong" in done.stdout
