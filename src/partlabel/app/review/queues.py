"""What to ask, in which order: questions worth asking, labels that the model filled in, and suspects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from partlabel.app.review.board import TOP, Board, Keys, state
from partlabel.core.records import read_array, write_array
from partlabel.labels.table import ORIGINS, LabelTable
from partlabel.models.scores import Scores

QUEUES = ("questions", "filled", "suspects", "all")
#: title, help, and why it is empty, of each queue
TEXTS = {
    "questions": (
        "Worth asking",
        "Images where an answer teaches the model most: those that it doubts, and some at random. Classes with the "
        "fewest labels come first.",
        "People have answered every question about these images.",
    ),
    "filled": (
        "Filled in",
        "Labels that the model filled in, the least sure first; every fifth one is drawn at random, "
        "to measure how often the model is right.",
        "The label table holds no labels of a model. Give the table that partlabel complete wrote with --labels.",
    ),
    "suspects": (
        "Suspects",
        "Labels given by people that a classifier contradicts which has not seen them, the surest first.",
        "No label given by a person is contradicted.",
    ),
    "all": ("All", "Every class of every image, the most probable first. Search and filter here.", "No images."),
}
#: questions about each class
EACH = 50
#: pairs of one class that follow each other in a queue, so that a person need not think anew each time
TOGETHER = 12
#: labels of each sign that the running estimate of precision is drawn from
SAMPLE = 400
#: one in so many labels of the queue of filled-in ones is of that sample
EVERY = 5


def in_turns(cls: NDArray[np.integer], together: int = TOGETHER) -> NDArray[np.int64]:
    """Order pairs so that the classes take turns, some pairs of one class after the other.

    Args:
        cls: (K,) class numbers; the pairs of a class keep their order.
        together: how many of one class follow each other.

    Returns:
        (K,) positions.
    """
    order = np.argsort(cls, kind="stable")
    sorted_cls = np.asarray(cls)[order]
    first = np.searchsorted(sorted_cls, sorted_cls)
    rank = np.arange(len(order)) - first
    return order[np.lexsort((rank, sorted_cls, rank // together))]


def questions(board: Board, table: LabelTable, thresholds: tuple[float, ...], path: Path) -> Keys:
    """Questions worth asking, by :func:`partlabel.tasks.next_labels.choose`; stored ones, or chosen now and stored.

    The class of whose rarer sign people have given the fewest labels comes first; of a class, the pairs whose score is
    next to its threshold, as what a model is sure of teaches it little.

    Args:
        board: all pairs.
        table: the labels.
        thresholds: (C,) of the model.
        path: of the stored ones.
    """
    if read_array(path, None, np.int64) is None:
        from partlabel.tasks.next_labels import choose

        unknown = table.num_images * table.num_classes - table.without_origin("model").num_known
        keys = np.zeros(0, np.int64)
        if unknown:
            scores = Scores.of(board.scores)
            limits = np.asarray(thresholds, np.float32)
            found = choose(scores, table, min(EACH * table.num_classes, unknown), thresholds=limits, evenly=True)
            image, cls = found.image[found.open], found.cls[found.open]
            doubt = np.lexsort((np.abs(scores.pairs(image, cls) - limits[cls]), cls))
            image, cls = image[doubt], cls[doubt]
            present, absent = table.without_origin("model").class_counts()
            need = np.lexsort((present + absent, np.minimum(present, absent))).argsort()
            turns = in_turns(need[cls])
            keys = cls[turns] * board.pictures + image[turns]
        write_array(path, keys)
    return np.load(path, mmap_mode="r")


def filled(board: Board, table: LabelTable, path: Path) -> tuple[Keys, dict[str, Keys]]:
    """Labels that a model filled in, the least sure first, with a random sample mixed in; stored, or made and stored.

    Among the present ones and among the absent ones, every fifth label is of a random sample, because the least sure
    ones alone would make the model look worse than it is.

    Args:
        board: all pairs.
        table: the labels.
        path: where the order is stored.

    Returns:
        The pairs in order; and for ``present`` and ``absent`` the sample in the order of the draw.
    """
    if read_array(path, None, np.int64) is None:
        model = np.flatnonzero(table.origin == ORIGINS.index("model"))
        keys = np.sort(table.indices[model].astype(np.int64) * board.pictures + table.pair_images()[model])
        present = board.states.reshape(-1)[keys] == state("model", True)
        random = np.random.Generator(np.random.PCG64(0))
        signs = [_of_sign(board, keys[present == sign], sign, random) for sign in (True, False)]
        # Both signs are merged by how sure their labels are; a pair of the sample stays behind the one before it.
        mixed = np.concatenate([mixed for mixed, _, _ in signs])[
            np.argsort(np.concatenate([sure for _, sure, _ in signs]), kind="stable")
        ]
        drawn = [sample for _, _, sample in signs]
        write_array(path, np.concatenate([[len(sample) for sample in drawn], *drawn, mixed]).astype(np.int64))
    stored = np.load(path, mmap_mode="r")
    ends = 2 + np.cumsum(stored[:2])
    sample = {"present": np.asarray(stored[2 : ends[0]]), "absent": np.asarray(stored[ends[0] : ends[1]])}
    return stored[ends[1] :], sample


def _of_sign(board: Board, keys: Keys, present: bool, random: np.random.Generator) -> tuple[Keys, Keys, Keys]:
    """Labels of one sign in order, how sure each or the one before it is, and the sample."""
    levels = board.levels.reshape(-1)
    ranked = keys[np.argsort(levels[keys] if present else TOP - levels[keys], kind="stable")]
    drawn = random.permutation(keys)[:SAMPLE]
    mixed = mix(ranked, drawn)
    sure = levels[mixed] if present else TOP - levels[mixed]
    return mixed, np.maximum.accumulate(np.where(np.isin(mixed, drawn), 0, sure)), drawn


def mix(ranked: Keys, drawn: Keys, every: int = EVERY) -> Keys:
    """Put a sample between ranked pairs: each ``every``-th pair is of the sample, while it lasts.

    Args:
        ranked: pairs in order, those of the sample among them; they are left out there.
        drawn: the sample, in order.
        every: 2 or more.

    Returns:
        All pairs of ``ranked``, each once.
    """
    rest = ranked[~np.isin(ranked, drawn)]
    number = np.arange(len(rest))
    place = [number // (every - 1) * every + number % (every - 1), np.arange(1, len(drawn) + 1) * every - 1]
    return np.concatenate([rest, drawn])[np.argsort(np.concatenate(place), kind="stable")]
