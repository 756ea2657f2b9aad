"""Unknown labels filled in where labels that the model has not seen bear out a stated precision.

What is promised, for each sign by itself: with the stated confidence, of the labels filled in at least the stated share
is right, in all of them together and in each class that had enough labels for a test of its own.
What it rests on: within a class, which labels are known is a matter of chance (missing at random), and the held-out
labels are in the same position to the model as the unknown ones. The mathematics is in
:mod:`partlabel.metrics.risk_control`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.core.text import plural
from partlabel.labels.growing import Column, add_by_class
from partlabel.labels.holdout import random_sample
from partlabel.labels.table import LabelTable
from partlabel.metrics import risk_control
from partlabel.models.scores import Scores
from partlabel.tasks.unknown import Known, Pool, Unknown

SIGNS = {"present": 1, "absent": -1}
_FLOCKING = 1.5


@dataclass
class _Filled:
    """The records of the tests and the classes of one sign."""

    tests: list[dict[str, Any]] = field(default_factory=list)
    classes: dict[int, dict[str, Any]] = field(default_factory=dict)


def complete(
    table: LabelTable,
    scores: NDArray[np.float32] | Scores,
    held: LabelTable,
    held_scores: NDArray[np.float32] | Scores,
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
        none = f"none known as {sign}" if held.num_known else "none"
        raise UserError(
            "how often a filled-in label would be right cannot be told: of the labels that the model has not seen, "
            f"{none} was given, or asked at random; hold out labels with partlabel labels hold-out"
        )
    unknown = Unknown(table, Scores.of(scores), leave)
    known = Known.of(held, Scores.of(held_scores))
    looked = _look(known, unknown)
    plans = {name: _plan(name, looked, known, table.classes, precision, 1 - confidence, seed) for name in SIGNS}
    _test_all(plans, known, unknown, precision)
    found = {name: plan.made for name, plan in plans.items()}
    made, round = _add(table, plans, unknown)
    report = _report(table, held, looked, found)
    reached = _reachable([name for name in SIGNS if not report[name]["filled"]], looked, known, unknown)
    for name, reach in reached.items():
        report[name]["reachable"] = reach(precision, 1 - confidence)
    return made, {"precision": precision, "confidence": confidence, "seed": seed, "round": round, **report}


@dataclass(frozen=True)
class _Looked:
    """What a first look at every class found.

    ``count``: (C,) unknown labels. ``beyond``: (C,) by sign, those whose score has it. ``compared``: distance and p of
    the check of the assumption. ``alike``: (C,) bool, where it holds.
    """

    count: NDArray[np.int64]
    beyond: dict[int, NDArray[np.int64]]
    compared: list[tuple[float, float]]
    alike: NDArray[np.bool_]


@dataclass
class _Plan:
    """What is tested of one sign, and what came of it.

    ``alone``: classes with a test of their own. ``level``: of each test. ``pool``: classes that share one; ``drawn``:
    their held-out labels that take part. ``least``: (C,) score times sign from which on a class is filled in.
    """

    name: str
    sign: int
    alone: NDArray[np.int64]
    level: float
    pool: NDArray[np.int64]
    drawn: NDArray[np.bool_]
    least: NDArray[np.float32]
    made: _Filled


def _look(known: Known, unknown: Unknown) -> _Looked:
    classes = unknown.num_classes
    compared, alike = [], np.zeros(classes, bool)
    beyond = {sign: np.zeros(classes, np.int64) for sign in SIGNS.values()}
    for c, _, scores in unknown.classes():
        distance, p, alike[c] = risk_control.compare(known.score[known.of_class(c)], scores, classes)
        compared.append((distance, p))
        for sign, counts in beyond.items():
            counts[c] = np.count_nonzero(sign * scores > 0)
    return _Looked(unknown.count, beyond, compared, alike)


def _reachable(
    empty: list[str], looked: _Looked, known: Known, unknown: Unknown
) -> dict[str, Callable[[float, float], dict[str, Any] | None]]:
    """What precision could be reached in the classes that are a random sample, for signs with nothing filled in.

    Gives a function of the precision and the error probability for each sign.
    """
    inside, alike = known.inside(looked.alike), np.flatnonzero(looked.alike)
    pools = {name: Pool(unknown, alike, SIGNS[name], np.zeros(0, np.float32)) for name in empty}
    for c, _, scores in unknown.classes(looked.alike if empty else np.zeros_like(looked.alike)):
        for pool in pools.values():
            pool.look(c, scores)

    def of(name: str, precision: float, error: float) -> dict[str, Any] | None:
        held, right = SIGNS[name] * known.score[inside], known.label[inside] == SIGNS[name]
        found = risk_control.reachable(pools[name], held, right, precision, error)
        return None if found is None else asdict(found)

    return {name: partial(of, name) for name in empty}


def _check(table: LabelTable, held: LabelTable, precision: float, confidence: float) -> None:
    for name, value in (("precision", precision), ("confidence", confidence)):
        if not 0.5 < value < 1:
            percent = f"; {value:g} % is {value / 100:g}" if 50 < value < 100 else ""
            raise UserError(f"the {name} lies between 0.5 and 1, both excluded, not {value:g}{percent}")
    if table.classes != held.classes:
        raise UserError("the held-out labels have other classes than the table, or in another order")


def _plan(
    name: str, looked: _Looked, known: Known, classes: tuple[str, ...], precision: float, error: float, seed: int
) -> _Plan:
    """Decide which classes are tested alone, and which labels the pooled test of the others takes."""
    sign, made = SIGNS[name], _Filled()
    there = looked.count > 0
    for c in np.flatnonzero(there & ~looked.alike).tolist():
        made.classes[c] = _reason("the scores of its held-out labels differ from those of its unknown ones")
    for c in np.flatnonzero(~there).tolist():
        made.classes[c] = _reason("no label is unknown")
    open_ = np.flatnonzero(there & looked.alike)
    expected = looked.beyond[sign][open_] * known.count()[open_] / looked.count[open_]
    alone, level = risk_control.tested_alone(expected, precision, error)
    pool, drawn = _pooled(open_[~alone], looked, known, made, sign, seed)
    least = np.full(len(classes), np.inf, np.float32)
    return _Plan(name, sign, open_[alone], level, pool, drawn, least, made)


def _pooled(
    pool: NDArray[np.int64], looked: _Looked, known: Known, made: _Filled, sign: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The classes of the pooled test, and held-out labels that are mixed like their unknown ones."""
    share = risk_control.share_kept(known.count()[pool], looked.count[pool]) if len(pool) else np.zeros(0)
    for c, kept in zip(pool.tolist(), share, strict=True):
        if not kept:
            count = int(known.count()[c])
            made.classes[c] = _reason(f"has only {count} held-out labels, too few even for the pooled test")
    pool, share = pool[share > 0], share[share > 0]
    random = np.random.Generator(np.random.PCG64([seed, 1 + sign]))
    drawn = np.zeros(len(known.label), bool)
    for c, kept in zip(pool.tolist(), share, strict=True):
        at = np.arange(known.start[c], known.start[c + 1])
        drawn[random.permutation(at)[: round(kept * len(at))]] = True
    return pool, drawn


def _test_all(plans: dict[str, _Plan], known: Known, unknown: Unknown, precision: float) -> None:
    """Carry out the tests of each sign: those of single classes while all are gone through, then the pooled one.

    One sign after the other, as what a pool counts takes more memory than the labels do.
    """
    for plan in plans.values():
        pool = Pool(unknown, plan.pool, plan.sign, known.score[plan.drawn]) if len(plan.pool) else None
        alone, wanted = np.zeros((2, unknown.num_classes), bool)
        alone[plan.alone] = True
        wanted[plan.pool] = True
        for c, _, scores in unknown.classes(alone | wanted):
            if alone[c]:
                at = known.of_class(c)
                compared = risk_control.compare(known.score[at], scores)
                _test(plan, [c], unknown.class_names[c], known, at, compared, plan.sign * scores, precision)
            elif pool is not None:
                pool.look(c, scores)
        if pool is not None:
            _test(plan, plan.pool.tolist(), None, known, plan.drawn, pool.compare(), pool, precision)


def _test(
    plan: _Plan,
    group: list[int],
    alone: str | None,
    known: Known,
    at: slice | NDArray[np.bool_],
    compared: tuple[float, float, bool],
    targets: NDArray[np.float32] | Pool,
    precision: float,
) -> None:
    """Carry out one test and record it. ``alone`` is the name of a single class."""
    held, label = plan.sign * known.score[at], known.label[at] == plan.sign
    distance, p, alike = compared
    found = risk_control.search(targets, held, label, precision, plan.level)
    threshold = found.threshold if alike else None
    least = np.inf if threshold is None else threshold
    plan.least[group] = least
    plan.made.tests.append(
        {
            "class": alone,
            "classes": len(group),
            "confidence": 1 - plan.level,
            "threshold": None if threshold is None else plan.sign * threshold,
            "filled": 0 if threshold is None else found.filled,
            "held_out": len(held),
            "tested": found.tested,
            "wrong": found.wrong,
            "lower_bound": found.lower_bound,
            "ks_distance": distance,
            "ks_p": p,
            "design_effect": risk_control.design_effect(known.image[at][held >= least], label[held >= least]),
        }
    )
    about = _why_not(found, alone is None, alike, precision, plan.level) if threshold is None else None
    by = ("class" if alone else "pool") if threshold is not None else None
    for c in group:
        plan.made.classes[c] = {"filled": 0, "by": by, "reason": about}


def _filled(plans: dict[str, _Plan], unknown: Unknown) -> Iterator[Column]:
    """Go through the classes once more and give what lies beyond the thresholds."""
    present, absent = (plans[name].least for name in SIGNS)
    for c, rows, scores in unknown.classes(np.isfinite(np.minimum(present, absent))):
        both = zip(plans.values(), (scores >= present[c], -scores >= absent[c]), strict=True)
        up, down = (beyond & np.isfinite(plan.least[c]) for plan, beyond in both)
        for plan, chosen in zip(plans.values(), (up, down), strict=True):
            if np.isfinite(plan.least[c]):
                plan.made.classes[c]["filled"] = int(np.count_nonzero(chosen))
        chosen = up | down
        yield c, rows[chosen], np.where(up[chosen], 1, -1).astype(np.int8), scores[chosen]


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


def _add(table: LabelTable, plans: dict[str, _Plan], unknown: Unknown) -> tuple[LabelTable, int]:
    last = -1 if table.round is None or not table.num_known else int(table.round.max())
    number = max(last, 0) + 1
    return add_by_class(table, partial(_filled, plans, unknown), number), number


def _report(table: LabelTable, held: LabelTable, looked: _Looked, found: dict[str, _Filled]) -> dict[str, Any]:
    present, absent = held.class_counts()
    open_, compared, alike = looked.count, looked.compared, looked.alike
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
            f"in {plural(len(strange), 'class')} the known labels do not look like a random sample; they were left "
            "as they are: " + ", ".join(strange)
        )
    for name, filled in found.items():
        for test in filled.tests:
            if test["filled"] and (test["design_effect"] or 0) > _FLOCKING:
                warnings.append(
                    f"{name}: mistakes flock together in images (design effect {test['design_effect']:.1f}), so the "
                    "pooled test stands on fewer labels than it counts"
                )
    return {"unknown": int(open_.sum()), **signs, "classes": classes, "warnings": warnings}
