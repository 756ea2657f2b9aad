"""EM: the model is kept uncertain about unknown labels, instead of being told that they are absent.

Zhou, Chen, Wang, Chen, Heng, *Acknowledging the Unknown for Multi-label Learning with Single Positive Labels* (ECCV
2022), the entropy-maximization loss. The pseudo-labels of the same paper (APL) change from epoch to epoch for each pair
of the data set and are none of a loss.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from partlabel.method.other_losses.terms import checked, if_absent, if_present, total


def entropy_maximization(
    scores: Tensor,
    labels: Tensor,
    alpha: float = 0.1,
    *,
    reduction: str = "mean",
    weight: Tensor | None = None,
    check: bool = True,
) -> Tensor:
    """Return EM: cross-entropy of known labels, and alpha times what the entropy of an unknown one lacks to its most.

    ``-log p`` of a present label, ``-log(1 - p)`` of a known absent one, ``alpha (log 2 - H(p))`` of an unknown one,
    with ``p = sigmoid(x)`` and ``H(p) = -p log p - (1 - p) log(1 - p)``. The pull on an unknown score is
    ``alpha x p (1 - p)``: towards 0, weak near 0 and weak again where the model is sure.

    The paper has ``-alpha H(p)``; the constant alpha log 2 keeps the loss at least 0 and changes no gradient. Known
    absent labels, which the paper does not have, are learned from as in binary cross-entropy. Known labels of one sign
    alone still move all scores that way; the paper's own scores rank classes within an image.

    Args:
        scores: float (N, C), before the sigmoid.
        labels: (N, C) of +1 present, -1 absent, 0 unknown, whose entropy is to be large.
        alpha: weight of the entropy, at least 0; 0 leaves unknown labels out. The paper has 0.1 for COCO.
        reduction: "mean" over the rows, or "sum" over them.
        weight: float (N, C), at least 0: factors of the single labels. None is 1 for all.
        check: look at the values of labels and weights; False where that was done before.

    Returns:
        Scalar, at least 0: float64 for float64 scores, else float32.

    Raises:
        ValueError: labels outside {1, -1, 0}, shapes that differ, no class, alpha or a weight below 0, another
            reduction.
    """
    if not alpha >= 0:
        raise ValueError(f"alpha is at least 0, not {alpha}")
    x, present, unknown = checked(scores, labels, check)
    yes, no = if_present(x), if_absent(x)
    lacking = (math.log(2) - torch.sigmoid(x) * yes - torch.sigmoid(-x) * no).clamp(min=0)
    return total(torch.where(unknown, alpha * lacking, torch.where(present, yes, no)), weight, reduction, check)
