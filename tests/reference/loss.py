"""Equations 1 and 2 as loops, with the paper's letters."""

from __future__ import annotations

import numpy as np


def g(p: float, alpha: float, beta: float, gamma: float) -> float:
    return alpha * p**gamma + beta


def partial_bce(
    x: np.ndarray, y: np.ndarray, alpha: float, beta: float, gamma: float, w: np.ndarray | None = None
) -> complex:
    """Mean over the images of eq. 1 with its minus sign; 0 for an image without known labels; w: weights of labels."""
    N, C = y.shape
    w = np.ones((N, C)) if w is None else w
    total = 0.0
    for i in range(N):
        known = sum(1 for c in range(C) if y[i, c] != 0)
        row = 0.0
        for c in range(C):
            if y[i, c] == 1:
                row += w[i, c] * np.log(1 / (1 + np.exp(-x[i, c])))
            if y[i, c] == -1:
                row += w[i, c] * np.log(np.exp(-x[i, c]) / (1 + np.exp(-x[i, c])))
        if known:
            total += -g(known / C, alpha, beta, gamma) / C * row
    return total / N
