"""How likely a known label is wrong, when a model that has not seen it contradicts it.

A contradiction alone is no proof: in a class that is hard to see, right labels are contradicted all the time. What
tells them apart is where the scores lie. A label present that was given to an absent image by mistake has a score as
absent images have; one that is right and hard to see has a low score of a present image. So the scores of truly absent
and of truly present images of a class have two densities, f0 and f1, and a share epsilon of all known labels is
flipped, whatever the image (a mixture as in Lawrence and Schoelkopf, *ICML* 2001). A label present is wrong with the
probability

    epsilon n0 f0(x) / (epsilon n0 f0(x) + (1 - epsilon) n1 f1(x))

with n1 and n0 truly present and absent labels of the class, and a label absent with f0 and f1 and n0 and n1 exchanged.

Scores are measured in deviations of the labelled absent ones of the class from their median, both robust. In this
measure f0 is one smoothed histogram for all classes, as there are many absent labels; f1 is a normal distribution for
each class, because a discriminant adds up many features, and leans on that of all classes where labels are few. A
discriminative fit cannot do this: its slope takes the flipped labels for the hardness of the class and misses most of
them. epsilon and f1, in which each label counts as what it probably is, are found by EM. A share of chance would be
read into few labels, so epsilon starts from a beta distribution with a mean of 1 in 200.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.metrics.calibration import LARGEST

Floats = NDArray[np.float64]

#: what epsilon leans on: so many labels, of which so many are wrong; and where it starts
_LABELS, _WRONG, _START = 20.0, 0.1, 0.02
#: epsilon stays below this: with half of the labels flipped, nothing could be told
_MOST = 0.4
#: labels that the normal distribution of all classes counts as, in each
_LEANING = 10.0
_ROUNDS = 100
#: the histogram, in deviations: its ends and the width of its bins; the deviation of the smoothing kernel, in bins
_LOW, _HIGH, _WIDTH, _KERNEL = -6.0, 10.0, 0.1, 2.0
#: of a normal distribution: deviations per median of the distances to the median
_MAD = 1.4826


@dataclass(frozen=True, eq=False)
class _Labels:
    """K known labels: ``u`` in deviations, ``cls``, ``present``; ``absent_density``: f0 at ``u``; C classes."""

    u: Floats
    cls: NDArray[np.integer]
    present: NDArray[np.bool_]
    absent_density: Floats
    count: int

    def sums(self, weight: Floats) -> Floats:
        """(C,) sums of (K,)."""
        return np.bincount(self.cls, weight, self.count).astype(np.float64)


def wrong_probability(
    scores: NDArray[np.floating], classes: NDArray[np.integer], present: NDArray[np.bool_], count: int
) -> tuple[NDArray[np.float64], float]:
    """Say how likely each known label is wrong.

    Args:
        scores: (K,) of known labels, before the sigmoid, of models that have not seen them.
        classes: (K,) their classes, 0 .. count - 1.
        present: (K,) True present, False absent.
        count: C.

    Returns:
        (K,) in [0, 1], and epsilon; 0 for the labels of classes without a label of either sign.

    Raises:
        UserError: scores that are not finite, or beyond those of a training that has not diverged.
    """
    largest = float(np.abs(scores).max(initial=0))
    if not largest <= LARGEST:
        raise UserError(f"scores reach {largest:.3g}, so nothing can be told from them: the training has diverged")
    both = np.bincount(classes, present, count) * np.bincount(classes, ~present, count) > 0
    judged = np.flatnonzero(both[classes])
    wrong = np.zeros(len(present))
    if not len(judged):
        return wrong, 0.0
    wrong[judged], epsilon = _climb(_standard(np.asarray(scores, np.float64)[judged], classes[judged], present[judged]))
    return wrong, epsilon


def _standard(x: Floats, classes: NDArray[np.integer], present: NDArray[np.bool_]) -> _Labels:
    """Measure scores in deviations of the labelled absent ones of their class, and find the density of these."""
    names, cls = np.unique(classes, return_inverse=True)
    u = np.empty(len(x))
    order, end = np.argsort(cls, kind="stable"), np.cumsum(np.bincount(cls, minlength=len(names)))
    for own in np.split(order, end[:-1]):
        absent = x[own[~present[own]]]
        middle = np.median(absent)
        spread = _MAD * np.median(np.abs(absent - middle)) or absent.std() or 1.0
        u[own] = (x[own] - middle) / spread
    bins = round((_HIGH - _LOW) / _WIDTH)
    place = np.clip(((u - _LOW) / _WIDTH).astype(np.int64), 0, bins - 1)
    held = np.bincount(place[~present], minlength=bins) + 0.5
    away = np.arange(-3 * _KERNEL, 3 * _KERNEL + 1)
    kernel = np.exp(-0.5 * (away / _KERNEL) ** 2)
    density = np.convolve(held, kernel / kernel.sum(), "same")
    density /= density.sum() * _WIDTH
    return _Labels(u, cls, present, density[place], len(names))


def _climb(labels: _Labels) -> tuple[Floats, float]:
    """EM: probabilities (K,) of being wrong, and epsilon."""
    total, said = labels.sums(np.ones(len(labels.u))), labels.sums(labels.present.astype(np.float64))
    epsilon, wrong = _START, np.zeros(len(labels.u))
    truly = np.where(labels.present, np.where(labels.u > 1, 1.0, 0.3), 0.0)  # low ones are the first to be doubted
    for _ in range(_ROUNDS):
        middle, spread = _normal(labels, truly)
        z = (labels.u - middle[labels.cls]) / spread[labels.cls]
        present_density = np.exp(-0.5 * z**2) / (np.sqrt(2 * np.pi) * spread[labels.cls])
        n1 = np.maximum((said - epsilon * total) / (1 - 2 * epsilon), 1.0)
        n0 = np.maximum(total - n1, 1.0)
        f1, f0 = n1[labels.cls] * present_density, n0[labels.cls] * labels.absent_density
        mistaken = epsilon * np.where(labels.present, f0, f1)
        wrong = mistaken / np.maximum(mistaken + (1 - epsilon) * np.where(labels.present, f1, f0), 1e-300)
        truly = np.where(labels.present, 1 - wrong, wrong)
        before, epsilon = epsilon, min((wrong.sum() + _WRONG) / (len(wrong) + _LABELS), _MOST)
        if abs(epsilon - before) < 1e-6:
            break
    return wrong, float(epsilon)


def _normal(labels: _Labels, truly: Floats) -> tuple[Floats, Floats]:
    """Middle and deviation (C,) of the present of each class, each label counted as far as it is truly present."""
    weight, all_labels = labels.sums(truly), max(truly.sum(), 1e-12)
    middle = (labels.sums(truly * labels.u) + _LEANING * (truly @ labels.u) / all_labels) / (weight + _LEANING)
    square = truly * (labels.u - middle[labels.cls]) ** 2
    spread = (labels.sums(square) + _LEANING * square.sum() / all_labels) / (weight + _LEANING)
    return middle, np.sqrt(np.maximum(spread, 1e-6))
