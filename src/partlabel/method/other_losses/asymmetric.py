"""ASL: less weight for easy absent labels, none for very easy ones.

Ridnik, Ben-Baruch, Zamir, Noy, Friedman, Protter, Zelnik-Manor, *Asymmetric Loss for Multi-Label Classification* (ICCV
2021), equations 5 and 7.
"""

from __future__ import annotations

import torch
from torch import Tensor

from partlabel.method.other_losses.terms import checked, if_present, total


def asymmetric(
    scores: Tensor,
    labels: Tensor,
    gamma_pos: float = 0.0,
    gamma_neg: float = 4.0,
    margin: float = 0.05,
    *,
    reduction: str = "mean",
    weight: Tensor | None = None,
    check: bool = True,
) -> Tensor:
    """Return ASL, with every unknown label taken as absent.

    ``-(1 - p)^gamma_pos log p`` of a present label and ``-q^gamma_neg log(1 - q)`` of any other, with
    ``p = sigmoid(x)`` and the shifted probability ``q = max(p - margin, 0)``.

    The defaults are those of the paper's experiments on COCO; the authors' class has gamma_pos = 1, which their COCO
    training overrides. That training also leaves the factors ``(1 - p)^gamma`` and ``q^gamma`` out of the gradient;
    here they are in it, as in the paper's analysis of the gradient.

    Args:
        scores: float (N, C), before the sigmoid.
        labels: (N, C) of +1 present, -1 absent, 0 unknown. Unknown and absent are the same here.
        gamma_pos: exponent of present labels, at least 0.
        gamma_neg: exponent of the others, at least 0.
        margin: probability m below which a label that is not present has no loss, 0 <= m < 1.
        reduction: "mean" over the rows, or "sum" over them.
        weight: float (N, C), at least 0: factors of the single labels. None is 1 for all.
        check: look at the values of labels and weights; False where that was done before.

    Returns:
        Scalar, at least 0: float64 for float64 scores, else float32.

    Raises:
        ValueError: labels outside {1, -1, 0}, shapes that differ, no class, an exponent, a margin or a weight out of
            its range, another reduction.
    """
    if not (gamma_pos >= 0 and gamma_neg >= 0 and 0 <= margin < 1):
        raise ValueError(f"gammas >= 0 and 0 <= margin < 1, not {gamma_pos}, {gamma_neg} and {margin}")
    x, present, _ = checked(scores, labels, check)
    yes = torch.sigmoid(-x) ** gamma_pos * if_present(x)
    q = (torch.sigmoid(x) - margin).clamp(min=0)
    # log(1 - q) where it is finite: 1 - q = (1 - p) + margin, and 1 - p comes without cancellation from sigmoid(-x)
    rest = (torch.sigmoid(-x) + margin).clamp(min=torch.finfo(x.dtype).tiny, max=1)
    return total(torch.where(present, yes, -(q**gamma_neg) * rest.log()), weight, reduction, check)
