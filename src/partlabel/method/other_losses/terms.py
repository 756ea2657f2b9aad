"""What the losses of this package share: the check of their arguments, log-sigmoids, the mean over classes and rows."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

#: wrong labels that an error lists
SHOWN = 20


def checked(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Scores in at least float32, and which labels are present and unknown, as bool (N, C).

    Raises:
        ValueError: labels outside {1, -1, 0} (each with row, class and value), shapes that differ, no class.
    """
    if scores.ndim != 2 or scores.shape != labels.shape or scores.shape[1] == 0:
        raise ValueError(f"scores and labels are both (N, C), not {tuple(scores.shape)} and {tuple(labels.shape)}")
    values = labels.to(torch.int16) if labels.dtype == torch.uint8 else labels  # in which 255 would equal -1
    present, unknown = values == 1, values == 0
    places = (~(present | unknown | (values == -1))).nonzero().tolist()
    if places:
        listed = "; ".join(f"row {r} class {c}: {labels[r, c].item()}" for r, c in places[:SHOWN])
        more = f"; and {len(places) - SHOWN} more" if len(places) > SHOWN else ""
        raise ValueError(f"labels are 1 (present), -1 (absent) or 0 (unknown): {listed}{more}")
    return scores if scores.dtype == torch.float64 else scores.float(), present, unknown


def if_present(scores: Tensor) -> Tensor:
    """``-log p`` of a present label, exact for every score."""
    return F.softplus(-scores, threshold=40)


def if_absent(scores: Tensor) -> Tensor:
    """``-log(1 - p)`` of an absent label, exact for every score."""
    return F.softplus(scores, threshold=40)


def total(losses: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """The sum of the losses (N, C) over C, as the mean or the sum over the N rows.

    Raises:
        ValueError: another reduction, or weights of another shape or below 0.
    """
    if reduction not in ("mean", "sum"):
        raise ValueError(f'reduction is "mean" or "sum", not "{reduction}"')
    if weight is not None:
        if weight.shape != losses.shape or not bool((weight >= 0).all()):  # NaN neither
            raise ValueError(f"the weights of labels are {tuple(losses.shape)} and at least 0")
        losses = losses * weight.to(losses.dtype)
    rows, classes = losses.shape
    return losses.sum() / (classes * (max(rows, 1) if reduction == "mean" else 1))
