"""Naive loops over an (N, C) matrix of +1, -1, 0 and over dicts of known pairs."""

from __future__ import annotations

import numpy as np

CONTRADICTION = {"present": 1, "absent": -1, "unknown": 0}


def counts(matrix: np.ndarray, axis: str) -> tuple[list[int], list[int]]:
    """Known present and known absent labels of each image (axis "image") or class."""
    rows = matrix if axis == "image" else matrix.T
    present, absent = [], []
    for row in rows:
        present.append(sum(1 for y in row if y == 1))
        absent.append(sum(1 for y in row if y == -1))
    return present, absent


def cooccurrence(matrix: np.ndarray) -> np.ndarray:
    images, classes = matrix.shape
    result = np.zeros((classes, classes), np.int64)
    for i in range(images):
        for u in range(classes):
            for v in range(classes):
                if matrix[i, u] == 1 and matrix[i, v] == 1:
                    result[u, v] += 1
    return result


def merge(
    first: dict[tuple[str, str], int], second: dict[tuple[str, str], int], policy: str
) -> dict[tuple[str, str], int]:
    """Union of known pairs; what both know and disagree on goes by the policy."""
    result = dict(first)
    for pair, value in second.items():
        if pair not in first or first[pair] == value:
            result[pair] = value
        elif policy != "first":
            result[pair] = CONTRADICTION[policy]
    return {pair: value for pair, value in result.items() if value != 0}
