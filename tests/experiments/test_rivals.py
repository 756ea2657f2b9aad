"""Numbers on draws of test images, and intervals that cover them."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.image_draws import half_width, map_of_draws
from experiments.rival_combination import subsets, unit

from partlabel.metrics import average_precision


def test_the_map_of_a_draw_is_that_of_its_images() -> None:
    """Also where a class has no present label in a draw."""
    random = np.random.default_rng(5)
    scores = random.normal(size=(40, 5)).astype(np.float32)
    truth = np.where(random.random((40, 5)) < [0.5, 0.3, 0.2, 0.1, 0.03], 1, -1).astype(np.int8)
    found, again = map_of_draws(scores, truth, 30), np.random.default_rng(0)
    for value in found:
        rows = again.integers(0, 40, 40)
        assert value == pytest.approx(100 * np.nanmean(average_precision(scores[rows], truth[rows])), abs=1e-9)


def test_an_interval_covers_seeds_and_test_images_by_hand() -> None:
    """Gaps 1 and 3: deviation sqrt(2), over sqrt(2) seeds 1, times Student's 12.706; draws 0 and 2: sqrt(2) * 1.96."""
    assert half_width(np.array([1.0, 3.0]), np.array([0.0, 2.0])) == pytest.approx(
        np.hypot(12.7062, 1.96 * 2**0.5), 1e-5
    )


def test_parts_are_averaged_at_unit_variance_and_left_out_one_by_one() -> None:
    scores = np.array([[1.0, 5.0], [3.0, 5.0], [np.inf, 5.0]], np.float32)
    assert np.allclose(unit(scores), [[-0.2673, 0], [1.3363, 0], [-1.0690, 0]], atol=1e-4)  # mean 4/3, deviation 1.2472
    assert subsets(["a", "b"]) == {"all": ["a", "b"], "without a": ["b"], "without b": ["a"], "a alone": ["a"]}
