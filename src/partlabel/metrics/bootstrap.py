"""Metrics of many resamples of the images at once: how far a number would move with other images.

A resample draws as many images as there are, with replacement (Efron, 1979); an image that is drawn twice counts twice.
So a resample is a vector of weights, one per image, and every count behind a metric is a sum of weights over known
pairs: a product of a sparse matrix with the matrix of weights. Average precision needs the counts at each score that a
present label has; between two of these, only the number of labels matters. Nothing is sorted more than once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.float64]

#: the metrics that are resampled, named as in ``partlabel.metrics.Metrics``
NAMES = (
    "mean_ap",
    "mean_roc_auc",
    "zero_one",
    "zero_one_full_rows",
    "macro_f1",
    "micro_f1",
    "pc_precision",
    "pc_recall",
    "ov_precision",
    "ov_recall",
)
#: numbers held at once in one array
_ROOM = 2**23


@dataclass(frozen=True)
class Resampled:
    """Metrics of B resamples: ``metrics`` by name, (B,) each, and ``average_precision`` (B, C); NaN where undefined."""

    metrics: dict[str, Floats]
    average_precision: NDArray[np.float32]


class Design:
    """The known pairs of N images and C classes, ordered once, so that metrics of any weights of the images follow.

    Args:
        scores: (N, C) floats.
        labels: (N, C) of +1 present, -1 absent, 0 unknown.
        thresholds: (C,); present where score >= threshold, in single precision.
    """

    def __init__(self, scores: NDArray[np.floating], labels: NDArray[np.int8], thresholds: Floats) -> None:
        self.images, self.classes = labels.shape
        image, cls = np.nonzero(labels)
        x = scores[image, cls].astype(np.float32)
        order = np.lexsort((-x, cls))
        image, cls, x = image[order], cls[order], x[order]
        present = labels[image, cls] > 0
        said = x >= thresholds.astype(np.float32)[cls]
        self._segments(image, cls, x, present)
        self._present = self._matrix(cls[present], image[present], self.classes)
        self._absent = self._matrix(cls[~present], image[~present], self.classes)
        self._said = self._matrix(cls[said], image[said], self.classes)
        self._right = self._matrix(cls[said & present], image[said & present], self.classes)
        wrong = np.bincount(image[said != present], minlength=self.images) > 0
        known = np.bincount(image, minlength=self.images)
        rows = [known > 0, (known > 0) & ~wrong, known == self.classes, (known == self.classes) & ~wrong]
        self._rows = np.array(rows, np.float64)

    def _segments(
        self, image: NDArray[np.int64], cls: NDArray[np.int64], x: NDArray[np.float32], present: NDArray[np.bool_]
    ) -> None:
        """Cut the falling scores of each class behind every score that a present label has, and at the end."""
        ends = np.append((cls[1:] != cls[:-1]) | (x[1:] != x[:-1]), True)[: len(x)]
        tie = np.cumsum(ends) - ends
        last = np.append(cls[1:] != cls[:-1], True)[: len(x)]
        met = np.bincount(tie, present, int(ends.sum())) > 0
        closes = met | last[ends]
        segment = (np.cumsum(closes) - closes)[tie]
        number = int(closes.sum())
        self._all = self._matrix(segment, image, number)
        self._hits = self._matrix(segment[present], image[present], number)
        tied = met[tie] & ~present
        self._tied = self._matrix(segment[tied], image[tied], number)
        of = self._class = cls[ends][closes]
        self._first = np.searchsorted(of, of, side="left")
        ones = np.ones(number)
        self._of_class = sparse.csr_array((ones, (of, np.arange(number))), shape=(self.classes, number))

    def _matrix(self, row: NDArray[Any], image: NDArray[np.int64], rows: int) -> Any:
        return sparse.csr_array((np.ones(len(row)), (row, image)), shape=(rows, self.images))

    @property
    def rows_at_once(self) -> int:
        """Resamples for which everything fits the room."""
        return max(1, _ROOM // max(self.images, self._all.shape[0], self.classes, 1))

    def metrics(self, weights: Floats) -> Resampled:
        """All metrics under B vectors of weights (N, B), at least 0; the definitions are those of ``Metrics``."""
        hits = self._hits @ weights
        with np.errstate(invalid="ignore", divide="ignore"):
            present, absent, said, right = (m @ weights for m in (self._present, self._absent, self._said, self._right))
            here, above = self._all @ weights, self._cumulated(hits)
            all_above = self._cumulated(here)
            gained = self._of_class @ np.nan_to_num(above / all_above * hits)
            beaten = absent[self._class] - (all_above - above) + self._tied @ weights / 2
            one_sided = (present > 0) & (absent == 0)
            ap = np.where(one_sided, np.nan, gained / present)
            auc = self._of_class @ (beaten * hits) / (present * absent)
            precision = np.where(one_sided, np.nan, right / said)
            recall, f1 = right / present, np.where(one_sided, np.nan, 2 * right / (said + present))
            known, exact, full, exact_full = self._rows @ weights
            seen = ~one_sided  # in these classes a false positive is possible
            all_present, all_said, all_right = ((m * seen).sum(0) for m in (present, said, right))
            found = {
                "mean_ap": _mean(ap),
                "mean_roc_auc": _mean(auc),
                "zero_one": exact / known,
                "zero_one_full_rows": exact_full / full,
                "macro_f1": _mean(f1),
                "micro_f1": 2 * all_right / (all_said + all_present),
                "pc_precision": _mean(precision),
                "pc_recall": _mean(recall),
                "ov_precision": all_right / all_said,
                "ov_recall": right.sum(0) / present.sum(0),
            }
        return Resampled(found, ap.T.astype(np.float32))

    def _cumulated(self, values: Floats) -> Floats:
        """Sums from the highest score of the class down to each segment."""
        total = np.cumsum(values, axis=0)
        return total - (total - values)[self._first]


def draw(units: NDArray[np.int64], resamples: int, seed: int, at_once: int) -> Iterator[Floats]:
    """Weights (N, b) of the images in ``resamples`` resamples, at most ``at_once`` at a time; seeded.

    Args:
        units: (N,) what is drawn as a whole: images of the same number come together.
        resamples: B.
        seed: the same seed gives the same weights, however many come at once.
        at_once: largest b.
    """
    count = int(units.max(initial=-1)) + 1
    random = np.random.Generator(np.random.PCG64(seed))
    for start in range(0, resamples, at_once):
        size = min(at_once, resamples - start)
        drawn = np.stack([np.bincount(random.integers(count, size=count), minlength=count) for _ in range(size)], 1)
        yield drawn.astype(np.float64)[units]


def resample(design: Design, units: NDArray[np.int64], resamples: int, seed: int) -> Resampled:
    """Metrics of many resamples; two designs of the same images see the same ones, so that they can be paired."""
    parts = [design.metrics(weights) for weights in draw(units, resamples, seed, design.rows_at_once)]
    parts = parts or [design.metrics(np.zeros((design.images, 0)))]
    metrics = {name: np.concatenate([part.metrics[name] for part in parts]) for name in NAMES}
    return Resampled(metrics, np.concatenate([part.average_precision for part in parts]))


def _mean(values: Floats) -> Floats:
    """Mean (B,) of (C, B) over the classes that are defined."""
    defined = ~np.isnan(values)
    return np.where(defined, values, 0).sum(0) / defined.sum(0)
