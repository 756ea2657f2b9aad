"""How likely a known label is wrong: by hand, and on labels of which a known share is flipped."""

import numpy as np
import pytest

from partlabel.metrics.calibration import sigmoid
from partlabel.metrics.label_noise import wrong_probability


def drawn(flipped, seed=0, count=4000, classes=6):
    random = np.random.default_rng(seed)
    cls = random.integers(classes, size=count)
    x = random.normal(-1, 2.5, count)
    right = random.random(count) < sigmoid(x)
    wrong = random.random(count) < flipped
    return x, cls, right ^ wrong, wrong


def test_by_hand():
    """With epsilon and q of a label its probability is epsilon (1 - q) / (epsilon (1 - q) + (1 - epsilon) q)."""
    x, cls, present, _ = drawn(0.1)
    found, epsilon = wrong_probability(x, cls, present, 6)
    sure = np.argmax(np.where(present, -x, x))  # the surest contradiction: q is nearly 0
    assert found[sure] > 0.9
    agreed = np.argmax(np.where(present, x, -x))
    assert found[agreed] < 0.01
    assert epsilon == pytest.approx(found.mean(), abs=0.002)


@pytest.mark.parametrize("flipped", [0.03, 0.1])
def test_as_many_are_expected_as_were_flipped(flipped):
    x, cls, present, wrong = drawn(flipped)
    found, epsilon = wrong_probability(x, cls, present, 6)
    assert epsilon == pytest.approx(flipped, abs=0.03)
    top = np.argsort(-found)[: wrong.sum()]
    assert wrong[top].sum() == pytest.approx(found[top].sum(), rel=0.5)


def test_right_labels_that_are_contradicted_are_not_called_wrong():
    x, cls, present, _ = drawn(0.0)
    contradicted = np.where(present, x, -x) < 0
    found, epsilon = wrong_probability(x, cls, present, 6)
    assert contradicted.sum() > 500
    assert found[contradicted].sum() < 25
    assert epsilon < 0.01


def test_labels_of_one_sign_say_nothing():
    found, epsilon = wrong_probability(np.zeros(3), np.zeros(3, int), np.ones(3, bool), 1)
    assert (found.tolist(), epsilon) == ([0, 0, 0], 0)
