"""Scores and labels of many images, read some classes at a time; only the known pairs are held."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partlabel.metrics.accumulator import Accumulator
from partlabel.metrics.calibration import Calibration, fit
from partlabel.metrics.result import Metrics

#: some classes: the number of the first one, scores (k, N) before the sigmoid, labels (k, N) in {+1, -1, 0}
Block = tuple[int, NDArray[np.floating], NDArray[np.int8]]
#: classes that are looked at together where all scores are in memory
_CLASSES = 64


@dataclass(frozen=True, eq=False)
class ByClass:
    """N images and C classes, however many: what looks at a class gets its scores, what looks at labels the known ones.

    Attributes:
        num_images: N.
        num_classes: C.
        blocks: gives all classes, some at a time, whenever it is called.
        image: (K,) the images of the known labels, rising; of an image by class.
        cls: (K,) their classes.
        score: (K,) their scores.
        label: (K,) int8, +1 or -1.
    """

    num_images: int
    num_classes: int
    blocks: Callable[[], Iterator[Block]]
    image: NDArray[np.integer]
    cls: NDArray[np.integer]
    score: NDArray[np.floating]
    label: NDArray[np.int8]

    @staticmethod
    def of(scores: NDArray[np.floating], labels: NDArray[np.int8]) -> ByClass:
        """Take arrays (N, C)."""
        image, cls = np.nonzero(labels)

        def blocks() -> Iterator[Block]:
            for low in range(0, labels.shape[1], _CLASSES):
                own = slice(low, low + _CLASSES)
                yield low, scores[:, own].T, labels[:, own].T

        count, classes = labels.shape
        return ByClass(count, classes, blocks, image, cls, scores[image, cls], labels[image, cls])

    def classes(self) -> Iterator[tuple[int, NDArray[np.floating], NDArray[np.int8]]]:
        """Give each class: its number, scores (N,) and labels (N,)."""
        for low, scores, labels in self.blocks():
            for c, (own, known) in enumerate(zip(scores, labels, strict=True), low):
                yield c, own, known
            del scores, labels, own, known  # or they are held while the next ones are read

    def rows(self, inside: NDArray[np.bool_]) -> ByClass:
        """Return some of the images, bool (N,), in their order."""

        def blocks() -> Iterator[Block]:
            for low, scores, labels in self.blocks():
                yield low, scores[:, inside], labels[:, inside]
                del scores, labels

        own = inside[self.image]
        number = (np.cumsum(inside) - 1).astype(np.int32)
        count = int(np.count_nonzero(inside))
        image = number[self.image[own]]
        return ByClass(count, self.num_classes, blocks, image, self.cls[own], self.score[own], self.label[own])

    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the numbers of known present and of known absent labels, (C,) each."""
        present, absent = (np.bincount(self.cls[self.label == sign], minlength=self.num_classes) for sign in (1, -1))
        return present, absent

    def calibration(self) -> Calibration | None:
        """Fit the calibration on the known labels; None where all are of one sign."""
        return fit(self.score, self.cls, self.label > 0, self.num_classes)

    def metrics(
        self, thresholds: Any, class_names: tuple[str, ...], scores: NDArray[np.number] | None = None
    ) -> Metrics:
        """Measure on the known labels; ``scores`` (K,) stand in for their own."""
        found = Accumulator(self.num_classes, class_names)
        counts = np.bincount(self.image, minlength=self.num_images)
        found.add_pairs(counts, self.cls, self.score if scores is None else scores, self.label)
        return found.compute(thresholds)
