"""Calibration: hand-written numbers, naive loops, and that it finds what it should."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel.core.errors import UserError
from partlabel.metrics import calibration
from partlabel.metrics.calibration import MIN_SLOPE, Calibration, _newton, fit, fit_classes, reliability, sigmoid
from tests.reference import calibration as naive


def drawn(slope, offset, counts, seed=0):
    """Known labels of classes whose probability is sigmoid(slope x + offset)."""
    rng = np.random.default_rng(seed)
    cls = np.repeat(np.arange(len(counts)), counts)
    x = rng.normal(-1, 2, len(cls))
    present = rng.random(len(cls)) < sigmoid(np.asarray(slope)[cls] * x + np.asarray(offset)[cls])
    return x, cls, present


def test_probabilities_by_hand():
    fitted = Calibration((1.0, 2.0), (0.0, -1.0))
    found = fitted.probabilities(np.array([[0.0, 0.5], [np.log(3), 0.5 + np.log(2)]], np.float32))
    assert found == pytest.approx(np.array([[0.5, 0.5], [0.75, 0.8]]), abs=1e-6)
    assert fitted.of(1, np.array([0.5])) == pytest.approx([0.5])
    pairs = fitted.of_pairs(np.array([9.0, 0.5, 0.0]), np.array([0, 1, 0]))
    assert pairs(slice(1, 3)) == pytest.approx([0.5, 0.5])
    assert sigmoid(np.array([-1e4, 1e4])).tolist() == [0, 1]


def test_reliability_by_hand():
    """Two bins: 0.2 and 0.4 with one present of two, 0.9 and 1.0 with two of two."""
    found = reliability(np.array([0.2, 0.4, 0.9, 1.0]), np.array([True, False, True, True]), bins=2)
    assert found.count.tolist() == [2, 2]
    assert found.probability == pytest.approx([0.3, 0.95])
    assert found.observed.tolist() == [0.5, 1.0]
    assert found.error == pytest.approx(0.5 * 0.2 + 0.5 * 0.05)
    assert found.brier == pytest.approx((0.64 + 0.16 + 0.01 + 0) / 4)


def test_reliability_of_nothing_is_undefined():
    found = reliability(np.zeros(0), np.zeros(0, bool))
    assert np.isnan([found.error, found.brier]).all()
    assert np.isnan(found.observed).all()


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=30), st.integers(1, 7))
def test_reliability_is_the_loop(pairs, bins):
    # a probability on the border of two bins may fall to either side by rounding
    pairs = [(round(p * 997) / 997, y) for p, y in pairs]
    p, y = np.array([p for p, _ in pairs]), np.array([y for _, y in pairs])
    found = reliability(p, y, bins)
    assert found.error == pytest.approx(naive.expected_calibration_error(p.tolist(), y.tolist(), bins), abs=1e-12)
    assert found.brier == pytest.approx(naive.brier(p.tolist(), y.tolist()), abs=1e-12)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000))
def test_newton_finds_the_minimum_of_the_loop(seed):
    """No step of any direction from the result makes the loss of the naive loop smaller."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 12))
    x, y = rng.normal(0, 3, count), rng.random(count) < 0.5
    mean, half = rng.normal(1, 0.3, 2), rng.normal(0, 1, (2, 2))
    precision = half @ half.T + 0.1 * np.eye(2)
    theta, _ = _newton(x, np.zeros(count, int), y.astype(float), np.array([[1.0, 0.0]]), mean, precision)

    def loss(at) -> float:
        return naive.penalised_loss(tuple(at), x.tolist(), y.tolist(), tuple(mean), precision.tolist())

    least = loss(theta[0])
    assert theta[0, 0] >= MIN_SLOPE
    for angle in np.arange(12) * np.pi / 6:
        at = theta[0] + 1e-3 * np.array([np.cos(angle), np.sin(angle)])
        if at[0] >= MIN_SLOPE:
            assert loss(at) >= least - 1e-12


def test_classes_with_many_labels_get_their_own_fit():
    slope, offset = [0.5, 1.0, 2.0], [1.0, 0.0, -2.0]
    found = fit(*drawn(slope, offset, [20_000] * 3), 3)
    assert found is not None
    assert found.slope == pytest.approx(slope, rel=0.1)
    assert found.offset == pytest.approx(offset, abs=0.1)


def test_rare_classes_are_drawn_to_the_others():
    """One present label alone says nothing; without a label a class is the mean of the others."""
    slope, offset = [0.5] * 6, [1.0] * 6
    x, cls, present = drawn(slope, offset, [3000] * 5 + [0])
    x, cls, present = np.append(x, -3.0), np.append(cls, 5), np.append(present, True)
    found = fit(x, cls, present, 7)
    assert found is not None
    assert found.slope[5:] == pytest.approx([0.5] * 2, abs=0.2)
    assert found.offset[5:] == pytest.approx([1.0] * 2, abs=0.5)


def test_rare_classes_gain_over_a_fit_of_their_own():
    """Mean error of probabilities over 60 classes with 8 labels each, against truth and against no sharing."""
    rng = np.random.default_rng(5)
    slope, offset = rng.uniform(0.4, 0.8, 60), rng.normal(1, 0.5, 60)
    x, cls, present = drawn(slope, offset, [8] * 60, seed=1)
    shared = fit(x, cls, present, 60)
    assert shared is not None
    alone = [fit(x[cls == c], cls[cls == c] * 0, present[cls == c], 1) for c in range(60)]
    grid = np.linspace(-5, 3, 20)
    truth = sigmoid(grid[:, None] * slope + offset)
    wrong = np.abs(shared.probabilities(np.repeat(grid[:, None], 60, 1)) - truth).mean()
    own = [sigmoid(grid) if a is None else a.of(0, grid) for a in alone]
    assert wrong < 0.6 * np.abs(np.stack(own, 1) - truth).mean()


def test_labels_of_one_sign_are_not_calibrated():
    assert fit(np.array([1.0, 2.0]), np.array([0, 1]), np.array([True, True]), 2) is None
    assert fit(np.zeros(0), np.zeros(0, int), np.zeros(0, bool), 2) is None


def test_a_higher_score_never_means_a_lower_probability():
    """Also where the labels say so: scores of the absent are higher than those of the present."""
    x = np.array([1.0, 2.0, -1.0, -2.0] * 10)
    found = fit(x, np.zeros(40, int), x < 0, 1)
    assert found is not None
    assert found.slope[0] >= MIN_SLOPE


def test_scores_of_a_diverged_training_are_refused_in_a_sentence():
    scores, classes, present = np.array([1e30, -1e30, 5.0]), np.zeros(3, int), np.array([True, False, True])
    with pytest.raises(UserError, match=r"scores reach 1e\+30.*lower learning rate"):
        fit(scores, classes, present, 1)
    with pytest.raises(UserError, match="diverged"):
        fit(np.array([np.nan, 1.0, 0.0]), classes, present, 1)


@pytest.mark.parametrize("at_once", [1, 7, 100])
def test_labels_are_looked_at_some_at_a_time_with_the_same_result_to_the_bit(monkeypatch, at_once):
    x, cls, present = drawn([0.5, 1.0, 2.0, 1.0], [1.0, 0.0, -2.0, 3.0], [90, 40, 3, 1])
    weight = np.random.default_rng(1).integers(0, 3, len(x)).astype(float)
    whole = fit_classes(x, cls, present, 5)
    again, bins = whole.again(x, cls, present, weight), reliability(sigmoid(x), present)
    monkeypatch.setattr(calibration, "_AT_ONCE", at_once)
    for scores, classes in ((x, cls), (x, cls.astype(np.int32))):
        found = fit_classes(scores, classes, present, 5)
        assert all(np.array_equal(getattr(found, name), getattr(whole, name)) for name in ("theta", "mean", "spread"))
    assert np.array_equal(found.again(x, cls, present, weight), again)
    own = reliability(sigmoid(x), present)
    for name in ("count", "probability", "observed", "error"):
        assert np.array_equal(getattr(own, name), getattr(bins, name), equal_nan=True)
    assert own.brier == pytest.approx(bins.brier, rel=1e-12)  # a sum over all labels, by parts


def test_a_label_may_count_as_present_in_part():
    """As the same label twice, present and absent, with weights that share it out."""
    x, cls, present = drawn([0.5, 1.0], [1.0, 0.0], [60, 40])
    share = np.random.default_rng(2).random(len(x))
    fits = fit_classes(x, cls, present, 2)
    assert fits is not None
    both = np.append(np.ones(len(x), bool), np.zeros(len(x), bool))
    twice = fits.again(np.tile(x, 2), np.tile(cls, 2), both, np.append(share, 1 - share))
    assert fits.again(x, cls, share) == pytest.approx(twice, rel=1e-9)
