"""Known pairs packed into single words, and the precision-recall curve read off the sorted words.

A pair is the 64-bit word ``class (31 bits) | score (32) | label (1)``. The score's bits are transformed so that sorting
the words puts every class together, with its scores in descending order and the positives of equal scores last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partlabel.metrics.values import Form

if TYPE_CHECKING:
    import torch

Array: TypeAlias = "ArrayLike | torch.Tensor"

CLASS_SHIFT = np.uint64(33)
MAX_CLASSES = 2**31


def curve(
    positive: NDArray[np.intp],
    positive_keys: NDArray[np.uint64],
    start: NDArray[np.intp],
    positive_start: NDArray[np.intp],
    form: Form,
) -> NDArray[np.float64]:
    """Average precision of each class from the places of the positives among the sorted keys.

    Among equal scores the positives come last, so the last positive of a tie stands at the end of its threshold.
    Thresholds without a positive change no recall and have a lower precision than the one before: they are not needed.
    """
    num_classes = len(start) - 1
    present = np.diff(positive_start)
    last = np.flatnonzero(np.append(positive_keys[1:] != positive_keys[:-1], len(positive_keys) > 0))
    column = (positive_keys[last] >> CLASS_SHIFT).astype(np.intp)
    found = last + 1 - positive_start[column]
    precision = found / (positive[last] + 1 - start[column])
    result = np.full(num_classes, np.nan)
    if form == "area":
        gained = np.diff(last, prepend=-1)
        total = np.bincount(column, weights=gained * precision, minlength=num_classes)
        return np.divide(total, present, out=result, where=present > 0)
    defined = np.flatnonzero(present)
    if len(defined):
        blocks = np.flatnonzero(np.diff(column, prepend=-1))
        reached = [np.where(10 * found >= tenth * present[column], precision, 0.0) for tenth in range(11)]
        result[defined] = sum(np.maximum.reduceat(each, blocks) for each in reached) / 11
    return result


def roc_area(
    keys: NDArray[np.uint64],
    positive: NDArray[np.intp],
    start: NDArray[np.intp],
    positive_start: NDArray[np.intp],
) -> NDArray[np.float64]:
    """Area under the ROC curve of each class: how likely a present label scores above an absent one, ties as one half.

    Equal to the Mann-Whitney statistic over its largest value; NaN without known labels of both signs.
    """
    num_classes = len(start) - 1
    present = np.diff(positive_start)
    absent = np.diff(start) - present
    positive_keys = keys[positive]
    column = (positive_keys >> CLASS_SHIFT).astype(np.intp)
    tie = positive_keys & ~np.uint64(1)  # the word of an absent label with the same score
    before = np.searchsorted(positive_keys, positive_keys, side="left") - positive_start[column]
    above = np.searchsorted(keys, tie, side="left") - start[column] - before
    equal = np.searchsorted(keys, tie, side="right") - np.searchsorted(keys, tie, side="left")
    beaten = np.bincount(column, absent[column] - above - equal / 2, num_classes)
    pairs = present * absent
    return np.divide(beaten, pairs, out=np.full(num_classes, np.nan), where=pairs > 0)


def descending_bits(values: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Unsigned integers in the reverse order of the float32 values; -0.0 and 0.0 give the same one."""
    bits = (values + np.float32(0)).view(np.int32)
    return (bits ^ (~(bits >> 31) & np.int32(0x7FFFFFFF))).view(np.uint32)


def segment_sums(values: NDArray[Any], counts: NDArray[np.integer]) -> NDArray[np.int32]:
    """Sums of consecutive runs of ``values``, of the given lengths (0 allowed)."""
    total = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
    end = np.cumsum(counts, dtype=np.int64)
    return (total[end] - total[end - counts]).astype(np.int32)


def ranges(starts: NDArray[np.integer], counts: NDArray[np.integer]) -> NDArray[np.intp]:
    """The indices ``start, ..., start + count - 1`` of each run, one run after another."""
    offsets = np.repeat(starts - (np.cumsum(counts, dtype=np.intp) - counts), counts)
    return offsets + np.arange(len(offsets))


def join(parts: list[NDArray[Any]], dtype: type) -> NDArray[Any]:
    """The parts one after another, in a new array; empty without parts."""
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def _is_tensor(values: Array) -> TypeGuard[torch.Tensor]:
    return hasattr(values, "detach")  # without importing torch, which takes seconds


def to_numpy(values: Array) -> NDArray[Any]:
    """An array on the CPU; tensors are detached."""
    if not _is_tensor(values):
        return np.asarray(values)
    tensor = values.detach()
    return (tensor.float() if tensor.is_floating_point() else tensor).cpu().numpy()  # NumPy has no bfloat16


def take(scores: Array, flat: NDArray[np.intp]) -> NDArray[np.float32]:
    """The scores at flat indices, in float32 on the CPU; only these leave the device."""
    if _is_tensor(scores):
        import torch  # here, because whoever passes arrays need not wait for it

        index = torch.from_numpy(flat).to(scores.device)
        return scores.detach().reshape(-1)[index].float().cpu().numpy()
    with np.errstate(over="ignore"):
        return np.asarray(scores).reshape(-1)[flat].astype(np.float32)
