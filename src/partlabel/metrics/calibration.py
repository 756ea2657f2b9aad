"""Probabilities that mean what they say: Platt scaling of each class, with rare classes drawn towards the others.

The probability that class c is present is ``sigmoid(a_c x + b_c)`` for a score x (Platt, 1999). With few known labels
(a_c, b_c) cannot be found alone. It is therefore taken as drawn from a normal distribution over the classes, whose mean
and covariance are found from all classes together (hierarchical logistic regression by EM with Laplace's approximation;
Gelman et al., *Bayesian Data Analysis*, ch. 13 and 15): a class with many labels keeps its own fit, one with few gets
nearly that of the others, one with none gets the mean.

Known labels may be very many. What is computed of each in double precision is therefore computed of some of them at a
time (:func:`parts`) and added up label by label, so that the sums are those of all labels at once, to the bit (only the
Brier score, a mean over all, depends on the parts by rounding).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
#: known labels that are looked at together: their arrays in double precision fit into a processor's cache
_AT_ONCE = 2**15


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

    def of_pairs(self, scores: NDArray[np.floating], classes: NDArray[np.integer]) -> Callable[[slice], Floats]:
        """The same for scores (K,) of pairs of classes (K,): what gives the probabilities of some of them."""
        slope, offset = np.array(self.slope), np.array(self.offset)
        return lambda some: sigmoid(scores[some].astype(np.float64) * slope[classes[some]] + offset[classes[some]])


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


def parts(count: int) -> Iterator[slice]:
    """Give ``count`` known labels some at a time, so that nothing of all of them lies in double precision."""
    for low in range(0, count, _AT_ONCE):
        yield slice(low, min(low + _AT_ONCE, count))


def furthest(scores: NDArray[np.floating]) -> float:
    """The largest absolute score (0 without any), NaN where one is NaN."""
    return float(np.maximum(scores.max(initial=0), -scores.min(initial=0)))


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
        self,
        x: NDArray[np.floating],
        classes: NDArray[np.integer],
        target: NDArray[np.bool_] | Floats,
        weight: NDArray[np.floating] | None = None,
    ) -> Floats:
        """Slopes and offsets (C, 2) of the same labels, each counted ``weight`` times, under the same distribution.

        ``target`` (K,): True present, False absent; or how far each counts as present, 0 to 1.
        """
        precision = np.linalg.inv(self.spread).astype(np.float64)
        return _newton(x, classes, target, self.theta, self.mean, precision, weight)[0]


def fit_classes(
    scores: NDArray[np.floating], classes: NDArray[np.integer], present: NDArray[np.bool_], count: int
) -> ClassFits | None:
    """Fit as :func:`fit`, and keep what the classes have in common.

    Raises:
        UserError: scores that are not finite, or beyond ``LARGEST``.
    """
    largest = furthest(scores)
    if not largest <= LARGEST:
        raise UserError(
            f"scores reach {largest:.3g}, so they are no log-odds and cannot be calibrated: the training has probably "
            "diverged; train with a lower learning rate"
        )
    if present.all() or not present.any():
        return None
    x, y, together = np.asarray(scores), present, np.broadcast_to(np.int8(0), len(scores))
    pooled = _newton(x, together, y, START[None], START, np.diag(_POOLED_SPREAD**-2.0))[0][0]
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
    return reliability_of(lambda some: np.asarray(probabilities[some], np.float64), present, bins)


def reliability_of(
    probabilities: Callable[[slice], Floats], present: NDArray[np.bool_], bins: int = BINS
) -> Reliability:
    """Compare as :func:`reliability`; ``probabilities`` gives those of some of the known labels."""
    count, (likely, true), squares = np.zeros(bins, np.int64), np.zeros((2, bins)), 0.0
    for some in parts(len(present)):
        p, y = probabilities(some), present[some].astype(np.float64)
        where = np.minimum((p * bins).astype(np.intp), bins - 1)
        np.add.at(count, where, 1)
        np.add.at(likely, where, p)
        np.add.at(true, where, y)
        squares += float(((p - y) ** 2).sum())
    non_empty = np.maximum(count, 1)
    probability, observed = (np.where(count, total / non_empty, np.nan) for total in (likely, true))
    if not len(present):
        return Reliability(count, probability, observed, np.nan, np.nan)
    error = float(np.nansum(count * np.abs(probability - observed)) / len(present))
    return Reliability(count, probability, observed, error, squares / len(present))


@dataclass(frozen=True, eq=False)
class _Labels:
    """K labels: scores ``x``, ``group``, ``target`` (present or not, or how far) and ``weight`` (None: 1 each)."""

    x: NDArray[np.floating]
    group: NDArray[np.integer]
    target: NDArray[np.bool_] | Floats
    weight: NDArray[np.floating] | None

    def parts(self) -> Iterator[tuple[NDArray[np.intp], Floats, Floats, Floats | float]]:
        """Give group, score, target and weight of some labels at a time, in double precision."""
        for some in parts(len(self.x)):
            weight = 1.0 if self.weight is None else self.weight[some].astype(np.float64)
            wide = (self.x[some].astype(np.float64), self.target[some].astype(np.float64))
            yield self.group[some].astype(np.intp), *wide, weight


def _newton(
    x: NDArray[np.floating],
    group: NDArray[np.integer],
    target: NDArray[np.bool_] | Floats,
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
    labels = _Labels(x, group, target, weight)
    theta, inverse = _descend(labels, theta, mean, precision, np.zeros(len(theta), bool))
    low = theta[:, 0] < MIN_SLOPE
    if low.any():
        theta[low, 0] = MIN_SLOPE
        theta, inverse = _descend(labels, theta, mean, precision, low)
    return theta, inverse


def _descend(
    labels: _Labels, theta: Floats, mean: Floats, precision: Floats, fixed: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Newton's method with step halving; the slope of ``fixed`` groups stays."""

    def cost(theta: Floats) -> Floats:
        loss, away = np.zeros(len(theta)), theta - mean
        for group, x, y, weight in labels.parts():
            z = theta[group, 0] * x + theta[group, 1]
            np.add.at(loss, group, weight * (np.logaddexp(0, z) - y * z))
        return loss + np.einsum("gi,ij,gj->g", away, precision, away) / 2

    now = cost(theta)
    for _ in range(100):
        gradient, hessian = _slopes(labels, theta)
        gradient = (theta - mean) @ precision + gradient
        hessian = precision + hessian
        hessian[:, 1, 0] = hessian[:, 0, 1]
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


def _slopes(labels: _Labels, theta: Floats) -> tuple[Floats, Floats]:
    """Gradient (G, 2) and Hessian (G, 2, 2; below the diagonal 0) of the logistic loss of the labels of each group."""
    gradient, hessian = np.zeros((len(theta), 2)), np.zeros((len(theta), 2, 2))
    sums = (gradient[:, 0], gradient[:, 1], hessian[:, 0, 0], hessian[:, 0, 1], hessian[:, 1, 1])
    for group, x, y, weight in labels.parts():
        p = sigmoid(theta[group, 0] * x + theta[group, 1])
        w, residual = weight * p * (1 - p), weight * (p - y)
        for total, values in zip(sums, (residual * x, residual, w * x * x, w * x, w), strict=True):
            np.add.at(total, group, values)
    return gradient, hessian
