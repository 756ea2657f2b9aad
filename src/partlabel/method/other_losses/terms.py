"""What the losses of this package share: the check of their arguments, log-sigmoids, the mean over classes and rows."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from partlabel.method.checks import check_shapes, exact_labels


def checked(scores: Tensor, labels: Tensor, check: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Scores in at least float32, and which labels are present and unknown, as bool (N, C).

    Raises:
        ValueError: labels outside {1, -1, 0} (each with row, class and value), shapes that differ, no class.
    """
    check_shapes(scores, labels)
    exact = exact_labels(labels) if check else labels
    return scores if scores.dtype == torch.float64 else scores.float(), exact == 1, exact == 0


def if_present(scores: Tensor) -> Tensor:
    """``-log p`` of a present label, exact for every score."""
    return F.softplus(-scores, threshold=40)


def if_absent(scores: Tensor) -> Tensor:
    """``-log(1 - p)`` of an absent label, exact for every score."""
    return F.softplus(scores, threshold=40)


def total(losses: Tensor, weight: Tensor | None, reduction: str, check: bool = True) -> Tensor:
    """The sum of the losses (N, C) over C, as the mean or the sum over the N rows.

    Raises:
        ValueError: another reduction, or weights of another shape or below 0.
    """
    if reduction not in ("mean", "sum"):
        raise ValueError(f'reduction is "mean" or "sum", not "{reduction}"')
    if weight is not None:
        if weight.shape != losses.shape or (check and not bool((weight >= 0).all())):  # NaN neither
            raise ValueError(f"the weights of labels are {tuple(losses.shape)} and at least 0")
        losses = losses * weight.to(losses.dtype)
    rows, classes = losses.shape
    return losses.sum() / (classes * (max(rows, 1) if reduction == "mean" else 1))
