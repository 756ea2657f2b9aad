"""Class names that are perhaps one class: those that look alike, and those one letter apart."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

_NO_DIGIT = re.compile(r"\D+")
_NOT_A_LETTER = re.compile(r"[\W_]+")


def look_alikes(names: Iterable[str]) -> list[list[str]]:
    """Return groups of names that differ only in case, blanks, hyphens or other punctuation, in the order given."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name in dict.fromkeys(names):
        groups[_NOT_A_LETTER.sub("", name.casefold()) or name].append(name)
    return [group for group in groups.values() if len(group) > 1]


def similar(names: Sequence[str], groups: Sequence[Sequence[str]] = ()) -> list[tuple[str, str]]:
    """Return pairs of names that are one letter apart (added, missing, other, or two swapped), case ignored.

    Names under five letters and names with a digit are left out. Names that share a text with one letter
    deleted are compared, so the work grows with the number of names, not with its square.

    Args:
        names: class names.
        groups: look-alikes; only the first of each group is compared.
    """
    twins = {name for group in groups for name in group[1:]}
    buckets: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        if name in twins or len(name) < 5 or not _NO_DIGIT.fullmatch(name):
            continue
        folded = name.casefold()
        for form in {folded, *(folded[:i] + folded[i + 1 :] for i in range(len(folded)))}:
            buckets[form].append(name)
    pairs: dict[tuple[str, str], None] = {}
    for bucket in buckets.values():
        for i, first in enumerate(bucket):
            for second in bucket[i + 1 :]:
                if _one_letter_apart(first.casefold(), second.casefold()):
                    pairs[(first, second)] = None
    return list(pairs)


def _one_letter_apart(first: str, second: str) -> bool:
    short, long = sorted((first, second), key=len)
    start = next((i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    left, right = short[start:], long[start:]
    if len(short) < len(long):
        return left == right[1:]
    return left[1:] == right[1:] or (left[:2] == right[1::-1] and left[2:] == right[2:])
