"""A lease is held by one, and free again when its holder gives no sign of life."""

import json
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

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


@pytest.mark.linux
def test_one_of_many_takes_over_what_a_dead_process_held(tmp_path):
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    dead = json.dumps({"machine": machine(), "process": int(gone.stdout)})
    count, rounds = 6, 60
    begin, tried = threading.Barrier(count), threading.Barrier(count)
    takers = [[] for _ in range(rounds)]

    def work(number):
        leases = Leases(tmp_path)
        for each in range(rounds):
            if number == 0:
                (tmp_path / str(each)).write_text(dead)
            begin.wait()
            with leases.holding(str(each)) as mine:
                if mine:
                    takers[each].append(number)
                tried.wait()  # nobody ends it before all have tried

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(each) for each in takers] == [1] * rounds


@pytest.mark.parametrize(
    "about", [{"machine": "00000000", "process": 1}, {"machine": machine(), "process": os.getpid()}, {}]
)
def test_without_a_sign_it_is_free_after_a_while(tmp_path, monkeypatch, about):
    clock = [0.0]
    monkeypatch.setattr(lease, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    (tmp_path / "a").write_text(json.dumps(about))
    leases = Leases(tmp_path)
    for now, sign, free in [(0, 1, False), (59, 1, False), (59, 2, False), (119, 2, False), (120, 2, True)]:
        clock[0] = now
        os.utime(tmp_path / "a", (sign, sign))
        with leases.holding("a") as mine:
            assert mine == free, now


def test_the_holder_gives_signs(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "SIGN", 0.05)
    with Leases(tmp_path).holding("a"):
        os.utime(tmp_path / "a", (0, 0))
        end = time.monotonic() + 300
        while (tmp_path / "a").stat().st_mtime == 0:
            assert time.monotonic() < end
            time.sleep(0.01)
