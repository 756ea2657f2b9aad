"""Features of all images in the basis of their covariance, where a regularised discriminant is a division."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

#: images that are turned at once
_BLOCK = 4096


class HasShape(Protocol):
    """Labels of N images and C classes, in whichever form."""

    @property
    def shape(self) -> tuple[int, ...]:
        """N and C."""
        ...


@dataclass(frozen=True, eq=False)
class ClassMeans:
    """Class means in the basis of the eigenvectors: ``present`` and ``absent`` (R, C), and what they are the mean of.

    ``count_present`` and ``count_absent`` (C,): sums of weights.
    """

    present: Floats
    absent: Floats
    count_present: NDArray[np.float64]
    count_absent: NDArray[np.float64]

    @property
    def effective(self) -> NDArray[np.float64]:
        """n_c: as many labels of each sign would give means that are known as well; 0 without a present label."""
        return self.count_present * self.count_absent / np.maximum(self.count_present + self.count_absent, 1e-9)

    def of_classes(self, block: slice) -> ClassMeans:
        """Return the means of some classes."""
        return ClassMeans(
            self.present[:, block], self.absent[:, block], self.count_present[block], self.count_absent[block]
        )

    def gap_alone(self) -> ClassMeans:
        """Return means that have the same directions, in half the memory."""
        gap = self.present - self.absent
        return ClassMeans(gap, np.broadcast_to(np.float32(0), gap.shape), self.count_present, self.count_absent)


def joined(parts: Sequence[ClassMeans]) -> ClassMeans:
    """Put the means of some classes behind those of others."""
    present, absent = (np.concatenate([getattr(p, name) for p in parts], 1) for name in ("present", "absent"))
    counts = (np.concatenate([getattr(p, name) for p in parts]) for name in ("count_present", "count_absent"))
    return ClassMeans(present, absent, *counts)


class FeatureSpace:
    """The images in the basis of the eigenvectors of their covariance, standardised first.

    Attributes:
        mean, deviation: (D,) of each channel.
        values: (R,) eigenvalues above 0; R is at most N - 1 and D.
        vectors: (D, R).
        rotated: float32 (N, R).
    """

    def __init__(self, features: NDArray[Any], labels: HasShape) -> None:
        if features.ndim != 2 or len(labels.shape) != 2 or len(features) != labels.shape[0] or not len(features):
            raise ValueError(f"features {features.shape} and labels {labels.shape} are not (N, D) and (N, C)")
        total, square = np.zeros(features.shape[1]), np.zeros((features.shape[1],) * 2)
        blocks = [slice(a, min(a + _BLOCK, len(features))) for a in range(0, len(features), _BLOCK)]
        for rows in blocks:
            total += np.asarray(features[rows], np.float64).sum(0)
        self.mean = total / len(features)
        centre = self.mean.astype(np.float32)
        for rows in blocks:
            x = np.asarray(features[rows], np.float32) - centre
            square += x.T @ x
        if not np.isfinite(square).all():
            raise ValueError("some features are not finite numbers")
        square /= len(features)
        spread = np.sqrt(np.diag(square))
        self.deviation = np.where(spread > 1e-6 * max(spread.max(), 1e-30), spread, np.inf)  # a constant channel is 0
        values, vectors = np.linalg.eigh(square / np.outer(self.deviation, self.deviation))
        real = values > 1e-6 * max(values[-1], 1e-30)
        self.values, self.vectors = values[real], vectors[:, real]
        turn = (self.vectors / self.deviation[:, None]).astype(np.float32)
        self.rotated = np.empty((len(features), turn.shape[1]), np.float32)
        for rows in blocks:
            self.rotated[rows] = (np.asarray(features[rows], np.float32) - centre) @ turn

    def means(self, own: Floats, present: Floats, absent: Floats) -> ClassMeans:
        """Weighted means of some images ``own`` (n, R), rows of ``rotated``, with weights (n, C)."""
        count_present, count_absent = present.sum(0, dtype=np.float64), absent.sum(0, dtype=np.float64)
        return ClassMeans(
            own.T @ present / np.maximum(count_present, 1e-9).astype(np.float32),
            own.T @ absent / np.maximum(count_absent, 1e-9).astype(np.float32),
            count_present,
            count_absent,
        )

    def shrinkage(self, means: ClassMeans, kappa: float) -> NDArray[np.float64]:
        """lambda_c (C,)."""
        n = means.effective
        some = n > 0
        typical = np.exp(np.log(n[some]).mean()) if some.any() else 1.0
        return kappa / np.sqrt(np.where(some, n, typical) * typical)

    def directions(self, means: ClassMeans, kappa: float) -> Floats:
        """Directions (R, C), with scores of unit variance over all images; 0 where nothing is known to be present."""
        gap = means.present - means.absent
        found = gap / (self.values[:, None] + self.shrinkage(means, kappa)).astype(np.float32)
        spread = np.sqrt(self.values @ found.astype(np.float64) ** 2)
        usable = (means.effective > 0) & (spread > 0)
        return np.where(usable, found / np.where(usable, spread, 1), 0).astype(np.float32)
