"""Every pair of class and image at a glance: its probability, its label, and the order by probability.

A pair is one number, its key: ``class * N + image``. The arrays lie on disk, made once for a table and a model, so
that a server starts at once, holds little in memory, and no request looks at all pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partlabel.core.records import fill_array, read_array, write_array
from partlabel.labels.table import ORIGINS, LabelTable
from partlabel.metrics.calibration import Calibration

#: a probability of 1 as a level; levels are whole numbers, which sort and compare exactly
TOP = 65_535
#: scores that become probabilities at once
_SCORES = 2**20
#: pairs that are sorted at once
_SORTED = 2**22

Keys = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Board:
    """All pairs of N images and C classes.

    Attributes:
        scores: float16 (N, C), before the sigmoid.
        levels: uint16 (C, N), the probability of present in steps of 1 / ``TOP``.
        states: uint8 (C, N), 0 for an unknown label, else ``1 + 2 * origin + present``.
        order: keys (C * N,) of all pairs, the most probable first, equals by key.
        start: int64 (TOP + 2,); the pairs of level v are ``order[start[TOP - v] : start[TOP - v + 1]]``.
        calibration: how scores become probabilities.
    """

    scores: NDArray[np.float16]
    levels: NDArray[np.uint16]
    states: NDArray[np.uint8]
    order: Keys
    start: NDArray[np.int64]
    calibration: Calibration

    @property
    def pictures(self) -> int:
        """N."""
        return self.levels.shape[1]

    @property
    def classes(self) -> int:
        """C."""
        return self.levels.shape[0]

    def pair(self, key: int) -> tuple[int, int]:
        """Image and class of a key."""
        cls, picture = divmod(key, self.pictures)
        return picture, cls

    def key(self, picture: int, cls: int) -> int:
        """The key of an image and a class."""
        return cls * self.pictures + picture

    def between(self, low: float, high: float) -> slice:
        """Where in ``order`` the pairs lie whose probability is within [low, high]."""
        bottom, top = levels_between(low, high)
        return slice(int(self.start[TOP - top]), int(self.start[TOP - bottom + 1])) if bottom <= top else slice(0, 0)

    def place(self, key: int) -> int:
        """Where in ``order`` a pair lies."""
        at = TOP - int(self.levels.reshape(-1)[key])
        low, high = int(self.start[at]), int(self.start[at + 1])
        return low + int(np.searchsorted(self.order[low:high], key))


def levels_between(low: float, high: float) -> tuple[int, int]:
    """The lowest and the highest level of the probabilities within [low, high]."""
    return int(np.ceil(round(low * TOP, 6))), int(np.floor(round(high * TOP, 6)))


def state(origin: str, present: bool) -> int:
    """The state of a pair with a known label."""
    return 1 + 2 * ORIGINS.index(origin) + present


def label_of(state: int) -> tuple[str | None, str | None]:
    """Value (present, absent) and origin of a state; None for an unknown label."""
    if not state:
        return None, None
    return ("present" if (state - 1) % 2 else "absent"), ORIGINS[(state - 1) // 2]


def open_board(
    scores: NDArray[np.float16], calibration: Calibration, table: LabelTable, cache: Path, of_scores: str, of_table: str
) -> Board:
    """Open the arrays, or make those that are not there yet.

    Args:
        scores: (N, C).
        calibration: of the C classes.
        table: N images and C classes, in the same order.
        cache: folder of the files.
        of_scores: names scores and calibration.
        of_table: names the table.
    """
    count, classes = scores.shape
    levels, order = cache / f"levels-{of_scores}.npy", cache / f"order-{of_scores}.npy"
    start, states = cache / f"start-{of_scores}.npy", cache / f"states-{of_table}.npy"
    if read_array(levels, (classes, count), np.uint16) is None:

        def levelled(array: np.memmap) -> None:
            step = max(1, _SCORES // max(classes, 1))
            for low in range(0, count, step):
                rows = slice(low, low + step)
                array[:, rows] = np.rint(calibration.probabilities(scores[rows]) * TOP).T

        fill_array(levels, (classes, count), np.uint16, levelled)
    kind = np.uint32 if count * classes < 2**32 else np.uint64
    if read_array(order, (count * classes,), kind) is None or read_array(start, (TOP + 2,), np.int64) is None:
        _sort(np.load(levels, mmap_mode="r").reshape(-1), order, start)
    if read_array(states, (classes, count), np.uint8) is None:

        def stated(array: np.memmap) -> None:
            at = table.indices.astype(np.int64) * count + table.pair_images()
            array.reshape(-1)[at] = 1 + 2 * table.origin + (table.values > 0)

        fill_array(states, (classes, count), np.uint8, stated)
    return Board(
        scores=scores,
        levels=np.load(levels, mmap_mode="r"),
        states=np.load(states, mmap_mode="r"),
        order=np.load(order, mmap_mode="r"),
        start=np.load(start),
        calibration=calibration,
    )


def _sort(levels: NDArray[np.uint16], order: Path, start: Path) -> None:
    """Write the order of all pairs and where each level starts in it; some pairs at a time are in memory."""
    count = len(levels)
    parts = [slice(low, min(low + _SORTED, count)) for low in range(0, count, _SORTED)]
    counts = np.zeros(TOP + 1, np.int64)
    for part in parts:
        counts += np.bincount(TOP - levels[part], minlength=TOP + 1)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    kind = np.uint32 if count < 2**32 else np.uint64
    following = starts[:-1].copy()  # where the next pair of each level goes

    def ordered(array: np.memmap) -> None:
        nonlocal following
        for part in parts:
            below = TOP - levels[part]
            ranked = np.argsort(below, kind="stable")  # of numbers of 16 bits: a radix sort
            own = np.bincount(below, minlength=TOP + 1)
            before = np.cumsum(own) - own
            place = following[below[ranked]] + np.arange(len(ranked)) - before[below[ranked]]
            array[place] = ranked + part.start
            following += own

    fill_array(order, (count,), kind, ordered)
    write_array(start, starts)
