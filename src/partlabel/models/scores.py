"""Scores of many images and classes, in memory or on disk, read a few images or a few classes at a time.

A dense matrix of a million images and ten thousand classes fits into no memory, and nothing behind the scores needs
one: what looks at images takes :meth:`Scores.chunks`, what looks at a class takes :meth:`Scores.blocks`, and what looks
at known labels takes :meth:`Scores.pairs`. The same code serves a small array (:meth:`Scores.of`) and files on disk.
The files are those of :mod:`partlabel.models.score_files`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.labels.pairs import pointers, ranges
from partlabel.models.score_files import BLOCK, GROUP, Floats, ScoreFile, as_slice

#: bytes of a few classes of all images that are in memory at once, however many images there are
_BLOCK_BYTES = 2**28
#: numbers gathered at once where images lie in another order than they are asked for in
_GATHERED = 2**25


class Scores:
    """Scores float32 (N, C) before the sigmoid, N images in an order of its own.

    Made by :meth:`of` from an array, or by :func:`read_scores` from files.

    >>> scores = Scores.of(np.array([[0.5, -1.0], [2.0, 3.0]], np.float32))
    >>> scores.shape, scores.pairs(np.array([1, 0]), np.array([0, 1]))
    ((2, 2), array([ 2., -1.], dtype=float32))
    >>> [(first, block.shape) for first, block in scores.blocks()]
    [(0, (2, 2))]
    """

    def __init__(self, images: int, classes: int) -> None:
        self.num_images, self.num_classes = images, classes

    @staticmethod
    def of(values: Scores | NDArray[np.floating]) -> Scores:
        """Take an array (N, C); scores stay as they are."""
        return values if isinstance(values, Scores) else _Array(np.asarray(values))

    @property
    def shape(self) -> tuple[int, int]:
        """N and C."""
        return self.num_images, self.num_classes

    def chunks(self, low: int = 0, high: int | None = None) -> Iterator[tuple[NDArray[np.int64], Floats]]:
        """Give all images, some at a time: their numbers (n,) and scores (n, high - low) of some classes.

        The order is the one on disk; each image comes once.
        """
        raise NotImplementedError

    def take(self, rows: NDArray[np.int64]) -> Scores:
        """Return the scores of some images, in the order given; an image may repeat."""
        raise NotImplementedError

    def lie(self) -> tuple[Sequence[ScoreFile], NDArray[np.int64]] | None:
        """Return what :func:`read_scores` opens these scores from; None where they lie in no files of their own."""
        return None

    def select(self, columns: NDArray[np.int64]) -> Scores:
        """Return the scores of some classes, in the order given."""
        columns = np.asarray(columns, np.int64)
        return self if np.array_equal(columns, np.arange(self.num_classes)) else _Columns(self, columns)

    def scaled(self, slope: Floats, offset: Floats) -> Scores:
        """Return ``slope * scores + offset``, both (C,) in single precision."""
        return _Scaled(self, slope, offset)

    def block(self, low: int, high: int) -> Floats:
        """Return the classes ``low`` to ``high`` of all images, (high - low, N)."""
        result = np.empty((high - low, self.num_images), np.float32)
        for rows, values in self.chunks(low, high):
            result[:, as_slice(rows)] = values.T
        return result

    def blocks(self) -> Iterator[tuple[int, Floats]]:
        """Give all classes, some at a time: the number of the first one, and scores (k, N)."""
        most = max(1, min(BLOCK, _BLOCK_BYTES // (4 * max(self.num_images, 1))))
        step = next(size for size in (64, 32, 16, 8, 4, 2, 1) if size <= most)  # divides BLOCK: no column is read twice
        for low in range(0, self.num_classes, step):
            yield low, self.block(low, min(low + step, self.num_classes))

    def in_order(self) -> Iterator[tuple[int, Floats]]:
        """Give all images in order, some at a time: the number of the first one, and scores (n, C)."""
        step = max(1, _GATHERED // max(self.num_classes, 1))
        for low in range(0, self.num_images, step):
            yield low, self.take(np.arange(low, min(low + step, self.num_images))).dense()

    def pairs(self, image: NDArray[np.integer], cls: NDArray[np.integer]) -> Floats:
        """Return the scores (K,) of some pairs."""
        order = None if bool((image[1:] >= image[:-1]).all()) else np.argsort(image, kind="stable")
        start = pointers(np.bincount(image, minlength=self.num_images))
        result = np.empty(len(image), np.float32)
        for rows, values in self.chunks():
            count = start[rows + 1] - start[rows]
            if count.any():
                at = ranges(start[rows], count)
                at = at if order is None else order[at]
                result[at] = values[np.repeat(np.arange(len(rows)), count), cls[at]]
        return result

    def dense(self) -> Floats:
        """Return the whole array (N, C): mind its memory."""
        result = np.empty(self.shape, np.float32)
        for rows, values in self.chunks():
            result[as_slice(rows)] = values
        return result

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the whole array, for NumPy."""
        return np.asarray(self.dense(), dtype)


class _Array(Scores):
    def __init__(self, values: NDArray[np.floating]) -> None:
        super().__init__(*values.shape)
        self.values = values

    def chunks(self, low: int = 0, high: int | None = None) -> Iterator[tuple[NDArray[np.int64], Floats]]:
        step = max(1, GROUP // max(self.num_classes, 1))
        for start in range(0, self.num_images, step):
            rows = np.arange(start, min(start + step, self.num_images))
            yield rows, self.values[start : start + step, low:high].astype(np.float32, copy=False)

    def take(self, rows: NDArray[np.int64]) -> Scores:
        return _Array(self.values[rows])

    def block(self, low: int, high: int) -> Floats:
        return np.ascontiguousarray(self.values[:, low:high].T, np.float32)

    def in_order(self) -> Iterator[tuple[int, Floats]]:
        for rows, values in self.chunks():
            yield int(rows[0]), values

    def pairs(self, image: NDArray[np.integer], cls: NDArray[np.integer]) -> Floats:
        return self.values[image, cls].astype(np.float32, copy=False)

    def dense(self) -> Floats:
        return self.values.astype(np.float32, copy=False)


class _Columns(Scores):
    """Some classes of other scores."""

    def __init__(self, whole: Scores, columns: NDArray[np.int64]) -> None:
        super().__init__(whole.num_images, len(columns))
        self.whole, self.columns = whole, columns

    def chunks(self, low: int = 0, high: int | None = None) -> Iterator[tuple[NDArray[np.int64], Floats]]:
        wanted = self.columns[low:high]
        first, last = (int(wanted.min()), int(wanted.max()) + 1) if len(wanted) else (0, 0)
        for rows, values in self.whole.chunks(first, last):
            yield rows, values[:, wanted - first]

    def take(self, rows: NDArray[np.int64]) -> Scores:
        return _Columns(self.whole.take(rows), self.columns)

    def pairs(self, image: NDArray[np.integer], cls: NDArray[np.integer]) -> Floats:
        return self.whole.pairs(image, self.columns[cls])


class _Scaled(Scores):
    """Other scores times a slope and plus an offset of each class."""

    def __init__(self, whole: Scores, slope: Floats, offset: Floats) -> None:
        super().__init__(*whole.shape)
        self.whole, self.slope, self.offset = whole, slope, offset

    def chunks(self, low: int = 0, high: int | None = None) -> Iterator[tuple[NDArray[np.int64], Floats]]:
        for rows, values in self.whole.chunks(low, high):
            yield rows, values * self.slope[low:high] + self.offset[low:high]

    def take(self, rows: NDArray[np.int64]) -> Scores:
        return _Scaled(self.whole.take(rows), self.slope, self.offset)

    def pairs(self, image: NDArray[np.integer], cls: NDArray[np.integer]) -> Floats:
        return self.whole.pairs(image, cls) * self.slope[cls] + self.offset[cls]


class _Stored(Scores):
    """Scores in files.

    Args:
        files: with the scores of C classes each.
        place: (N,) where each image lies: a number that counts the rows of all files, one after the other.
    """

    def __init__(self, files: Sequence[ScoreFile], place: NDArray[np.int64], classes: int) -> None:
        super().__init__(len(place), classes)
        self.files, self.place = files, place
        self._order = np.argsort(place, kind="stable")
        self._sorted = place[self._order]

    def chunks(self, low: int = 0, high: int | None = None) -> Iterator[tuple[NDArray[np.int64], Floats]]:
        high, start = self.num_classes if high is None else high, 0
        for file in self.files:
            end = start + file.num_images
            first, last = np.searchsorted(self._sorted, [start, end])
            if last > first:
                wanted = self._sorted[first:last] - start
                for at, values in file.read(wanted, low, high):
                    yield self._order[first:last][at], values
            start = end

    def take(self, rows: NDArray[np.int64]) -> Scores:
        return _Stored(self.files, self.place[rows], self.num_classes)

    def lie(self) -> tuple[Sequence[ScoreFile], NDArray[np.int64]]:
        return self.files, self.place

    def in_order(self) -> Iterator[tuple[int, Floats]]:
        if not np.array_equal(self._order, np.arange(self.num_images)):
            yield from super().in_order()
            return
        for rows, values in self.chunks():
            yield int(rows[0]), values


def read_scores(files: Sequence[ScoreFile], place: NDArray[np.int64] | None = None) -> Scores:
    """Open files as one.

    Args:
        files: at least one, of the same classes.
        place: (N,) where the image wanted lies, counted over the rows of all files; None takes all in order.

    Raises:
        UserError: the classes differ.
    """
    classes = files[0].classes
    wrong = [str(file.path) for file in files if file.classes != classes]
    if wrong:
        raise UserError(f"the scores are of other classes than those of {files[0].path}", wrong)
    if place is None:
        place = np.arange(sum(file.num_images for file in files))
    return _Stored(files, np.asarray(place, np.int64), len(classes))
