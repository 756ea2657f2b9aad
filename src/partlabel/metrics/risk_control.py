"""Which scores are high enough for labels of a stated precision: exact tests on labels that the model has not seen.

Everything here is about one sign. Scores are mirrored by the caller, so that a larger one always means surer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

#: the first threshold lets through this many times the labels that could pass without a single mistake, as their number
#: varies; at each further start there are _APART times as many
_START, _APART = 1.3, 8
#: each further threshold fills this many times as many labels
_STEP = 1.1
#: a class is tested alone where this many times the smallest sample is expected on its side
_ENOUGH = 3
#: a score distribution is another one where the test says so at this level and the distance matters in practice
_LEVEL, _DISTANCE = 0.01, 0.1
#: held-out labels that are looked at together
_COMPARED = 2**16
#: more held-out labels than this are never asked for
_MANY = 10_000_000


@dataclass(frozen=True)
class Tested:
    """What a search for a threshold found.

    ``threshold``: fill where score >= threshold; None: nowhere. ``filled``: unknown labels beyond it. ``tested`` and
    ``wrong``: held-out labels beyond it, and how many of them have the other sign. ``lower_bound``: of the precision,
    at the level it was tested at. Where ``threshold`` is None these belong to the first threshold, which failed.
    """

    threshold: float | None
    filled: int
    tested: int
    wrong: int
    lower_bound: float


class Ranked(Protocol):
    """What is asked of the scores of unknown labels, which may be too many to hold.

    ``total``: labels. ``positive``: labels with a score above 0.
    """

    total: int

    @property
    def positive(self) -> int:
        """See above."""
        ...

    def highest(self, count: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the ``count``-th highest scores, 1 to ``positive``, and how many scores are at least as high."""
        ...


class _Sorted:
    """The scores of an array, ranked."""

    def __init__(self, scores: NDArray[np.float32]) -> None:
        self._positive = np.sort(scores[scores > 0])[::-1]
        self.total = len(scores)

    @property
    def positive(self) -> int:
        return len(self._positive)

    def highest(self, count: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        found = self._positive[count - 1]
        return found, np.searchsorted(-self._positive, -found, side="right")


def smallest_sample(precision: float, level: float) -> int:
    """Fewest labels, all of them right, whose lower bound reaches the precision: precision^n <= level."""
    return math.ceil(math.log(level) / math.log(precision) - 1e-9)


def lower_bound(right: int, tested: int, level: float) -> float:
    """One-sided exact lower bound of a proportion (Clopper and Pearson, Biometrika 1934).

    Args:
        right: successes.
        tested: trials.
        level: probability that the bound lies above the true proportion is at most this.
    """
    return float(stats.beta.ppf(level, right, tested - right + 1)) if right else 0.0


def p_values(wrong: ArrayLike, tested: ArrayLike, filled: ArrayLike, precision: float) -> NDArray[np.float64]:
    """How likely so few mistakes would be if the precision were missed; the larger of two exact answers.

    One takes the precision as a probability (binomial; at most ``level`` exactly where :func:`lower_bound` reaches the
    precision). The other takes it as the share right among the very labels that are filled in, of which the held-out
    ones are a random draw (hypergeometric); it counts where few labels are filled in.

    Args:
        wrong: held-out labels beyond a threshold that have the other sign.
        tested: held-out labels beyond it.
        filled: unknown labels beyond it.
        precision: share that must be right, between 0 and 1.
    """
    k, n, m = (np.asarray(value, np.int64) for value in (wrong, tested, filled))
    too_many = np.floor((1 - precision) * m + 1e-9).astype(np.int64) + 1
    binomial = stats.binom.cdf(k, n, 1 - precision)
    realised = stats.hypergeom.cdf(k, n + m, np.minimum(k + too_many, n + m), n)
    return np.where(n > 0, np.maximum(binomial, realised), 1.0)


def search(
    unknown: NDArray[np.float32] | Ranked,
    held: NDArray[np.float32],
    right: NDArray[np.bool_],
    precision: float,
    level: float,
) -> Tested:
    """The lowest threshold that the held-out labels bear out.

    Thresholds are tested from the strictest on. Their order and levels are fixed before any held-out label is looked at
    (they are scores of unknown labels), and a threshold that passes hands its level on to the next one. A failure ends
    the sequence; half of the level is put aside for new starts at much lower thresholds, where more labels are tested
    and one mistake weighs less. This is the fallback procedure (Wiens and Dmitrienko 2005), which holds the chance
    that a threshold with a lower precision is chosen at ``level``; with one start it is fixed-sequence testing.
    Only scores above 0 are considered, so that no label contradicts the sign that the model gives it.

    Args:
        unknown: (M,) scores of the labels to fill, larger is surer; or what ranks them.
        held: (n,) scores of the held-out labels, drawn like the unknown ones.
        right: bool (n,), whether a held-out label has the sign that is tested.
        precision: share that must be right.
        level: error probability.
    """
    ranked = _Sorted(unknown) if isinstance(unknown, np.ndarray) else unknown
    if not ranked.positive or not len(held):
        return Tested(None, 0, 0, 0, 0.0)
    count, own = _steps(ranked.positive, ranked.total / len(held), precision, level)
    thresholds, filled = ranked.highest(count)
    tested, wrong = _beyond(held, right, thresholds)
    p = p_values(wrong, tested, filled, precision)
    chosen, at, carried = -1, own[0], 0.0
    for step in range(len(count)):
        now = own[step] + carried
        passed = p[step] <= now
        carried = now if passed else 0.0
        if passed:
            chosen, at = step, now
    shown = max(chosen, 0)
    n, k = int(tested[shown]), int(wrong[shown])
    bound = lower_bound(n - k, n, at)
    if chosen < 0:
        return Tested(None, 0, n, k, bound)
    return Tested(float(thresholds[chosen]), int(filled[chosen]), n, k, bound)


def _beyond(
    held: NDArray[np.float32], right: NDArray[np.bool_], thresholds: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many labels lie beyond each threshold, which fall, and how many of these have the other sign."""
    tested, wrong = np.zeros((2, len(thresholds) + 1), np.int64)
    for low in range(0, len(held), _COMPARED):
        some = slice(low, low + _COMPARED)
        first = np.searchsorted(-thresholds, -held[some], side="left")  # the first threshold that each one reaches
        tested += np.bincount(first, minlength=len(tested))
        wrong += np.bincount(first[~right[some]], minlength=len(wrong))
    return np.cumsum(tested[:-1]), np.cumsum(wrong[:-1])


def _steps(most: int, rate: float, precision: float, level: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """How many unknown labels lie beyond each threshold, and the level that each one has of its own.

    ``rate``: unknown labels for each held-out one.
    """
    first = math.ceil(_START * smallest_sample(precision, level) * rate)
    if first * _APART <= most:
        first = math.ceil(_START * smallest_sample(precision, level / 2) * rate)
    number = 1 + math.ceil(math.log(max(most / first, 1), _STEP))
    count = np.unique(np.minimum(first * _STEP ** np.arange(number), most).astype(np.int64))
    own = np.zeros(len(count))
    later = [int(np.searchsorted(count, start)) for start in _starts(first * _APART, most)]
    own[later] = level / 2 / max(len(later), 1)
    own[0] = level / 2 if later else level
    return count, own


def _starts(first: int, most: int) -> list[int]:
    found = []
    while first <= most:
        found.append(first)
        first *= _APART
    return found


@dataclass(frozen=True)
class Reachable:
    """What precision held-out labels bear out beyond one threshold, looked at for itself.

    ``threshold``: of the scores; ``filled``: unknown labels beyond it; ``tested``, ``wrong``: held-out labels there;
    ``lower_bound``: of their precision; ``more``: held-out labels that would be needed beyond it besides, if the same
    share of them is wrong, to bear out what is wanted; None where no number of them would.
    """

    threshold: float
    filled: int
    tested: int
    wrong: int
    lower_bound: float
    more: int | None


def reachable(
    unknown: NDArray[np.float32] | Ranked,
    held: NDArray[np.float32],
    right: NDArray[np.bool_],
    precision: float,
    level: float,
) -> Reachable | None:
    """The threshold with the highest lower bound of the precision; None where no label lies on this side.

    It says what could be reached, not what is promised: the best of several thresholds is better than it will be.
    Arguments as for :func:`search`; thresholds that fill twice as many labels each are tried.
    """
    ranked = _Sorted(unknown) if isinstance(unknown, np.ndarray) else unknown
    if not ranked.positive or not (held > 0).any():
        return None
    found = []
    most = ranked.positive
    counts = np.unique(np.minimum(2 ** np.arange(int(np.log2(most)) + 2), most))
    for threshold, filled in zip(*ranked.highest(counts), strict=True):
        inside = held >= threshold
        n, k = int(inside.sum()), int((inside & ~right).sum())
        if n:
            bound = lower_bound(n - k, n, level)
            found.append(Reachable(float(threshold), int(filled), n, k, bound, _more(n, k, precision, level)))
    return max(found, key=lambda each: (each.lower_bound, each.filled)) if found else None


def _more(tested: int, wrong: int, precision: float, level: float) -> int | None:
    """Further labels of which the same share is wrong until the lower bound reaches the precision."""
    if wrong / tested >= 1 - precision:
        return None
    low, high = tested, tested
    while lower_bound(high - math.ceil(wrong / tested * high - 1e-9), high, level) < precision:
        low, high = high, 2 * high
        if high > _MANY:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        enough = lower_bound(middle - math.ceil(wrong / tested * middle - 1e-9), middle, level) >= precision
        low, high = (low, middle) if enough else (middle, high)
    return high - tested


def tested_alone(expected: NDArray[np.float64], precision: float, error: float) -> tuple[NDArray[np.bool_], float]:
    """Which classes have enough held-out labels for a test of their own, and the level of each test.

    The error probability is shared out evenly among these classes and one pool of all others (Bonferroni), so that all
    tests hold at once. The choice rests on scores and numbers of labels, never on whether labels are right.

    Args:
        expected: (C,) held-out labels to be expected on the side of the sign.
        precision: share that must be right.
        error: probability shared out.

    Returns:
        bool (C,), and the level.
    """
    order = np.argsort(-expected, kind="stable")
    alone = np.zeros(len(expected), bool)
    for number in range(len(expected), 0, -1):
        level = error / (number + (number < len(expected)))
        if expected[order[number - 1]] >= _ENOUGH * smallest_sample(precision, level):
            alone[order[:number]] = True
            return alone, level
    return alone, error


def share_kept(held: NDArray[np.int64], unknown: NDArray[np.int64]) -> NDArray[np.float64]:
    """Share of the held-out labels of each class to keep, so that they are mixed like the unknown ones.

    Where all classes have the same rate of held-out labels, by a chi-square test, all are kept. Otherwise the rates are
    brought down to one rate: the lowest one that leaves at least half of the most labels that any rate would leave. A
    class with a lower rate cannot take part.

    Args:
        held: (C,) held-out labels.
        unknown: (C,) unknown labels, above 0.

    Returns:
        (C,) shares in 0 .. 1; 0 where a class cannot take part.
    """
    keep = (held > 0).astype(float)
    expected = unknown * (held.sum() / max(unknown.sum(), 1))
    if not held.sum():
        return keep
    if stats.chi2.sf(float(((held - expected) ** 2 / expected).sum()), max(len(held) - 1, 1)) >= _LEVEL:
        return keep
    rate = held / unknown
    candidates = np.sort(rate)[::-1]
    sizes = candidates * np.cumsum(unknown[np.argsort(-rate, kind="stable")])
    chosen = candidates[np.flatnonzero(2 * sizes >= sizes.max())[-1]]
    return np.where(rate >= chosen, chosen / np.maximum(rate, 1e-300), 0.0)


def compare(held: NDArray[np.float32], unknown: NDArray[np.float32], comparisons: int = 1) -> tuple[float, float, bool]:
    """Compare the scores of held-out labels with those of unknown ones (Kolmogorov and Smirnov, two samples).

    Known labels that are missing at random within a class have scores like the unknown ones. The reverse is not sure:
    the test sees the scores only, and few labels show little.

    Returns:
        The distance of the distribution functions, the p-value, and whether they are alike: not so where the distance
        is at least 0.1 and p below 0.01 / ``comparisons``.
    """
    if not len(held) or not len(unknown):
        return 0.0, 1.0, True
    ranked, held = np.sort(unknown), np.sort(held)
    below, upto = (np.searchsorted(ranked, held, side=side) for side in ("left", "right"))
    return compare_counts(held, below, upto, len(unknown), comparisons)


def compare_counts(
    held: NDArray[np.float32], below: NDArray[np.int64], upto: NDArray[np.int64], total: int, comparisons: int = 1
) -> tuple[float, float, bool]:
    """Do as :func:`compare`, where the scores of the unknown labels are only counted.

    Args:
        held: (n,) scores of held-out labels, rising.
        below: (n,) how many of the scores of unknown labels are below each of them.
        upto: (n,) how many are at most that.
        total: how many there are.
        comparisons: as there.
    """
    if not len(held) or not total:
        return 0.0, 1.0, True
    distance, before = 0.0, 0.0
    for low in range(0, len(held), _COMPARED):
        part = held[low : low + _COMPARED + 1]  # the last of equal ones counts
        last = low + np.flatnonzero(np.append(part[1:] != part[:-1], [True] * (len(part) <= _COMPARED)))
        if not len(last):
            continue
        own = (last + 1) / len(held)
        # between two scores of held-out labels only the other function rises, so it is farthest away at their ends
        above = np.abs(own - upto[last] / total).max()
        under = np.abs(np.append(before, own[:-1]) - below[last] / total).max()
        distance, before = float(max(distance, above, under)), own[-1]
    n, m = float(max(len(held), total)), float(min(len(held), total))
    p = float(np.clip(stats.kstwo.sf(distance, max(np.round(n * m / (n + m)), 1.0)), 0, 1))
    # in two of so many orders one sample lies beyond the other: few tell nothing
    p = max(p, 2 / float(special.binom(n + m, m)))
    return distance, p, not (p < _LEVEL / comparisons and distance >= _DISTANCE)


def design_effect(image: NDArray[np.integer], right: NDArray[np.bool_]) -> float | None:
    """How much mistakes flock together in images: variance of their number against independent ones; None without.

    The tests take labels as independent. That holds for one class (one label an image); in a pool a value well above 1
    says that they stand on fewer labels than it seems.
    """
    share = right.mean() if len(right) else 1.0
    if share in (0.0, 1.0):
        return None
    _, place = np.unique(image, return_inverse=True)
    sums = np.bincount(place, weights=right - share)
    return float((sums**2).sum() / (len(right) * share * (1 - share)))
