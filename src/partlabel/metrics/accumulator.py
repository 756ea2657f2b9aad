"""Collects known pairs batch by batch and counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.metrics.pairs import (
    CLASS_SHIFT,
    MAX_CLASSES,
    Array,
    curve,
    descending_bits,
    join,
    ranges,
    roc_area,
    segment_sums,
    take,
    to_numpy,
)
from partlabel.metrics.report import FORMS
from partlabel.metrics.result import Metrics
from partlabel.metrics.values import Form


class Accumulator:
    """Collects the known pairs of many batches, then computes all metrics at once.

    Only known pairs are kept: 8 bytes each, plus 12 bytes per image, in NumPy arrays on the CPU, without gradients.

    For several processes, pass the numbers of the images as ``rows`` to ``update``, gather each process's ``state()``
    (it may be empty) and build one accumulator with ``from_states``. An image that several processes have seen, because
    the sampler padded its list, counts once (as first seen); the result is the same to the last digit for any number of
    processes.

    Args:
        num_classes: C.
        class_names: C unique names for reports and errors; by default the column numbers.
    """

    def __init__(self, num_classes: int, class_names: Sequence[str] | None = None) -> None:
        if not 0 < num_classes < MAX_CLASSES:
            raise UserError(f"the number of classes must be at least 1, found {num_classes}")
        names = tuple(str(c) for c in range(num_classes)) if class_names is None else tuple(class_names)
        if len(names) != num_classes:
            raise UserError(f"{len(names)} class names for {num_classes} columns of scores")
        repeated = [name for name, count in Counter(names).items() if count > 1]
        if repeated:
            raise UserError("class names are repeated", repeated)
        self.num_classes = num_classes
        self.class_names = names
        self.num_rows = 0
        self._numbered: bool | None = None
        self._rows: list[NDArray[np.int64]] = []
        self._counts: list[NDArray[np.int32]] = []
        self._keys: list[NDArray[np.uint64]] = []

    def update(self, scores: Array, labels: Array, rows: Array | None = None) -> None:
        """Add one batch; tensors are detached and only their known pairs are copied to the CPU.

        Args:
            scores: (B, C) floats; B may be 0.
            labels: (B, C) in {+1, -1, 0}.
            rows: (B,) integers that name the images, so that repeated images count once. Give it in all updates or in
                none; without it every row counts as another image.

        Raises:
            UserError: wrong shapes; labels that are not +1, -1 or 0 or NaN scores of known pairs, each listed with its
                image row and class. Nothing of the batch is kept.
        """
        shape, label_array = tuple(np.shape(scores)), to_numpy(labels)
        if len(shape) != 2 or shape[1] != self.num_classes or label_array.shape != shape:
            raise UserError(
                f"scores and labels must both have the shape (images, {self.num_classes}), "
                f"found {shape} and {label_array.shape}"
            )
        numbers = self._row_numbers(rows, shape[0])
        known = label_array != 0
        self._check_labels(label_array, known, numbers)
        flat = np.flatnonzero(known)
        counts = np.count_nonzero(known, axis=1).astype(np.int32)
        classes = flat - np.repeat(np.arange(0, label_array.size, self.num_classes), counts)
        keys = self._packed(numbers, counts, classes, take(scores, flat), label_array.reshape(-1)[flat])
        self._numbered = rows is not None
        self._append(numbers, counts, keys)

    def add_pairs(
        self,
        counts: NDArray[np.integer],
        classes: NDArray[np.integer],
        scores: NDArray[np.number],
        labels: NDArray[np.int8],
    ) -> None:
        """Add images of which only the known pairs are at hand, image by image; every image counts as another one.

        Args:
            counts: (B,) known pairs of each image.
            classes: (K,) of the pairs, rising within an image.
            scores: (K,).
            labels: (K,) +1 or -1.

        Raises:
            UserError: NaN scores, each listed; or rows were numbered in an earlier update.
        """
        numbers = self._row_numbers(None, len(counts))
        keys = self._packed(numbers, counts, classes, np.asarray(scores, np.float32), labels)
        self._numbered = False
        self._append(numbers, counts.astype(np.int32), keys)

    def _packed(
        self,
        numbers: NDArray[np.int64],
        counts: NDArray[np.integer],
        classes: NDArray[np.integer],
        values: NDArray[np.float32],
        labels: NDArray[Any],
    ) -> NDArray[np.uint64]:
        """Class, score and label of each known pair as one number that sorts by them."""
        bad = np.flatnonzero(np.isnan(values))
        if len(bad):
            image = np.repeat(numbers, counts)
            raise UserError(
                f"the scores of {len(bad)} known labels are not numbers (NaN)",
                [self._place(image[i], classes[i]) for i in bad],
            )
        keys = classes.astype(np.uint64) << CLASS_SHIFT
        keys |= descending_bits(values).astype(np.uint64) << np.uint64(1)
        return keys | (labels > 0).astype(np.uint64)

    def _append(self, numbers: NDArray[np.int64], counts: NDArray[np.int32], keys: NDArray[np.uint64]) -> None:
        self.num_rows += len(numbers)
        self._rows.append(numbers)
        self._counts.append(counts)
        self._keys.append(keys)

    def state(self) -> dict[str, Any]:
        """What was collected, as flat NumPy arrays: to be sent to another process and given to ``from_states``."""
        return {
            "class_names": self.class_names,
            "numbered": self._numbered,
            "rows": join(self._rows, np.int64),
            "counts": join(self._counts, np.int32),
            "keys": join(self._keys, np.uint64),
        }

    @classmethod
    def from_states(cls, states: Sequence[dict[str, Any]]) -> Accumulator:
        """One accumulator of the states of several processes, of which some may be empty.

        Raises:
            UserError: the classes differ, or only some states have row numbers.
        """
        merged = cls(len(states[0]["class_names"]), states[0]["class_names"])
        for state in states:
            other = cls(len(state["class_names"]), state["class_names"])
            other._numbered, other.num_rows = state["numbered"], len(state["rows"])
            other._rows, other._counts, other._keys = [state["rows"]], [state["counts"]], [state["keys"]]
            merged.merge(other)
        return merged

    def merge(self, other: Accumulator) -> None:
        """Add what another accumulator of the same classes has collected.

        Raises:
            UserError: the classes differ, or only one of the two has row numbers.
        """
        if self.class_names != other.class_names:
            raise UserError("metrics of different classes cannot be merged")
        if other.num_rows == 0:
            return
        if self._numbered is not None and self._numbered != other._numbered:
            raise UserError("metrics with and without row numbers cannot be merged")
        self._numbered = other._numbered
        self.num_rows += other.num_rows
        self._rows += other._rows
        self._counts += other._counts
        self._keys += other._keys

    def compute(
        self,
        thresholds: Array = 0.0,
        *,
        form: Form = "area",
        min_support: int = 0,
        exclude: Sequence[str | int] = (),
        zero_division: Literal[0, 1] | None = None,
    ) -> Metrics:
        """The metrics of everything collected so far; arguments as for ``evaluate``.

        Raises:
            UserError: as ``evaluate``; or two rows of the same number with different labels.
        """
        if form not in FORMS:
            raise UserError(f"unknown form of average precision {form!r}: use one of {', '.join(FORMS)}")
        limits = self._thresholds(thresholds)
        excluded = self._excluded(exclude)
        keys, counts, duplicates = self._distinct()
        if excluded.any():
            keep = ~excluded[keys >> CLASS_SHIFT]
            counts = segment_sums(keep, counts)
            keys = keys[keep]
        first = np.arange(self.num_classes + 1, dtype=np.uint64) << CLASS_SHIFT
        cut = first[:-1] | descending_bits(limits.astype(np.float32)).astype(np.uint64) << np.uint64(1) | np.uint64(1)
        wrong = (keys <= cut[keys >> CLASS_SHIFT]) != (keys & np.uint64(1)).astype(bool)
        exact = segment_sums(wrong, counts) == 0
        full = counts == self.num_classes - np.count_nonzero(excluded)

        keys.sort()
        start, end = np.searchsorted(keys, first), np.searchsorted(keys, cut, side="right")
        positive = np.flatnonzero(keys & np.uint64(1))
        positive_keys = keys[positive]
        positive_start = np.searchsorted(positive_keys, first)
        true_positive = np.searchsorted(positive_keys, cut, side="right") - positive_start[:-1]
        present = np.diff(positive_start)
        absent = np.diff(start) - present
        return Metrics(
            class_names=self.class_names,
            form=form,
            thresholds=limits,
            zero_division=zero_division,
            min_support=min_support,
            excluded=excluded,
            average_precision=np.where(absent > 0, curve(positive, positive_keys, start, positive_start, form), np.nan),
            roc_auc=roc_area(keys, positive, start, positive_start),
            present=present,
            absent=absent,
            true_positive=true_positive,
            false_positive=end - start[:-1] - true_positive,
            images=len(counts),
            duplicates=duplicates,
            images_known=int(np.count_nonzero(counts)),
            images_full=int(np.count_nonzero(full)),
            exact_known=int(np.count_nonzero(exact & (counts > 0))),
            exact_full=int(np.count_nonzero(exact & full)),
        )

    def _row_numbers(self, rows: Array | None, count: int) -> NDArray[np.int64]:
        """The numbers of the images of a batch; consecutive where none are given."""
        if self._numbered is not None and self._numbered != (rows is not None):
            raise UserError("give `rows` in every update of the metrics or in none")
        if rows is None:
            return np.arange(self.num_rows, self.num_rows + count)
        numbers = to_numpy(rows)
        if numbers.shape != (count,) or (count and numbers.dtype.kind not in "iu"):
            raise UserError(f"`rows` must be {count} integers, found {numbers.dtype} of shape {numbers.shape}")
        return numbers.astype(np.int64)

    def _check_labels(self, labels: NDArray[Any], known: NDArray[np.bool_], numbers: NDArray[np.int64]) -> None:
        if labels.dtype.kind in "bu":
            raise UserError(
                f"labels of type {labels.dtype} cannot hold -1 (absent); use int8 with +1, -1 and 0 (unknown)"
            )
        if labels.dtype == np.int8 and (not labels.size or (labels.min() >= -1 and labels.max() <= 1)):
            return
        bad = np.argwhere(known & (labels != 1) & (labels != -1))
        if len(bad):
            raise UserError(
                f"{len(bad)} labels are not +1 (present), -1 (absent) or 0 (unknown)",
                [f"{self._place(numbers[i], c)}: {labels[i, c]}" for i, c in bad],
            )

    def _place(self, row: int, column: int) -> str:
        return f"image row {row}, class {self.class_names[column]}"

    def _thresholds(self, thresholds: Array) -> NDArray[np.float64]:
        limits = np.asarray(to_numpy(thresholds), dtype=np.float64)
        if limits.shape not in ((), (self.num_classes,)):
            raise UserError(f"thresholds must be one number or {self.num_classes}, found the shape {limits.shape}")
        limits = np.broadcast_to(limits, self.num_classes).copy()
        bad = np.flatnonzero(~(np.abs(limits) <= np.finfo(np.float32).max))  # of NaN too
        if len(bad):
            raise UserError(
                "thresholds must be finite in single precision", [f"{self.class_names[c]}: {limits[c]}" for c in bad]
            )
        return limits

    def _excluded(self, exclude: Sequence[str | int]) -> NDArray[np.bool_]:
        columns = {name: column for column, name in enumerate(self.class_names)}
        found = [columns.get(entry, -1) if isinstance(entry, str) else entry for entry in exclude]
        unknown = [str(e) for e, column in zip(exclude, found, strict=True) if not 0 <= column < self.num_classes]
        if unknown:
            raise UserError(f"{len(unknown)} classes to exclude do not exist", unknown)
        excluded = np.zeros(self.num_classes, dtype=bool)
        excluded[found] = True
        if excluded.all():
            raise UserError("every class is excluded from the metrics")
        return excluded

    def _distinct(self) -> tuple[NDArray[np.uint64], NDArray[np.int32], int]:
        """Keys and known labels per image, each image once, and the number of rows that were dropped for it."""
        rows, counts, keys = join(self._rows, np.int64), join(self._counts, np.int32), join(self._keys, np.uint64)
        if not self._numbered:
            return keys, counts, 0
        unique, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
        repeats = np.flatnonzero(first[inverse] != np.arange(len(rows)))
        if not len(repeats):
            return keys, counts, 0
        origin = first[inverse[repeats]]
        start = np.concatenate([[0], np.cumsum(counts)[:-1]])
        differ = counts[repeats] != counts[origin]
        same, same_counts = repeats[~differ], counts[repeats[~differ]]
        # class and label without the score: two passes over an image may differ in the last bits of the score
        labels = keys & ~(np.uint64(0xFFFFFFFF) << np.uint64(1))
        unequal = labels[ranges(start[same], same_counts)] != labels[ranges(start[origin[~differ]], same_counts)]
        differ[~differ] = segment_sums(unequal, same_counts) > 0
        if differ.any():
            raise UserError(
                "rows of the same number have different labels, so they are not the same image",
                [f"image row {row}" for row in np.unique(rows[repeats[differ]])],
            )
        return keys[ranges(start[first], counts[first])], counts[first], len(rows) - len(unique)
