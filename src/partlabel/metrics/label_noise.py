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
read into few labels, so epsilon starts from a beta distribution with a mean of 1 in 200. Of all labels, only what was
found lies in double precision; the rest is computed of some of them at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.metrics.calibration import LARGEST, furthest, parts

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
_BINS = round((_HIGH - _LOW) / _WIDTH)
#: of a normal distribution: deviations per median of the distances to the median
_MAD = 1.4826
#: labels that are sorted by class together, more where there are very many
_SORTED = 2**17


@dataclass(frozen=True, eq=False)
class _Part:
    """Some known labels: positions, classes, scores ``u`` in deviations, signs, and the density f0 at ``u``."""

    own: NDArray[np.intp]
    cls: NDArray[np.intp]
    u: Floats
    present: NDArray[np.bool_]
    absent_density: Floats


@dataclass(frozen=True, eq=False)
class _Labels:
    """Known labels (K,), of which those of ``judged`` classes (C,) count.

    ``middle`` and ``spread`` (C,) turn scores into deviations, ``density`` (bins,) is f0.
    """

    x: NDArray[np.floating]
    cls: NDArray[np.integer]
    present: NDArray[np.bool_]
    judged: NDArray[np.bool_]
    middle: Floats
    spread: Floats
    density: Floats

    def parts(self) -> Iterator[_Part]:
        """Give the labels that count, some at a time."""
        for some in parts(len(self.x)):
            own = np.flatnonzero(self.judged[self.cls[some]]) + some.start
            cls = self.cls[own].astype(np.intp)
            u = (self.x[own].astype(np.float64) - self.middle[cls]) / self.spread[cls]
            yield _Part(own, cls, u, self.present[own], self.density[_place(u)])


#: how far each label of a part is truly present, 0 to 1
Truly = Callable[[_Part], Floats]


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
    largest = furthest(scores)
    if not largest <= LARGEST:
        raise UserError(f"scores reach {largest:.3g}, so nothing can be told from them: the training has diverged")
    said, total = np.bincount(classes[present], minlength=count), np.bincount(classes, minlength=count)
    judged = said * (total - said) > 0
    if not judged.any():
        return np.zeros(len(present)), 0.0
    return _climb(_standard(np.asarray(scores), classes, present, judged))


def _place(u: Floats) -> NDArray[np.intp]:
    """Return the bins of scores in deviations."""
    return np.clip(((u - _LOW) / _WIDTH).astype(np.intp), 0, _BINS - 1)


def _standard(
    x: NDArray[np.floating], classes: NDArray[np.integer], present: NDArray[np.bool_], judged: NDArray[np.bool_]
) -> _Labels:
    """Measure scores in deviations of the labelled absent ones of their class, and find the density of these."""
    middle, spread = np.zeros(len(judged)), np.ones(len(judged))
    for c, absent in _absent(x, classes, present, len(judged)):
        if judged[c]:
            middle[c] = np.median(absent)
            spread[c] = _MAD * np.median(np.abs(absent - middle[c])) or absent.std() or 1.0
    labels = _Labels(x, classes, present, judged, middle, spread, np.zeros(_BINS))
    held = np.zeros(_BINS)
    for part in labels.parts():
        held += np.bincount(_place(part.u[~part.present]), minlength=_BINS)
    away = np.arange(-3 * _KERNEL, 3 * _KERNEL + 1)
    kernel = np.exp(-0.5 * (away / _KERNEL) ** 2)
    density = np.convolve(held + 0.5, kernel / kernel.sum(), "same")
    density /= density.sum() * _WIDTH
    return replace(labels, density=density)


def _absent(
    x: NDArray[np.floating], classes: NDArray[np.integer], present: NDArray[np.bool_], count: int
) -> Iterator[tuple[int, Floats]]:
    """Give each class that has absent labels, and their scores; the labels of some classes are sorted at a time."""
    held = np.cumsum(np.bincount(classes, minlength=count))
    room = max(_SORTED, len(x) // 64)
    cuts = np.flatnonzero(np.diff(held // room, prepend=0, append=-1))
    for low, high in pairwise([0, *cuts.tolist()]):
        own = np.flatnonzero((classes >= low) & (classes < high) & ~present)
        own = own[np.argsort(classes[own], kind="stable")]
        names, first = np.unique(classes[own], return_index=True)
        for c, at in zip(names.tolist(), np.split(own, first)[1:], strict=True):
            yield c, x[at].astype(np.float64)


def _climb(labels: _Labels) -> tuple[Floats, float]:
    """EM: probabilities (K,) of being wrong, and epsilon."""
    total, said = np.zeros((2, len(labels.judged)))
    for part in labels.parts():
        np.add.at(total, part.cls, 1.0)
        np.add.at(said, part.cls, part.present.astype(np.float64))
    epsilon, wrong, count = _START, np.zeros(len(labels.x)), total.sum()

    def at_first(part: _Part) -> Floats:
        return np.where(part.present, np.where(part.u > 1, 1.0, 0.3), 0.0)  # low ones are the first to be doubted

    def as_found(part: _Part) -> Floats:
        return np.where(part.present, 1 - wrong[part.own], wrong[part.own])

    truly: Truly = at_first
    for _ in range(_ROUNDS):
        middle, spread = _normal(labels, truly)
        n1 = np.maximum((said - epsilon * total) / (1 - 2 * epsilon), 1.0)
        n0 = np.maximum(total - n1, 1.0)
        in_all, truly = 0.0, as_found
        for part in labels.parts():
            cls = part.cls
            z = (part.u - middle[cls]) / spread[cls]
            present_density = np.exp(-0.5 * z**2) / (np.sqrt(2 * np.pi) * spread[cls])
            f1, f0 = n1[cls] * present_density, n0[cls] * part.absent_density
            mistaken = epsilon * np.where(part.present, f0, f1)
            right = (1 - epsilon) * np.where(part.present, f1, f0)
            wrong[part.own] = found = mistaken / np.maximum(mistaken + right, 1e-300)
            in_all += found.sum()
        before, epsilon = epsilon, min((in_all + _WRONG) / (count + _LABELS), _MOST)
        if abs(epsilon - before) < 1e-6:
            break
    return wrong, float(epsilon)


def _normal(labels: _Labels, truly: Truly) -> tuple[Floats, Floats]:
    """Middle and deviation (C,) of the present of each class, each label counted as far as it is truly present."""
    size = len(labels.judged)
    weight, first, second = np.zeros((3, size))
    all_labels, all_first, all_second = 0.0, 0.0, 0.0
    for part in labels.parts():
        counted = truly(part)
        np.add.at(weight, part.cls, counted)
        np.add.at(first, part.cls, counted * part.u)
        all_labels, all_first = all_labels + counted.sum(), all_first + counted @ part.u
    all_labels = max(all_labels, 1e-12)
    middle = (first + _LEANING * all_first / all_labels) / (weight + _LEANING)
    for part in labels.parts():
        square = truly(part) * (part.u - middle[part.cls]) ** 2
        np.add.at(second, part.cls, square)
        all_second += square.sum()
    spread = (second + _LEANING * all_second / all_labels) / (weight + _LEANING)
    return middle, np.sqrt(np.maximum(spread, 1e-6))
