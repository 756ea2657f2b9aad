"""Unknown labels filled in where labels that the model has not seen bear out a stated precision.

What is promised, for each sign by itself: with the stated confidence, of the labels filled in at least the stated share
is right, in all of them together and in each class that had enough labels for a test of its own.
What it rests on: within a class, which labels are known is a matter of chance (missing at random), and the held-out
labels are in the same position to the model as the unknown ones. The mathematics is in
:mod:`partlabel.metrics.risk_control`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.labels.holdout import random_sample
from partlabel.labels.table import LabelTable
from partlabel.metrics import risk_control

SIGNS = {"present": 1, "absent": -1}
_FLOCKING = 1.5


@dataclass(frozen=True)
class _Pairs:
    """Labels in the order of their classes: image, class, score, and the label where it is known.

    Those of class c lie at ``start[c]:start[c + 1]``.
    """

    image: NDArray[np.int64]
    cls: NDArray[np.int64]
    score: NDArray[np.float32]
    label: NDArray[np.int8]
    start: NDArray[np.int64]

    @classmethod
    def of(cls, image: NDArray[np.int64], column: NDArray[np.int64], score: Any, label: Any, classes: int) -> _Pairs:
        order = np.argsort(column, kind="stable")
        start = np.concatenate([[0], np.cumsum(np.bincount(column, minlength=classes))])
        return cls(image[order], column[order], score[order], label[order], start)

    def count(self) -> NDArray[np.int64]:
        return np.diff(self.start)

    def of_class(self, number: int) -> slice:
        return slice(int(self.start[number]), int(self.start[number + 1]))


@dataclass
class _Filled:
    """What is filled in with one sign, and the records of its tests and classes."""

    image: list[NDArray[np.int64]] = field(default_factory=list)
    cls: list[NDArray[np.int64]] = field(default_factory=list)
    score: list[NDArray[np.float32]] = field(default_factory=list)
    tests: list[dict[str, Any]] = field(default_factory=list)
    classes: dict[int, dict[str, Any]] = field(default_factory=dict)


def complete(
    table: LabelTable,
    scores: NDArray[np.float32],
    held: LabelTable,
    held_scores: NDArray[np.float32],
    *,
    precision: float = 0.95,
    confidence: float = 0.9,
    seed: int = 0,
    leave: NDArray[np.bool_] | None = None,
) -> tuple[LabelTable, dict[str, Any]]:
    """Fill in unknown labels of a table.

    Each sign is looked at by itself. A class with enough held-out labels has a test of its own; all others share one
    pooled test, in which they are mixed as the unknown labels are. A class whose held-out labels have other scores than
    its unknown ones is left as it is. Labels get the sign of their score only, and known labels never change.

    Args:
        table: labels of N images and C classes.
        scores: float32 (N, C) of one model, before the sigmoid.
        held: labels that the model was not trained on, of the same classes; those of origin ``given`` and ``sampled``
            count, the others are no random sample.
        held_scores: float32 (M, C) of the same model for the images of ``held``.
        precision: share of the labels filled in that must be right, 0.5 .. 1, both excluded.
        confidence: probability with which it must be, 0.5 .. 1, both excluded.
        seed: of the draw that mixes the pool.
        leave: bool (N,), images whose labels stay unknown.

    Returns:
        The table with labels of origin ``model``, in a round after those that it has, with their scores; and the
        report as plain values: ``present`` and ``absent`` with what was ``filled`` and the ``tests``, ``classes`` with
        what was filled in each and by which test, or the reason why not, and ``warnings``.

    Raises:
        UserError: a precision or confidence outside its range, other classes, or no held-out labels of both signs.
    """
    _check(table, held, precision, confidence)
    held = random_sample(held)
    if not ((held.values > 0).any() and (held.values < 0).any()):
        sign = "absent" if (held.values > 0).any() else "present"
        there = f"no {sign} label" if held.num_known else "no label"
        raise UserError(
            f"among the labels that the model has not seen, {there} is known that is given or asked at random, so "
            "nothing tells how often it is right; hold out labels with partlabel labels hold-out"
        )
    unknown = _unknown(table, scores, leave)
    known = _known(held, held_scores)
    compared, alike = _compare(known, unknown)
    found = {name: _fill(name, unknown, known, alike, table.classes, precision, 1 - confidence, seed) for name in SIGNS}
    made, round = _add(table, found)
    report = _report(table, held, unknown, found, compared, alike)
    for name, sign in SIGNS.items():
        if not report[name]["filled"]:
            report[name]["reachable"] = _reachable(sign, known, unknown, alike, precision, 1 - confidence)
    return made, {"precision": precision, "confidence": confidence, "seed": seed, "round": round, **report}


def _reachable(
    sign: int, known: _Pairs, unknown: _Pairs, alike: NDArray[np.bool_], precision: float, error: float
) -> dict[str, Any] | None:
    """Where nothing was filled in: what precision could be reached in the classes that are a random sample."""
    inside, targets = alike[known.cls], alike[unknown.cls]
    found = risk_control.reachable(
        sign * unknown.score[targets], sign * known.score[inside], known.label[inside] == sign, precision, error
    )
    return None if found is None else asdict(found)


def _check(table: LabelTable, held: LabelTable, precision: float, confidence: float) -> None:
    for name, value in (("precision", precision), ("confidence", confidence)):
        if not 0.5 < value < 1:
            raise UserError(f"the {name} lies between 0.5 and 1, both excluded, not {value}")
    if table.classes != held.classes:
        raise UserError("the held-out labels have other classes than the table, or in another order")


def _unknown(table: LabelTable, scores: NDArray[np.float32], leave: NDArray[np.bool_] | None) -> _Pairs:
    image, column = np.nonzero(table.dense() == 0)
    if leave is not None:
        wanted = ~leave[image]
        image, column = image[wanted], column[wanted]
    return _Pairs.of(image, column, scores[image, column], np.zeros(len(image), np.int8), table.num_classes)


def _known(held: LabelTable, scores: NDArray[np.float32]) -> _Pairs:
    image, column = held.pair_images(), held.indices.astype(np.int64)
    return _Pairs.of(image, column, scores[image, column], held.values, held.num_classes)


def _compare(known: _Pairs, unknown: _Pairs) -> tuple[list[tuple[float, float]], NDArray[np.bool_]]:
    """The check of the assumption, class by class."""
    classes = len(known.count())
    results = [
        risk_control.compare(known.score[known.of_class(c)], unknown.score[unknown.of_class(c)], classes)
        for c in range(classes)
    ]
    return [(distance, p) for distance, p, _ in results], np.array([alike for *_, alike in results], bool)


def _fill(
    name: str,
    unknown: _Pairs,
    known: _Pairs,
    alike: NDArray[np.bool_],
    classes: tuple[str, ...],
    precision: float,
    error: float,
    seed: int,
) -> _Filled:
    """Test and fill one sign."""
    sign, made = SIGNS[name], _Filled()
    there = unknown.count() > 0
    for c in np.flatnonzero(there & ~alike).tolist():
        made.classes[c] = _reason("the scores of its held-out labels differ from those of its unknown ones")
    for c in np.flatnonzero(~there).tolist():
        made.classes[c] = _reason("no label is unknown")
    open_ = np.flatnonzero(there & alike)
    beyond = np.array([np.count_nonzero(sign * unknown.score[unknown.of_class(c)] > 0) for c in open_.tolist()])
    expected = beyond * known.count()[open_] / unknown.count()[open_]
    alone, level = risk_control.tested_alone(expected, precision, error)
    for c in open_[alone].tolist():
        a, b = np.arange(known.start[c], known.start[c + 1]), np.arange(unknown.start[c], unknown.start[c + 1])
        _test(made, [c], classes[c], sign, known, a, unknown, b, precision, level)
    pool = open_[~alone]
    if len(pool):
        _test_pool(made, pool, sign, known, unknown, precision, level, seed)
    return made


def _test_pool(
    made: _Filled,
    pool: NDArray[np.int64],
    sign: int,
    known: _Pairs,
    unknown: _Pairs,
    precision: float,
    level: float,
    seed: int,
) -> None:
    """One test for all classes of the pool, on held-out labels that are mixed like their unknown ones."""
    share = risk_control.share_kept(known.count()[pool], unknown.count()[pool])
    for c, kept in zip(pool.tolist(), share, strict=True):
        if not kept:
            count = int(known.count()[c])
            made.classes[c] = _reason(f"has only {count} held-out labels, too few even for the pooled test")
    pool, share = pool[share > 0], share[share > 0]
    if not len(pool):
        return
    random = np.random.Generator(np.random.PCG64([seed, 1 + sign]))
    drawn = []
    for c, kept in zip(pool.tolist(), share, strict=True):
        at = np.arange(known.start[c], known.start[c + 1])
        drawn.append(np.sort(random.permutation(at)[: round(kept * len(at))]))
    targets = np.concatenate([np.arange(unknown.start[c], unknown.start[c + 1]) for c in pool])
    _test(made, pool, None, sign, known, np.concatenate(drawn), unknown, targets, precision, level)


def _test(
    made: _Filled,
    group: Any,
    alone: str | None,
    sign: int,
    known: _Pairs,
    at: NDArray[np.int64],
    unknown: _Pairs,
    targets: NDArray[np.int64],
    precision: float,
    level: float,
) -> None:
    """Carry out one test, fill what it bears out, and record both. ``alone`` is the name of a single class."""
    held, label, target = sign * known.score[at], known.label[at] == sign, sign * unknown.score[targets]
    distance, p, alike = risk_control.compare(known.score[at], unknown.score[targets])
    found = risk_control.search(target, held, label, precision, level)
    threshold = found.threshold if alike else None
    passed = threshold is not None
    least = np.inf if threshold is None else threshold
    chosen, beyond = targets[target >= least], held >= least
    made.tests.append(
        {
            "class": alone,
            "classes": len(group),
            "confidence": 1 - level,
            "threshold": None if threshold is None else sign * threshold,
            "filled": len(chosen),
            "held_out": len(at),
            "tested": found.tested,
            "wrong": found.wrong,
            "lower_bound": found.lower_bound,
            "ks_distance": distance,
            "ks_p": p,
            "design_effect": risk_control.design_effect(known.image[at][beyond], label[beyond]),
        }
    )
    made.image.append(unknown.image[chosen])
    made.cls.append(unknown.cls[chosen])
    made.score.append(unknown.score[chosen])
    count = np.bincount(unknown.cls[chosen], minlength=len(known.count()))
    for c in group:
        about = _why_not(found, alone is None, alike, precision, level) if not passed else None
        by = ("class" if alone else "pool") if passed else None
        made.classes[int(c)] = {"filled": int(count[c]), "by": by, "reason": about}


def _why_not(found: risk_control.Tested, pooled: bool, alike: bool, precision: float, level: float) -> str:
    what = "the pooled test: " if pooled else ""
    if not alike:
        return f"{what}the scores of the held-out labels differ from those of the unknown ones"
    needed = risk_control.smallest_sample(precision, level)
    if found.tested < needed:
        return f"{what}only {found.tested} held-out labels lie beyond the strictest threshold; {needed} are needed"
    right = found.tested - found.wrong
    counted = (
        f"{what}{right} of {found.tested} held-out labels beyond the strictest threshold are right, which bears out "
    )
    if found.lower_bound >= precision:
        return f"{counted}{found.lower_bound:.1%} in the long run, but not {precision:.1%} of so few labels to fill in"
    return f"{counted}{found.lower_bound:.1%}"


def _reason(text: str) -> dict[str, Any]:
    return {"filled": 0, "by": None, "reason": text}


def _add(table: LabelTable, found: dict[str, _Filled]) -> tuple[LabelTable, int]:
    last = -1 if table.round is None or not table.num_known else int(table.round.max())
    number = max(last, 0) + 1
    image, cls, score, value = [], [], [], []
    for name, filled in found.items():
        image += filled.image
        cls += filled.cls
        score += filled.score
        value += [np.full(len(part), SIGNS[name], np.int8) for part in filled.image]
    if not sum(map(len, image)):
        return table, number
    made = table.with_labels(
        np.concatenate(image),
        np.concatenate(cls),
        np.concatenate(value),
        origin="model",
        score=np.concatenate(score),
        round=number,
    )
    return made, number


def _report(
    table: LabelTable,
    held: LabelTable,
    unknown: _Pairs,
    found: dict[str, _Filled],
    compared: list[tuple[float, float]],
    alike: NDArray[np.bool_],
) -> dict[str, Any]:
    present, absent = held.class_counts()
    open_ = unknown.count()
    classes = [
        {
            "class": name,
            "unknown": int(open_[c]),
            "held_out_present": int(present[c]),
            "held_out_absent": int(absent[c]),
            "ks_distance": compared[c][0],
            "ks_p": compared[c][1],
            "like_a_random_sample": bool(alike[c]),
            **{sign: found[sign].classes[c] for sign in SIGNS},
        }
        for c, name in enumerate(table.classes)
    ]
    signs = {
        name: {
            "filled": sum(test["filled"] for test in filled.tests),
            "tests": filled.tests,
        }
        for name, filled in found.items()
    }
    warnings = []
    strange = [name for name, ok in zip(table.classes, alike, strict=True) if not ok]
    if strange:
        warnings.append(
            f"in {len(strange)} classes the known labels do not look like a random sample; they were left as they are: "
            + ", ".join(strange)
        )
    for name, filled in found.items():
        for test in filled.tests:
            if test["filled"] and (test["design_effect"] or 0) > _FLOCKING:
                warnings.append(
                    f"{name}: mistakes flock together in images (design effect {test['design_effect']:.1f}), so the "
                    "pooled test stands on fewer labels than it counts"
                )
    return {"unknown": int(open_.sum()), **signs, "classes": classes, "warnings": warnings}
