"""Hill loss: absent labels with a very high score pull less, as they are probably missing present ones.

Zhang, Cheng, Huang, Wen, Feng, Li, Guo, *Simple and Robust Loss Design for Multi-Label Learning with Missing Labels*
(arXiv 2112.07368, 2021): the Hill loss for labels that are not present, the focal margin loss for present ones.
"""

from __future__ import annotations

import torch
from torch import Tensor

from partlabel.method.other_losses.terms import checked, if_present, total


def hill(
    scores: Tensor,
    labels: Tensor,
    lam: float = 1.5,
    margin: float = 1.0,
    gamma: float = 2.0,
    *,
    reduction: str = "mean",
    weight: Tensor | None = None,
    check: bool = True,
) -> Tensor:
    """Return the Hill loss, with every unknown label taken as absent.

    ``(lam - p) p^2`` of a label that is not present, with ``p = sigmoid(x)``: with lam = 1.5 its derivative with
    respect to x is ``3 p^2 (1 - p)^2``, a hill around p = 1/2. A present label has the focal margin loss
    ``-(1 - p_m)^gamma log p_m`` with ``p_m = sigmoid(x - margin)``.

    A known absent label, which the paper does not have, has the same loss as an unknown one.

    Args:
        scores: float (N, C), before the sigmoid.
        labels: (N, C) of +1 present, -1 absent, 0 unknown. Unknown and absent are the same here.
        lam: lambda, at least 1, as the loss would be negative else.
        margin: m; the paper recommends 0.5 to 1, and the authors' program has 1.
        gamma: exponent of the focal factor, at least 0.
        reduction: "mean" over the rows, or "sum" over them.
        weight: float (N, C), at least 0: factors of the single labels. None is 1 for all.
        check: look at the values of labels and weights; False where that was done before.

    Returns:
        Scalar, at least 0: float64 for float64 scores, else float32.

    Raises:
        ValueError: labels outside {1, -1, 0}, shapes that differ, no class, lam, gamma or a weight out of its range,
            another reduction.
    """
    if not (lam >= 1 and gamma >= 0):
        raise ValueError(f"lam >= 1 and gamma >= 0, not {lam} and {gamma}")
    x, present, _ = checked(scores, labels, check)
    p = torch.sigmoid(x)
    yes = torch.sigmoid(margin - x) ** gamma * if_present(x - margin)
    return total(torch.where(present, yes, (lam - p) * p**2), weight, reduction, check)
