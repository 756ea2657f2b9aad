"""What an evaluation found: counts, and the metrics they give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Form: TypeAlias = Literal["area", "11point"]

#: of a class about which nothing was learned: no score reaches it, and it is finite for whoever compares with it
NEVER = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class MetricValues:
    """The metrics of one evaluation; every ratio comes from the integer counts it holds.

    Means and ratios that are undefined are NaN here and None in ``to_dict``. Arrays have one entry for each class,
    excluded classes with counts of 0 and NaN.

    Attributes:
        class_names: C names.
        form: the form of average precision, a key of ``FORMS``.
        thresholds: (C,) float64; a class is predicted present where ``score >= threshold``.
        zero_division: what undefined precision, recall and F1 count as; None leaves them out of the means.
        min_support: see ``evaluate``.
        excluded: (C,) bool.
        average_precision: (C,) float64, NaN undefined.
        roc_auc: (C,) float64, area under the ROC curve; NaN where average precision is undefined.
        present, absent: (C,) int64, known labels.
        true_positive, false_positive: (C,) int64.
        images: images evaluated, each once.
        duplicates: rows that were dropped because their image had been seen.
        images_known, images_full: images with a known label, and with all labels known.
        exact_known, exact_full: of these, images whose known labels are all predicted right.
    """

    class_names: tuple[str, ...]
    form: Form
    thresholds: NDArray[np.float64]
    zero_division: Literal[0, 1] | None
    min_support: int
    excluded: NDArray[np.bool_]
    average_precision: NDArray[np.float64]
    roc_auc: NDArray[np.float64]
    present: NDArray[np.int64]
    absent: NDArray[np.int64]
    true_positive: NDArray[np.int64]
    false_positive: NDArray[np.int64]
    images: int
    duplicates: int
    images_known: int
    images_full: int
    exact_known: int
    exact_full: int

    @property
    def false_negative(self) -> NDArray[np.int64]:
        """(C,) known present labels that were predicted absent."""
        return self.present - self.true_positive

    @property
    def precision(self) -> NDArray[np.float64]:
        """(C,) ``TP / (TP + FP)``; undefined without a predicted present, or without a known absent."""
        return self._refutable(self._ratio(self.true_positive, self.true_positive + self.false_positive))

    @property
    def recall(self) -> NDArray[np.float64]:
        """(C,) ``TP / (TP + FN)``; undefined without a known present."""
        return self._ratio(self.true_positive, self.present)

    @property
    def f1(self) -> NDArray[np.float64]:
        """(C,) ``2 TP / (2 TP + FP + FN)``; undefined without a predicted and a known present, or a known absent."""
        predicted = self.true_positive + self.false_positive
        return self._refutable(self._ratio(2 * self.true_positive, predicted + self.present))

    @property
    def mean_ap(self) -> float:
        """mAP: mean of the average precision over the classes for which it is defined."""
        return _mean(self.average_precision)

    @property
    def mean_roc_auc(self) -> float:
        """AUROC: mean of the area under the ROC curve over the classes for which it is defined."""
        return _mean(self.roc_auc)

    @property
    def zero_one(self) -> float:
        """0-1 exact match on known labels: share of the images with known labels that have all of these right."""
        return _share(self.exact_known, self.images_known)

    @property
    def zero_one_full_rows(self) -> float:
        """0-1 exact match over the images whose labels are all known."""
        return _share(self.exact_full, self.images_full)

    @property
    def macro_f1(self) -> float:
        """Macro-F1: mean of the F1 of the classes, never made from mean precision and mean recall."""
        return _mean(self.f1)

    @property
    def micro_f1(self) -> float:
        """Micro-F1: F1 of the known pairs of all classes with a known absent label, taken together."""
        right, predicted, present = self._refutable_counts()
        return self._overall(2 * right, predicted + present)

    @property
    def pc_precision(self) -> float:
        """PC-P: mean of the precision of the classes."""
        return _mean(self.precision)

    @property
    def pc_recall(self) -> float:
        """PC-R: mean of the recall of the classes."""
        return _mean(self.recall)

    @property
    def ov_precision(self) -> float:
        """OV-P: precision of the known pairs of all classes with a known absent label, taken together."""
        right, predicted, _ = self._refutable_counts()
        return self._overall(right, predicted)

    @property
    def ov_recall(self) -> float:
        """OV-R: recall of all known pairs taken together."""
        return self._overall(int(self.true_positive.sum()), int(self.present.sum()))

    @property
    def below_support(self) -> NDArray[np.bool_]:
        """(C,) classes with a known present label, but with fewer than ``min_support``."""
        return (self.present > 0) & (self.present < self.min_support)

    @property
    def one_sided(self) -> NDArray[np.bool_]:
        """(C,) classes with known present and no known absent labels: precision would be 1 whatever the scores."""
        return (self.present > 0) & (self.absent == 0)

    def names(self, chosen: NDArray[np.bool_]) -> list[str]:
        """Names of the chosen (C,) classes, excluded ones left out."""
        return [self.class_names[c] for c in np.flatnonzero(chosen & ~self.excluded)]

    def _overall(self, numerator: int, denominator: int) -> float:
        if denominator:
            return numerator / denominator
        return float("nan") if self.zero_division is None else float(self.zero_division)

    def _refutable(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values (C,) that a false positive would lower; NaN where no known label can be one."""
        return np.where(self.one_sided, np.nan, values)

    def _refutable_counts(self) -> tuple[int, int, int]:
        """True positives, predicted and known presents, of the classes in which a false positive is possible."""
        right, wrong, present = (a[~self.one_sided] for a in (self.true_positive, self.false_positive, self.present))
        return int(right.sum()), int(right.sum() + wrong.sum()), int(present.sum())

    def _ratio(self, numerator: NDArray[np.int64], denominator: NDArray[np.int64]) -> NDArray[np.float64]:
        result = np.full(len(numerator), np.nan if self.zero_division is None else float(self.zero_division))
        np.divide(numerator, denominator, out=result, where=denominator > 0)
        result[self.excluded] = np.nan
        return result


def _mean(values: NDArray[np.float64]) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")
