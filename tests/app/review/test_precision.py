"""Exact intervals, and which answers they may use."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from partlabel.app.review.precision import Precision, estimate, interval
from tests.app.review.made import said
from tests.reference import review as reference


@settings(max_examples=30)
@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_interval_is_the_loop_and_that_of_scipy(counts):
    right, checked = counts
    found = interval(right, checked)
    assert found == pytest.approx(reference.interval(right, checked, 0.025), abs=1e-9)
    exact = binomtest(right, checked).proportion_ci(0.95, "exact")
    assert found == pytest.approx((exact.low, exact.high), abs=1e-9)


def test_intervals_by_hand():
    assert interval(0, 10) == pytest.approx((0, 1 - 0.025**0.1))
    assert interval(10, 10) == pytest.approx((0.025**0.1, 1))
    assert interval(8, 10) == pytest.approx((0.4439, 0.9748), abs=1e-4)  # tables of Clopper and Pearson


def test_only_the_answered_beginning_of_the_sample_counts():
    assert estimate([], "present") is None
    assert estimate([None, "yes", "yes"], "present") is None
    assert estimate(["skip", None], "present") is None
    assert estimate(["yes", "skip", "no", "yes", None, "no"], "present") == Precision(3, 2, *interval(2, 3))
    assert estimate(["yes", "skip", "no", "yes", None, "no"], "absent") == Precision(3, 1, *interval(1, 3))


def test_answers_outside_the_sample_do_not_count(desk):
    sample = {int(key) for part in desk.sample.values() for key in part}
    desk.sample = {name: part[:5] for name, part in desk.sample.items()}  # as if there were many more labels
    outside = [key for key in sample if all(key not in part for part in desk.sample.values())]

    def answer(keys, value):
        pairs = [desk.board.pair(int(key)) for key in keys]
        desk.answer("me", str(keys), [said(desk, image, cls, value, "filled") for image, cls in pairs], False)
        return desk.state("me")["precision"]

    assert answer(outside, "no") == {"present": None, "absent": None}
    assert answer(desk.sample["present"][1:], "yes")["present"] is None
    found = answer(desk.sample["present"][:1], "no")["present"]
    assert (found["checked"], found["right"], found["estimate"]) == (5, 4, 0.8)
    assert "random sample" in found["basis"]
