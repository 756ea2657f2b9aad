"""SPLC: unknown labels that the model finds likely are taken as present, from the second epoch on.

Zhang, Cheng, Huang, Wen, Feng, Li, Guo, *Simple and Robust Loss Design for Multi-Label Learning with Missing Labels*
(arXiv 2112.07368, 2021): self-paced loss correction, with the focal margin loss.
"""

from __future__ import annotations

import torch
from torch import Tensor

from partlabel.method.other_losses.terms import checked, if_absent, if_present, total


def splc(
    scores: Tensor,
    labels: Tensor,
    epoch: int,
    tau: float = 0.6,
    margin: float = 1.0,
    gamma: float = 2.0,
    *,
    reduction: str = "mean",
    weight: Tensor | None = None,
    check: bool = True,
) -> Tensor:
    """Return SPLC: an unknown label is absent, or from epoch 2 on present where ``p = sigmoid(x) > tau``.

    - Known present: the focal margin loss ``-(1 - p_m)^gamma log p_m`` with ``p_m = sigmoid(x - margin)``.
    - Unknown with ``p > tau``, from epoch 2 on: ``-(1 - p)^gamma log p``. The paper writes the same ``loss+`` for both;
      the authors' program, which made its results, gives the margin to known present labels only. That is taken.
    - Any other: the focal loss ``-p^gamma log(1 - p)``. Known absent labels, which the paper does not have, stay absent
      whatever their score.

    Args:
        scores: float (N, C), before the sigmoid.
        labels: (N, C) of +1 present, -1 absent, 0 unknown, which is absent or, by the model's score, present.
        epoch: number of the epoch, from 1.
        tau: probability above which an unknown label is taken as present. The authors take 0.65 where as many as three
            quarters of the present labels are known.
        margin: m of present labels.
        gamma: exponent of the focal factors, at least 0.
        reduction: "mean" over the rows, or "sum" over them.
        weight: float (N, C), at least 0: factors of the single labels. None is 1 for all.
        check: look at the values of labels and weights; False where that was done before.

    Returns:
        Scalar, at least 0: float64 for float64 scores, else float32.

    Raises:
        ValueError: labels outside {1, -1, 0}, shapes that differ, no class, an epoch, tau, gamma or a weight out of its
            range, another reduction.
    """
    if not (epoch >= 1 and 0 <= tau <= 1 and gamma >= 0):
        raise ValueError(f"epoch >= 1, 0 <= tau <= 1 and gamma >= 0, not {epoch}, {tau} and {gamma}")
    x, present, unknown = checked(scores, labels, check)
    x = torch.where(present, x - margin, x)
    p = torch.sigmoid(x)
    if epoch > 1:
        present = present | (unknown & (p > tau))
    losses = torch.where(present, torch.sigmoid(-x) ** gamma * if_present(x), p**gamma * if_absent(x))
    return total(losses, weight, reduction, check)
