"""How likely a known label is wrong: by hand, and on labels of which a known share is flipped."""

import numpy as np
import pytest

from partlabel.core.errors import UserError
from partlabel.metrics import label_noise
from partlabel.metrics.label_noise import wrong_probability


def drawn(flipped, seed=0, count=12000, classes=8, share=0.06):
    """Scores as a discriminant gives them: normal for either sign, classes differ in how well they are seen."""
    random = np.random.default_rng(seed)
    cls = random.integers(classes, size=count)
    truly = random.random(count) < share
    apart, wide = random.uniform(1.5, 4.0, classes), random.uniform(0.8, 1.6, classes)
    x = random.normal(-3, 1.0, count) + truly * (apart[cls] + (wide[cls] - 1) * random.normal(0, 1, count))
    wrong = random.random(count) < flipped
    return x, cls, truly ^ wrong, wrong


def test_against_a_naive_loop():
    """The probabilities fulfil the formula at the densities and counts that they lead to."""
    x, cls, present, _ = drawn(0.05, count=600, classes=3, share=0.3)
    found, epsilon = wrong_probability(x, cls, present, 3)
    labels = label_noise._standard(x, cls, present, np.ones(3, bool))
    (part,) = labels.parts()
    truly = np.where(present, 1 - found, found)
    middle, spread = label_noise._normal(labels, lambda part: truly[part.own])
    for c in range(3):
        own = np.flatnonzero(cls == c)
        n1 = max((present[own].sum() - epsilon * len(own)) / (1 - 2 * epsilon), 1)
        n0 = len(own) - n1
        for i in own:
            f1 = np.exp(-0.5 * ((part.u[i] - middle[c]) / spread[c]) ** 2) / (np.sqrt(2 * np.pi) * spread[c])
            f0 = part.absent_density[i]
            right, mistaken = (n1 * f1, n0 * f0) if present[i] else (n0 * f0, n1 * f1)
            wanted = epsilon * mistaken / (epsilon * mistaken + (1 - epsilon) * right)
            assert found[i] == pytest.approx(wanted, abs=1e-3)
    assert epsilon == pytest.approx((found.sum() + 0.1) / (len(found) + 20), abs=1e-5)


@pytest.mark.parametrize("flipped", [0.01, 0.05, 0.1])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_as_many_are_expected_as_were_flipped(flipped, seed):
    x, cls, present, wrong = drawn(flipped, seed)
    found, epsilon = wrong_probability(x, cls, present, 8)
    assert epsilon == pytest.approx(flipped, abs=0.006)
    top = np.argsort(-found)[: wrong.sum()]
    assert wrong[top].sum() == pytest.approx(found[top].sum(), rel=0.25)
    assert found[wrong].mean() > 5 * found[~wrong].mean()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_right_labels_that_are_contradicted_are_not_called_wrong(seed):
    x, cls, present, _ = drawn(0.0, seed)
    contradicted = np.where(present, x < -2.5, x > -0.5)
    found, epsilon = wrong_probability(x, cls, present, 8)
    assert contradicted.sum() > 100
    assert found[contradicted].sum() < 0.15 * contradicted.sum()
    assert epsilon < 0.003


def test_labels_of_one_sign_say_nothing():
    found, epsilon = wrong_probability(np.zeros(3), np.zeros(3, int), np.ones(3, bool), 1)
    assert (found.tolist(), epsilon) == ([0, 0, 0], 0)
    x = np.array([-1.0, 1.0, 2.0, -2.0, 0.5])
    found, _ = wrong_probability(x, np.array([0, 0, 2, 2, 1]), np.array([False, True, True, False, True]), 3)
    assert found[4] == 0
    assert np.isfinite(found).all()


def test_equal_scores_and_few_labels_are_no_division_by_nothing():
    found, epsilon = wrong_probability(np.zeros(20), np.zeros(20, int), np.arange(20) < 5, 1)
    assert np.isfinite(found).all()
    assert 0 <= epsilon < 0.5


def test_scores_of_a_diverged_training():
    with pytest.raises(UserError, match="diverged"):
        wrong_probability(np.array([1e6, 0.0]), np.zeros(2, int), np.array([True, False]), 1)


@pytest.mark.parametrize(("at_once", "room"), [(1, 1), (50, 30), (311, 200)])
def test_labels_are_looked_at_some_at_a_time(monkeypatch, at_once, room):
    x, cls, present, _ = drawn(0.05, count=600, classes=5, share=0.3)
    cls = np.where(cls == 3, 4, cls)  # a class without labels, and below one of a single sign
    present &= cls != 1
    whole, epsilon = wrong_probability(x, cls, present, 7)
    assert whole[cls == 1].tolist() == [0] * int((cls == 1).sum())
    monkeypatch.setattr("partlabel.metrics.calibration._AT_ONCE", at_once)
    monkeypatch.setattr(label_noise, "_SORTED", room)
    found, own = wrong_probability(x, cls, present, 7)
    assert found == pytest.approx(whole, rel=1e-9, abs=1e-12)  # sums over all labels are added by parts
    assert own == pytest.approx(epsilon, rel=1e-9)
