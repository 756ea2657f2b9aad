"""All metrics of the paper's appendix, on known labels only.

A pair (image, class) counts only when its label is known; nothing about an unknown pair can change a number. True
positives, predicted positives and the precision-recall curve are integer counts over the known pairs, so the result
does not depend on batches, order or processes.

Average precision, the area under the ROC curve, precision and F1 of a class are defined only where a false positive can
be seen: with known present labels alone they would be perfect whatever the scores. Such classes are left out of the
means and of the overall precision and micro-F1, and listed.

Scores and thresholds are compared in single precision. Infinite scores are allowed (a probability of exactly 0 or 1 has
one); the score of a known pair that is not a number is an error. A class is predicted present where
``score >= threshold``.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from partlabel.core.errors import PartlabelWarning, UserError
from partlabel.metrics.accumulator import Accumulator
from partlabel.metrics.pairs import Array, to_numpy
from partlabel.metrics.report import DECISION_RULE, FORMS
from partlabel.metrics.result import Metrics
from partlabel.metrics.values import Form

__all__ = ["DECISION_RULE", "FORMS", "Accumulator", "Metrics", "average_precision", "evaluate"]


def average_precision(scores: Array, labels: Array, *, form: Form = "area") -> NDArray[np.float64]:
    """Average precision of each class over the images whose label for that class is known.

    ``form="area"``: ``AP = sum over n of (R_n - R_(n-1)) P_n``, where n runs over the distinct scores in descending
    order and images of equal score form one threshold (the definition of scikit-learn). ``form="11point"``: the mean
    over t = 0, 0.1, ..., 1 of the highest precision at a recall of at least t (PASCAL VOC until 2009). A perfect
    ranking has exactly 1.0 in both.

    Args:
        scores: (N, C) floats, NumPy or torch; any monotone score, compared in single precision.
        labels: (N, C) in {+1 present, -1 absent, 0 unknown}.
        form: ``"area"`` or ``"11point"``.

    Returns:
        (C,) float64 in [0, 1]; NaN for a class without known labels of both signs. Without a known present label it is
        undefined; without a known absent one it would be 1 whatever the scores.

    Raises:
        UserError: shapes differ, a label is not +1, -1 or 0, or the score of a known pair is NaN.
    """
    return evaluate(scores, labels, form=form).average_precision


def evaluate(
    scores: Array,
    labels: Array,
    thresholds: Array = 0.0,
    class_names: Sequence[str] | None = None,
    *,
    form: Form = "area",
    min_support: int = 0,
    exclude: Sequence[str | int] = (),
    zero_division: Literal[0, 1] | None = None,
) -> Metrics:
    """All metrics of one set of scores.

    Args:
        scores: (N, C) floats, NumPy or torch, before the sigmoid (or any scores that fit ``thresholds``).
        labels: (N, C) in {+1 present, -1 absent, 0 unknown}.
        thresholds: one number, or (C,) numbers; a class is predicted present where ``score >= threshold``. On scores
            before the sigmoid, 0 is a probability of 0.5.
        class_names: C names for reports; by default the column numbers.
        form: form of average precision, see ``average_precision``.
        min_support: classes with fewer known present labels than this, but at least one, are listed in the report.
            They stay in the means.
        exclude: classes (names or columns) left out of every metric, the exact match and all divisors.
        zero_division: None: precision is undefined for a class without predicted presents, recall without known
            presents, F1 without both, and the means are over the classes that remain; 0 or 1: undefined values of these
            three count as that number instead (0 is scikit-learn's default). What needs a known absent label stays
            undefined without one.

    Returns:
        The metrics, with the counts they come from; ``to_dict`` for JSON, ``table`` for people.

    Raises:
        UserError: as ``average_precision``; unknown or repeated class names; thresholds of a wrong shape or not finite.

    Warns:
        PartlabelWarning: labels of another type than int8 hold 1 and 0 and no -1, as a 0/1 matrix does. (In int8, which
            label tables give, such labels are silently what they are: of one sign.)
    """
    shape = np.shape(scores)
    if len(shape) != 2:
        raise UserError(f"scores must have the shape (images, classes), found {tuple(shape)}")
    accumulator = Accumulator(shape[1], class_names)
    accumulator.update(scores, labels)
    given = to_numpy(labels)
    if given.dtype != np.int8 and (given == 0).any() and given.max() == 1 and given.min() == 0:
        warnings.warn(
            "no label is known absent (-1), but some are present (1) and unknown (0); is 0 meant as absent? Here 0 is "
            "unknown, and only recall can be measured",
            PartlabelWarning,
            stacklevel=2,
        )
    return accumulator.compute(
        thresholds, form=form, min_support=min_support, exclude=exclude, zero_division=zero_division
    )
