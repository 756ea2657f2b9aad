"""Boards, filters and pages against loops over all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel.app.review.board import TOP, Board, label_of, levels_between, state
from partlabel.app.review.views import FILTER_ORIGINS, Filter, Marks, View, Views
from partlabel.labels.table import ORIGINS, LabelTable
from partlabel.metrics.calibration import Calibration
from tests.app.review.made import board_of, drawn_table
from tests.reference import review as reference

FILTERS = st.builds(
    Filter,
    cls=st.none() | st.integers(0, 2),
    origin=st.none() | st.sampled_from(FILTER_ORIGINS),
    value=st.none() | st.sampled_from(["present", "absent"]),
    low=st.none() | st.sampled_from([0.0, 0.2, 0.5, 0.9]),
    high=st.none() | st.sampled_from([0.1, 0.5, 0.8, 1.0]),
    search=st.none() | st.sampled_from(["1", "01", ".PNG", "nothing"]),
)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory) -> tuple[LabelTable, np.ndarray, Board]:
    table, scores = drawn_table(30, seed=3)
    calibration = Calibration((1.0, 0.5, 2.0), (0.0, 1.0, -1.0))
    folder = tmp_path_factory.mktemp("board")
    return table, scores, board_of(scores, table, folder, calibration)


def test_board_by_hand(tmp_path):
    table = LabelTable.from_dense(["a", "b"], ["x", "y"], [[1, 0], [0, -1]], origin="sampled")
    scores = np.array([[0.0, 9.0], [-9.0, 0.0]], np.float16)
    board = board_of(scores, table, tmp_path)
    half = round(0.5 * TOP)
    assert board.levels.tolist() == [half, 8, TOP - 8, half]  # class after class; sigmoid(9) = 0.99988
    assert board.states.tolist() == [state("sampled", True), 0, 0, state("sampled", False)]
    assert board.order.tolist() == [2, 0, 3, 1]
    assert [board.ranked().place(key) for key in (2, 0, 3, 1)] == [0, 1, 2, 3]
    assert (board.pair(2), board.key(0, 1)) == ((0, 1), 2)
    assert board.ranked(0.4, 1)[:].tolist() == [2, 0, 3]
    assert board.ranked(0, 0.4)[:].tolist() == [1]
    assert board.ranked(0, 0.4).place(1) == 0
    assert board.ranked(0, 0.4).place(3) == -1
    assert board.ranked(0.9, 0.1)[:].tolist() == []
    assert [board.best_of(0).tolist(), board.best_of(1).tolist()] == [[1], [0]]


def test_arrays_are_made_once(tmp_path):
    table, scores = drawn_table(8)
    board_of(scores, table, tmp_path)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(times) == 5
    board_of(scores, table, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == times


@pytest.mark.parametrize("origin", ORIGINS)
def test_states_name_label_and_origin(origin):
    assert label_of(0) == (None, None)
    assert label_of(state(origin, True)) == ("present", origin)
    assert label_of(state(origin, False)) == ("absent", origin)


def test_ends_of_a_range_belong_to_it():
    assert levels_between(0, 1) == (0, TOP)
    for level in range(0, TOP + 1, 97):
        assert levels_between(level / TOP, level / TOP) == (level, level)


@settings(max_examples=60)
@given(FILTERS, st.booleans(), st.lists(st.integers(0, 89), max_size=30), st.integers(0, 20), st.integers(1, 40))
def test_pages_are_the_loop(drawn, chosen, in_queue, answered, offset, limit):
    table, _, board = drawn
    names = table.images.to_pylist()
    marks = Marks()
    for key in answered:
        marks.set(key, True)
    base = View(np.random.default_rng(1).permutation(90)[:50], marks) if in_queue else None
    view = Views(board, table.images, marks).get("queue", base, chosen)
    by_level = sorted(range(90), key=lambda key: (-int(board.levels[key]), key))
    keys = base.keys.tolist() if base else by_level
    arrays = (board.levels.reshape(3, 30).tolist(), board.states.reshape(3, 30).tolist())
    expected = reference.passing(keys, 30, names, *arrays, chosen, ORIGINS, TOP)
    total, page = view.page(offset, limit, open_only=False)
    assert (total, page.tolist()) == (len(expected), expected[offset : offset + limit])
    left = [key for key in expected if key not in answered]
    total, page = view.page(offset, limit, open_only=True)
    assert (total, page.tolist()) == (len(left), left[offset : offset + limit])


@settings(max_examples=30)
@given(st.lists(st.lists(st.tuples(st.integers(0, 89), st.booleans()), max_size=90), max_size=6), FILTERS)
def test_views_follow_answers_and_what_is_taken_back(drawn, rounds, chosen):
    table, _, board = drawn
    marks = Marks()
    views = Views(board, table.images, marks)
    view, everything = views.get("all", None, chosen), views.get("all", None, Filter())
    for changes in rounds:
        for key, answered in changes:
            marks.set(key, answered)
        for one in (view, everything):
            assert one.answered().tolist() == np.flatnonzero(marks.among(one.keys[:])).tolist()


def test_the_latest_lists_are_kept(drawn):
    table, _, board = drawn
    views = Views(board, table.images, Marks())
    first = views.get("all", None, Filter(cls=1))
    assert views.get("all", None, Filter(cls=1)) is first
    for number in range(Views.KEPT):
        views.get("all", None, Filter(search=str(number)))
    assert views.get("all", None, Filter(cls=1)) is not first


def test_kept_lists_do_not_fill_the_memory(drawn, monkeypatch):
    table, _, board = drawn
    monkeypatch.setattr(Views, "KEPT_PAIRS", 70)
    views = Views(board, table.images, Marks())
    everything = views.get("all", None, Filter())  # lies on disk
    first, second = (views.get("all", None, Filter(cls=number)) for number in (0, 1))
    assert views.get("all", None, Filter()) is everything
    assert views.get("all", None, Filter(cls=1)) is second
    views.get("all", None, Filter(cls=2))
    assert views.get("all", None, Filter(cls=0)) is not first


def test_search_takes_no_patterns(drawn):
    table, _, board = drawn
    views = Views(board, table.images, Marks())
    assert len(views.pictures(".")) == 30
    assert len(views.pictures(".*")) == 0
    assert len(views.pictures("(")) == 0
