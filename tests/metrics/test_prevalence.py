"""How often a class is present among unknown labels: hand-written numbers, naive loops, and simulated habits."""

from __future__ import annotations

import numpy as np
import pytest

from partlabel.metrics.calibration import sigmoid
from partlabel.metrics.prevalence import GRID, histogram, likelihood, shifts
from tests.reference import prevalence as naive


def test_likelihood_by_hand():
    """Known: half present. Unknown: one label with p(x) = 4/5. pi = odds/(1 + odds), L = 2 (4/5 pi + 1/5 (1 - pi))."""
    found = likelihood(histogram(np.array([np.log(4)]))[None], np.array([0.5]), np.array([1.0]))[0]
    expected = [
        np.log(2 * (0.8 * pi + 0.2 * (1 - pi))) / 2 for pi in sigmoid(GRID)
    ]  # one known, one unknown: half of L
    np.testing.assert_allclose(found, np.array(expected) - max(expected), atol=0.02)  # z is binned


@pytest.mark.parametrize("seed", range(5))
def test_likelihood_equals_the_naive_sum(seed):
    random = np.random.default_rng(seed)
    z, share, known = random.normal(-2, 1.5, 300), random.uniform(0.05, 0.6), random.integers(5, 50)
    found = likelihood(histogram(z)[None], np.array([share]), np.array([known], float))[0]
    sums = np.array([naive.log_likelihood(sigmoid(z).tolist(), share, delta) for delta in GRID])
    np.testing.assert_allclose(found, (sums - sums.max()) * known / (known + 300), rtol=0.01, atol=0.02)


def test_the_highest_likelihood_is_where_em_ends():
    random = np.random.default_rng(3)
    z = np.where(random.random(4000) < 0.1, random.normal(1, 1, 4000), random.normal(-1, 1, 4000)) * 2 - np.log(3)
    pi = naive.saerens(sigmoid(z).tolist(), 0.25, rounds=300)
    best = GRID[np.argmax(likelihood(histogram(z)[None], np.array([0.25]), np.array([1000.0])))]
    assert best == pytest.approx(np.log(pi / (1 - pi)) - np.log(1 / 3), abs=GRID[1] - GRID[0])


def test_weights_count_labels_so_many_times():
    z, weight = np.array([-1.0, 0.5, 2.0]), np.array([2.0, 0.0, 1.0])
    np.testing.assert_array_equal(histogram(z, weight), histogram(np.array([-1.0, -1.0, 2.0])))


def test_classes_that_say_little_lean_on_the_others():
    sharp = -((GRID + 2) ** 2) * 20
    flat = np.zeros(len(GRID))
    found = shifts(np.stack([sharp] * 6 + [flat]))
    assert found.mean[:6] == pytest.approx(-2, abs=0.1)
    assert found.mean[6] == pytest.approx(-2, abs=0.4)
    assert found.of_class.sum(1) == pytest.approx(1)
    drawn = np.array([found.draw(np.random.default_rng(i)) for i in range(300)])
    assert drawn.mean(0) == pytest.approx(found.mean, abs=0.15)
    assert drawn[:, 6].std() > 2 * drawn[:, 0].std()


def test_nothing_known_about_the_shift_leaves_it_wide_open():
    found = shifts(np.zeros((3, len(GRID))))
    assert np.sqrt(found.mu @ GRID**2 - (found.mu @ GRID) ** 2) > 1


def test_a_shift_is_recovered():
    """Scores N(+-1, 1): the log-odds of a balanced draw are 2x; unknown labels are present in 5 % instead of a half."""
    random = np.random.default_rng(0)
    rows = []
    for _ in range(8):
        present = random.random(3000) < 0.05
        z = 2 * random.normal(np.where(present, 1, -1), 1)
        rows.append(histogram(z))
    found = shifts(likelihood(np.stack(rows), np.full(8, 0.5), np.full(8, 1000.0)))
    assert found.mean == pytest.approx(np.log(0.05 / 0.95), abs=0.3)
