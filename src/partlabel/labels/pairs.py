"""Known (image, class) pairs as parallel flat arrays: sorting, repeats and contradictions, gathering of CSR rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partlabel.core.errors import UserError

#: where a label came from; the code in a table's ``origin`` array is the position in this tuple
ORIGINS = ("given", "model", "review", "asked", "sampled")
MODEL, REVIEW = 1, 2

#: what happens to pairs that are listed more than once
POLICIES = ("error", "same", "unknown", "present", "absent", "first")


@dataclass(frozen=True)
class Pairs:
    """K known pairs. ``key`` is ``image * C + class`` (int64); the other arrays are parallel to it."""

    key: NDArray[np.int64]
    values: NDArray[np.int8]
    origin: NDArray[np.uint8]
    score: NDArray[np.float32] | None = None
    round: NDArray[np.int16] | None = None

    def take(self, index: NDArray[np.int64] | NDArray[np.bool_]) -> Pairs:
        """Return the pairs at ``index`` (positions or a mask), in that order."""
        return Pairs(
            self.key[index],
            self.values[index],
            self.origin[index],
            None if self.score is None else self.score[index],
            None if self.round is None else self.round[index],
        )

    def at(self, key: NDArray[np.int64]) -> Pairs:
        """Return the same labels under other keys."""
        return replace(self, key=key)

    def sorted(self) -> Pairs:
        """Return the pairs by key; repeats of a pair keep their order."""
        if (self.key[1:] >= self.key[:-1]).all():
            return self
        if self.score is None and self.round is None:  # sorting numbers is ten times faster than finding their order
            packed = np.sort(self.key << 4 | self.origin.astype(np.int64) << 1 | (self.values > 0))
            key = packed >> 4
            if (key[1:] != key[:-1]).all():
                values = ((packed & 1) * 2 - 1).astype(np.int8)
                return Pairs(key, values, (packed >> 1 & 7).astype(np.uint8))
        return self.take(np.argsort(self.key, kind="stable"))


def concatenate(first: Pairs, second: Pairs) -> Pairs:
    """Put two lists of pairs one behind the other; a side without scores or rounds is filled with NaN or -1."""
    return Pairs(
        np.concatenate([first.key, second.key]),
        np.concatenate([first.values, second.values]),
        np.concatenate([first.origin, second.origin]),
        _concatenate_optional((first.score, second.score), (first, second), np.float32(np.nan)),
        _concatenate_optional((first.round, second.round), (first, second), np.int16(-1)),
    )


def _concatenate_optional(arrays: tuple[Any, Any], of: tuple[Pairs, Pairs], missing: np.generic) -> Any:
    if all(array is None for array in arrays):
        return None
    filled = [np.full(len(p.key), missing) if a is None else a for a, p in zip(arrays, of, strict=True)]
    return np.concatenate(filled)


def settle(pairs: Pairs, policy: str, describe: Callable[[int], str]) -> tuple[Pairs, int]:
    """Leave each pair once.

    Args:
        pairs: sorted by key, repeats in order of precedence.
        policy: ``error`` refuses every repeat; all others keep one of equal repeats (a person's label before a model's,
            then the first). A contradiction (present and absent) is refused by ``same``, dropped by ``unknown``,
            and becomes ``present``, ``absent`` or the ``first`` of the repeats otherwise.
        describe: names the pair with this key in an error, such as ``"a.jpg, cat"``.

    Returns:
        The pairs, and how many contradictions were settled.

    Raises:
        UserError: an unknown policy, repeats under ``error``, or contradictions under ``error`` and ``same``.
    """
    if policy not in POLICIES:
        raise UserError(f"the policy {policy!r} is not known; use one of: {', '.join(POLICIES)}")
    repeat = pairs.key[1:] == pairs.key[:-1]
    if not repeat.any():
        return pairs, 0
    repeated = np.zeros(len(pairs.key), bool)
    repeated[1:] |= repeat
    repeated[:-1] |= repeat
    runs = pairs.take(repeated)
    starts = np.flatnonzero(np.concatenate([[True], runs.key[1:] != runs.key[:-1]]))
    lengths = np.diff(np.append(starts, len(runs.key)))
    contradicting = np.minimum.reduceat(runs.values, starts) != np.maximum.reduceat(runs.values, starts)
    refused = np.flatnonzero(contradicting | (policy == "error"))
    if policy in ("error", "same") and len(refused):
        offenders = [
            f"{describe(int(runs.key[starts[i]]))}: "
            + ("present and absent" if contradicting[i] else f"listed {lengths[i]} times")
            for i in refused
        ]
        what = "contradict each other" if contradicting.any() else "are listed more than once"
        raise UserError(f"{len(refused)} labels {what}", offenders)
    chosen = runs.take(_choose(runs, starts, lengths, contradicting, policy))
    result = concatenate(pairs.take(~repeated), chosen).sorted()
    return result, int(contradicting.sum())


def _choose(
    runs: Pairs, starts: NDArray[np.int64], lengths: NDArray[np.int64], contradicting: NDArray[np.bool_], policy: str
) -> NDArray[np.int64]:
    """Return the position of the pair that stands for each run."""
    in_contradiction = np.repeat(contradicting, lengths)
    loses = {"present": runs.values < 0, "absent": runs.values > 0}.get(policy, np.zeros(len(runs.key), bool))
    rank = np.where(in_contradiction, loses, runs.origin == MODEL)
    order = np.lexsort((rank, runs.key))  # stable: the first of equal rank comes first
    chosen = order[starts]
    return chosen[~contradicting] if policy == "unknown" else chosen


def ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ``starts[0], starts[0]+1, ... (lengths[0] of them), starts[1], ...`` as one int64 array."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - ends + lengths, lengths) + np.arange(total)


def pointers(counts: NDArray[np.integer[Any]] | NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the CSR row pointers (N + 1,) of rows with these numbers of entries (N,)."""
    result = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=result[1:])
    return result


def by_class(cls: NDArray[np.integer], num_classes: int) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
    """Return the positions (K,) of pairs of classes (K,), class after class, and where each class starts, (C + 1,)."""
    short = num_classes <= 2**16  # sorted in linear time
    order = np.argsort(cls.astype(np.uint16) if short else cls, kind="stable")
    smaller = order if len(order) >= 2**31 else order.astype(np.int32)
    return smaller, pointers(np.bincount(cls, minlength=num_classes))


def csr(pairs: Pairs, num_images: int, num_classes: int) -> dict[str, Any]:
    """Return the CSR fields of a table with these pairs, sorted by key, each once."""
    row, column = np.divmod(pairs.key, max(num_classes, 1))
    return {
        "indptr": pointers(np.bincount(row, minlength=num_images)),
        "indices": column.astype(np.int32),
        "values": pairs.values,
        "origin": pairs.origin,
        "score": pairs.score,
        "round": pairs.round,
    }


def origin_code(origin: str) -> int:
    """Return the code of an origin's name."""
    if origin not in ORIGINS:
        raise UserError(f"the origin {origin!r} is not known; use one of: {', '.join(ORIGINS)}")
    return ORIGINS.index(origin)
