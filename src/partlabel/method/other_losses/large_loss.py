"""LL-R and LL-Ct: unknown labels with a large loss are probably present, so they are left out or turned round.

Kim, Kim, Akata, Lee, *Large Loss Matters in Weakly Supervised Multi-Label Classification* (CVPR 2022): the schemes of
rejection (LL-R) and of temporary correction (LL-Ct). The permanent one (LL-Cp) changes the labels of the data set and
is none of a loss.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from partlabel.method.other_losses.terms import checked, if_absent, if_present, total


def large_loss_rejection(
    scores: Tensor,
    labels: Tensor,
    epoch: int,
    delta: float = 0.1,
    *,
    reduction: str = "mean",
    weight: Tensor | None = None,
    check: bool = True,
) -> Tensor:
    """Return LL-R: as AN, but the unknown labels with the largest losses have none.

    In epoch t, ``(t - 1) delta`` percent of the N C labels of the batch, rounded up, are left out: the unknown ones
    with the largest ``-log(1 - p)``. Where fewer are unknown, all unknown ones. In the first epoch, none. Known labels
    are never touched.

    The share is counted and rounded as in the authors' program. That has no default for delta but names 0.1, 0.2, ...
    0.5 to choose from for each data set; the default here is the smallest. It also leaves out whatever ties with the
    last loss to go, known labels too where that is 0; here the number is exact, so that many equal scores do no harm.

    Args:
        scores: float (N, C), before the sigmoid; all rows of a batch. Each process of several takes its own rows.
        labels: (N, C) of +1 present, -1 absent, 0 unknown, which is absent or, with a large loss, left out.
        epoch: number t of the epoch, from 1.
        delta: Delta_rel in percent, 0 to 100.
        reduction: "mean" over the rows, or "sum" over them.
        weight: float (N, C), at least 0: factors of the single labels, which do not change what is left out. None is 1.
        check: look at the values of labels and weights; False where that was done before.

    Returns:
        Scalar, at least 0: float64 for float64 scores, else float32.

    Raises:
        ValueError: labels outside {1, -1, 0}, shapes that differ, no class, an epoch, delta or a weight out of its
            range, another reduction.
    """
    x, present, unknown = checked(scores, labels, check)
    losses = torch.where(present, if_present(x), if_absent(x))
    return total(torch.where(_large(losses, unknown, epoch, delta), 0, losses), weight, reduction, check)


def large_loss_correction(
    scores: Tensor,
    labels: Tensor,
    epoch: int,
    delta: float = 0.1,
    *,
    reduction: str = "mean",
    weight: Tensor | None = None,
    check: bool = True,
) -> Tensor:
    """Return LL-Ct: as AN, but the unknown labels with the largest losses count as present in this step.

    Which labels these are is as in :func:`large_loss_rejection`; their loss is ``-log p``. The paper writes it as the
    loss of an absent label times ``log p / log(1 - p)``, which is the same value; the gradient is that of ``-log p``,
    as in the authors' program.

    Args:
        scores: as in :func:`large_loss_rejection`.
        labels: (N, C) of +1 present, -1 absent, 0 unknown, which is absent or, with a large loss, present.
        epoch: number t of the epoch, from 1.
        delta: Delta_rel in percent, 0 to 100.
        reduction: "mean" over the rows, or "sum" over them.
        weight: float (N, C), at least 0: factors of the single labels, which do not change what is corrected.
        check: look at the values of labels and weights; False where that was done before.

    Returns:
        Scalar, at least 0: float64 for float64 scores, else float32.

    Raises:
        ValueError: as :func:`large_loss_rejection`.
    """
    x, present, unknown = checked(scores, labels, check)
    yes = if_present(x)
    losses = torch.where(present, yes, if_absent(x))
    return total(torch.where(_large(losses, unknown, epoch, delta), yes, losses), weight, reduction, check)


def _large(losses: Tensor, unknown: Tensor, epoch: int, delta: float) -> Tensor:
    """Which labels are unknown and among the largest ``(epoch - 1) delta`` percent, as bool (N, C)."""
    if not (epoch >= 1 and 0 <= delta <= 100):
        raise ValueError(f"epoch >= 1 and 0 <= delta <= 100, not {epoch} and {delta}")
    share = losses.numel() * (epoch - 1) * delta / 100
    count = min(math.ceil(share - 1e-6), losses.numel())  # a share of 3.0000000001 labels is 3
    if count <= 0:
        return torch.zeros_like(unknown)
    candidates = torch.where(unknown, losses.detach(), -1).flatten()  # how many are unknown, a GPU would be asked for
    largest = torch.zeros_like(unknown).flatten().index_fill(0, candidates.topk(count).indices, True)
    return largest.view_as(unknown) & unknown
