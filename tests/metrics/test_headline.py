"""What all labels would say: naive loops, the cases that are certain, and simulated ways of labelling."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel.metrics import evaluate
from partlabel.metrics.headline import MEANS, MIN_KNOWN, PER_CLASS, _measure, headline
from tests.reference import prevalence as naive


def made(seed, images=1200, classes=8, share=0.06):
    """Scores and all labels: two normal distributions, calibrated up to the slope; rarer and more frequent classes."""
    random = np.random.default_rng(seed)
    often = share * np.exp(random.normal(0, 0.4, classes))
    labels = np.where(random.random((images, classes)) < often, 1, -1).astype(np.int8)
    scores = random.normal(np.where(labels > 0, 1.0, -1.0), 1.0) * random.uniform(0.5, 2, classes)
    return scores.astype(np.float32), labels, random


def names(labels):
    return [f"class {c}" for c in range(labels.shape[1])]


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 12))
def test_measure_equals_the_naive_loops(seed, images):
    random = np.random.default_rng(seed)
    x, limit = np.round(random.normal(0, 1, images), 1), float(random.normal(0, 0.5))
    present, weights = random.random((images, 4)) < 0.4, random.integers(0, 4, (images, 4)).astype(float)
    found = _measure(x, limit)(present, weights)
    for b in range(4):
        expected = naive.weighted(x.astype(np.float32), present[:, b], weights[:, b], np.float32(limit))
        np.testing.assert_allclose(found[:, b], expected, atol=1e-12)


def test_measure_by_hand():
    """Scores 3, 2, 1 with present, absent, present, threshold 2: AP (1 + 2/3) / 2, AUROC 1/2, P = R = F1 = 1/2."""
    found = _measure(np.array([1.0, 3, 2]), 2.0)(np.array([[True], [True], [False]]), np.ones((3, 1)))
    np.testing.assert_allclose(found[:, 0], [5 / 6, 1 / 2, 1 / 2, 1 / 2, 1 / 2, 2 / 3])


def test_with_all_labels_known_nothing_is_estimated():
    scores, labels, _ = made(0)
    found, plain = headline(scores, labels, names(labels), 0.5), evaluate(scores, labels, 0.5)
    for name in MEANS[:-1]:
        assert found.means[name].value == pytest.approx(getattr(plain, name), abs=1e-9), name
        assert found.means[name].low < found.means[name].value < found.means[name].high
        assert found.means[name].high - found.means[name].low < 0.25
    assert found.means["prevalence"].value == pytest.approx((labels > 0).mean())
    for i, name in enumerate(PER_CLASS[:-1]):
        np.testing.assert_allclose(found.classes[:, i, 0], getattr(plain, name), atol=1e-9)
    assert found.by_chance.all()


def test_labels_known_by_habit():
    """Presents are known four times as often as absents: the known labels alone flatter, the estimate does not."""
    held = 0
    for seed in range(8):
        scores, labels, random = made(seed)
        known = np.where(random.random(labels.shape) < np.where(labels > 0, 0.4, 0.1), labels, 0).astype(np.int8)
        truth, found = evaluate(scores, labels).mean_ap, headline(scores, known, names(labels), resamples=50)
        assert found.known.mean_ap > truth + 0.15
        assert abs(found.means["mean_ap"].value - truth) < 0.1
        assert found.shift.mean() == pytest.approx(np.log((0.6 / 0.9) / (0.4 / 0.1)), abs=0.7)
        assert not found.by_chance.all()
        assert found.means["prevalence"].low <= (labels > 0).mean() <= found.means["prevalence"].high
        held += found.means["mean_ap"].low <= truth <= found.means["mean_ap"].high
    assert held >= 7


def test_labels_known_at_random():
    scores, labels, random = made(4)
    known = np.where(random.random(labels.shape) < 0.3, labels, 0).astype(np.int8)
    found, truth = headline(scores, known, names(labels)), evaluate(scores, labels)
    for name in MEANS[:-1]:
        assert found.means[name].low <= getattr(truth, name) <= found.means[name].high, name
    assert found.by_chance.all()


def test_classes_that_cannot_be_measured_are_listed():
    scores, labels, _ = made(5, images=200)
    known = labels.copy()
    known[:, 0] = np.abs(known[:, 0])  # presents only
    known[:, 1] = 0
    few = np.flatnonzero(known[:, 2] > 0)
    known[few[MIN_KNOWN - 1 :], 2] = 0
    scores[:, 3] = np.nan  # no model could be made for it
    found = headline(scores, known, names(labels))
    result = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert result["not_measured"] == ["class 0", "class 1", "class 2", "class 3"]
    assert (result["classes_measured"], result["classes_in_all"]) == (4, 8)
    assert np.isnan(found.classes[:4]).all()
    assert found.means["mean_ap"].value == pytest.approx(np.nanmean(found.classes[:, 0, 0]))


def test_a_handful_of_labels_gives_no_mean():
    scores, labels, _ = made(7, images=60, classes=2, share=0.5)
    known = np.where((labels > 0).cumsum(0) <= 9, labels, np.minimum(labels, 0)).astype(np.int8)
    found = headline(scores, known, names(labels), resamples=10)
    assert found.measured.all()
    assert known[known > 0].sum() == 18
    assert np.isnan(found.means["mean_ap"].value)
    assert not np.isnan(found.classes[:, 0]).any()


def test_nothing_to_measure_is_undefined_and_no_error():
    found = headline(np.zeros((4, 2)), np.ones((4, 2), np.int8), ["a", "b"])
    assert all(np.isnan(each.value) for each in found.means.values())
    assert found.to_dict()["metrics"]["mean_ap"] == {"value": None, "low": None, "high": None}


def test_the_same_seed_gives_the_same_numbers():
    scores, labels, random = made(6, images=150, share=0.2)
    known = np.where(random.random(labels.shape) < 0.4, labels, 0).astype(np.int8)
    one, other = (headline(scores, known, names(labels), seed=s, resamples=20).to_dict() for s in (1, 1))
    assert one == other
