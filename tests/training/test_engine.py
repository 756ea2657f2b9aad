"""Who is waited for, and how long."""

from types import SimpleNamespace

import pytest

from partlabel.core.errors import UserError
from partlabel.training import engine
from partlabel.training.engine import Engine


class Store:
    """A store of two processes: the second one beats ten times and answers at ``answers``, by the clock."""

    def __init__(self, clock, answers):
        self.clock, self.answers, self.began = clock, answers, clock[0]

    def check(self, keys):
        return self.clock[0] >= self.answers

    def add(self, key, amount):
        return min(self.clock[0] - self.began, 10) if key == "alive/1" else self.clock[0]

    def get(self, key):
        return key.encode()


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]

    def sleep(seconds):
        now[0] += 1

    monkeypatch.setattr(engine, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    return now


def waiting(clock, answers):
    one = Engine(SimpleNamespace(world_size=1, global_rank=0))
    one.fabric.world_size, one._store = 2, Store(clock, answers)
    return one


def test_a_process_without_a_sign_of_life_is_waited_for_10_minutes(clock):
    with pytest.raises(UserError, match="process 1 has not answered for 0:10:00"):
        waiting(clock, 2000)._answers(["a"])
    assert 1610 <= clock[0] <= 1625
    assert waiting(clock, clock[0] + 500)._answers(["a"]) == ["a"]


def test_a_job_that_was_suspended_as_a_whole_goes_on(clock, monkeypatch):
    one = waiting(clock, 5000)
    real = one._store.check

    def check(keys):
        if clock[0] == 1100:
            clock[0] = 4900  # all stood still; the other process has not given a sign since
        return real(keys)

    monkeypatch.setattr(one._store, "check", check)
    assert one._answers(["a"]) == ["a"]
    one._store.answers = 9000
    with pytest.raises(UserError, match="process 1 has not answered"):  # it is not waited for without end
        one._answers(["a"])
