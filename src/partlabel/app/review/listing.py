"""Makes the arrays behind a board: which pairs are listed, their levels and states, and their order.

Up to ``ALL`` pairs everything is listed. Beyond, the disk holds 11 to 15 bytes for each known label, for the ``BEST``
other classes of each image, and for each question. Scores are read once, some images at a time; what is in memory at
once does not grow with images x classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partlabel.app.review.board import BEST, TOP, Board, Columns, Keys, Levels, levels_of_scores
from partlabel.app.review.scores import ALL, half
from partlabel.core.records import fill_array, read_array, write_array
from partlabel.labels.pairs import pointers, ranges
from partlabel.labels.table import LabelTable
from partlabel.metrics.calibration import Calibration
from partlabel.models.scores import Scores

#: scores that are looked at at once
_SCORES = 2**20
#: pairs that are sorted at once
_SORTED = 2**18
#: classes are put together to parts of so many pairs, or larger ones where there would be more parts than this
_PART, _PARTS = 2**17, 64
#: arrays of earlier versions, 7 to 11 bytes for every pair
_EARLIER = ("levels-*.npy", "order-*.npy", "start-*.npy", "states-*.npy")


@dataclass(frozen=True)
class Names:
    """What the arrays are named after.

    Attributes:
        cache: their folder.
        scores: names scores and calibration.
        table: names the labels.
        both: names both.
    """

    cache: Path
    scores: str
    table: str
    both: str

    def of(self, kind: str, by: str) -> Path:
        """The file of an array."""
        return self.cache / f"list-{kind}-{by}.npy"


def open_board(
    scores: Callable[[], Scores],
    stored: Callable[[], Scores | None],
    calibration: Calibration,
    table: LabelTable,
    asked: Keys,
    names: Names,
) -> Board:
    """Open the arrays, or make those that are not there yet.

    Args:
        scores: gives the scores (N, C), if need be by computing them.
        stored: gives them where they are stored, else None.
        calibration: of the C classes.
        table: N images and C classes, in the same order.
        asked: keys of the questions.
        names: of the files.
    """
    maker = _Maker(scores, calibration, table, names)
    (maker.make_whole if maker.whole else maker.make_parts)(np.asarray(asked))
    return Board(
        (table.num_images, table.num_classes),
        None if maker.whole else np.load(maker.keys, mmap_mode="r"),
        np.load(maker.levels, mmap_mode="r"),
        np.load(maker.states, mmap_mode="r"),
        np.load(maker.order, mmap_mode="r"),
        np.load(maker.start),
        np.load(maker.best, mmap_mode="r"),
        Columns(stored, calibration),
    )


class _Maker:
    """Makes the arrays of one table and one model."""

    def __init__(self, scores: Callable[[], Scores], calibration: Calibration, table: LabelTable, names: Names) -> None:
        self._scores, self._table = scores, table
        self._slope, self._offset = np.array(calibration.slope), np.array(calibration.offset)
        self._count, self._classes = table.num_images, table.num_classes
        self.whole = self._count * self._classes <= ALL
        by = names.scores if self.whole else names.both
        self.levels, self.order, self.start = (names.of(kind, by) for kind in ("levels", "order", "start"))
        self.states = names.of("states", names.table if self.whole else names.both)
        self.best, self.keys = names.of("best", names.both), names.of("keys", names.both)
        self._best_kind, self._width = np.min_scalar_type(self._classes), min(BEST, self._classes)
        self._kind = np.uint32 if self._count * self._classes < 2**32 else np.uint64
        self._cache = names.cache

    # --- where every pair is listed ---

    def make_whole(self, asked: Keys) -> None:
        """Make the arrays that are missing or damaged."""
        pairs, count = self._count * self._classes, self._count
        if read_array(self.levels, (pairs,), np.uint16) is None:
            self._remove_earlier()

            def levelled(array: np.memmap) -> None:
                for rows, values in _blocks(self._scores()):
                    found = levels_of_scores(values, self._slope, self._offset)
                    array.reshape(self._classes, count)[:, rows] = found.T

            fill_array(self.levels, (pairs,), np.uint16, levelled)
        if read_array(self.order, (pairs,), np.uint32) is None or read_array(self.start, (TOP + 2,), np.int64) is None:
            _sort(np.load(self.levels, mmap_mode="r"), self.order, self.start)
        if read_array(self.states, (pairs,), np.uint8) is None:
            table = self._table

            def stated(array: np.memmap) -> None:
                array[table.indices.astype(np.int64) * count + table.pair_images()] = self._states(slice(None))

            fill_array(self.states, (pairs,), np.uint8, stated)
        if read_array(self.best, (count, self._width), self._best_kind) is None:
            seen = _Seen(self._table, asked[:0], self._width)
            self._look(seen)

    # --- where some are ---

    def make_parts(self, asked: Keys) -> None:
        """Make all arrays, unless all are there and sound."""
        levels = read_array(self.levels, None, np.uint16)
        length = -1 if levels is None else len(levels)
        wanted: list[tuple[Path, tuple[int, ...], Any]] = [
            *((self.best, (self._count, self._width), self._best_kind), (self.keys, (length,), self._kind)),
            *((self.states, (length,), np.uint8), (self.order, (length,), _order_kind(length))),
            (self.start, (TOP + 2,), np.int64),
        ]
        if levels is not None and all(read_array(*one) is not None for one in wanted):
            return
        del levels  # Windows moves no file to the name of one that is mapped
        self._remove_earlier()
        seen = _Seen(self._table, asked, self._width)
        self._look(seen)
        best = np.load(self.best, mmap_mode="r")
        sizes = np.bincount(self._table.indices, minlength=self._classes)
        sizes += np.bincount(asked[seen.new] // self._count, minlength=self._classes)
        for rows in _rows(self._count, self._width):
            sizes += np.bincount(best[rows].reshape(-1), minlength=self._classes + 1)[:-1]
        parts, total = _parts(sizes), int(sizes.sum())

        def fill(keys: np.memmap, levels: np.memmap, states: np.memmap) -> None:
            end = 0
            for low, high in parts:
                found = self._part(seen, best, asked, low, high)
                order = np.argsort(found[0], kind="stable")
                start, end = end, end + len(order)
                keys[start:end], levels[start:end], states[start:end] = (one[order] for one in found)

        fill_array(
            self.keys, (total,), self._kind,
            lambda keys: fill_array(
                self.levels, (total,), np.uint16,
                lambda levels: fill_array(self.states, (total,), np.uint8, lambda states: fill(keys, levels, states)),
            ),
        )  # fmt: skip
        _sort(np.load(self.levels, mmap_mode="r"), self.order, self.start)

    def _look(self, seen: _Seen) -> None:
        """Go through all scores once, some images at a time."""

        def fill(best: np.memmap) -> None:
            for rows, values in _blocks(self._scores()):
                best[rows] = seen.look(rows, values, self._slope, self._offset)

        fill_array(self.best, (self._count, self._width), self._best_kind, fill)

    def _part(
        self, seen: _Seen, best: NDArray[Any], asked: Keys, low: int, high: int
    ) -> tuple[Keys, Levels, NDArray[np.uint8]]:
        """Keys, levels and states of the listed pairs of some classes."""
        table, count = self._table, self._count
        at = np.flatnonzero((table.indices >= low) & (table.indices < high))
        image = np.searchsorted(table.indptr, at, side="right") - 1
        keys = [(table.indices[at].astype(np.int64) * count + image).astype(self._kind)]
        levels, states = [seen.known[at]], [self._states(at)]
        for rows in _rows(count, self._width):
            own = best[rows]
            row, place = np.nonzero((own >= low) & (own < high))
            keys.append((own[row, place].astype(np.int64) * count + row + rows.start).astype(self._kind))
            levels.append(seen.best[rows][row, place])
        new = np.flatnonzero(seen.new & (asked >= low * count) & (asked < high * count))
        keys.append(asked[new].astype(self._kind))
        levels.append(seen.asked[new])
        unknown = sum(map(len, keys[1:]))
        return np.concatenate(keys), np.concatenate(levels), np.concatenate([*states, np.zeros(unknown, np.uint8)])

    def _states(self, at: Any) -> NDArray[np.uint8]:
        """States of known labels."""
        table = self._table
        return (1 + 2 * table.origin[at] + (table.values[at] > 0)).astype(np.uint8)

    def _remove_earlier(self) -> None:
        for pattern in _EARLIER:
            for path in self._cache.glob(pattern):
                with suppress(OSError):
                    path.unlink()


class _Seen:
    """What is kept of the scores while they go by.

    Args:
        table: the labels.
        asked: (A,) keys of the questions.
        width: how many of the best classes of an image are kept.

    Attributes:
        known: (K,) levels of the known labels, in the order of the table.
        best: (N, width) levels of the best classes.
        asked: (A,) levels of the questions.
        new: bool (A,), which questions are neither known nor among the best of their image.
    """

    def __init__(self, table: LabelTable, asked: Keys, width: int) -> None:
        self._table, self._width = table, width
        self.known = np.zeros(table.num_known, np.uint16)
        self.best = np.zeros((table.num_images, width), np.uint16)
        self.asked, self.new = np.zeros(len(asked), np.uint16), np.zeros(len(asked), bool)
        image = asked % table.num_images
        self._order = np.argsort(image, kind="stable")
        self._cls = (asked // table.num_images)[self._order].astype(np.int64)
        self._start = pointers(np.bincount(image, minlength=table.num_images))

    def look(
        self, rows: NDArray[np.int64], values: NDArray[np.float16], slope: NDArray[Any], offset: NDArray[Any]
    ) -> NDArray[np.int64]:
        """Keep what is needed of the scores (n, C) of some images; gives their best unknown classes (n, width)."""
        indptr, indices = self._table.indptr, self._table.indices
        odds = values.astype(np.float64) * slope + offset
        at = ranges(indptr[rows], np.diff(indptr)[rows])
        row, cls = np.repeat(np.arange(len(rows)), np.diff(indptr)[rows]), indices[at]
        self.known[at] = levels_of_scores(values[row, cls], slope[cls], offset[cls])
        odds[row, cls] = -np.inf
        found = _best(odds, self._width)
        cls = np.minimum(found, odds.shape[1] - 1)
        scores = np.take_along_axis(values, cls, axis=1)
        self.best[rows] = levels_of_scores(scores, slope[cls], offset[cls])
        count = np.diff(self._start)[rows]
        own = ranges(self._start[rows], count)
        row, cls, at = np.repeat(np.arange(len(rows)), count), self._cls[own], self._order[own]
        self.asked[at] = levels_of_scores(values[row, cls], slope[cls], offset[cls])
        self.new[at] = np.isfinite(odds[row, cls]) & (found[row] != cls[:, None]).all(axis=1)
        return found


def _best(odds: NDArray[np.float64], width: int) -> NDArray[np.int64]:
    """The columns (n, width) with the highest values, the highest first, of equals the first; for -inf: C."""
    classes = odds.shape[1]
    if width < classes:
        cut = np.partition(odds, classes - width, axis=1)[:, [classes - width]]
        above, tied = odds > cut, odds == cut
        room = width - np.count_nonzero(above, axis=1, keepdims=True)
        cls = np.nonzero(above | (tied & (np.cumsum(tied, axis=1, dtype=np.int32) <= room)))[1].reshape(-1, width)
    else:
        cls = np.broadcast_to(np.arange(classes), odds.shape)
    value = np.take_along_axis(odds, cls, axis=1)
    order = np.argsort(-value, axis=1, kind="stable")
    cls, value = (np.take_along_axis(one, order, axis=1) for one in (cls, value))
    return np.where(np.isneginf(value), classes, cls)


def _blocks(scores: Scores) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float16]]]:
    """Numbers of images and their scores, a few at a time."""
    step = max(1, _SCORES // max(scores.num_classes, 1))
    for rows, values in scores.chunks():
        for low in range(0, len(rows), step):
            yield rows[low : low + step], half(values[low : low + step])


def _rows(count: int, width: int) -> Iterator[slice]:
    """Some images at a time."""
    step = max(1, _PART // max(width, 1))
    return (slice(low, min(low + step, count)) for low in range(0, count, step))


def _parts(sizes: NDArray[np.int64]) -> list[tuple[int, int]]:
    """First and last class (exclusive) of each part, given the number of pairs of each class."""
    ends = np.cumsum(sizes)
    total = int(ends[-1])
    size = max(_PART, -(-total // _PARTS))
    cuts = np.unique([0, *np.searchsorted(ends, np.arange(size, total, size)).tolist(), len(sizes)]).tolist()
    return list(pairwise(cuts))


def _order_kind(count: int) -> type[np.unsignedinteger[Any]]:
    return np.uint32 if count < 2**32 else np.uint64


def _sort(levels: Levels, order: Path, start: Path) -> None:
    """Write the order of all pairs and where each level starts in it; some pairs at a time are in memory."""
    count = len(levels)
    parts = [slice(low, min(low + _SORTED, count)) for low in range(0, count, _SORTED)]
    counts = np.zeros(TOP + 1, np.int64)
    for part in parts:
        counts += np.bincount(TOP - levels[part], minlength=TOP + 1)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
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

    fill_array(order, (count,), _order_kind(count), ordered)
    write_array(start, starts)
