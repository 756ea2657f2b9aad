"""Curriculum labelling: which unknown labels are easy, what they are, and the objective behind it.

Section 3.3, algorithm 1, equations 7 to 11 and the supplementary material of Durand, Mehrasa, Mori, *Learning a Deep
ConvNet for Multi-label Classification with Partial Labels* (CVPR 2019).

A strategy carries out lines 4 and 5 of algorithm 1: it looks at the unknown pairs only, and returns the labels with the
easy ones filled in. A round therefore adds to the labels of the rounds before it, and a known label never changes.
``v``, the selected pairs, is ``new_labels != 0``. Common to all strategies:

- ``scores`` is float (N, C), before the sigmoid; half precision is compared as float32. Scores of known pairs are not
  looked at. NaN at an unknown pair is an error; infinities are compared as they are.
- ``labels`` is int8 (N, C), +1 present, -1 absent, 0 unknown. The result is a new int8 tensor.
- The sign of a score of 0 is +1 (present), as in "present if x >= theta, absent if x < -theta" for theta = 0.
- Wrong shapes, types, labels or theta raise ValueError.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal

import torch
import torch.nn.functional as F
from torch import Tensor

from partlabel.method.checks import check_labels, listed

#: chance below which known labels of one sign are no random draw
_ONE_SIDED = 0.05


def score_threshold(scores: Tensor, labels: Tensor, theta: float) -> Tensor:
    """Strategy [a], eq. 8: present if ``x >= theta``, absent if ``x < -theta``, else still unknown.

    Args:
        scores: float (N, C).
        labels: int8 (N, C).
        theta: score, at least 0 (the paper: above 0; 0 labels every pair). A pair is labelled where the model's
            probability for its sign is at least ``sigmoid(theta)``: 0.73, 0.88 and 0.993 for 1, 2 and 5.
    """
    x, unknown = _checked(scores, labels)
    return _filled(labels, unknown, *_outside(x, theta))


def score_proportion(scores: Tensor, labels: Tensor, theta: float) -> Tensor:
    """Strategy [b]: the share theta of the unknown pairs of a mini-batch with the largest ``|x|``, by their sign.

    Of u unknown pairs exactly ``theta u`` are labelled, rounded down, with theta the decimal that it is written as. The
    paper does not say how it rounds; its column of label proportions fits rounding down. Of equal ``|x|`` the pair that
    comes first is taken, row by row.

    Args:
        scores: float (N, C) of a mini-batch. The share is one of the pairs passed in, so that the result depends on
            how a set is cut into batches: with less than ``1 / theta`` unknown pairs, a batch gets no label.
        labels: int8 (N, C).
        theta: share, 0 to 1.
    """
    x, unknown = _checked(scores, labels)
    values = x[unknown]
    easiest = values.abs().sort(descending=True, stable=True).indices[: _part(theta, len(values), ROUND_FLOOR)]
    filled = torch.zeros_like(values, dtype=torch.int8)
    filled[easiest] = _sign(values[easiest])
    return labels.masked_scatter(unknown, filled)


def positive_only(scores: Tensor, labels: Tensor, theta: float) -> Tensor:
    """Strategy [c], eq. 9: present if ``x >= theta``, else still unknown; nothing becomes absent.

    Args:
        scores: float (N, C).
        labels: int8 (N, C).
        theta: score, at least 0 (the paper: above 0).
    """
    x, unknown = _checked(scores, labels)
    present, _ = _outside(x, theta)
    return _filled(labels, unknown, present, torch.zeros_like(present))


def ensemble_threshold(scores: Sequence[Tensor] | Tensor, labels: Tensor, theta: float) -> Tensor:
    """Strategy [d], eq. 10: strategy [a] on the mean score E of an ensemble; see ``ensemble_mean``.

    Args:
        scores: of K models, float (K, N, C), or K tensors (N, C).
        labels: int8 (N, C).
        theta: score, at least 0 (the paper: above 0).
    """
    for number, member in enumerate(scores):
        try:
            _checked(member, labels)
        except ValueError as error:
            raise ValueError(f"model {number} of the ensemble: {error}") from None
    return score_threshold(ensemble_mean(scores), labels, theta)


def ensemble_mean(scores: Sequence[Tensor] | Tensor) -> Tensor:
    """Return E of eq. 10, the mean of the scores of K >= 1 models: float (K, N, C) or K tensors (N, C) -> (N, C).

    In float32, or float64 where the scores are float64.
    """
    if not len(scores):
        raise ValueError("an ensemble has at least one model")
    return torch.stack([_wide(member) for member in scores]).mean(0)


def uncertainty_threshold(scores: Tensor, uncertainty: Tensor, labels: Tensor, theta: float) -> Tensor:
    """Strategy [e], eq. 11: the pairs with ``U <= theta``, by the sign of their score.

    Args:
        scores: float (N, C), the mean over the samples.
        uncertainty: float (N, C), at least 0; the paper's U is the variance of the scores over dropout samples.
        labels: int8 (N, C).
        theta: in the unit of the uncertainty, at least 0. It is rounded to the uncertainty's dtype.

    Raises:
        ValueError: also for NaN uncertainties of unknown pairs.
    """
    x, unknown = _checked(scores, labels)
    u, _ = _checked(uncertainty, labels, "uncertainty")
    easy = unknown & (u <= _at_least_0(theta))
    return _filled(labels, easy, x >= 0, x < 0)


def all_at_once(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the labels after the "2 steps" baseline of section 4.3: every unknown pair by the sign of its score.

    Args:
        scores: float (N, C).
        labels: int8 (N, C).
    """
    return score_threshold(scores, labels, 0.0)


def class_adaptive(
    scores: Tensor, labels: Tensor, prior: Tensor, theta: float = 1.0, theta_absent: float | None = None
) -> Tensor:
    """Label a share of each class's unknown pairs so that the class's share present is what is expected of it.

    In the manner of CAP (Xie et al., *Class-Distribution-Aware Pseudo-Labeling for Semi-Supervised Multi-Label
    Learning*, NeurIPS 2023): the thresholds of a class are quantiles of its scores, at its share present, and not the
    same score for all classes. Of the u unknown pairs of a class ``n = theta u``, rounded down, are labelled:
    the ``prior n``, rounded to the nearest, with the highest scores are present, the others of the n are those with the
    lowest scores and are absent. The sign of the score plays no part. Of equal scores the image that comes first
    counts as the higher one. Where the labels are right, what stays unknown has the share present ``prior`` again, so
    that the same prior holds in the next round.

    With ``theta_absent``, each sign has a share of its own, as in CAP: theta says how many of the expected present
    pairs become present, ``theta_absent`` how many of the expected absent ones become absent. CAP looks at images
    without any known label, this at the unknown pairs.

    Args:
        scores: float (N, C) of **all** images: a quantile of a mini-batch is not that of the class. Classes do not
            influence each other, so that a few columns at a time give the same labels.
        labels: int8 (N, C).
        prior: (C,) expected share present among the unknown pairs, 0 to 1, as from ``class_prior``.
        theta: share of each class's unknown pairs that is labelled, 0 to 1.
        theta_absent: instead of theta for the absent pairs, 0 to 1; None is theta.

    Raises:
        ValueError: also for shares outside 0 to 1, listing the classes.
    """
    x, unknown = _checked(scores, labels)
    if prior.shape != labels.shape[1:]:
        raise ValueError(f"prior has one share per class, ({labels.shape[1]},), not {tuple(prior.shape)}")
    shares = prior.tolist()
    wrong = [f"class {c}: {share}" for c, share in enumerate(shares) if not 0 <= share <= 1]
    if wrong:
        raise ValueError(f"shares present are 0 to 1: {listed(wrong)}")
    result = labels.clone()
    for c, share in enumerate(shares):
        rows = unknown[:, c].nonzero().squeeze(1)
        order = rows[x[rows, c].sort(descending=True, stable=True).indices]
        present, _ = _expected(share, theta, len(rows))
        _, absent = _expected(share, theta if theta_absent is None else theta_absent, len(rows))
        result[order[:present], c] = 1
        result[order[len(rows) - absent :], c] = -1
    return result


def _expected(share: float, theta: float, unknown: int) -> tuple[int, int]:
    """How many of the share theta of unknown pairs are present and absent."""
    labelled = _part(theta, unknown, ROUND_FLOOR)
    present = _part(share, labelled, ROUND_HALF_UP)
    return present, labelled - present


def class_prior(present: Tensor, absent: Tensor, strength: float = 10.0) -> Tensor:
    """Estimate the share present of each class from its known labels.

    ``(present + strength m) / (present + absent + strength)``, with m the share present of all known labels together:
    a class with few known labels is drawn towards m, as if it had ``strength`` more labels of that mix; one without any
    gets m. strength = 0 is the plain share, as in CAP. The known labels have to be like a random sample of the class's
    pairs: count labels that people gave, not those that a model added or that were looked for.

    A class of which only present labels are known, so many that chance would draw no absent one in fewer than 1 of 20
    such classes (``m^present < 0.05``), has been labelled in another way: people said where it is and not where it is
    not. How many more present pairs it has cannot be told; it gets 0, so that nothing becomes present, and what a round
    labels of such a class is absent: without an absent label, the class could not be told from any other.

    Args:
        present: known present labels of each class, (C,).
        absent: known absent labels of each class, (C,).
        strength: labels that the common share is worth, at least 0.

    Returns:
        float64 (C,).

    Raises:
        ValueError: counts that are negative or not of equal shape (C,); no known present label or no known absent label
            in any class (with positives only, the share would be 1); strength = 0 and classes without known labels.
    """
    if present.ndim != 1 or present.shape != absent.shape:
        raise ValueError(f"present and absent are both (C,), not {tuple(present.shape)} and {tuple(absent.shape)}")
    present, absent = present.double(), absent.double()
    known = present + absent
    strength = _at_least_0(strength, "strength")
    if not bool(((present >= 0) & (absent >= 0)).all()):
        raise ValueError("counts of known labels are 0 or more")
    for sign, count in (("present", present), ("absent", absent)):
        if not count.sum() > 0:
            raise ValueError(f"no class has a known {sign} label; the share present of a class cannot be estimated")
    none = [f"class {c}" for c in (known == 0).nonzero().squeeze(1).tolist()]
    if none and strength == 0:
        raise ValueError(f"classes without known labels need a strength above 0: {listed(none)}")
    common = present.sum() / known.sum()
    one_sided = (absent == 0) & (present > 0) & (common**present < _ONE_SIDED)
    return torch.where(one_sided, 0.0, (present + strength * common) / (known + strength))


def pair_losses(scores: Tensor, labels: Tensor) -> Tensor:
    """Return ``l_c`` of eq. 7, float (N, C): ``log(1 + e^(-y x))``, for an unknown label with y = the sign of x.

    An unknown pair therefore costs ``log(1 + e^-|x|)``, the least that it can cost: line 5 of algorithm 1 minimises J
    over its label as well.
    """
    x, unknown = _checked(scores, labels)
    y = torch.where(unknown, _sign(x), labels)
    return F.softplus(-y * x, threshold=40)


def self_paced_term(v: Tensor, theta: float) -> Tensor:
    """Return ``G(v; theta) = 1/(N C) sum over i, c of v_ic log sigmoid(theta)``, a scalar at most 0, for strategy [a].

    **The paper prints** ``G = - sum v_ic log sigmoid(theta)``: the other sign, and no ``1/(N C)``. With a loss of at
    least 0, the printed G makes every selected pair cost something, so that J is least where nothing is selected. The
    printed eq. 1 has the other sign as well: with both as printed, J is to be maximised instead. And a G without the
    ``1/(N C)`` that the loss has in J outweighs it: the threshold on the loss would be N C times as high.
    ``objective`` states what holds.

    Args:
        v: (N, C) of booleans or {0, 1}, the selected pairs.
        theta: score, at least 0.

    Returns:
        Float64.
    """
    if v.ndim != 2 or not bool(((v == 0) | (v == 1)).all()):
        raise ValueError(f"v is (N, C) of 0 and 1, here {tuple(v.shape)}")
    return -v.double().sum() * math.log1p(math.exp(-_at_least_0(theta))) / max(v.numel(), 1)


def objective(
    scores: Tensor, labels: Tensor, v: Tensor, theta: float, *, beta: float = 0.0, squared_norm: float = 0.0
) -> Tensor:
    """Return J of eq. 7: ``J(w, v) = beta ||w||^2 + G(v; theta) + 1/(N C) sum over i, c of v_ic l_c``, G that of [a].

    For fixed w, J is a sum over the pairs of ``v_ic (l_c - log(1 + e^-theta)) / (N C)``: the v of the least J selects
    the pairs with a loss below ``log(1 + e^-theta)``. The threshold theta on the score is thus the threshold
    ``log(1 + e^-theta)`` on the loss: for an unknown pair ``l_c <= log(1 + e^-theta)`` says the same as
    ``|x| >= theta``, which is strategy [a]. At ``|x| = theta`` both v give the same J; the paper's strategy selects
    ``x = theta`` and not ``x = -theta``. Known pairs are selected whatever they cost (line 1 of algorithm 1): the
    minimum is the one over the v of the unknown pairs.

    - [c] minimises J over the v that select no pair with x < 0.
    - [d] minimises J for the scores of the ensemble.
    - [b] minimises J over the v that select as many unknown pairs, for every theta of J.

    Args:
        scores: float (N, C).
        labels: int8 (N, C), before the round; see ``pair_losses``.
        v: (N, C) of booleans or {0, 1}.
        theta: score, at least 0.
        beta: weight decay.
        squared_norm: ``||w||^2``.

    Returns:
        Scalar, float64, without a gradient: ``partial_bce`` is the loss that trains w. The loss of a known pair is the
        one of ``partial_bce`` without its weight g.
    """
    losses = pair_losses(scores, labels)
    if v.shape != labels.shape:
        raise ValueError(f"v and labels are both (N, C), not {tuple(v.shape)} and {tuple(labels.shape)}")
    selected = (v.double() * losses.double()).sum() / max(v.numel(), 1)
    return beta * squared_norm + self_paced_term(v, theta) + selected


def _checked(values: Tensor, labels: Tensor, what: str = "scores") -> tuple[Tensor, Tensor]:
    """Values as float32 or float64, and which pairs are unknown; refuse what no strategy can work on."""
    if values.ndim != 2 or values.shape != labels.shape:
        raise ValueError(f"{what} and labels are both (N, C), not {tuple(values.shape)} and {tuple(labels.shape)}")
    check_labels(labels)
    x, unknown = _wide(values, what), labels == 0
    wrong = unknown & x.isnan()
    if bool(wrong.any()):
        places = [f"row {r} class {c}" for r, c in wrong.nonzero().tolist()]
        raise ValueError(f"{what} of unknown labels are NaN: {listed(places)}")
    return x, unknown


def _wide(values: Tensor, what: str = "scores") -> Tensor:
    """Floats without their graph, at least float32."""
    if not values.is_floating_point():
        raise ValueError(f"{what} are floats, not {values.dtype}")
    return values.detach() if values.dtype == torch.float64 else values.detach().float()


def _at_least_0(value: float, name: str = "theta") -> float:
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} is at least 0 and finite, not {value}")
    return float(value)


def _outside(x: Tensor, theta: float) -> tuple[Tensor, Tensor]:
    """Where scores are present and where absent, by eq. 8."""
    theta = _at_least_0(theta)
    return x >= theta, x < -theta


def _part(share: float, of: int, rounding: str) -> int:
    """``share of`` as a whole number; in decimals, as 0.29 * 100 is 28.999999999999996 in floats."""
    if not 0 <= share <= 1:
        raise ValueError(f"theta is a share, 0 to 1, not {share}")
    return int((Decimal(str(float(share))) * of).to_integral_value(rounding))


def _sign(x: Tensor) -> Tensor:
    return torch.where(x >= 0, 1, -1).to(torch.int8)


def _filled(labels: Tensor, where: Tensor, present: Tensor, absent: Tensor) -> Tensor:
    """Copy of the labels with the pairs ``where`` set to +1 or -1."""
    return labels + where * (present.to(torch.int8) - absent.to(torch.int8))
