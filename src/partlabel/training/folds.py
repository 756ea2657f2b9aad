"""Scores of images from heads that have not seen them, and probabilities of these."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from partlabel.labels.holdout import at_random
from partlabel.labels.table import LabelTable
from partlabel.metrics.calibration import fit
from partlabel.models.scores import Scores
from partlabel.training import discriminant
from partlabel.training.columns import Columns
from partlabel.training.discriminant import Round
from partlabel.training.unseen import Unseen

Floats = NDArray[np.float32]

FOLDS = 5
#: known labels of either sign that a class needs to be checked: one for each fold
MIN_KNOWN = FOLDS


def out_of_fold(
    features: NDArray[np.floating],
    table: LabelTable,
    *,
    seed: int = 0,
    rounds: Round | None = None,
) -> OutOfFold:
    """Scores of every pair from heads that have not seen the images that they judge.

    Folds keep the groups of the table together and hold the present and absent labels of each class in proportion.

    Args:
        features: (N, D) of the images of the table.
        table: labels; origin does not matter here, every known label is learned from.
        seed: of the folds.
        rounds: the round of self-training in each head; None learns from known labels alone.

    Returns:
        Scores (N, C) before the sigmoid, computed when they are read; NaN for a class with fewer than ``MIN_KNOWN`` of
        a sign, and for one that some head could not learn, as the other folds do not hold both signs (its labels come
        from one group).

    Raises:
        UserError: fewer images, or groups, than folds.
    """
    usable = np.minimum(*table.class_counts()) >= MIN_KNOWN
    fold = np.empty(table.num_images, np.int64)
    for number, part in enumerate(table.split([1 / FOLDS] * FOLDS, seed)):
        fold[part] = number
    of_pairs = fold[table.images_at(slice(None))]
    for number in range(FOLDS):
        rest = of_pairs != number
        for sign in (1, -1):
            usable &= np.bincount(table.indices[rest & (table.values == sign)], minlength=table.num_classes) > 0
    columns = np.flatnonzero(usable)
    if not len(columns):
        return OutOfFold(None, columns, table)
    random = at_random(table)
    sample = None if random.all() or not random.any() else random
    place, inside = np.cumsum(usable) - 1, usable[table.indices]
    pairs = table.images_at(inside), place[table.indices[inside]], table.values[inside]
    known = Columns((table.num_images, len(columns)), pairs, None if sample is None else sample[inside])
    found = discriminant.out_of_fold(features, known, FOLDS, rounds=rounds, parts=fold)
    return OutOfFold(found, columns, table)


class OutOfFold(Scores):
    """Scores (N, C) of which only those of some classes are there, the others are NaN.

    ``scored``: bool (C,), the classes that have scores.
    """

    def __init__(self, some: Unseen | None, columns: NDArray[np.int64], table: LabelTable) -> None:
        super().__init__(table.num_images, table.num_classes)
        self._some, self._columns, self._table = some, columns, table
        self.scored = np.zeros(table.num_classes, bool)
        self.scored[columns] = True

    def chunks(self, low: int = 0, high: int | None = None) -> Iterator[tuple[NDArray[np.int64], Floats]]:
        """Compute the scores of some images at a time."""
        some = Scores.of(np.zeros((self.num_images, 0), np.float32)) if self._some is None else self._some
        for rows, values in some.chunks():
            found = np.full((len(rows), self.num_classes), np.nan, np.float32)
            found[:, self._columns] = values
            yield rows, found[:, low:high]

    def in_order(self) -> Iterator[tuple[int, Floats]]:
        """Compute the scores of some images at a time, in their order."""
        for rows, values in self.chunks():
            yield int(rows[0]), values

    def known(self) -> Floats:
        """Return the scores (K,) of the known pairs, in the order of the table."""
        found = np.full(self._table.num_known, np.nan, np.float32)
        if self._some is not None:
            found[self.scored[self._table.indices]] = self._some.known()
        return found


def calibrated(scores: NDArray[np.floating], table: LabelTable) -> NDArray[np.float64]:
    """Probabilities (N, C) of scores (N, C) of :func:`out_of_fold`, calibrated on the known labels; NaN stays NaN."""
    classes = np.flatnonzero(~np.isnan(scores.sum(0)))
    result = np.full(scores.shape, np.nan)
    if not len(classes):
        return result
    known = table.select_classes([table.classes[c] for c in classes])
    image, column = known.pair_images(), known.indices
    own = scores[:, classes]
    calibration = fit(own[image, column], column, known.values > 0, len(classes))
    if calibration is None:
        raise ValueError("every class that has scores has known labels of both signs")
    result[:, classes] = calibration.probabilities(own)
    return result
