"""The one check of label tensors, and how errors list what is wrong."""

from __future__ import annotations

import torch
from torch import Tensor

#: wrong entries that an error lists
SHOWN = 20


def exact_labels(labels: Tensor) -> Tensor:
    """Labels of any dtype and shape as int8, all of them in {1, -1, 0}.

    Raises:
        ValueError: listing each other value with its row and class.
    """
    exact = labels.to(torch.int8)
    if exact.numel() == 0:
        return exact
    low, high = map(float, torch.aminmax(exact if labels.dtype == torch.bool else labels))
    whole = not labels.is_floating_point() or torch.equal(exact.to(labels.dtype), labels)
    if not (whole and low >= -1 and high <= 1):
        values = labels.double()  # in which no value of another dtype equals -1 by wrapping around
        places = (~((values == 1) | (values == -1) | (values == 0))).nonzero().tolist()
        wrong = [f"row {r} class {c}: {labels[r, c].item()}" for r, c in places]
        raise ValueError(f"labels are 1 (present), -1 (absent) or 0 (unknown): {listed(wrong)}")
    return exact


def check_labels(labels: Tensor) -> None:
    """Raise ValueError unless labels are int8 (N, C) in {1, -1, 0}."""
    if labels.dtype != torch.int8:
        raise ValueError(f"labels are int8, not {labels.dtype}")
    if labels.ndim != 2:
        raise ValueError(f"labels are (N, C), not {tuple(labels.shape)}")
    exact_labels(labels)


def check_shapes(scores: Tensor, labels: Tensor) -> None:
    """Raise ValueError unless scores and labels are both (N, C) with at least one class."""
    if scores.ndim != 2 or scores.shape != labels.shape or scores.shape[1] == 0:
        raise ValueError(f"scores and labels are both (N, C), not {tuple(scores.shape)} and {tuple(labels.shape)}")


def listed(items: list[str], between: str = "; ") -> str:
    """Join the first ``SHOWN`` items and say how many more there are."""
    more = f"{between}and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return between.join(items[:SHOWN]) + more
