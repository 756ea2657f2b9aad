"""Partial-BCE: binary cross-entropy over the known labels, normalised by their proportion.

Equations 1 and 2 of Durand, Mehrasa, Mori, *Learning a Deep ConvNet for Multi-label Classification with Partial Labels*
(CVPR 2019).
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from partlabel.method.checks import check_shapes, exact_labels

#: share of the 8-label words that hold a known label, below which picking out the known ones is faster than using all
SPARSE_WORDS = 0.35
#: weights above this overflow in float32 once multiplied by a loss
LARGEST_G = 1e30


def solve_g(gamma: float = 1.0, p0: float = 0.1, value: float = 5.0) -> tuple[float, float]:
    """Return alpha and beta of ``g(p) = alpha p^gamma + beta`` (eq. 2) with ``g(p0) = value`` and ``g(1) = 1``.

    The defaults give alpha = -40/9 and beta = 49/9. The paper prints -4.45 and 5.45, which are rounded: g(0.1) = 5.005.

    Args:
        gamma: shape of g; 1 is linear, -1 inversely proportional. 0 has no solution but for value 1.
        p0: label proportion, 0 < p0 < 1.
        value: weight g(p0), above 0. 1 makes g constant: alpha = 0, beta = 1, plain BCE over the known labels.

    Raises:
        ValueError: an argument out of range, or gamma = 0, where g is constant and cannot take two values.
    """
    if not (0 < p0 < 1 and 0 < value < math.inf and math.isfinite(gamma)):
        raise ValueError(f"0 < p0 < 1, value > 0 and gamma finite, not p0={p0}, value={value}, gamma={gamma}")
    if value == 1:
        return 0.0, 1.0
    if gamma == 0:
        raise ValueError(f"gamma = 0 makes g constant, so that g({p0}) = {value} and g(1) = 1 have no solution")
    try:
        alpha = (value - 1) / (p0**gamma - 1)
    except OverflowError:
        raise ValueError(f"gamma = {gamma} is too far from 0: {p0}^gamma overflows") from None
    return alpha, 1 - alpha


def partial_bce(
    scores: Tensor,
    labels: Tensor,
    gamma: float = 1.0,
    p0: float = 0.1,
    value: float = 5.0,
    *,
    alpha: float | None = None,
    beta: float | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
    check: bool = True,
) -> Tensor:
    """Return the partial-BCE loss (eq. 1, with the minus sign that the paper's print lacks).

    ``l_i = -g(p_i)/C * sum over known c of log sigmoid(y_ic x_ic)``, where ``p_i`` is the number of known labels of
    row i, given or added by a model, divided by C, and ``g(p) = alpha p^gamma + beta``; the mean divides by the N rows,
    as the paper does, whether or not they have known labels. By default alpha and beta are the solved constants of
    ``solve_g(gamma, p0, value)``, -40/9 and 49/9, not the rounded ones that the paper prints (-4.45, 5.45).

    - With all labels known it equals plain BCE for every gamma.
    - ``alpha=1, beta=0, gamma=-1`` is the mean over the known labels of a row; ``value=1`` (g = 1) is plain BCE.
    - Unknown labels, whatever their score, give loss 0 and gradient 0; so does a row without known labels for every
      gamma. A batch without known labels gives a 0 that has a graph.
    - Computed in float32 for half-precision scores, whatever the autocast; float64 stays. Nothing is added inside a
      logarithm: the loss of a perfect score is 0. Derivatives of first order only.
    - The mean over equally large shares of a batch, averaged over processes (as DistributedDataParallel averages
      gradients), is that of the whole batch.

    Args:
        scores: float (N, C), before the sigmoid.
        labels: (N, C) of +1 present, -1 absent, 0 unknown; int8, or another dtype with exactly these values.
        gamma: exponent of g.
        p0: the proportion at which g is ``value``.
        value: g(p0).
        alpha: together with ``beta``, g's constants in place of the solved ones; p0 and value are then not used.
        beta: see alpha.
        reduction: "mean" over the rows, or "sum" over them.
        weight: float (N, C), at least 0: factors of the single labels, such as less for those that a model added.
            Those of unknown labels may be NaN. p_i counts a known label as one whatever its weight. None is 1
            for all.
        check: look at the values of labels and weights, which makes a GPU wait; False where they were checked before,
            and are int8.

    Returns:
        Scalar, at least 0: float64 for float64 scores, else float32.

    Raises:
        ValueError: labels outside {1, -1, 0} (each with row, class and value), shapes that differ, no class, a negative
            weight, gamma = 0, g negative or not finite for a possible proportion, another reduction.

    Warns:
        UserWarning: labels of several rows hold a 1 and no -1, as a 0/1 target does.
    """
    check_shapes(scores, labels)
    if reduction not in ("mean", "sum"):
        raise ValueError(f'reduction is "mean" or "sum", not "{reduction}"')
    constants = _constants(gamma, p0, value, alpha, beta)
    rows, classes = scores.shape
    _check_g(constants, classes)
    if scores.dtype != torch.float64:
        scores = scores.float()
    divisor = max(rows, 1) if reduction == "mean" else 1
    labels = _checked(labels) if check else labels
    if weight is not None:
        if weight.shape != labels.shape or (check and bool(((weight < 0) | (weight.isnan() & (labels != 0))).any())):
            wanted = f"{tuple(labels.shape)} and at least 0"
            raise ValueError(f"the weights of labels are {wanted}, not {tuple(weight.shape)}")
        return _weighted(scores, labels, weight, constants, classes * divisor)
    return _PartialBCE.apply(scores, labels, constants, classes * divisor)


class PartialBCE(nn.Module):
    """The partial-BCE loss as a module; see ``partial_bce`` for the formula, the arguments and the errors.

    >>> import torch
    >>> scores = torch.zeros(1, 2)
    >>> PartialBCE()(scores, torch.tensor([[1, 0]]))  # g(1/2) / 2 * log 2 with g(1/2) = 29/9
    tensor(1.1167)
    """

    def __init__(
        self,
        gamma: float = 1.0,
        p0: float = 0.1,
        value: float = 5.0,
        *,
        alpha: float | None = None,
        beta: float | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        self.alpha, self.beta, self.gamma = _constants(gamma, p0, value, alpha, beta)
        self.reduction = reduction

    def extra_repr(self) -> str:
        """Constants of g, for the printed module."""
        return f"alpha={self.alpha:.6g}, beta={self.beta:.6g}, gamma={self.gamma:g}, reduction={self.reduction}"

    def forward(self, scores: Tensor, labels: Tensor, weight: Tensor | None = None) -> Tensor:
        """Return the loss of scores (N, C) and labels (N, C), a scalar; weight (N, C) is that of single labels."""
        constants = {"gamma": self.gamma, "alpha": self.alpha, "beta": self.beta}
        return partial_bce(scores, labels, **constants, reduction=self.reduction, weight=weight)


def _constants(
    gamma: float, p0: float, value: float, alpha: float | None, beta: float | None
) -> tuple[float, float, float]:
    """(alpha, beta, gamma) of g."""
    if alpha is None and beta is None:
        return (*solve_g(gamma, p0, value), gamma)
    if alpha is None or beta is None:
        raise ValueError("alpha and beta are given together or not at all")
    if not all(map(math.isfinite, (alpha, beta, gamma))):
        raise ValueError(f"alpha, beta and gamma are finite, not {alpha}, {beta}, {gamma}")
    return alpha, beta, gamma


def _check_g(constants: tuple[float, float, float], classes: int) -> None:
    """Refuse a g that is negative or too large somewhere on [1/C, 1]; it is monotone, so that the two ends decide."""
    alpha, beta, gamma = constants
    for p in (1 / classes, 1.0):
        try:
            g = alpha * p**gamma + beta
        except OverflowError:
            g = math.inf
        if not -1e-12 <= g <= LARGEST_G:
            raise ValueError(
                f"g(p) = {alpha:g} p^{gamma:g} + {beta:g} is {g:g} at p = {p:g}; it has to be >= 0 and finite"
            )


def _checked(labels: Tensor) -> Tensor:
    """Labels as int8, all in {1, -1, 0}; a warning where 0 may be meant as absent."""
    exact = exact_labels(labels)
    if len(labels) > 1 and tuple(map(int, torch.aminmax(exact))) == (0, 1):
        warnings.warn(
            "no known absent label (-1) in a batch with known present ones; is 0 meant as absent? Here 0 is unknown",
            stacklevel=3,
        )
    return exact


class _PartialBCE(torch.autograd.Function):
    """Sum over the known labels of ``g(p_i) * softplus(-y x) / divisor``, on the known ones only where they are few."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, labels: Tensor, constants: tuple[float, float, float], divisor: int
    ) -> Tensor:
        words = _words(labels) if labels.is_cpu else None
        if words is not None and int(torch.count_nonzero(words)) < SPARSE_WORDS * words.numel():
            loss, gradient, index = _on_known(scores, words, constants, divisor)
            ctx.save_for_backward(gradient, index)
        else:
            loss, gradient = _on_all(scores, labels, constants, divisor)
            ctx.save_for_backward(gradient)
        ctx.shape = scores.shape
        return loss

    @staticmethod
    @once_differentiable
    # pyrefly: ignore[bad-override]  (the decorator hides the name of ctx)
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor, None, None, None]:
        (grad,) = grad_outputs
        gradient, *index = ctx.saved_tensors
        gradient = gradient * grad
        if index:
            gradient = gradient.new_zeros(ctx.shape).put_(index[0], gradient)
        return gradient, None, None, None


def _weights(known: Tensor, classes: int, constants: tuple[float, float, float], divisor: int) -> Tensor:
    """``g(p) / divisor`` of each row from its number of known labels, float (N,)."""
    alpha, beta, gamma = constants
    return (known / classes).pow_(gamma).mul_(alpha / divisor).add_(beta / divisor)


def _words(labels: Tensor) -> Tensor:
    """int8 labels, row after row, as int64 words of eight, so that a search passes over eight of them at once."""
    flat = labels.reshape(-1)
    rest = -flat.numel() % 8
    if rest or flat.storage_offset() % 8:
        flat = torch.cat([flat, flat.new_zeros(rest)])
    return flat.view(torch.int64)


def _on_known(
    scores: Tensor, words: Tensor, constants: tuple[float, float, float], divisor: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, its gradient at the known labels, and their places in the flattened scores."""
    rows, classes = scores.shape
    filled = words.nonzero().squeeze(1)
    eights = words.index_select(0, filled).view(torch.int8)
    inside = eights.nonzero().squeeze(1)
    index = (filled * 8).index_select(0, inside >> 3).add_(inside & 7)
    minus_y = eights.index_select(0, inside).neg_().to(scores.dtype)
    row = torch.div(index, classes, rounding_mode="floor")
    known = torch.bincount(row, minlength=rows).to(scores.dtype)
    weight = _weights(known, classes, constants, divisor).index_select(0, row)
    wrong = scores.reshape(-1).index_select(0, index).mul_(minus_y)
    loss = _softplus(wrong).dot(weight)
    return loss, torch.sigmoid(wrong).mul_(weight).mul_(minus_y), index


def _on_all(
    scores: Tensor, labels: Tensor, constants: tuple[float, float, float], divisor: int
) -> tuple[Tensor, Tensor]:
    """Loss and its gradient, by passes over all labels."""
    minus_y = labels.neg().to(scores.dtype)
    if labels.is_cpu and int(torch.count_nonzero(labels)) == labels.numel():  # g(1) for all rows; a GPU would wait
        weight = (constants[0] + constants[1]) / divisor
        wrong = scores * minus_y
        return _softplus(wrong).sum() * weight, torch.sigmoid(wrong).mul_(minus_y.mul_(weight))
    known = labels.abs().to(scores.dtype)
    weights = _weights(known.sum(1).clamp_(min=1), scores.shape[1], constants, divisor)
    wrong = _zero_unknown(scores, labels).mul_(minus_y)
    loss = _softplus(wrong).mul_(known).sum(1).dot(weights)
    return loss, torch.sigmoid(wrong).mul_(minus_y.mul_(weights.unsqueeze(1)))


def _weighted(
    scores: Tensor, labels: Tensor, weight: Tensor, constants: tuple[float, float, float], divisor: int
) -> Tensor:
    """The loss where single labels have a weight."""
    known = labels != 0
    weight = torch.where(known, weight, 0)  # NaN times 0 is NaN
    weights = _weights(known.sum(1).clamp(min=1).to(scores.dtype), scores.shape[1], constants, divisor)
    wrong = torch.where(known, scores, 0) * labels.neg().to(scores.dtype)
    return (_softplus(wrong) * weight.to(scores.dtype) * known).sum(1).dot(weights)


def _zero_unknown(scores: Tensor, labels: Tensor) -> Tensor:
    """Scores with those of unknown labels 0, by a bitwise "and": a product keeps NaN, ``where`` is ten times slower."""
    bits = torch.int64 if scores.dtype == torch.float64 else torch.int32
    return (scores.view(bits) & labels.abs().neg_().to(bits)).view(scores.dtype)


def _softplus(x: Tensor) -> Tensor:
    """log(1 + e^x), exact in both dtypes: above the threshold e^-x is below the rounding of x."""
    return F.softplus(x, threshold=40)
