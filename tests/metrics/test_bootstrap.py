"""The resampled metrics against loops over repeated rows, and numbers written by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel.metrics import evaluate
from partlabel.metrics.bootstrap import NAMES, Design, draw, resample
from tests.reference import bootstrap as naive


def example(seed, images=30, classes=4, known=0.6, digits=1):
    random = np.random.default_rng(seed)
    labels = random.choice(np.array([-1, 0, 1], np.int8), (images, classes), p=[known / 2, 1 - known, known / 2])
    return np.round(random.normal(0, 1, (images, classes)), digits), labels, random.normal(0, 0.3, classes)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 5), st.sampled_from([0.1, 0.6, 1.0]))
def test_weights_are_repeated_rows(seed, images, classes, known):
    scores, labels, thresholds = example(seed, images, classes, known)
    weights = np.stack(list(np.random.default_rng(seed).integers(0, 4, (6, images))), 1).astype(float)
    found = Design(scores, labels, thresholds).metrics(weights)
    for b in range(6):
        metrics, average_precision = naive.resampled(scores.astype(np.float32), labels, thresholds, weights[:, b])
        for name in NAMES:
            np.testing.assert_allclose(found.metrics[name][b], metrics[name], rtol=1e-12, err_msg=name)
        np.testing.assert_allclose(found.average_precision[b], average_precision, rtol=1e-6)


def test_each_image_once_gives_the_metrics_themselves():
    scores, labels, thresholds = example(3, images=300, classes=20)
    found = Design(scores, labels, thresholds).metrics(np.ones((300, 1)))
    metrics = evaluate(scores, labels, thresholds)
    for name in NAMES:
        assert found.metrics[name][0] == pytest.approx(getattr(metrics, name), rel=1e-12, nan_ok=True)
    np.testing.assert_allclose(found.average_precision[0], metrics.average_precision, rtol=1e-6)


def test_by_hand():
    """Scores 3, 2, 1 with present, absent, present: AP (1 + 2/3) / 2; the first twice: (1 + 1 + 3/4) / 3."""
    design = Design(np.array([[3.0], [2], [1]]), np.array([[1], [-1], [1]], np.int8), np.array([1.5]))
    found = design.metrics(np.array([[1.0, 2, 0], [1, 1, 1], [1, 1, 0]]))
    np.testing.assert_allclose(found.metrics["mean_ap"], [5 / 6, 11 / 12, np.nan])
    np.testing.assert_allclose(found.metrics["ov_precision"], [1 / 2, 2 / 3, 0])
    np.testing.assert_allclose(found.metrics["ov_recall"], [1 / 2, 2 / 3, np.nan])


def test_draws_are_seeded_and_do_not_depend_on_how_many_come_at_once():
    units = np.arange(7)
    one, other = (np.concatenate(list(draw(units, 10, 5, at_once)), 1) for at_once in (3, 10))
    np.testing.assert_array_equal(one, other)
    assert (one.sum(0) == 7).all()
    assert (one != np.concatenate(list(draw(units, 10, 6, 10)), 1)).any()


def test_what_belongs_together_is_drawn_together():
    weights = np.concatenate(list(draw(np.array([0, 0, 1, 2, 2]), 20, 0, 20)), 1)
    np.testing.assert_array_equal(weights[0], weights[1])
    np.testing.assert_array_equal(weights[3], weights[4])
    assert (weights[[0, 2, 3]].sum(0) == 3).all()


def test_nothing_known_is_undefined_and_no_error():
    found = resample(Design(np.zeros((4, 2)), np.zeros((4, 2), np.int8), np.zeros(2)), np.arange(4), 3, 0)
    assert all(np.isnan(values).all() for values in found.metrics.values())
