"""The pairs of class and image that a review lists: their probabilities, their labels, and their order.

A pair is one number, its key: ``class * N + image``. A small table lists every pair. Of a large one, nobody looks at
most pairs without a label, so listed are all known labels, the best classes of each image, and the questions; all
images of one class are read from the stored scores when somebody chooses the class. The arrays lie on disk, made once
for a table and a model (see ``listing``), so that a server starts at once, holds little in memory, and no request looks
at all pairs.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partlabel.app.review.scores import half
from partlabel.labels.table import ORIGINS
from partlabel.metrics.calibration import Calibration, sigmoid
from partlabel.models.scores import Scores

#: a probability of 1 as a level; levels are whole numbers, which sort and compare exactly
TOP = 65_535
#: the best classes of an image that are shown although nothing is known about them
BEST = 20
#: bytes of the classes whose levels are kept in memory
_COLUMNS = 2**25

Keys = NDArray[np.integer[Any]]
Levels = NDArray[np.uint16]


def levels_of_scores(scores: NDArray[np.floating], slope: Any, offset: Any) -> Levels:
    """Levels of scores, given the calibration of each, in arrays that fit together."""
    return np.rint(sigmoid(scores.astype(np.float64) * slope + offset) * TOP).astype(np.uint16)


def among(some: Keys, keys: Keys) -> NDArray[np.bool_]:
    """Which of many keys (n,) are among a few."""
    if not len(some):
        return np.zeros(len(keys), bool)
    ranked = np.sort(some).astype(keys.dtype)
    return ranked[np.minimum(np.searchsorted(ranked, keys), len(ranked) - 1)] == keys


class Columns:
    """The levels of all images for a class, read from stored scores; those of the latest classes are kept.

    Args:
        find: opens the scores; None where they are not stored any more.
        calibration: of the classes.
    """

    def __init__(self, find: Callable[[], Scores | None], calibration: Calibration) -> None:
        self._find, self._calibration = find, calibration
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, Levels] = OrderedDict()
        self._scores: Scores | None = None

    def of(self, cls: int) -> Levels | None:
        """Levels (N,) of a class; None where the scores are not stored any more."""
        with self._lock:
            if cls in self._kept:
                self._kept.move_to_end(cls)
                return self._kept[cls]
            found = self._read(cls)
            if found is not None:
                self._kept[cls] = found
                while len(self._kept) > 1 and sum(one.nbytes for one in self._kept.values()) > _COLUMNS:
                    self._kept.popitem(last=False)
            return found

    def _read(self, cls: int) -> Levels | None:
        try:
            self._scores = self._find() if self._scores is None else self._scores
            if self._scores is None:
                return None
            values = half(self._scores.block(cls, cls + 1)[0])
        except (OSError, ValueError):  # removed or damaged under a running server; Arrow's are of these
            self._scores = None
            return None
        return levels_of_scores(values, self._calibration.slope[cls], self._calibration.offset[cls])


@dataclass(frozen=True, eq=False)
class Board:
    """The listed pairs of N images and C classes.

    Attributes:
        shape: N and C.
        listed: (L,) keys of the listed pairs, rising; None where all pairs are listed.
        levels: uint16 (L,), the probability of present in steps of 1 / ``TOP``.
        states: uint8 (L,), 0 for an unknown label, else ``1 + 2 * origin + present``. Known ones are all listed.
        order: (L,) places of the pairs in the arrays above, the most probable first, equals by key.
        start: int64 (TOP + 2,); the pairs of level v are ``order[start[TOP - v] : start[TOP - v + 1]]``.
        best: (N, at most ``BEST``) the unknown classes of each image with the highest probability, the highest first;
            C where there are fewer.
        columns: reads what is not listed.
    """

    shape: tuple[int, int]
    listed: Keys | None
    levels: Levels
    states: NDArray[np.uint8]
    order: Keys
    start: NDArray[np.int64]
    best: NDArray[np.integer[Any]]
    columns: Columns

    @property
    def pictures(self) -> int:
        """N."""
        return self.shape[0]

    def __len__(self) -> int:
        return len(self.levels)

    def pair(self, key: int) -> tuple[int, int]:
        """Image and class of a key."""
        cls, picture = divmod(key, self.pictures)
        return picture, cls

    def key(self, picture: int, cls: int) -> int:
        """The key of an image and a class."""
        return cls * self.pictures + picture

    def best_of(self, picture: int) -> NDArray[np.int64]:
        """The best unknown classes of an image, the best first."""
        found = np.asarray(self.best[picture]).astype(np.int64)
        return found[found < self.shape[1]]

    def keys_at(self, places: Keys) -> Keys:
        """The keys (n,) at some places of the list."""
        return places if self.listed is None else np.asarray(self.listed[places])

    def places(self, keys: Keys) -> NDArray[np.int64]:
        """Where in the list some keys (n,) lie; -1 for those that are not listed."""
        if self.listed is None or not len(self.listed):
            return np.asarray(keys, np.int64) if self.listed is None else np.full(len(keys), -1)
        wanted = np.asarray(keys).astype(self.listed.dtype)  # of another type, the whole list would be copied
        at = np.minimum(np.searchsorted(self.listed, wanted), len(self.listed) - 1)
        return np.where(self.listed[at] == wanted, at, -1)

    def states_of(self, keys: Keys) -> NDArray[np.uint8]:
        """The states (n,) of some keys."""
        at = self.places(keys)
        return np.where(at < 0, 0, self.states[at]).astype(np.uint8) if len(self) else np.zeros(len(at), np.uint8)

    def levels_of(self, keys: Keys) -> Levels:
        """The levels (n,) of some keys; 0 for those that are not listed and whose scores are not stored any more."""
        return self.levels[keys] if self.listed is None else self._levels_of(keys)[0]

    def glance(self, keys: Keys) -> Iterator[tuple[int, int, int, int | None]]:
        """Image, class, state and level of some keys; the level is None where it is not known any more."""
        keys = np.asarray(keys, np.int64)
        levels, there = self._levels_of(keys)
        known = [level if yes else None for level, yes in zip(levels.tolist(), there.tolist(), strict=True)]
        cls, image = np.divmod(keys, self.pictures)
        return zip(image.tolist(), cls.tolist(), self.states_of(keys).tolist(), known, strict=True)

    def _levels_of(self, keys: Keys) -> tuple[Levels, NDArray[np.bool_]]:
        """Levels, and whether they are known."""
        keys = np.asarray(keys, np.int64)
        at = self.places(keys)
        there, left = at >= 0, np.flatnonzero(at < 0)
        found = np.where(there, self.levels[at], 0).astype(np.uint16) if len(self) else np.zeros(len(at), np.uint16)
        for cls in np.unique(keys[left] // self.pictures).tolist():
            column, own = self.columns.of(cls), left[keys[left] // self.pictures == cls]
            if column is not None:
                found[own], there[own] = column[keys[own] % self.pictures], True
        return found, there

    def state(self, key: int) -> int:
        """The state of a key."""
        return int(self.states_of(np.array([key]))[0])

    def of_class(self, cls: int) -> Keys:
        """All pairs of a class, the most probable first; only the listed ones where scores are not stored any more."""
        first = cls * self.pictures
        column = None if self.listed is None else self.columns.of(cls)
        if self.listed is not None and column is None:
            ends = np.array([first, first + self.pictures]).astype(self.listed.dtype)
            low, high = np.searchsorted(self.listed, ends)
            keys, levels = np.asarray(self.listed[low:high]), self.levels[low:high]
        else:
            keys = np.arange(first, first + self.pictures)
            levels = self.levels[first : first + self.pictures] if column is None else column
        return keys[np.argsort(TOP - levels, kind="stable")]

    def ranked(self, low: float = 0, high: float = 1) -> Ranked:
        """The listed pairs whose probability is within [low, high], the most probable first."""
        bottom, top = levels_between(low, high)
        where = slice(int(self.start[TOP - top]), int(self.start[TOP - bottom + 1])) if bottom <= top else slice(0, 0)
        return Ranked(self, where)


class Ranked:
    """Pairs of a board in its order, read from disk when they are asked for."""

    def __init__(self, board: Board, where: slice) -> None:
        self._board, self._first, self._order = board, where.start, board.order[where]

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, wanted: slice | NDArray[np.int64]) -> Keys:
        return self._board.keys_at(np.asarray(self._order[wanted]))

    def place(self, key: int) -> int:
        """Where a pair lies here, or -1."""
        board = self._board
        (place,) = board.places(np.array([key])).tolist()
        if place < 0:
            return -1
        at = TOP - int(board.levels[place])
        low, high = int(board.start[at]), int(board.start[at + 1])
        found = low + int(np.searchsorted(board.order[low:high], board.order.dtype.type(place))) - self._first
        return found if 0 <= found < len(self) else -1


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
