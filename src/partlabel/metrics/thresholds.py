"""From which score on a class counts as present: one threshold for each class, chosen on held-out known labels.

The threshold is to suit all labels, and known ones are seldom a random draw: so the unknown labels of the images count
too, as present with the probability that the known ones tell (:mod:`partlabel.metrics.expected`). A class all of whose
labels are known gets the threshold that suits them best. A class with very few known labels counts every image with its
calibrated probability (:mod:`partlabel.metrics.calibration`, in which rare classes lean on the others). A class without
a known present label keeps the default. The result says for each class which of these it was.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.metrics.by_class import ByClass
from partlabel.metrics.calibration import Calibration, Reliability, parts, reliability
from partlabel.metrics.expected import Expected
from partlabel.metrics.result import Metrics
from partlabel.metrics.values import NEVER

Goal: TypeAlias = Literal["f1", "precision", "recall"]
Floats = NDArray[np.float64]

DEFAULT = 0.0
#: classes with fewer known labels of either sign choose under calibrated probabilities; on COCO images their own
#: threshold is worse below about 20 present labels, and the two are alike above (experiments/thresholds.py)
MIN_KNOWN = 20
#: where a threshold came from, in words
SOURCES = {
    "all": "chosen for all labels of the held-out images: unknown ones count by what the known ones tell of them",
    "own": "chosen on the class's own held-out labels",
    "calibrated": "few held-out labels: best in expectation under the calibrated probabilities",
    "default": "score 0, as no held-out label is known present, or nothing could be calibrated",
    "never": "no label of the class was known in training, so it is never called present",
}
FOLDS = 5


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Thresholds of C classes on scores before the sigmoid, how they came about, and what they give.

    Attributes:
        goal: what was sought: the best ``f1``, or a ``precision`` or ``recall`` of at least ``wanted``.
        wanted: that precision or recall, None for F1.
        values: (C,) float32; a class is present where score >= threshold, compared in single precision.
        sources: C keys of ``SOURCES``.
        reached: (C,) bool, False where no threshold gives the wanted precision; the one of the highest precision is
            taken then.
        at_default: metrics of the known labels that they were chosen on, at the default of 0.
        after: the same at ``values``. It flatters, as the thresholds were chosen on these very labels; an honest number
            is that of :func:`cross_validate`.
    """

    goal: Goal
    wanted: float | None
    values: NDArray[np.float32]
    sources: tuple[str, ...]
    reached: NDArray[np.bool_]
    at_default: Metrics
    after: Metrics


@dataclass(frozen=True)
class Cuts:
    """What each possible threshold of a class gives, from the highest to the lowest.

    ``score``: (M,) distinct scores, falling; ``hits``: (M,) weight of present images with at least that score;
    ``alarms``: (M,) weight of absent ones; ``total``: weight of all present images.
    """

    score: Floats
    hits: Floats
    alarms: Floats
    total: float


def cuts(scores: NDArray[np.floating], present: NDArray[np.floating], absent: NDArray[np.floating]) -> Cuts:
    """Count hits and false alarms at each distinct score.

    Args:
        scores: (M,) scores of one class, compared in single precision.
        present: (M,) weight with which each image counts as present, 0 to 1.
        absent: (M,) weight with which it counts as absent.
    """
    order = np.argsort(-scores, kind="stable")
    x = scores[order].astype(np.float32)
    last = np.flatnonzero(np.append(x[1:] != x[:-1], True)) if len(x) else np.zeros(0, np.int64)
    hits, alarms = np.cumsum(present[order], dtype=np.float64), np.cumsum(absent[order], dtype=np.float64)
    return Cuts(x[last].astype(np.float64), hits[last], alarms[last], float(hits[-1]) if len(x) else 0.0)


def choose(found: Cuts, goal: Goal, wanted: float = 1.0) -> tuple[float, bool]:
    """Choose the threshold of one class; of equally good ones the highest, which calls fewest images present.

    ``f1``: the highest ``2 hits / (hits + alarms + total)``. ``precision``: the most hits among the thresholds where
    ``hits / (hits + alarms) >= wanted``; where there is none, the highest precision. ``recall``: the highest threshold
    with ``hits / total >= wanted``.

    Args:
        found: at least one score, ``total`` above 0.
        goal: what to look for.
        wanted: precision or recall, above 0 and at most 1; F1 takes none.

    Returns:
        The threshold, a float32 value half-way to the next lower score, and whether what was wanted is reached.
    """
    reached = True
    if goal == "f1":
        at = int(np.argmax(2 * found.hits / (found.hits + found.alarms + found.total)))
    elif goal == "precision":
        precision = found.hits / np.maximum(found.hits + found.alarms, np.finfo(float).tiny)
        enough = precision >= wanted
        reached = bool(enough.any())
        at = int(np.argmax(np.where(enough, found.hits, -1.0)) if reached else np.argmax(precision))
    else:
        at = int(np.argmax(found.hits / found.total >= wanted))
    score = np.float32(found.score[at])
    if at + 1 == len(found.score):
        return float(score), reached
    middle = np.float32((found.score[at] + found.score[at + 1]) / 2)
    return float(middle if middle > np.float32(found.score[at + 1]) else score), reached


def fit_thresholds(
    scores: NDArray[np.floating],
    labels: NDArray[np.int8],
    classes: tuple[str, ...],
    goal: Goal = "f1",
    wanted: float | None = None,
    calibration: Calibration | None = None,
    never: NDArray[np.bool_] | None = None,
) -> Thresholds:
    """Choose a threshold for each class on labels that the model was not trained on.

    Args:
        scores: (N, C) scores before the sigmoid.
        labels: (N, C) of +1 present, -1 absent, 0 unknown.
        classes: C names.
        goal: ``f1``, ``precision`` or ``recall``.
        wanted: the precision or recall, above 0 and at most 1.
        calibration: of these classes; without it, classes with few known labels keep the default.
        never: (C,) classes about which nothing was learned; no score is present in them.

    Raises:
        UserError: ``wanted`` is missing, out of range, or given for F1.
    """
    return thresholds_of(ByClass.of(scores, labels), classes, goal, wanted, calibration, never)


def thresholds_of(
    on: ByClass,
    classes: tuple[str, ...],
    goal: Goal = "f1",
    wanted: float | None = None,
    calibration: Calibration | None = None,
    never: NDArray[np.bool_] | None = None,
) -> Thresholds:
    """Choose as :func:`fit_thresholds`, of scores and labels that are read some classes at a time."""
    values, sources, reached = _choose_all(on, goal, wanted, calibration, never)
    at_default, after = (on.metrics(limits, classes) for limits in (DEFAULT, values))
    return Thresholds(goal, wanted, values, tuple(sources), reached, at_default, after)


def _choose_all(
    on: ByClass,
    goal: Goal,
    wanted: float | None,
    calibration: Calibration | None,
    never: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.float32], list[str], NDArray[np.bool_]]:
    """Values (C,), where each came from, and whether what was wanted is reached."""
    check_goal(goal, wanted)
    count = on.num_classes
    values = np.full(count, DEFAULT, np.float32)
    sources, reached = ["default"] * count, np.ones(count, bool)
    expected, known_present = Expected.of(on), on.counts()[0]
    for c, scores, labels in on.classes():
        present, absent = labels > 0, labels < 0
        if never is not None and never[c]:
            values[c], sources[c] = NEVER, "never"
            continue
        if not known_present[c]:
            continue
        known = present | absent
        likely = None if known.all() else expected.likely(c, scores, labels)
        if likely is not None:
            found, sources[c] = cuts(scores, likely, 1 - likely), "all"
        elif min(present.sum(), absent.sum()) >= MIN_KNOWN:
            found, sources[c] = cuts(scores[known], present[known] * 1.0, absent[known] * 1.0), "own"
        elif calibration is not None:
            likely = calibration.of(c, scores)
            found, sources[c] = cuts(scores, likely, 1 - likely), "calibrated"
        else:
            continue
        values[c], reached[c] = choose(found, goal, wanted or 1.0)
    return values, sources, reached


def threshold_text(value: float, digits: int = 3) -> str:
    """A threshold for people; ``never`` where no score reaches it."""
    return "never" if value >= NEVER else f"{value:.{digits}f}"


def check_goal(goal: str, wanted: float | None) -> None:
    """Refuse a goal without its number, or with one that cannot be reached.

    Raises:
        UserError: see above.
    """
    if goal == "f1":
        if wanted is not None:
            raise UserError("thresholds by F1 take no number")
    elif wanted is None or not math.isfinite(wanted) or not 0 < wanted <= 1:
        raise UserError(f"the wanted {goal} must be above 0 and at most 1, found {wanted}")


def calibrate(scores: NDArray[np.floating], labels: NDArray[np.int8]) -> Calibration | None:
    """Fit the calibration on the known labels of (N, C) scores and labels; None where all are of one sign."""
    return ByClass.of(scores, labels).calibration()


def cross_validate(
    scores: NDArray[np.floating],
    labels: NDArray[np.int8],
    classes: tuple[str, ...],
    goal: Goal = "f1",
    wanted: float | None = None,
) -> tuple[Metrics, Reliability | None]:
    """Measure thresholds and calibration on labels that they were not chosen on.

    The images are dealt into five parts; what is chosen on four is measured on the fifth.

    Args:
        scores: (N, C).
        labels: (N, C) in {+1, -1, 0}.
        classes: C names.
        goal: as for :func:`fit_thresholds`.
        wanted: as there.

    Returns:
        The metrics, of which only those of decisions mean anything (no average precision), and the reliability of the
        calibrated probabilities, None where the labels of some four parts cannot be calibrated.
    """
    return crossed(ByClass.of(scores, labels), classes, goal, wanted)


def crossed(
    on: ByClass, classes: tuple[str, ...], goal: Goal = "f1", wanted: float | None = None
) -> tuple[Metrics, Reliability | None]:
    """Measure as :func:`cross_validate`, of scores and labels that are read some classes at a time."""
    decided, likely = np.full(len(on.score), -1, np.int8), np.full(len(on.score), np.nan)
    part = (np.random.default_rng(0).permutation(on.num_images) % FOLDS).astype(np.int8)
    for fold in range(FOLDS):
        others = on.rows(part != fold)
        calibration = others.calibration()
        values, _, _ = _choose_all(others, goal, wanted, calibration)
        del others
        for some in parts(len(decided)):
            own = np.flatnonzero(part[on.image[some]] == fold) + some.start
            score, cls = on.score[own], on.cls[own]
            decided[own] = np.where(score.astype(np.float32) >= values[cls], 1, -1)
            if calibration is not None:
                likely[own] = calibration.of_pairs(score, cls)(slice(None))
    measured = None if not len(likely) or bool(np.isnan(likely).any()) else reliability(likely, on.label > 0)
    return on.metrics(0.0, classes, decided), measured


def goal_words(goal: Goal, wanted: float | None) -> str:
    """The goal for people: ``best F1``, ``precision at least 0.9``."""
    return "best F1" if wanted is None else f"{goal} at least {wanted:g}"
