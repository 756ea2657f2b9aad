"""Scores of pictures from heads that have not seen them, and probabilities of these."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from partlabel.labels.table import LabelTable
from partlabel.metrics.calibration import fit

FOLDS = 5
#: known labels of either sign that a class needs to be checked: one for each fold
MIN_KNOWN = FOLDS
#: weight of |w|^2 / 2 beside the mean logistic loss of a class, on standardised features
L2 = 0.1


def out_of_fold(
    features: NDArray[np.floating],
    table: LabelTable,
    *,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> NDArray[np.float32]:
    """Scores of every pair from heads that have not seen the pictures that they judge.

    Folds keep the groups of the table together and hold the present and absent labels of each class in proportion.

    Args:
        features: (N, D) of the images of the table.
        table: labels; origin does not matter here, every known label is learned from.
        seed: of the folds.
        progress: called with (folds done, folds in all).

    Returns:
        (N, C) float32, before the sigmoid; NaN for a class with fewer than ``MIN_KNOWN`` of a sign, and for one that
        some head could not learn, as the other folds do not hold both signs (its labels come from one group).

    Raises:
        UserError: fewer images, or groups, than folds.
    """
    labels = table.dense().astype(np.float32)
    usable = np.minimum(*table.class_counts()) >= MIN_KNOWN
    parts = table.split([1 / FOLDS] * FOLDS, seed)
    for part in parts:
        rest = np.delete(labels, part, axis=0)
        usable &= (rest > 0).any(0) & (rest < 0).any(0)
    scores = np.full(labels.shape, np.nan, np.float32)
    classes = np.flatnonzero(usable)
    if not len(classes):
        return scores
    x, y = torch.from_numpy(np.ascontiguousarray(features, np.float32)), torch.from_numpy(labels[:, classes])
    for number, part in enumerate(parts):
        rest = np.setdiff1d(np.arange(len(labels)), part)
        mean, std = x[rest].mean(0), x[rest].std(0, correction=0).clamp_min(1e-6)
        weight, bias = fit_head((x[rest] - mean) / std, y[rest])
        scores[np.ix_(part, classes)] = ((x[part] - mean) / std @ weight + bias).numpy()
        progress(number + 1, len(parts))
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


def fit_head(features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Logistic regression of each class on its known labels: mean loss plus ``L2 / 2 |w|^2``, by L-BFGS.

    Args:
        features: (N, D), standardised.
        labels: (N, C) float of +1, -1, 0; each class has known labels.

    Returns:
        Weights (D, C) and biases (C,).
    """
    known = (labels != 0).float()
    share = known / known.sum(0)
    weight = torch.zeros(features.shape[1], labels.shape[1], requires_grad=True)
    bias = torch.zeros(labels.shape[1], requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=40, history_size=10, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (nn.functional.softplus(-labels * (features @ weight + bias)) * share).sum()
        loss = loss + L2 / 2 * weight.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return weight.detach(), bias.detach()
