"""What unknown labels probably are, and thresholds that suit all labels."""

import numpy as np
import pytest

from partlabel.metrics import evaluate
from partlabel.metrics.expected import expected_labels
from partlabel.metrics.thresholds import calibrate, fit_thresholds

NAMES = tuple("abcdef")


def drawn(present_known, absent_known, seed, images=1500):
    """Normal scores of either sign, one in twelve present; which labels are known depends on the sign."""
    random = np.random.default_rng(seed)
    truth = np.where(random.random((images, 6)) < 0.08, 1, -1).astype(np.int8)
    scores = (random.normal(-2, 1.3, truth.shape) + (truth > 0) * 3.0).astype(np.float32)
    rate = np.where(truth > 0, present_known, absent_known)
    return scores, np.where(random.random(truth.shape) < rate, truth, 0).astype(np.int8), truth


def test_known_labels_are_what_they_are_and_few_say_nothing():
    scores, labels, _ = drawn(0.3, 0.3, 0)
    labels[:, 2] = 0
    labels[:9, 2] = [1, 1, 1, 1, -1, -1, -1, -1, -1]
    found = expected_labels(scores, labels)
    assert np.isnan(found[:, 2]).all()
    rest = [0, 1, 3, 4, 5]
    known = labels[:, rest] != 0
    assert (found[:, rest][known] == (labels[:, rest] > 0)[known]).all()
    assert ((found[:, rest] >= 0) & (found[:, rest] <= 1)).all()


@pytest.mark.parametrize(("present_known", "absent_known"), [(0.3, 0.3), (0.5, 0.1), (0.3, 0.05)])
def test_as_many_are_expected_as_there_are(present_known, absent_known):
    scores, labels, truth = drawn(present_known, absent_known, 1)
    unknown = labels == 0
    assert expected_labels(scores, labels)[unknown].mean() == pytest.approx((truth[unknown] > 0).mean(), abs=0.015)
    said = (labels > 0).sum() / (labels != 0).sum()
    if present_known > absent_known:  # what the known labels alone would say
        assert said > 0.25


@pytest.mark.parametrize(
    ("present_known", "absent_known", "gain"),
    [(0.3, 0.3, -1.0), (0.5, 0.1, 1.0), (0.3, 0.05, 2.0)],
    ids=["random", "habit", "one-sided"],
)
def test_macro_f1_on_all_labels_is_not_worse(present_known, absent_known, gain):
    """Compared with thresholds that suit the known labels alone."""
    points = []
    for seed in range(6):
        scores, labels, truth = drawn(present_known, absent_known, seed)
        limits = fit_thresholds(scores, labels, NAMES, calibration=calibrate(scores, labels)).values
        alone = np.zeros(6, np.float32)
        for c in range(6):
            known = labels[:, c] != 0
            one = fit_thresholds(scores[known, c : c + 1], labels[known, c : c + 1], ("a",))
            assert one.sources == ("own",)
            alone[c] = one.values[0]
        points.append(100 * (evaluate(scores, truth, limits).macro_f1 - evaluate(scores, truth, alone).macro_f1))
    assert np.mean(points) > gain


def test_histograms_of_some_classes_at_a_time_say_the_same_to_the_bit(monkeypatch):
    random = np.random.default_rng(4)
    scores = random.normal(-1, 2, (300, 11)).astype(np.float32)
    labels = np.where(
        random.random(scores.shape) < 0.3, np.where(scores + random.normal(size=scores.shape) > 0, 1, -1), 0
    )
    labels[:, 4] = 0
    whole = expected_labels(scores, labels.astype(np.int8))
    for classes in (1, 3, 10):
        monkeypatch.setattr("partlabel.metrics.expected._CLASSES", classes)
        assert np.array_equal(expected_labels(scores, labels.astype(np.int8)), whole, equal_nan=True)
    assert np.isnan(whole[:, 4]).all()
    assert np.isfinite(whole[:, 5]).all()
