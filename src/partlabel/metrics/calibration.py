"""Probabilities that mean what they say: Platt scaling of each class, with rare classes drawn towards the others.

The probability that class c is present is ``sigmoid(a_c x + b_c)`` for a score x (Platt, 1999). With few known labels
(a_c, b_c) cannot be found alone. It is therefore taken as drawn from a normal distribution over the classes, whose mean
and covariance are found from all classes together (hierarchical logistic regression by EM with Laplace's approximation;
Gelman et al., *Bayesian Data Analysis*, ch. 13 and 15): a class with many labels keeps its own fit, one with few gets
nearly that of the others, one with none gets the mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partlabel.core.errors import UserError

Floats = NDArray[np.float64]

#: the slope never falls below this: a higher score must not mean a lower probability
MIN_SLOPE = 0.05
#: where (slope, offset) start: mean and standard deviation; also what a pooled fit without an end is drawn to
START, SPREAD = np.array([1.0, 0.0]), np.array([0.5, 1.0])
_POOLED_SPREAD = np.array([2.0, 5.0])
#: how many classes the starting spread counts as, so that a handful of classes do not agree by chance
_PRIOR_CLASSES = 2.0
BINS = 15
#: scores before the sigmoid; beyond this a training has diverged
LARGEST = 1e4


@dataclass(frozen=True)
class Calibration:
    """Slope a > 0 and offset b of each of C classes: the probability is ``sigmoid(a x + b)``."""

    slope: tuple[float, ...]
    offset: tuple[float, ...]

    def probabilities(self, scores: NDArray[np.floating]) -> Floats:
        """Scores (N, C) before the sigmoid to probabilities (N, C) in [0, 1], float64."""
        return sigmoid(scores.astype(np.float64) * np.array(self.slope) + np.array(self.offset))

    def of(self, number: int, scores: NDArray[np.floating]) -> Floats:
        """The same for scores (N,) of one class."""
        return sigmoid(scores.astype(np.float64) * self.slope[number] + self.offset[number])


@dataclass(frozen=True)
class Reliability:
    """Probabilities against what was true, in bins of equal width.

    Each array (B,) has one entry per bin: ``count`` of labels, mean ``probability`` and ``observed`` share of present
    labels, NaN in an empty bin. ``error`` is the expected calibration error: the mean over the labels of
    ``|probability - observed|`` of their bin (Naeini et al., 2015); NaN without a label. ``brier`` is the mean squared
    difference of probability and label (1 or 0); NaN without a label.
    """

    count: NDArray[np.int64]
    probability: Floats
    observed: Floats
    error: float
    brier: float


def sigmoid(x: Floats) -> Floats:
    """``1 / (1 + exp(-x))`` without overflow."""
    return 0.5 * (1 + np.tanh(0.5 * x))


def fit(
    scores: NDArray[np.floating], classes: NDArray[np.integer], present: NDArray[np.bool_], count: int
) -> Calibration | None:
    """Fit slope and offset of each class on known labels that the model was not trained on.

    Args:
        scores: (K,) finite scores of known labels.
        classes: (K,) their classes, 0 .. count - 1.
        present: (K,) True present, False absent.
        count: C.

    Returns:
        The calibration, or None where all known labels are present or all absent, so that nothing can be fitted.
    """
    found = fit_classes(scores, classes, present, count)
    if found is None:
        return None
    return Calibration(tuple(found.theta[:, 0].tolist()), tuple(found.theta[:, 1].tolist()))


@dataclass(frozen=True, eq=False)
class ClassFits:
    """What :func:`fit_classes` found: (C, 2) slopes and offsets, and the distribution over the classes they lean on.

    ``mean`` (2,) and ``spread`` (2, 2) are of that normal distribution.
    """

    theta: Floats
    mean: Floats
    spread: Floats

    def again(
        self, x: Floats, classes: NDArray[np.integer], present: NDArray[np.bool_], weight: NDArray[np.floating]
    ) -> Floats:
        """Slopes and offsets (C, 2) of the same labels, each counted ``weight`` times, under the same distribution."""
        precision = np.linalg.inv(self.spread).astype(np.float64)
        return _newton(x, classes, present.astype(np.float64), self.theta, self.mean, precision, weight)[0]


def fit_classes(
    scores: NDArray[np.floating], classes: NDArray[np.integer], present: NDArray[np.bool_], count: int
) -> ClassFits | None:
    """Fit as :func:`fit`, and keep what the classes have in common.

    Raises:
        UserError: scores that are not finite, or beyond ``LARGEST``.
    """
    largest = float(np.abs(scores).max(initial=0))
    if not largest <= LARGEST:
        raise UserError(
            f"scores reach {largest:.3g}, so they are no log-odds and cannot be calibrated: the training has probably "
            "diverged; train with a lower learning rate"
        )
    if present.all() or not present.any():
        return None
    x, y = np.asarray(scores, np.float64), present.astype(np.float64)
    pooled = _newton(x, np.zeros(len(x), np.int64), y, START[None], START, np.diag(_POOLED_SPREAD**-2.0))[0][0]
    start_spread = np.diag(SPREAD**2)
    mean, spread = pooled, start_spread
    theta = np.tile(pooled, (count, 1))
    labelled = np.bincount(classes, minlength=count) > 0
    for _ in range(50):
        theta, variance = _newton(x, classes, y, theta, mean, np.linalg.inv(spread))
        before = mean
        mean = theta[labelled].mean(0)
        away = theta[labelled] - mean
        total = away.T @ away + variance[labelled].sum(0)
        spread = (total + _PRIOR_CLASSES * start_spread) / (labelled.sum() + _PRIOR_CLASSES)
        if np.abs(mean - before).max() < 1e-4:
            break
    theta, _ = _newton(x, classes, y, theta, mean, np.linalg.inv(spread))
    return ClassFits(theta, mean, spread)


def reliability(probabilities: NDArray[np.floating], present: NDArray[np.bool_], bins: int = BINS) -> Reliability:
    """Compare probabilities (K,) in [0, 1] of known labels with what they are, in ``bins`` bins of equal width."""
    p, y = np.asarray(probabilities, np.float64), present.astype(np.float64)
    where = np.minimum((p * bins).astype(np.int64), bins - 1)
    count = np.bincount(where, minlength=bins)
    some = np.maximum(count, 1)
    probability = np.where(count, np.bincount(where, p, bins) / some, np.nan)
    observed = np.where(count, np.bincount(where, y, bins) / some, np.nan)
    if not len(p):
        return Reliability(count, probability, observed, np.nan, np.nan)
    error = float(np.nansum(count * np.abs(probability - observed)) / len(p))
    return Reliability(count, probability, observed, error, float(np.mean((p - y) ** 2)))


def _newton(
    x: Floats,
    group: NDArray[np.integer],
    y: Floats,
    theta: Floats,
    mean: Floats,
    precision: Floats,
    weight: NDArray[np.floating] | None = None,
) -> tuple[Floats, Floats]:
    """Minimise, for each group, the logistic loss plus ``(theta - mean)' precision (theta - mean) / 2``.

    The problem is convex; where a slope would fall below ``MIN_SLOPE``, it is fixed there and the offset found again.

    Returns:
        theta (G, 2), slope and offset, and the inverse Hessian (G, 2, 2) at it.
    """
    weight = np.ones(len(x)) if weight is None else weight
    theta, inverse = _descend(x, group, y, theta, mean, precision, np.zeros(len(theta), bool), weight)
    low = theta[:, 0] < MIN_SLOPE
    if low.any():
        theta[low, 0] = MIN_SLOPE
        theta, inverse = _descend(x, group, y, theta, mean, precision, low, weight)
    return theta, inverse


def _descend(
    x: Floats,
    group: NDArray[np.integer],
    y: Floats,
    theta: Floats,
    mean: Floats,
    precision: Floats,
    fixed: NDArray[np.bool_],
    weight: NDArray[np.floating],
) -> tuple[Floats, Floats]:
    """Newton's method with step halving; the slope of ``fixed`` groups stays."""
    size = len(theta)

    def cost(theta: Floats) -> Floats:
        z = theta[group, 0] * x + theta[group, 1]
        away = theta - mean
        loss = np.bincount(group, weight * (np.logaddexp(0, z) - y * z), size)
        return loss + np.einsum("gi,ij,gj->g", away, precision, away) / 2

    now = cost(theta)
    for _ in range(100):
        p = sigmoid(theta[group, 0] * x + theta[group, 1])
        w, residual = weight * p * (1 - p), weight * (p - y)
        gradient = (theta - mean) @ precision
        gradient += np.stack([np.bincount(group, residual * x, size), np.bincount(group, residual, size)], 1)
        hessian = np.tile(precision, (size, 1, 1))
        hessian[:, 0, 0] += np.bincount(group, w * x * x, size)
        hessian[:, 0, 1] += np.bincount(group, w * x, size)
        hessian[:, 1, 0] = hessian[:, 0, 1]
        hessian[:, 1, 1] += np.bincount(group, w, size)
        inverse = np.linalg.inv(hessian).astype(np.float64)
        solver = inverse
        if fixed.any():
            solver = inverse.copy()
            solver[fixed] = 0
            solver[fixed, 1, 1] = 1 / hessian[fixed, 1, 1]
        step = np.einsum("gij,gj->gi", solver, gradient)
        gain = np.einsum("gi,gi->g", gradient, step)
        if gain.max() < 1e-10:
            break
        for _ in range(30):
            tried = cost(theta - step)
            worse = tried > now + 1e-12 * np.abs(now)
            if not worse.any():
                break
            step[worse] /= 2
        theta, now = theta - step, tried
    return theta, inverse
