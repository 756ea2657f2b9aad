"""The order of all pairs is that of one stable sort, however few are sorted at once."""

import numpy as np
import pytest

from partlabel.app.review import listing
from partlabel.app.review.board import TOP


@pytest.mark.parametrize("at_once", [1, 7, 100, 10_000])
@pytest.mark.parametrize("values", [3, 65_536])
def test_order_is_one_stable_sort(tmp_path, monkeypatch, at_once, values):
    monkeypatch.setattr(listing, "_SORTED", at_once)
    levels = np.random.default_rng(0).integers(0, values, 200).astype(np.uint16)
    listing._sort(levels, tmp_path / "order.npy", tmp_path / "start.npy")
    order, start = np.load(tmp_path / "order.npy"), np.load(tmp_path / "start.npy")
    np.testing.assert_array_equal(order, np.argsort(TOP - levels, kind="stable"))
    for level in (0, 1, 2, TOP):
        inside = order[start[TOP - level] : start[TOP - level + 1]]
        np.testing.assert_array_equal(inside, np.flatnonzero(levels == level))
