"""Naive readings of label statements: dicts and loops, one statement at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def settle(statements: Iterable[tuple[str, str, str]], policy: str) -> dict[tuple[str, str], int]:
    """Return (image, class) -> +1, -1 or 0 of the words present, absent, uncertain; contradictions by policy."""
    said: dict[tuple[str, str], list[str]] = {}
    for image, name, word in statements:
        said.setdefault((image, name), []).append(word)
    result = {}
    for pair, words in said.items():
        present, absent = words.count("present"), words.count("absent")
        if present and absent:
            majority = (present > absent) - (present < absent)
            result[pair] = {"unknown": 0, "present": 1, "absent": -1, "majority": majority}[policy]
        else:
            result[pair] = 1 if present else -1 if absent else 0
    return result


def matrix(
    images: Sequence[str], classes: Sequence[str], settled: dict[tuple[str, str], int], not_listed: str
) -> list[list[int]]:
    """Return the labels as rows of images; pairs without a statement are what ``not_listed`` says."""
    other = {"unknown": 0, "absent": -1}[not_listed]
    return [[settled.get((image, name), other) for name in classes] for image in images]
