"""What long work says: items, rate and time left, on a terminal or in lines."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from partlabel.core import progress
from partlabel.core.progress import Reporter, duration


def test_a_line_each_half_minute_and_one_at_the_end(monkeypatch, capsys):
    clock = [100.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    with Reporter().bar("computing image features") as bar:
        for done in range(0, 1201, 100):
            bar(done, 1200)
            clock[0] += 10
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "computing image features: 300 of 1,200 images, 10 a second, 90 s left".replace("90 s", "2 min")
    assert [re.findall(r"([\d,]+) of", line) for line in said[:-1]] == [["300"], ["600"], ["900"], ["1,200"]]
    assert said[-1] == "computing image features: 1,200 images done in 2 min"


def test_short_work_says_nothing_and_quiet_work_never(monkeypatch, capsys):
    with Reporter().bar("checking images") as bar:
        bar(3, 3)
    clock = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    with Reporter(quiet=True).bar("checking images") as bar:
        clock[0] = 60.0
        bar(1, 3)
    assert capsys.readouterr() == ("", "")


def test_what_an_earlier_process_did_is_no_part_of_the_rate(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    with Reporter(quiet=True).bar("scoring images") as bar:
        bar(500, 1000)
        clock[0] = 10.0
        assert bar.said(600, 1000) == "600 of 1,000 images, 10 a second, 40 s left"


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (3599, "1 h 0 min"), (9000, "2 h 30 min")]
)
def test_time_is_in_words(seconds, words):
    assert duration(seconds) == words
