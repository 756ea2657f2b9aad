"""The unknown pairs of a table with their scores, class by class, and what is counted in them without holding them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partlabel.labels.table import LabelTable
from partlabel.metrics import risk_control
from partlabel.models.scores import Scores

#: the 31 bits of a score above 0 are counted in two parts, of which the lower one has so many bits
_BITS = 12
_UPPER, _LOWER = 2 ** (31 - _BITS), 2**_BITS
#: scores of a pool that are sorted at once
_AT_ONCE = 2**21


@dataclass(frozen=True)
class Known:
    """Known labels in the order of their classes: image, score and label.

    Those of class c lie at ``start[c]:start[c + 1]``.
    """

    image: NDArray[np.int32]
    score: NDArray[np.float32]
    label: NDArray[np.int8]
    start: NDArray[np.int64]

    @classmethod
    def of(cls, table: LabelTable, scores: Scores) -> Known:
        """Take all known labels of a table."""
        score = scores.pairs(table.images_at(slice(None)), table.indices)
        order, start = table.by_class()
        return cls(table.images_at(order), score[order], table.values[order], start)

    def count(self) -> NDArray[np.int64]:
        """Return the number of labels of each class, (C,)."""
        return np.diff(self.start)

    def of_class(self, number: int) -> slice:
        """Return where the labels of a class lie."""
        return slice(int(self.start[number]), int(self.start[number + 1]))

    def inside(self, classes: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which labels are of some classes, bool (C,) and (K,)."""
        return np.repeat(classes, self.count())


class Unknown:
    """The unknown pairs of a table.

    Args:
        table: N images and C classes.
        scores: (N, C).
        leave: bool (N,), images that do not count; None leaves none out.

    Attributes:
        count: (C,) unknown pairs of each class.
    """

    def __init__(self, table: LabelTable, scores: Scores, leave: NDArray[np.bool_] | None = None) -> None:
        if scores.shape != (table.num_images, table.num_classes):
            raise ValueError(f"scores are {scores.shape}, expected {(table.num_images, table.num_classes)}")
        self.scores, self.class_names, self.num_classes = scores, table.classes, table.num_classes
        self._wanted = np.ones(table.num_images, bool) if leave is None else ~leave
        self._image, self._start = by_class(table)
        known = np.diff(np.append(0, np.cumsum(self._wanted[self._image]))[self._start])
        self.count = np.count_nonzero(self._wanted) - known

    def classes(
        self, only: NDArray[np.bool_] | None = None
    ) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.float32]]]:
        """Give each class: its number, the images of its unknown pairs in order, and their scores.

        Args:
            only: bool (C,), classes that are wanted; None gives all.
        """
        if only is not None and not only.any():
            return
        for low, block in self.scores.blocks():
            for c, scores in enumerate(block, low):
                if only is not None and not only[c]:
                    continue
                open_ = self._wanted.copy()
                open_[self._image[self._start[c] : self._start[c + 1]]] = False
                rows = np.flatnonzero(open_)
                yield c, rows, scores[rows]
            del block, scores  # or they are held while the next ones are read


def by_class(table: LabelTable) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the images of the known labels, (K,), class after class, and where each class starts, (C + 1,)."""
    order, start = table.by_class()
    return table.images_at(order), start


class Pool:
    """The unknown pairs of many classes, of which only counts are held; for one sign.

    It is shown every class once by :meth:`look`; scores of a rank are then found by going through them once more.
    They are exact: the upper bits of each score are counted first, then the lower ones where a rank lies.

    Args:
        unknown: all pairs.
        classes: numbers of the classes of the pool.
        sign: +1 or -1: scores are multiplied by it.
        held: (n,) scores of held-out labels, with their own sign, that the pool is compared with.
    """

    def __init__(self, unknown: Unknown, classes: NDArray[np.int64], sign: int, held: NDArray[np.float32]) -> None:
        self._unknown, self._sign, self._held = unknown, sign, np.sort(held)
        self._inside = np.zeros(unknown.num_classes, bool)
        self._inside[classes] = True
        self._below, self._upto = (np.zeros(len(held), np.int64) for _ in range(2))
        self._upper = np.zeros(_UPPER, np.int64)
        self._waiting: list[NDArray[np.float32]] = []
        self.total = 0

    def look(self, number: int, scores: NDArray[np.float32]) -> None:
        """Count the scores of a class, if it is one of the pool."""
        if self._inside[number]:
            self._waiting.append(scores)
            self.total += len(scores)
            if sum(map(len, self._waiting)) >= _AT_ONCE:
                self._count()

    def _count(self) -> None:
        """Count the scores that wait, those of many classes at once."""
        if not self._waiting:
            return
        ranked = np.sort(np.concatenate(self._waiting))
        self._waiting = []
        self._upper += np.bincount(_bits(self._sign * ranked) >> np.uint32(_BITS), minlength=_UPPER)
        self._below += np.searchsorted(ranked, self._held, side="left")
        self._upto += np.searchsorted(ranked, self._held, side="right")

    @property
    def positive(self) -> int:
        """How many scores have the sign."""
        self._count()
        return int(self._upper.sum())

    def compare(self) -> tuple[float, float, bool]:
        """Compare the scores of the held-out labels with those of the pool, see :func:`risk_control.compare`."""
        self._count()
        return risk_control.compare_counts(self._held, self._below, self._upto, self.total)

    def highest(self, count: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the ``count``-th highest scores, and how many are at least as high."""
        self._count()
        above = np.concatenate([np.cumsum(self._upper[::-1])[::-1][1:], [0]])  # scores with larger upper bits
        upper = _UPPER - 1 - np.searchsorted(np.cumsum(self._upper[::-1]), count, side="left")
        wanted, slot = np.unique(upper, return_inverse=True)
        lower = self._lower(wanted)
        left = np.cumsum(lower[:, ::-1], axis=1)  # of each upper part: scores from its largest lower bits on
        found, reached = np.empty(len(count), np.uint32), np.empty(len(count), np.int64)
        for i, (own, rank) in enumerate(zip(slot.tolist(), (count - above[upper]).tolist(), strict=True)):
            at = int(np.searchsorted(left[own], rank, side="left"))
            found[i] = (int(wanted[own]) << _BITS) + _LOWER - 1 - at
            reached[i] = above[wanted[own]] + left[own, at]
        return found.view(np.float32), reached

    def _lower(self, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count the lower bits (len(wanted), 4,096) of the scores with some upper bits."""
        slot = np.full(_UPPER, -1, np.int32)
        slot[wanted] = np.arange(len(wanted))
        result = np.zeros(len(wanted) * _LOWER, np.int64)
        for _, _, scores in self._unknown.classes(self._inside):
            bits = _bits(self._sign * scores)
            own = slot[bits >> np.uint32(_BITS)]
            here = own >= 0
            np.add.at(result, own[here].astype(np.int64) * _LOWER + (bits[here] & np.uint32(_LOWER - 1)), 1)
        return result.reshape(len(wanted), _LOWER)


def _bits(scores: NDArray[np.float32]) -> NDArray[Any]:
    """The bits of the scores above 0, which rise with them."""
    return scores[scores > 0].astype(np.float32, copy=False).view(np.uint32)
