"""Which questions are asked, as naive loops."""

from __future__ import annotations

import math

import numpy as np


def spread(capacity: list[int], total: int, rank: list[int]) -> list[int]:
    """Give one at a time to the class that has least, the first by rank among equals, as long as it has room."""
    given = [0] * len(capacity)
    for _ in range(min(total, sum(capacity))):
        open_classes = [c for c in range(len(capacity)) if given[c] < capacity[c]]
        given[min(open_classes, key=lambda c: (given[c], rank[c]))] += 1
    return given


def growth(present: list[int], scores: list[list[float]]) -> float:
    """Mean over the classes of log((p + 1 + e) / (p + 1)); e: sum of the probabilities of the questions of a class."""
    values = []
    for p, asked in zip(present, scores, strict=True):
        expected = sum(1 / (1 + math.exp(-x)) for x in asked)
        values.append(math.log((p + 1 + expected) / (p + 1)))
    return float(np.mean(values))
