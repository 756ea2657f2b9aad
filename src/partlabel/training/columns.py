"""Labels of many images and classes for the closed form: read some classes at a time, known pairs by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partlabel.labels.pairs import by_class
from partlabel.labels.table import LabelTable

Labels = NDArray[np.int8]

#: pairs of image and class that are looked at together, and the fewest classes
_PAIRS, _FEWEST = 2**23, 8


class Columns:
    """Labels of N images and C classes in {+1, -1, 0}.

    Attributes:
        shape: N and C.
        image, cls: (K,) int32, the known pairs, image by image and of an image by class.
        value: (K,) int8, +1 or -1.
        sample: bool (K,), which of them speak for all images; None: all.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        pairs: tuple[NDArray[Any], NDArray[Any], Labels],
        sample: NDArray[np.bool_] | None = None,
    ) -> None:
        self.shape, self.value, self.sample = shape, pairs[2], sample
        self.image, self.cls = (number.astype(np.int32, copy=False) for number in pairs[:2])
        self._order, self._start = by_class(self.cls, shape[1])

    @staticmethod
    def of(labels: Labels | Columns, sample: NDArray[np.bool_] | None = None) -> Columns:
        """Take an array (N, C), and as large a mask of the sample; columns stay as they are."""
        if isinstance(labels, Columns):
            return labels
        if labels.ndim != 2:
            raise ValueError(f"labels {labels.shape} are not (N, C)")
        image, cls = np.nonzero(labels)
        return Columns(labels.shape, (image, cls, labels[image, cls]), None if sample is None else sample[image, cls])

    @staticmethod
    def of_table(table: LabelTable, sample: NDArray[np.bool_] | None = None) -> Columns:
        """Take a table; ``sample``: bool (K,) in the order of its known labels."""
        pairs = table.images_at(slice(None)), table.indices, table.values
        return Columns((table.num_images, table.num_classes), pairs, sample)

    def blocks(self, images: int) -> Iterator[slice]:
        """Give all classes, as many at a time as go well with so many images."""
        step = max(_FEWEST, _PAIRS // max(images, 1))
        for low in range(0, self.shape[1], step):
            yield slice(low, min(low + step, self.shape[1]))

    def positions(self, block: slice) -> NDArray[np.integer]:
        """Return where the known pairs of some classes lie among all known pairs."""
        return self._order[self._start[block.start] : self._start[block.stop]]

    def block(self, block: slice) -> Labels:
        """Return the labels (N, k) of some classes."""
        result, at = np.zeros((self.shape[0], block.stop - block.start), np.int8), self.positions(block)
        result[self.image[at], self.cls[at] - block.start] = self.value[at]
        return result

    def sampled(self, block: slice) -> NDArray[np.bool_] | None:
        """Return which labels of some classes are of the sample, bool (N, k); None: all known ones."""
        if self.sample is None:
            return None
        result, at = np.zeros((self.shape[0], block.stop - block.start), bool), self.positions(block)
        result[self.image[at], self.cls[at] - block.start] = self.sample[at]
        return result

    def counts(self, inside: NDArray[np.bool_] | None = None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return how many known pairs of each class are present and absent, (C,) each; of some pairs, bool (K,)."""
        present, absent = self.value > 0, self.value < 0
        if inside is not None:
            present, absent = present & inside, absent & inside
        return (
            np.bincount(self.cls[present], minlength=self.shape[1]),
            np.bincount(self.cls[absent], minlength=self.shape[1]),
        )

    def of_images(self, images: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which known pairs are of some images, bool (N,) and (K,)."""
        return images[self.image]

    def mean_share(self, inside: NDArray[np.bool_] | None = None) -> float:
        """Return the share of present among the known pairs of the sample, or of those of them inside."""
        counted = np.ones(len(self.value), bool) if self.sample is None else self.sample.copy()
        if inside is not None:
            counted &= inside
        present = np.count_nonzero(counted & (self.value > 0))
        return present / max(np.count_nonzero(counted), 1)
