"""Unknown labels as absent: plainly (AN), with little weight (WAN), with smoothed labels (AN-LS).

Cole, Mac Aodha, Lorieul, Perona, Morris, Jojic, *Multi-Label Learning from Single Positive Labels* (CVPR 2021),
section 3: the losses "assume negative", "weak assume negative" and "assume negative with label smoothing".
"""

from __future__ import annotations

import torch
from torch import Tensor

from partlabel.method.other_losses.terms import checked, if_absent, if_present, total


def assume_negative(
    scores: Tensor, labels: Tensor, *, reduction: str = "mean", weight: Tensor | None = None, check: bool = True
) -> Tensor:
    """Return AN: binary cross-entropy with every unknown label taken as absent.

    ``l_i = -1/C * sum over c of (log p_ic if present, else log(1 - p_ic))`` with ``p = sigmoid(x)``.

    The authors' program adds 1e-5 inside the logarithm; here it is exact, as in the paper.

    Args:
        scores: float (N, C), before the sigmoid.
        labels: (N, C) of +1 present, -1 absent, 0 unknown. Unknown and absent are the same here.
        reduction: "mean" over the rows, or "sum" over them.
        weight: float (N, C), at least 0: factors of the single labels. None is 1 for all.
        check: look at the values of labels and weights; False where that was done before.

    Returns:
        Scalar, at least 0: float64 for float64 scores, else float32.

    Raises:
        ValueError: labels outside {1, -1, 0}, shapes that differ, no class, a negative weight, another reduction.
    """
    x, present, _ = checked(scores, labels, check)
    return total(torch.where(present, if_present(x), if_absent(x)), weight, reduction, check)


def weak_assume_negative(
    scores: Tensor, labels: Tensor, *, reduction: str = "mean", weight: Tensor | None = None, check: bool = True
) -> Tensor:
    """Return WAN: as AN, with the weight 1/(C - 1) on unknown labels.

    In the paper each image has one known label, a present one, which with this weight counts as much as all its
    unknown labels together. Known absent labels, which the paper does not have, are certain and keep the weight 1. With
    C = 1 the weight of an unknown label is 1.

    Args:
        scores: float (N, C), before the sigmoid.
        labels: (N, C) of +1 present, -1 absent, 0 unknown, which is taken as absent with little weight.
        reduction: "mean" over the rows, or "sum" over them.
        weight: float (N, C), at least 0: further factors of the single labels. None is 1 for all.
        check: look at the values of labels and weights; False where that was done before.

    Returns:
        Scalar, at least 0: float64 for float64 scores, else float32.

    Raises:
        ValueError: as :func:`assume_negative`.
    """
    x, present, unknown = checked(scores, labels, check)
    losses = torch.where(present, if_present(x), if_absent(x))
    return total(torch.where(unknown, losses / max(x.shape[1] - 1, 1), losses), weight, reduction, check)


def smoothed_assume_negative(
    scores: Tensor,
    labels: Tensor,
    epsilon: float = 0.1,
    *,
    reduction: str = "mean",
    weight: Tensor | None = None,
    check: bool = True,
) -> Tensor:
    """Return AN-LS: as AN, with the share ``epsilon / 2`` of each label given to its opposite.

    ``-(1 - a) log p - a log(1 - p)`` of a present label and ``-(1 - a) log(1 - p) - a log p`` of any other, with
    ``a = epsilon / 2``. The authors' program has a = 0.1 where the paper has epsilon = 0.1; the paper's is taken, as
    ``epsilon=0.2`` gives the program's. All labels are smoothed, known ones too.

    Args:
        scores: float (N, C), before the sigmoid.
        labels: (N, C) of +1 present, -1 absent, 0 unknown. Unknown and absent are the same here.
        epsilon: amount of smoothing, 0 <= epsilon < 1; 0 is AN.
        reduction: "mean" over the rows, or "sum" over them.
        weight: float (N, C), at least 0: factors of the single labels. None is 1 for all.
        check: look at the values of labels and weights; False where that was done before.

    Returns:
        Scalar, at least 0: float64 for float64 scores, else float32.

    Raises:
        ValueError: epsilon out of range, or as :func:`assume_negative`.
    """
    if not 0 <= epsilon < 1:
        raise ValueError(f"epsilon is at least 0 and below 1, not {epsilon}")
    x, present, _ = checked(scores, labels, check)
    a = epsilon / 2
    yes, no = if_present(x), if_absent(x)
    return total(torch.where(present, (1 - a) * yes + a * no, (1 - a) * no + a * yes), weight, reduction, check)
