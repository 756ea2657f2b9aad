"""Calibration with absent images that look like present ones: a naive loop, by hand, and drawn labels."""

import numpy as np
import pytest

from partlabel.metrics.calibration import sigmoid
from partlabel.metrics.look_alikes import fit_look_alikes, log_odds


def drawn(alike, seed=0, count=6000, classes=6):
    random = np.random.default_rng(seed)
    cls = random.integers(classes, size=count)
    present = random.random(count) < 0.2
    looks = present | (random.random(count) < alike)
    x = np.where(looks, random.normal(2.5, 1.2, count), random.normal(-2.5, 1.2, count))
    return x, cls, present


def test_by_hand():
    # r = 1/2, eta = 1/2: p = 1/4, so odds of 1 to 3; without look-alikes the odds are those of r
    assert log_odds(np.array([0.0]), np.array([[1.0], [0.0]]), np.array([0.5])) == pytest.approx(np.log(1 / 3))
    assert log_odds(np.array([2.0]), np.array([[1.0], [1.0]]), 0.0) == pytest.approx(3.0)
    # however high the score, the odds stay below (1 - eta) / eta
    assert log_odds(np.array([500.0]), np.array([[1.0], [0.0]]), np.array([0.1])) == pytest.approx(np.log(9))
    assert np.isfinite(log_odds(np.array([-900.0, 900.0]), np.array([[1.0], [0.0]]), 0.0)).all()


@pytest.mark.parametrize("alike", [0.0, 0.02, 0.1])
def test_the_share_is_found(alike):
    found = fit_look_alikes(*drawn(alike), 6)
    assert found.share == pytest.approx(alike, abs=0.005, rel=0.25)
    draws = [found.draw(np.random.default_rng(i)) for i in range(300)]
    assert np.mean(draws) == pytest.approx(found.share, abs=0.003)


def test_against_a_naive_round_of_em():
    x, cls, present = drawn(0.05, count=200, classes=3)
    found = fit_look_alikes(x, cls, present, 3)
    weight = np.ones(200)
    eta = found._eta(weight, 0.03)
    _, looks = found._step(found.fits, weight, eta)
    for k in range(200):
        own = cls == cls[k]
        n1, n0 = (own & present).sum(), (own & ~present).sum()
        wanted_eta = 0.03 * n0 / (n1 + 0.03 * n0)
        a, b = found.fits.theta[cls[k]]
        r = sigmoid(a * x[k] + b)
        wanted = 1.0 if present[k] else r * wanted_eta / (1 - r * (1 - wanted_eta))
        assert looks[k] == pytest.approx(wanted)


def test_odds_far_up_are_nearer_to_what_was_seen():
    """Among images with high scores a plain fit says that nearly all are present."""
    x, cls, present = drawn(0.05, seed=3)
    found, high = fit_look_alikes(x, cls, present, 6), x > 3
    said = {}
    for share in (found.share, 0.0):
        theta, eta = found.again(np.ones(len(x)), share)
        said[share] = sigmoid(log_odds(x[high], theta[cls[high]].T, eta[cls[high]])).mean()
    truth = present[high].mean()
    assert truth < 0.85 < 0.94 < said[0.0]
    assert abs(said[found.share] - truth) < 0.4 * (said[0.0] - truth)


def test_labels_of_one_sign_say_nothing():
    assert fit_look_alikes(np.zeros(3), np.zeros(3, int), np.ones(3, bool), 1) is None


def test_labels_are_looked_at_some_at_a_time(monkeypatch):
    x, cls, present = drawn(0.05, count=400, classes=3)
    whole = fit_look_alikes(x, cls, present, 3)
    monkeypatch.setattr("partlabel.metrics.calibration._AT_ONCE", 17)
    found = fit_look_alikes(x, cls, present, 3)
    assert found.share == pytest.approx(whole.share, rel=1e-9)
    assert found.fits.theta == pytest.approx(whole.fits.theta, rel=1e-9)
