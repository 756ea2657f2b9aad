"""What section 4.1 asks of each strategy, counted image by image."""

from __future__ import annotations

import math

import numpy as np


def partial_counts(matrix: np.ndarray, proportion: float) -> list[int]:
    """Known labels of each image afterwards: p C, halves up, or all that are known."""
    return [min(math.floor(proportion * matrix.shape[1] + 0.5), sum(1 for y in row if y != 0)) for row in matrix]


def is_noisy_plus(before: np.ndarray, after: np.ndarray) -> bool:
    """One present label of each image is left, its other present labels are absent, nothing else changed."""
    for old, new in zip(before, after, strict=True):
        kept = 0
        for y, z in zip(old, new, strict=True):
            if y == 1 and z == 1:
                kept += 1
            elif (y == 1 and z != -1) or (y != 1 and y != z):
                return False
        if kept != min(1, sum(1 for y in old if y == 1)):
            return False
    return True
