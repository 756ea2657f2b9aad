"""WELDON pooling as loops."""

from __future__ import annotations

import numpy as np


def weldon(maps: np.ndarray, k_max: float, k_min: float) -> np.ndarray:
    N, C, H, W = maps.shape
    pooled = np.zeros((N, C), dtype=maps.dtype)
    for i in range(N):
        for c in range(C):
            regions = sorted((maps[i, c, row, column] for row in range(H) for column in range(W)), key=np.real)
            kp = max(1, round(k_max * H * W))
            km = max(1, round(k_min * H * W))
            pooled[i, c] = sum(regions[-kp:]) / kp + sum(regions[:km]) / km
    return pooled
