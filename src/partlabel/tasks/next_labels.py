"""Which unknown (image, class) pairs to ask a person about next, and what becomes of the answers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.labels.holdout import at_random
from partlabel.labels.match import match
from partlabel.labels.table import ORIGINS, LabelTable
from partlabel.metrics.calibration import sigmoid
from partlabel.models.model import Model
from partlabel.models.scores import Scores
from partlabel.tasks.growth import Ranking, grow_from
from partlabel.tasks.growth import grow as grow
from partlabel.tasks.scoring import scores_of
from partlabel.tasks.unknown import by_class

#: why a question is asked, in the order of the codes
WHY = ("seek", "uncertain", "random")
_SEEK, _UNCERTAIN, _RANDOM = range(3)
_MODEL = ORIGINS.index("model")


#: points of mAP for each unit of ``growth`` (see :func:`describe`), and below which gain it is hardly worth asking on.
#: Measured by experiments/next_labels.py on 8,000 images of COCO: 4.5 to 10 points a round, the same for random ones
POINTS_PER_GROWTH, POINTS_PER_1000 = 7.0, 0.05


@dataclass(frozen=True)
class Mix:
    """Shares of the budget; what is left goes to presence seeking, the unknown pairs with the highest scores.

    ``random``: pairs drawn uniformly at random, whose answers are a random sample. ``uncertain``: pairs whose score is
    nearest to the threshold.
    """

    random: float = 0.2
    uncertain: float = 0.0

    def __post_init__(self) -> None:
        """Refuse shares that are below 0 or above 1 together.

        Raises:
            UserError: naming the shares.
        """
        if not (self.random >= 0 and self.uncertain >= 0 and self.random + self.uncertain <= 1):
            raise UserError(f"the shares random {self.random} and uncertain {self.uncertain} are not within 0 .. 1")


@dataclass(frozen=True)
class Questions:
    """Questions to ask, sorted by class and image.

    Attributes:
        image: int64 (K,) rows of the table.
        cls: int64 (K,) class numbers.
        why: int8 (K,), codes of ``WHY``.
        answer: int8 (K,): 0, to be asked; +1 or -1 where the random draw hit a pair that a person has answered before,
            for another reason. Such an answer costs nothing, and counts as sampled from now on.
    """

    image: NDArray[np.int64]
    cls: NDArray[np.int64]
    why: NDArray[np.int8]
    answer: NDArray[np.int8]

    @property
    def open(self) -> NDArray[np.bool_]:
        """Which ones are still to be asked, bool (K,)."""
        return self.answer == 0


def spread(capacity: NDArray[np.int64], total: int, rank: NDArray[np.int64]) -> NDArray[np.int64]:
    """Spread a number evenly over the classes, none above its capacity; what some cannot take goes to the others.

    Args:
        capacity: int64 (C,), at least 0.
        total: the number, at least 0; all capacities where it is above their sum.
        rank: int64 (C,), the order in which classes take what does not divide evenly.

    Returns:
        int64 (C,). Of two classes below their capacity, neither has more than one above the other.
    """
    total = min(total, int(capacity.sum()))
    low, high = 0, int(capacity.max(initial=0))
    while low < high:  # the highest level that all can be filled to
        level = (low + high + 1) // 2
        low, high = (level, high) if np.minimum(capacity, level).sum() <= total else (low, level - 1)
    result = np.minimum(capacity, low)
    able = np.flatnonzero(capacity > low)
    result[able[np.argsort(rank[able])][: total - int(result.sum())]] += 1
    return result


def choose(
    scores: NDArray[np.float32] | Scores,
    table: LabelTable,
    budget: int,
    mix: Mix | None = None,
    *,
    thresholds: NDArray[np.float32] | float = 0.0,
    seed: int = 0,
    evenly: bool = False,
) -> Questions:
    """Choose the pairs to ask about.

    Random and uncertain pairs are the same number for every class. The others are sought over all classes together, by
    what an answer is expected to add to the known present labels (:func:`grow`): many in classes that have few.

    Labels of a model count as unknown. The random part of a class is drawn uniformly from all pairs that are not in
    its random sample (origins ``given`` and ``sampled``) yet, those that were answered for another reason included: to
    leave these out, mostly present ones, would make the class look rarer with each round.

    Args:
        scores: float (N, C), before the sigmoid, for the images and classes of the table; read class by class.
        table: the labels.
        budget: number of questions; all unknown pairs where there are fewer.
        mix: shares of the reasons to ask.
        thresholds: (C,) scores from which on a class is present; uncertain pairs are near to them.
        seed: of the random part, and of the order of equal scores.
        evenly: seek the same number of pairs in every class, those with the highest scores.

    Raises:
        UserError: a budget below 1, scores of another shape or that are not finite.
    """
    mix = mix or Mix()
    if budget < 1:
        raise UserError(f"the budget is at least 1 question, not {budget}")
    if scores.shape != (table.num_images, table.num_classes):
        raise UserError(f"scores are {scores.shape}, expected {(table.num_images, table.num_classes)}: images, classes")
    scores, table = Scores.of(scores), table.without_origin("model")
    random = np.random.Generator(np.random.PCG64(seed))
    known = np.bincount(table.indices, minlength=table.num_classes)
    rank = np.lexsort((random.permutation(table.num_classes), known)).argsort()  # who knows least, takes first
    each = spread(table.num_images - known, budget, rank)
    total = int(each.sum())
    drawn = spread(each if evenly else table.num_images - known, round(mix.random * total), rank)
    near = spread((each if evenly else table.num_images - known) - drawn, round(mix.uncertain * total), rank)
    limits = np.broadcast_to(np.asarray(thresholds, np.float32), table.num_classes)
    of_class, sampled = _Known(table), _Known(table.hide(at_random(table)))
    parts: list[Any] = []
    for low, block in scores.blocks():
        if not np.isfinite(block).all():
            raise UserError("some scores are not finite numbers, so that pairs cannot be ranked")
        for c, values in enumerate(block, low):
            budgets = (int(each[c]) if evenly else None, int(near[c]), int(drawn[c]))
            in_sample = sampled.labels(c) != 0
            parts.append(_of_class(c, values, of_class.labels(c), in_sample, budgets, float(limits[c]), random))
    image, cls, why, answer = (np.concatenate([part[i] for part in parts]) for i in range(4))
    if not evenly:
        ranking = Ranking(scores, lambda c: (of_class.labels(c) == 0) & ~_marked(parts[c][0], table.num_images), random)
        more = grow_from(ranking, table.class_counts()[0], total - int((answer == 0).sum()))
        image, cls = np.concatenate([image, more[0]]), np.concatenate([cls, more[1]])
        why = np.concatenate([why, np.full(len(more[0]), _SEEK)])
        answer = np.concatenate([answer, np.zeros(len(more[0]), np.int8)])
    order = np.lexsort((image, cls))
    pairs = image[order].astype(np.int64), cls[order].astype(np.int64)
    return Questions(*pairs, why[order].astype(np.int8), answer[order].astype(np.int8))


class _Known:
    """The labels of a table, class by class."""

    def __init__(self, table: LabelTable) -> None:
        self._images, self._start = by_class(table)
        self._values = table.values[np.argsort(table.indices, kind="stable")]
        self._count = table.num_images

    def labels(self, number: int) -> NDArray[np.int8]:
        """Return the labels (N,) of a class."""
        own, result = slice(*self._start[number : number + 2]), np.zeros(self._count, np.int8)
        result[self._images[own]] = self._values[own]
        return result


def _marked(rows: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """Which of ``count`` images are listed."""
    result = np.zeros(count, bool)
    result[rows] = True
    return result


def _of_class(
    number: int,
    score: NDArray[np.float32],
    state: NDArray[np.int8],
    in_sample: NDArray[np.bool_],
    budgets: tuple[int | None, int, int],
    threshold: float,
    random: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int8]]:
    """The questions about one class: image, class, why, answer.

    Args:
        number: of the class.
        score: (N,).
        state: int8 (N,), the labels known from people.
        in_sample: bool (N,), which of them are a random sample.
        budgets: of all questions (None: none are sought), the uncertain ones and the random ones.
        threshold: on the scores.
        random: where the draw and the order of equal scores come from.
    """
    each, near, drawn = budgets
    picked = random.choice(np.flatnonzero(~in_sample), drawn, replace=False)
    is_open = state == 0
    left = near if each is None else each - int(is_open[picked].sum())
    is_open[picked] = False
    shuffled = random.permutation(np.flatnonzero(is_open))
    near = min(near, left, len(shuffled))
    doubt = shuffled[np.argsort(np.abs(score[shuffled] - threshold), kind="stable")[:near]]
    is_open[doubt] = False
    shuffled = shuffled[is_open[shuffled]]
    seek = shuffled[np.argsort(-score[shuffled], kind="stable")[: left - near]] if each is not None else shuffled[:0]
    image = np.concatenate([picked, doubt, seek])
    why = np.repeat([_RANDOM, _UNCERTAIN, _SEEK], [len(picked), len(doubt), len(seek)])
    return image, np.full(len(image), number), why, state[image]


def ask(
    model: Model,
    table: LabelTable,
    folder: str | os.PathLike[str] | None,
    budget: int,
    mix: Mix | None = None,
    seed: int = 0,
    stored: str | os.PathLike[str] | None = None,
) -> tuple[Questions, LabelTable, Scores, dict[str, Any]]:
    """Score all images of a table and choose questions; see :func:`choose`.

    Args:
        model: the classifier; its classes are all in the table. There are no questions about others.
        table: the labels; image names are files in ``folder``.
        folder: the folder of the images.
        budget: number of questions.
        mix: shares of the reasons to ask.
        seed: of the random part.
        stored: instead of the folder, one of scores that ``partlabel predict`` wrote in shards.

    Returns:
        The questions; the table with the classes of the model, in its order, and the scores (N, C), to which they
        refer; and what they are as plain values (see :func:`describe`).

    Raises:
        UserError: the table lacks classes of the model, every label is known, images are missing or cannot be read.
    """
    own = match(table, model, every="model").table
    if own.without_origin("model").num_known == own.num_images * own.num_classes:
        raise UserError("people have given every label of the model's classes, so there is nothing to ask")
    if budget < 1:
        raise UserError(f"the budget is at least 1 question, not {budget}")
    scores = scores_of(model, own.images, folder, stored)
    slope, offset = np.float32(1), np.float32(0)
    if model.calibration is not None:  # slopes are above 0: the order in a class stays, and scores are log-odds
        slope, offset = (np.asarray(v, np.float32) for v in (model.calibration.slope, model.calibration.offset))
    slope, offset = (np.broadcast_to(v, own.num_classes) for v in (slope, offset))
    odds = scores.scaled(slope, offset)
    with np.errstate(over="ignore"):  # a class that is never called present has the largest number for its threshold
        limits = np.asarray(model.thresholds, np.float32) * slope + offset
    found = choose(odds, own, budget, mix, thresholds=limits, seed=seed)
    return found, own, scores, describe(found, own, odds)


def describe(questions: Questions, table: LabelTable, scores: NDArray[np.float32] | Scores) -> dict[str, Any]:
    """What questions are, as plain values.

    Returns:
        ``questions`` and how many of each of ``WHY``; ``known_already``; ``unknown_left`` once they are answered;
        ``expected_present``, the share of the answers that the scores expect to be present; ``expected_growth``, the
        mean over the classes of log((p + 1 + e) / (p + 1)) with p known present labels and e expected ones;
        ``expected_gain``, about how many points of mAP the answers bring, ``expected_gain_per_1000`` answers, and
        whether that is ``worth_asking``; ``classes`` with the numbers of questions and expected present labels.
    """
    still = questions.open
    image, cls, why = questions.image[still], questions.cls[still], questions.why[still]
    own = table.without_origin("model")
    count = np.bincount(cls, minlength=table.num_classes)
    chance = sigmoid(Scores.of(scores).pairs(image, cls).astype(np.float64))
    expected = np.bincount(cls, chance, table.num_classes)
    present = own.class_counts()[0]
    growth = float(np.log1p(expected / (present + 1)).mean())
    gain = POINTS_PER_GROWTH * growth
    return {
        "questions": len(cls),
        **{name: int((why == code).sum()) for code, name in enumerate(WHY)},
        "known_already": int((~still).sum()),
        "unknown_left": own.num_images * own.num_classes - own.num_known - len(cls),
        "expected_present": float(chance.mean()),
        "expected_growth": growth,
        "gain_unit": "points of mAP, of 100",
        "expected_gain": gain,
        "expected_gain_per_1000": 1000 * gain / len(cls),
        "worth_asking": 1000 * gain / len(cls) >= POINTS_PER_1000,
        "classes": [
            {"class": name, "questions": n, "expected_present": e}
            for name, n, e in zip(table.classes, count.tolist(), expected.tolist(), strict=True)
        ],
    }


@dataclass(frozen=True)
class Answers:
    """What people answered; lists of the same length.

    ``images``, ``classes``: names. ``values``: int8, +1 or -1. ``why``: of ``WHY``. ``places``: file and line or task.
    """

    images: Sequence[str]
    classes: Sequence[str]
    values: NDArray[np.int8]
    why: Sequence[str]
    places: Sequence[str]

    def listed(self, at: NDArray[np.int64]) -> list[str]:
        """Name some answers with their places."""
        return [f"{self.places[i]} {self.images[i]}, {self.classes[i]}" for i in at.tolist()]

    def counts(self) -> dict[str, dict[str, int]]:
        """For each of ``WHY``: how many ``answers``, and how many of them are ``present``."""
        result = {}
        for name in WHY:
            own = self.values[np.array([why == name for why in self.why], bool)]
            result[name] = {"answers": len(own), "present": int((own > 0).sum())}
        return result


def add_answers(table: LabelTable, answers: Answers) -> tuple[LabelTable, dict[str, Any]]:
    """Put answers into a table: origin ``sampled`` where the question was drawn at random, else ``asked``.

    A label of a model gives way to the answer. Answers that are there already change nothing, but that an asked or
    reviewed label whose pair is drawn at random counts as sampled from then on.

    Returns:
        The table, and ``added``, ``replaced`` (labels of a model), ``resampled``, ``unchanged``, and for each of
        ``WHY`` the ``answers`` and how many of them are ``present``.

    Raises:
        UserError: images or classes that the table lacks, or answers that contradict each other or a label of a person;
            all are listed.
    """
    image = table.image_index(list(answers.images))
    columns = {name: number for number, name in enumerate(table.classes)}
    cls = np.array([columns.get(name, -1) for name in answers.classes], np.int64)
    strange = np.flatnonzero((image < 0) | (cls < 0))
    if len(strange):
        count = f"{len(strange)} answers are about an image or class that the table lacks"
        raise UserError(count, answers.listed(strange))
    drawn = np.array([why == "random" for why in answers.why], bool)
    key, first, group = np.unique(image * table.num_classes + cls, return_index=True, return_inverse=True)
    drawn = np.bincount(group, drawn, len(key)) > 0
    old = table.pairs()
    at = np.minimum(np.searchsorted(old.key, key), max(len(old.key) - 1, 0))
    known = np.zeros(len(key), bool)
    if len(old.key):
        known = old.key[at] == key
    person = known.copy()
    person[known] = old.origin[at[known]] != _MODEL
    value = answers.values[first]
    expected = value.copy()
    expected[person] = old.values[at[person]]
    wrong = np.flatnonzero(answers.values != expected[group])
    if len(wrong):
        raise UserError(f"{len(wrong)} answers contradict another answer or a label of a person", answers.listed(wrong))
    resampled = person & drawn
    resampled[resampled] = ~at_random(old)[at[resampled]]
    new = ~person | resampled
    keep = np.ones(len(old.key), bool)
    keep[at[known & new]] = False
    if not keep.all():
        table = table.hide(keep, "answers", of_model=int((known & ~person).sum()), resampled=int(resampled.sum()))
    for origin, chosen in (("asked", new & ~drawn), ("sampled", new & drawn)):
        if chosen.any():
            rows, numbers = np.divmod(key[chosen], table.num_classes)
            table = table.with_labels(rows, numbers, value[chosen], origin=origin)
    counts: dict[str, Any] = {
        "added": int((~known).sum()),
        "replaced": int((known & ~person).sum()),
        "resampled": int(resampled.sum()),
        "unchanged": int((person & ~resampled).sum()),
    }
    return table, {**counts, **answers.counts()}
