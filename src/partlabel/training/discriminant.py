"""A linear head in closed form: a regularised discriminant from few known labels and the features of all images.

The direction of class c is ``(S + lambda_c I)^-1 (mean of the present - mean of the absent)``, with S the covariance of
all images, labelled or not (Fisher, 1936; regularised as in Friedman, 1989, towards the identity). Nothing is
iterated and no learning rate is chosen: one eigen-decomposition of S serves every class, every fold and every strength.

- **Strength.** ``lambda_c = kappa / sqrt(n_c n)``, where ``1 / n_c = 1 / present + 1 / absent`` and n is the geometric
  mean of n_c over the classes. kappa is found from the table itself: first by the evidence (type II maximum likelihood
  of the class means, MacKay, 1992), which needs no label put aside, then moved where out-of-fold average precision is
  better by two standard errors over the classes.
- **Round.** With the first head, a share of the unknown pairs that are expected to be present becomes present with a
  small weight, most others become absent, and the directions are found again (class-prior self-training). How many are
  expected comes from the share of present among known labels, corrected where the scores of all images contradict it.
- **Scale.** Out-of-fold scores of the known labels give each class a slope and an offset, so that scores are log-odds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partlabel.training.class_shares import expected_share
from partlabel.training.columns import Columns
from partlabel.training.feature_space import ClassMeans, FeatureSpace, joined
from partlabel.training.unseen import FACTORS as _FACTORS
from partlabel.training.unseen import Raw, Unseen

Floats = NDArray[np.float32]
Labels = NDArray[np.int8]

#: what a class was learned from, in the order of the codes of ``LinearHead.basis``
BASES = ("present and absent", "present and the unknown", "nothing")
BOTH, PRESENT_ONLY, NOTHING = range(3)

#: where the evidence looks for kappa
_STRENGTHS = 2.0 ** np.arange(0, 19)
#: half of what the evidence says ranks best on held-out images (experiments/closed_form.py)
_OF_EVIDENCE = 0.5
#: with few present labels the evidence is a matter of chance; a usual value counts as so many known present ones
_USUAL_LABELS = 1000.0
#: the usual value is D times this; D channels of unit variance are best with D / 10 to D / 5
_USUAL_SHARE = 0.2


@dataclass(frozen=True)
class Round:
    """A round of self-training: what becomes of the unknown pairs.

    ``present``: share of the expected present ones that become present, those with the highest scores. ``absent``:
    share of the others that become absent, those with the lowest scores. ``weight``: of the new present labels; a known
    label counts 1, and so does a new absent one.
    """

    present: float = 0.5
    absent: float = 0.8
    weight: float = 0.25

    def __post_init__(self) -> None:
        """Refuse values outside 0 .. 1 by a ValueError."""
        for name in ("present", "absent", "weight"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} of a round lies between 0 and 1, not {getattr(self, name)}")


@dataclass(frozen=True, eq=False)
class LinearHead:
    """``scores = features @ weight + bias``, before the sigmoid.

    Attributes:
        weight: float32 (D, C).
        bias: float32 (C,).
        basis: int8 (C,), codes of ``BASES``. A class that learned from nothing has weight 0.
        strength: kappa.
        expected: float64 (C,), the share of present labels expected among the unknown ones; NaN where none are unknown.
    """

    weight: Floats
    bias: Floats
    basis: NDArray[np.int8]
    strength: float
    expected: NDArray[np.float64]

    def scores(self, features: NDArray[Any]) -> Floats:
        """Scores (N, C) of features (N, D)."""
        return np.asarray(features, np.float32) @ self.weight + self.bias


def fit(
    features: NDArray[Any],
    labels: Labels | Columns,
    *,
    rounds: Round | None = Round(),
    folds: int = 5,
    seed: int = 0,
    groups: NDArray[Any] | None = None,
    sample: NDArray[np.bool_] | None = None,
) -> LinearHead:
    """Learn a head from the known labels of images.

    Args:
        features: (N, D) finite numbers of all images, also of those without a known label.
        labels: int8 (N, C) in {+1, -1, 0}, or columns, of which some classes at a time are looked at.
        rounds: the round of self-training; None learns from known labels alone (and, in a class without a known absent
            label, from the unknown ones as absent).
        folds: parts for the out-of-fold scores that choose the strength and the scale; fewer where there are fewer
            images (groups). One image alone gives no scale.
        seed: of the folds.
        groups: (N,) what stays in one fold; None: each image stands alone.
        sample: bool (N, C), the known labels that say how many unknown ones are present; None: all. False for those
            that were asked for. Columns have their own.

    Returns:
        The head. Labels of a class that has no known present one cannot give a direction: its score is the same for all
        images, and ``basis`` says so.

    Raises:
        ValueError: shapes that do not fit, no image, or features that are not finite.
    """
    known = Columns.of(labels, sample)
    images = FeatureSpace(features, known)
    everything = np.arange(len(images.rotated))
    present = int(known.counts()[0].sum())
    kappa = _strength(images, _first(images, known, everything), present)
    folds = min(folds, len(everything) if groups is None else len(np.unique(groups)))
    parts = assign_folds(known, folds, seed, groups) if folds > 1 else np.full(len(everything), -1)
    raw = _raw_out_of_fold(images, known, parts, rounds, [kappa] * folds)
    factor = raw.chosen()
    learned, expected = _learn(images, known, everything, rounds, kappa)
    direction = images.directions(learned, kappa * _FACTORS[factor])
    scale = raw.scale(factor)
    basis = _basis(known)
    weight = images.vectors @ (direction * scale.slope)
    weight, offset = weight / images.deviation[:, None], np.asarray(scale.offset)
    bias = offset - images.mean @ weight
    nothing = basis == NOTHING
    bias[nothing] = _log_odds(known)[nothing]
    return LinearHead(
        weight.astype(np.float32), bias.astype(np.float32), basis, float(kappa * _FACTORS[factor]), expected
    )


def out_of_fold(
    features: NDArray[Any],
    labels: Labels | Columns,
    folds: int = 5,
    seed: int = 0,
    groups: NDArray[Any] | None = None,
    *,
    rounds: Round | None = Round(),
    parts: NDArray[np.int64] | None = None,
    sample: NDArray[np.bool_] | None = None,
) -> Unseen:
    """Score every pair by a head that has not seen a label of its image.

    No label of a fold takes part in the directions that score it, not in their round of self-training and not in their
    strength by the evidence; the covariance, in which there are no labels, is of all images. Slope and offset of a
    fold, two numbers for each class, and the factor on the strength come from the known labels of the other folds; the
    heads that scored those have seen this fold, and that is all that is left of it.

    Args:
        features: (N, D), see :func:`fit`.
        labels: int8 (N, C) in {+1, -1, 0}, or columns.
        folds: number of parts.
        seed: of the folds.
        groups: (N,) what stays in one fold; None: each image stands alone.
        rounds: the round of self-training in each head, or None.
        parts: (N,) the fold of each image, 0 to ``folds`` - 1; None deals them out by seed and groups.
        sample: bool (N, C), see :func:`fit`.

    Returns:
        Scores (N, C), log-odds, computed when they are read, some images at a time; an array for NumPy. NaN where the
        other folds hold no known present label of the class, as nothing can be said then.
    """
    known = Columns.of(labels, sample)
    images = FeatureSpace(features, known)
    parts = assign_folds(known, folds, seed, groups) if parts is None else parts
    kappas = []
    for part in range(folds):
        inside = known.of_images(parts != part)
        first = _first(images, known, np.flatnonzero(parts != part))
        kappas.append(_strength(images, first, int(known.counts(inside)[0].sum())))
    raw = _raw_out_of_fold(images, known, parts, rounds, kappas)
    chosen = [raw.of_others(part) for part in range(folds)]
    return Unseen(raw, [factor for factor, _ in chosen], [scale for _, scale in chosen])


def assign_folds(
    labels: Labels | Columns, folds: int, seed: int, groups: NDArray[Any] | None = None
) -> NDArray[np.int64]:
    """Deal images out to folds, so that each holds its share of the known present labels of every class.

    Groups are sorted by the rarest class that is present in them, in random order within a class, and dealt out in
    turn.

    Args:
        labels: int8 (N, C), or columns.
        folds: number of folds, at least 2.
        seed: of the random order.
        groups: (N,) what stays together; None: each image stands alone.

    Returns:
        int64 (N,), the fold of each image.

    Raises:
        ValueError: fewer than 2 folds, or fewer images (groups) than folds.
    """
    known = Columns.of(labels)
    images, classes = known.shape
    unit = np.arange(images) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    count = int(unit.max(initial=-1)) + 1
    if folds < 2 or count < folds:
        raise ValueError(f"{count} images or groups cannot be dealt out to {folds} folds")
    rank = np.empty(classes, np.int64)
    rank[np.argsort(known.counts()[0], kind="stable")] = np.arange(classes)
    present = known.value > 0
    key = np.full(count, classes)
    np.minimum.at(key, unit[known.image[present]], rank[known.cls[present]])
    order = np.lexsort((np.random.default_rng(seed).random(count), key))
    fold = np.empty(count, np.int64)
    fold[order] = np.arange(count) % folds
    return fold[unit]


def _basis(labels: Columns) -> NDArray[np.int8]:
    present, absent = labels.counts()
    unknown = labels.shape[0] - present - absent > 0
    of_present = np.where((present > 0) & unknown, PRESENT_ONLY, NOTHING)
    return np.where((present > 0) & (absent > 0), BOTH, of_present).astype(np.int8)


def _first(images: FeatureSpace, labels: Labels | Columns, rows: NDArray[np.int64]) -> ClassMeans:
    """Means of the known labels of some images; the unknown are the absent of a class that has no known one."""
    known, z, found = Columns.of(labels), images.rotated[rows], []
    for block in known.blocks(len(rows)):
        own = known.block(block)[rows]
        absent = own < 0
        none = ~absent.any(0)
        absent[:, none] = own[:, none] == 0
        found.append(images.means(z, (own > 0).astype(np.float32), absent.astype(np.float32)))
    return joined(found)


def _learn(
    images: FeatureSpace,
    labels: Labels | Columns,
    rows: NDArray[np.int64],
    rounds: Round | None,
    kappa: float,
) -> tuple[ClassMeans, NDArray[np.float64]]:
    """Means of some images after the round, and the share (C,) expected to be present among their unknown pairs."""
    known = Columns.of(labels)
    means = _first(images, known, rows)
    expected = np.full(known.shape[1], np.nan)
    inside = np.zeros(known.shape[0], bool)
    inside[rows] = True
    inside = known.of_images(inside)
    unknown = len(rows) - np.add(*known.counts(inside))
    if rounds is None or not unknown.any():
        return means, expected
    direction, shrinkage = images.directions(means, kappa), images.shrinkage(means, kappa)
    z, share, found = images.rotated[rows], known.mean_share(inside), []
    for block in known.blocks(len(rows)):
        own, sample, part = known.block(block)[rows], known.sampled(block), means.of_classes(block)
        scores = z @ direction[:, block]
        unseen = _unseen(images, z, own, scores, part, shrinkage[block])
        sample = None if sample is None else sample[rows]
        expected[block] = expected_share(scores, own, unseen, sample, share)
        present, absent = (own > 0).astype(np.float32), (own < 0).astype(np.float32)
        for c in np.flatnonzero((unknown[block] > 0) & (part.effective > 0)):
            open_rows = np.flatnonzero(own[:, c] == 0)
            ranked = open_rows[np.argsort(-scores[open_rows, c], kind="stable")]
            up = round(rounds.present * expected[block][c] * len(ranked))
            down = round(rounds.absent * (len(ranked) - up))
            present[ranked[:up], c] = rounds.weight
            absent[ranked[len(ranked) - down :], c] = 1
        found.append(images.means(z, present, absent))
    expected[(unknown == 0) | (means.effective == 0)] = np.nan
    return joined(found), expected


def _unseen(
    images: FeatureSpace,
    z: Floats,
    own: Labels,
    scores: Floats,
    means: ClassMeans,
    shrinkage: NDArray[np.float64],
) -> Floats:
    """Scores (n, C) of the known labels as if each had been left out of the mean of its class, else as given.

    Without image i, the mean of its n images is ``(n mean - x_i) / (n - 1)``; with ``A`` the inverse of ``S + lambda``,
    its score moves by ``x_i' A (x_i - mean) / (n - 1)`` towards the other sign. NaN where n is 1. ``z``: the images
    (n, R); ``shrinkage``: lambda_c (C,).
    """
    inverse = (1 / (images.values[:, None] + shrinkage)).astype(np.float32)
    gap = (means.present - means.absent) * inverse
    spread = np.sqrt(images.values @ gap.astype(np.float64) ** 2)
    reach = (z * z) @ inverse
    found = scores.astype(np.float32, copy=True)
    for sign, mean, count in ((1, means.present, means.count_present), (-1, means.absent, means.count_absent)):
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = (reach - z @ (mean * inverse)) / (count - 1) / spread
        moved[:, count <= 1] = np.nan
        found = np.where(own == sign, found - sign * moved, found).astype(np.float32)
    return found


def _strength(images: FeatureSpace, means: ClassMeans, present: int) -> float:
    """Kappa before out-of-fold scores are seen: the geometric mean of evidence and usual value.

    Weighted by the number of labels known to be ``present``.
    """
    usual = _USUAL_SHARE * max(float(images.values.sum()), 1.0)  # the variances of D channels add up to D
    known = float(present)
    both = known * np.log(_OF_EVIDENCE * _evidence(images, means)) + _USUAL_LABELS * np.log(usual)
    return float(np.exp(both / (known + _USUAL_LABELS)))


def _evidence(images: FeatureSpace, means: ClassMeans) -> float:
    """The kappa of the grid under which the gaps between the class means are most likely.

    If a direction has independent normal entries of variance ``1 / kappa``, the gap t between the means of a class has,
    along an eigenvector of eigenvalue e, variance ``e^2 / kappa + e / n_c``.
    """
    some = means.effective > 0
    if not some.any():
        return float(_STRENGTHS[len(_STRENGTHS) // 2])
    squares = ((means.present - means.absent)[:, some].astype(np.float64)) ** 2
    e, n = images.values[:, None], means.effective[some]
    fits = []
    for kappa in _STRENGTHS:
        variance = e * e / kappa + e / n
        fits.append(-0.5 * float((np.log(variance) + squares / variance).sum()))
    return float(_STRENGTHS[int(np.argmax(fits))])


def _raw_out_of_fold(
    images: FeatureSpace,
    labels: Labels | Columns,
    parts: NDArray[np.int64],
    rounds: Round | None,
    kappas: list[float],
) -> Raw:
    """Scores of unit variance by heads that have not seen the fold.

    ``kappas``: the strength of each fold's head, before the factor.
    """
    known, heads = Columns.of(labels), []
    scores = [np.full(len(known.value), np.nan, np.float32) for _ in _FACTORS]
    for part, kappa in enumerate(kappas):
        own = np.flatnonzero(parts == part)
        means, _ = _learn(images, known, np.flatnonzero(parts != part), rounds, kappa)
        heads.append((means.gap_alone(), kappa))
        place = np.cumsum(parts == part) - 1
        z = images.rotated[own]
        for factor, found in zip(_FACTORS, scores, strict=True):
            direction = images.directions(means, kappa * factor)
            for block in known.blocks(len(own)):
                at = known.positions(block)
                at = at[parts[known.image[at]] == part]
                values = z @ direction[:, block]
                values[:, means.effective[block] == 0] = np.nan
                found[at] = values[place[known.image[at]], known.cls[at] - block.start]
    return Raw(images, known, parts, heads, scores)


def _log_odds(labels: Columns) -> NDArray[np.float64]:
    """Log-odds of present (C,) by the known labels, with one of each sign more."""
    present, absent = labels.counts()
    return np.log((present + 1) / (absent + 1))
