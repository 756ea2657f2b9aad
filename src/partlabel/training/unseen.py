"""Scores of images by closed-form heads that have not seen them: of the known pairs at once, of all when read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partlabel.metrics import Accumulator
from partlabel.metrics.calibration import Calibration
from partlabel.metrics.calibration import fit as fit_calibration
from partlabel.models.scores import Scores
from partlabel.training.columns import Columns
from partlabel.training.feature_space import ClassMeans, FeatureSpace

Floats = NDArray[np.float32]

#: what out-of-fold average precision may change about the strength
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
#: classes, and known labels of each sign in each, that a change needs
_MIN_CLASSES, _MIN_KNOWN = 8, 5
#: scores that are computed at once; and pairs that unknown labels as absent are calibrated on, from as many images
_AT_ONCE, _MOST = 2**23, 2**23


@dataclass(frozen=True, eq=False)
class Raw:
    """Scores of unit variance, by heads that have not seen the fold.

    ``known``: N images and C classes; ``parts``: (N,) the fold of each image; ``heads``: means and strength of the head
    of each fold; ``scores``: for each of ``FACTORS``, (K,) those of the known pairs, NaN where a head learned nothing.
    """

    images: FeatureSpace
    known: Columns
    parts: NDArray[np.int64]
    heads: list[tuple[ClassMeans, float]]
    scores: list[Floats]

    def every(self, part: int, factor: int, rows: NDArray[np.int64]) -> Floats:
        """Compute the scores (len(rows), C) of images of a fold."""
        means, kappa = self.heads[part]
        values = self.images.rotated[rows] @ self.images.directions(means, kappa * FACTORS[factor])
        values[:, means.effective == 0] = np.nan
        return values

    def of_others(self, part: int) -> tuple[int, Calibration]:
        """Choose the factor and the scale of a fold by the known pairs of the others."""
        others = self.known.of_images(self.parts != part)
        factor = self.chosen(others)
        return factor, self.scale(factor, others)

    def chosen(self, inside: NDArray[np.bool_] | None = None) -> int:
        """Choose one of ``FACTORS`` by the known pairs, or some of them, bool (K,), see :func:`chosen`."""
        cls, value, scores = self.known.cls, self.known.value, self.scores
        if inside is not None:
            cls, value, scores = cls[inside], value[inside], [each[inside] for each in scores]
        return chosen(scores, cls, value, self.known.shape[1])

    def scale(self, factor: int, inside: NDArray[np.bool_] | None = None) -> Calibration:
        """Slope and offset of each class, from the known pairs, or some of them, bool (K,).

        Where all known labels are of one sign, the unknown pairs are taken as absent; of very many images, those of
        some drawn at random.
        """
        counted = ~np.isnan(self.scores[factor])
        if inside is not None:
            counted &= inside
        classes = self.known.shape[1]
        present, cls = self.known.value[counted] > 0, self.known.cls[counted]
        found = fit_calibration(self.scores[factor][counted], cls, present, classes) if len(cls) else None
        if found is None and present.any():
            found = self._on_every(factor, inside)
        return Calibration((1.0,) * classes, (0.0,) * classes) if found is None else found

    def _on_every(self, factor: int, inside: NDArray[np.bool_] | None) -> Calibration | None:
        images, classes = self.known.shape
        most = max(1, _MOST // max(classes, 1))
        rows = np.arange(images)
        if images > most:
            rows = np.sort(np.random.default_rng(0).permutation(rows)[:most])
        scores = np.full((len(rows), classes), np.nan, np.float32)
        for part in range(len(self.heads)):
            own = self.parts[rows] == part
            scores[own] = self.every(part, factor, rows[own])
        place = np.full(images, -1)
        place[rows] = np.arange(len(rows))
        at = (self.known.value > 0) & (place[self.known.image] >= 0)
        at = at if inside is None else at & inside
        present = np.zeros(scores.shape, bool)
        present[place[self.known.image[at]], self.known.cls[at]] = True
        image, cls = np.nonzero(~np.isnan(scores))
        return fit_calibration(scores[image, cls], cls, present[image, cls], classes)


class Unseen(Scores):
    """Scores (N, C) before the sigmoid by heads that have not seen the images, computed when they are read.

    Args:
        raw: the scores before slope and offset.
        factors: number in ``FACTORS`` for each fold.
        scales: slope and offset of each class for each fold.
        rows: the images; None takes all.
    """

    def __init__(
        self, raw: Raw, factors: Sequence[int], scales: Sequence[Calibration], rows: NDArray[np.int64] | None = None
    ) -> None:
        self.raw, self.factors, self.scales = raw, factors, scales
        self.rows = np.arange(raw.known.shape[0]) if rows is None else rows
        super().__init__(len(self.rows), raw.known.shape[1])

    def known(self) -> Floats:
        """Return the scores (K,) of the known pairs, in the order of the table."""
        known, found = self.raw.known, np.full(len(self.raw.known.value), np.nan, np.float32)
        for part, (factor, scale) in enumerate(zip(self.factors, self.scales, strict=True)):
            own = known.of_images(self.raw.parts == part)
            slope, offset = np.asarray(scale.slope, np.float32), np.asarray(scale.offset, np.float32)
            found[own] = self.raw.scores[factor][own] * slope[known.cls[own]] + offset[known.cls[own]]
        return found

    def chunks(self, low: int = 0, high: int | None = None) -> Iterator[tuple[NDArray[np.int64], Floats]]:
        """Compute the scores of some images at a time."""
        step = max(1, _AT_ONCE // max(self.num_classes, 1))
        for start in range(0, self.num_images, step):
            rows = np.arange(start, min(start + step, self.num_images))
            own, found = self.rows[rows], np.full((len(rows), self.num_classes), np.nan, np.float32)
            for part, (factor, scale) in enumerate(zip(self.factors, self.scales, strict=True)):
                here = self.raw.parts[own] == part
                values = self.raw.every(part, factor, own[here])
                found[here] = values * np.asarray(scale.slope, np.float32) + np.asarray(scale.offset, np.float32)
            yield rows, found[:, low:high]

    def take(self, rows: NDArray[np.int64]) -> Scores:
        """Return the scores of some images."""
        return Unseen(self.raw, self.factors, self.scales, self.rows[rows])


def chosen(scores: Sequence[Floats], cls: NDArray[np.integer], value: NDArray[np.int8], classes: int) -> int:
    """Choose one of ``FACTORS``: 1, unless another is better in mean average precision by two standard errors.

    Args:
        scores: for each of ``FACTORS``, (K,) of known pairs.
        cls: (K,) their classes.
        value: (K,) their labels.
        classes: C.
    """
    plain = FACTORS.index(1.0)
    present, absent = (np.bincount(cls[value == sign], minlength=classes) for sign in (1, -1))
    enough = np.minimum(present, absent) >= _MIN_KNOWN
    if enough.sum() < _MIN_CLASSES:
        return plain
    counted = enough[cls] & ~np.isnan(scores[plain])
    place = (np.cumsum(enough) - 1)[cls[counted]]

    def precision(of: Floats) -> NDArray[np.float64]:
        found = Accumulator(int(enough.sum()))
        found.add_pairs(np.array([len(place)]), place, np.nan_to_num(of[counted]), value[counted])
        return found.compute().average_precision

    each = np.stack([precision(of) for of in scores])
    gains = each - each[plain]
    best = int(np.nanmean(gains, axis=1).argmax())
    error = np.nanstd(gains[best], ddof=1) / np.sqrt(enough.sum())
    return best if np.nanmean(gains[best]) > 2 * error else plain
