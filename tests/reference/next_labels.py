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


def grow(chances, labels, budget):
    """Unknown pairs one after the other, each time the largest p / (present known + 1 + p chosen in the class)."""
    classes = len(labels[0])
    weight = [1 + sum(row[c] == 1 for row in labels) for c in range(classes)]
    open_pairs = [(i, c) for i in range(len(labels)) for c in range(classes) if labels[i][c] == 0]
    chosen = []
    while open_pairs and len(chosen) < budget:
        best = max(open_pairs, key=lambda pair: chances[pair[0]][pair[1]] / weight[pair[1]])
        open_pairs.remove(best)
        chosen.append(best)
        weight[best[1]] += chances[best[0]][best[1]]
    return chosen
