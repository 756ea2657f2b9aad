"""Scores of images from heads that have not seen them, and probabilities of these."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partlabel.labels.table import LabelTable
from partlabel.metrics.calibration import fit
from partlabel.training import discriminant
from partlabel.training.discriminant import Round
from partlabel.training.head import sample_mask

FOLDS = 5
#: known labels of either sign that a class needs to be checked: one for each fold
MIN_KNOWN = FOLDS


def out_of_fold(
    features: NDArray[np.floating],
    table: LabelTable,
    *,
    seed: int = 0,
    rounds: Round | None = None,
) -> NDArray[np.float32]:
    """Scores of every pair from heads that have not seen the images that they judge.

    Folds keep the groups of the table together and hold the present and absent labels of each class in proportion.

    Args:
        features: (N, D) of the images of the table.
        table: labels; origin does not matter here, every known label is learned from.
        seed: of the folds.
        rounds: the round of self-training in each head; None learns from known labels alone.

    Returns:
        (N, C) float32, before the sigmoid; NaN for a class with fewer than ``MIN_KNOWN`` of a sign, and for one that
        some head could not learn, as the other folds do not hold both signs (its labels come from one group).

    Raises:
        UserError: fewer images, or groups, than folds.
    """
    labels = table.dense()
    usable = np.minimum(*table.class_counts()) >= MIN_KNOWN
    fold = np.empty(len(labels), np.int64)
    for number, part in enumerate(table.split([1 / FOLDS] * FOLDS, seed)):
        fold[part] = number
        rest = np.delete(labels, part, axis=0)
        usable &= (rest > 0).any(0) & (rest < 0).any(0)
    scores = np.full(labels.shape, np.nan, np.float32)
    if usable.any():
        own, sample = np.ascontiguousarray(labels[:, usable]), sample_mask(table)
        sample = None if sample is None else sample[:, usable]
        scores[:, usable] = discriminant.out_of_fold(features, own, FOLDS, rounds=rounds, parts=fold, sample=sample)
    return scores


def calibrated(scores: NDArray[np.floating], table: LabelTable) -> NDArray[np.float64]:
    """Probabilities (N, C) of scores (N, C) of :func:`out_of_fold`, calibrated on the known labels; NaN stays NaN."""
    classes = np.flatnonzero(~np.isnan(scores.sum(0)))
    result = np.full(scores.shape, np.nan)
    if not len(classes):
        return result
    known = table.select_classes([table.classes[c] for c in classes])
    image, column = known.pair_images(), known.indices
    own = scores[:, classes]
    calibration = fit(own[image, column], column, known.values > 0, len(classes))
    if calibration is None:
        raise ValueError("every class that has scores has known labels of both signs")
    result[:, classes] = calibration.probabilities(own)
    return result
