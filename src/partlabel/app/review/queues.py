"""What to ask, in which order: questions worth asking, labels that the model filled in, and suspects."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partlabel.app.review.board import BEST, TOP, Board, Keys, among, state
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
#: the help of the last queue where not every pair is listed
SOME = (
    f"Every label, the {BEST} most probable other classes of each image, and the questions, the most probable first. "
    "Choose a class to see all images."
)
#: what is said where the scores of the other pairs are not stored any more
CLEARED = (
    f"Only images with a label of this class, with a question about it, or with it among their {BEST} most probable "
    "ones: the scores of the others were cleared from the cache of partlabel, and are computed again once the folder "
    "review/cache of the run is deleted and the review started."
)
#: questions about each class
EACH = 50
#: pairs of one class that follow each other in a queue, so that a person need not think anew each time
TOGETHER = 12
#: labels of each sign that the running estimate of precision is drawn from
SAMPLE = 400
#: pairs that are looked at at once
_BLOCK = 4_000_000
#: one in so many labels of the queue of filled-in ones is of that sample
EVERY = 5


def scope(board: Board, queue: str, cls: int | None) -> str | None:
    """What a queue, of all classes or of one, leaves out, in words; None where it holds all that it says."""
    if queue != "all" or board.listed is None:
        return None
    if cls is None:
        return f"{SOME} Listed are {len(board):,} of {board.shape[0] * board.shape[1]:,} pairs of image and class."
    return None if board.columns.of(cls) is not None else CLEARED


def class_rows(table: LabelTable) -> list[dict[str, Any]]:
    """What is known of each class, and how many of its labels the model filled in."""
    present, absent = table.class_counts()
    model = np.bincount(table.indices[table.origin == ORIGINS.index("model")], minlength=table.num_classes)
    rows = zip(table.classes, present.tolist(), absent.tolist(), model.tolist(), strict=True)
    return [
        {"id": i, "name": name, "known": p + a, "present": p, "absent": a, "filled": f}
        for i, (name, p, a, f) in enumerate(rows)
    ]


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


def questions(scores: Callable[[], Scores], table: LabelTable, thresholds: tuple[float, ...], path: Path) -> Keys:
    """Questions worth asking, by :func:`partlabel.tasks.next_labels.choose`; stored ones, or chosen now and stored.

    The class of whose rarer sign people have given the fewest labels comes first; of a class, the pairs whose score is
    next to its threshold, as what a model is sure of teaches it little.

    Args:
        scores: gives the scores (N, C).
        table: the labels.
        thresholds: (C,) of the model.
        path: of the stored ones.
    """
    if read_array(path, None, np.int64) is None:
        from partlabel.tasks.next_labels import choose

        unknown = table.num_images * table.num_classes - table.without_origin("model").num_known
        keys = np.zeros(0, np.int64)
        if unknown:
            own = scores()
            limits = np.asarray(thresholds, np.float32)
            found = choose(own, table, min(EACH * table.num_classes, unknown), thresholds=limits, evenly=True)
            image, cls = found.image[found.open], found.cls[found.open]
            doubt = np.lexsort((np.abs(own.pairs(image, cls) - limits[cls]), cls))
            image, cls = image[doubt], cls[doubt]
            present, absent = table.without_origin("model").class_counts()
            need = np.lexsort((present + absent, np.minimum(present, absent))).argsort()
            turns = in_turns(need[cls])
            keys = cls[turns] * table.num_images + image[turns]
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
        random = np.random.Generator(np.random.PCG64(0))
        signs = [_of_sign(board, sign, random) for sign in (True, False)]
        # Both signs are merged by how sure their labels are; a pair of the sample stays behind the one before it.
        order = np.argsort(np.concatenate([sure for _, sure, _ in signs]), kind="stable")
        mixed = board.keys_at(np.concatenate([places for places, _, _ in signs])[order])
        drawn = [board.keys_at(sample) for _, _, sample in signs]
        write_array(path, np.concatenate([[len(sample) for sample in drawn], *drawn, mixed]).astype(np.int64))
    stored = np.load(path, mmap_mode="r")
    ends = 2 + np.cumsum(stored[:2])
    sample = {"present": np.asarray(stored[2 : ends[0]]), "absent": np.asarray(stored[ends[0] : ends[1]])}
    return stored[ends[1] :], sample


def _of_sign(board: Board, present: bool, random: np.random.Generator) -> tuple[Keys, NDArray[np.uint16], Keys]:
    """Labels of one sign as places in the board, in order; how sure each or the one before it is; and the sample."""
    wanted, kind = state("model", present), board.order.dtype
    parts = range(0, len(board), _BLOCK)
    places = np.concatenate(
        [low + np.flatnonzero(board.states[low : low + _BLOCK] == wanted).astype(kind) for low in parts] or [[]]
    ).astype(kind)
    drawn = random.permutation(places)[:SAMPLE]
    sure = board.levels[places] if present else TOP - board.levels[places]
    mixed = mix(places[np.argsort(sure, kind="stable")], drawn)
    sure = board.levels[mixed] if present else TOP - board.levels[mixed]
    sure[among(drawn, mixed)] = 0
    return mixed, np.maximum.accumulate(sure), drawn


def mix(ranked: Keys, drawn: Keys, every: int = EVERY) -> Keys:
    """Put a sample between ranked pairs: each ``every``-th pair is of the sample, while it lasts.

    Args:
        ranked: pairs in order, those of the sample among them; they are left out there.
        drawn: the sample, in order.
        every: 2 or more.

    Returns:
        All pairs of ``ranked``, each once.
    """
    mixed = np.empty_like(ranked)
    turns = np.minimum(np.arange(1, len(drawn) + 1) * every - 1, len(ranked) - len(drawn) + np.arange(len(drawn)))
    is_drawn = np.zeros(len(ranked), bool)
    is_drawn[turns] = True
    mixed[is_drawn] = drawn
    mixed[~is_drawn] = ranked[~among(drawn, ranked)]
    return mixed
