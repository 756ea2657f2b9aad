"""P-ASL and CSL: less weight for unknown labels than for known absent ones, and none for those that may be present.

Ben-Baruch, Ridnik, Friedman, Ben-Cohen, Zamir, Noy, Zelnik-Manor, *Multi-label Classification with Partial Annotations
using Class-aware Selective Loss* (CVPR 2022): the partial asymmetric loss, and the selection of what is ignored by the
likelihood of the label and by the frequency of its class.
"""

from __future__ import annotations

import torch
from torch import Tensor

from partlabel.method.other_losses.terms import checked, if_absent, if_present, total


def partial_asymmetric(
    scores: Tensor,
    labels: Tensor,
    gamma_pos: float = 0.0,
    gamma_neg: float = 1.0,
    gamma_unknown: float = 2.0,
    *,
    reduction: str = "mean",
    weight: Tensor | None = None,
    check: bool = True,
) -> Tensor:
    """Return P-ASL: a focal loss with an exponent each for present, absent and unknown labels; unknown is absent.

    ``-(1 - p)^gamma_pos log p`` of a present label, ``-p^gamma_neg log(1 - p)`` of an absent one and
    ``-p^gamma_unknown log(1 - p)`` of an unknown one, with ``p = sigmoid(x)``. As ``gamma_unknown > gamma_neg``, an
    easy unknown label counts less than an easy absent one.

    The defaults are those of the authors' program. That leaves the factors before the logarithms out of the gradient;
    here they are in it, as in :func:`partlabel.method.other_losses.asymmetric.asymmetric`.

    Args:
        scores: float (N, C), before the sigmoid.
        labels: (N, C) of +1 present, -1 absent, 0 unknown.
        gamma_pos: exponent of present labels, at least 0.
        gamma_neg: exponent of known absent labels, at least 0.
        gamma_unknown: exponent of unknown labels, at least 0.
        reduction: "mean" over the rows, or "sum" over them.
        weight: float (N, C), at least 0: factors of the single labels. None is 1 for all.
        check: look at the values of labels and weights; False where that was done before.

    Returns:
        Scalar, at least 0: float64 for float64 scores, else float32.

    Raises:
        ValueError: labels outside {1, -1, 0}, shapes that differ, no class, an exponent or a weight below 0, another
            reduction.
    """
    x, present, unknown = checked(scores, labels, check)
    losses = _terms(x, present, unknown, gamma_pos, gamma_neg, gamma_unknown)
    return total(losses, weight, reduction, check)


def selective(
    scores: Tensor,
    labels: Tensor,
    gamma_pos: float = 0.0,
    gamma_neg: float = 1.0,
    gamma_unknown: float = 2.0,
    likely: float = 5.0,
    prior: Tensor | None = None,
    eta: float = 0.05,
    *,
    reduction: str = "mean",
    weight: Tensor | None = None,
    check: bool = True,
) -> Tensor:
    """Return CSL: P-ASL without the unknown labels that are likely to be present.

    Of the N rows, the ``likely N`` unknown labels with the highest scores, rounded, have no loss, and none of the
    unknown labels of a class whose ``prior`` is above ``eta``. All others are as in :func:`partial_asymmetric`.

    The paper's priors come from a model that was trained before without unknown labels. Without priors, as in a
    training by name, only scores select. With ``likely`` of at least C, unknown labels teach nothing.

    Args:
        scores: float (N, C), before the sigmoid; all rows of a batch. Each process of several takes its own rows.
        labels: (N, C) of +1 present, -1 absent, 0 unknown.
        gamma_pos: exponent of present labels, at least 0.
        gamma_neg: exponent of known absent labels, at least 0.
        gamma_unknown: exponent of unknown labels, at least 0.
        likely: unknown labels for each row that are left out, at least 0; the authors' program has 5.
        prior: float (C,), share of present labels of each class, 0 to 1. None selects by score only.
        eta: prior above which the unknown labels of a class are left out.
        reduction: "mean" over the rows, or "sum" over them.
        weight: float (N, C), at least 0: factors of the single labels, which do not change what is left out. None is 1.
        check: look at the values of labels and weights; False where that was done before.

    Returns:
        Scalar, at least 0: float64 for float64 scores, else float32.

    Raises:
        ValueError: labels outside {1, -1, 0}, shapes that differ, no class, an exponent, ``likely`` or a weight below
            0, priors that are not (C,), another reduction.
    """
    if not likely >= 0:
        raise ValueError(f"likely is at least 0, not {likely}")
    x, present, unknown = checked(scores, labels, check)
    losses = _terms(x, present, unknown, gamma_pos, gamma_neg, gamma_unknown)
    count = min(round(likely * len(x)), x.numel())
    out = torch.zeros_like(unknown)
    if count:
        ranked = torch.where(unknown, x.detach(), -torch.inf).flatten().topk(count).indices
        out.view(-1)[ranked] = True
    if prior is not None:
        if prior.shape != x.shape[1:]:
            raise ValueError(f"there is a prior of each of {x.shape[1]} classes, not {tuple(prior.shape)}")
        out = out | (prior > eta)
    return total(torch.where(out & unknown, 0, losses), weight, reduction, check)


def _terms(
    x: Tensor, present: Tensor, unknown: Tensor, gamma_pos: float, gamma_neg: float, gamma_unknown: float
) -> Tensor:
    """The losses (N, C) of P-ASL."""
    if not min(gamma_pos, gamma_neg, gamma_unknown) >= 0:
        raise ValueError(f"gammas are at least 0, not {gamma_pos}, {gamma_neg} and {gamma_unknown}")
    p, no = torch.sigmoid(x), if_absent(x)
    yes = torch.sigmoid(-x) ** gamma_pos * if_present(x)
    return torch.where(present, yes, torch.where(unknown, p**gamma_unknown, p**gamma_neg) * no)
