"""A lease is held by one, and free again when its holder gives no sign of life."""

import json
import os
import subprocess
import sys
import time

import pytest

from partlabel.core import lease
from partlabel.core.files import machine
from partlabel.core.lease import Leases


def test_one_holds_it_and_then_it_is_free(tmp_path):
    one, other = Leases(tmp_path / "l"), Leases(tmp_path / "l")
    with one.holding("a") as mine, other.holding("a") as theirs, other.holding("b") as another:
        assert (mine, theirs, another) == (True, False, True)
    with other.holding("a") as mine:
        assert mine
    one.end()
    assert not (tmp_path / "l").exists()


@pytest.mark.linux
def test_that_of_a_process_that_is_gone_is_free_at_once(tmp_path):
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    (tmp_path / "a").write_text(json.dumps({"machine": machine(), "process": int(gone.stdout)}))
    with Leases(tmp_path).holding("a") as mine:
        assert mine


@pytest.mark.parametrize(
    "about", [{"machine": "00000000", "process": 1}, {"machine": machine(), "process": os.getpid()}, {}]
)
def test_without_a_sign_it_is_free_after_a_while(tmp_path, monkeypatch, about):
    monkeypatch.setattr(lease, "SILENCE", 0.2)
    (tmp_path / "a").write_text(json.dumps(about))
    leases = Leases(tmp_path)
    with leases.holding("a") as mine:
        assert not mine
    time.sleep(0.1)
    os.utime(tmp_path / "a")  # a sign of life
    for _ in range(2):
        with leases.holding("a") as mine:
            assert not mine
    time.sleep(0.3)
    with leases.holding("a") as mine:
        assert mine


def test_the_holder_gives_signs(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "SIGN", 0.05)
    with Leases(tmp_path).holding("a"):
        os.utime(tmp_path / "a", (0, 0))
        time.sleep(0.3)
        assert (tmp_path / "a").stat().st_mtime > 0
