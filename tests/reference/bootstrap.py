"""The bootstrap over images as naive loops: repeat the rows that were drawn, then measure them as any images."""

from __future__ import annotations

import numpy as np

from tests.reference import metrics


def resampled(
    x: np.ndarray, y: np.ndarray, thresholds: np.ndarray, weights: np.ndarray
) -> tuple[dict[str, float], list[float]]:
    """Metrics and average precision of each class where image i is there ``weights[i]`` times."""
    rows = [i for i in range(len(x)) for _ in range(int(weights[i]))]
    x, y = x[rows], y[rows]
    return metrics.all_metrics(x, y, thresholds), [
        metrics.average_precision(x[:, c], y[:, c]) for c in range(y.shape[1])
    ]


def paired_p(differences: list[float]) -> float:
    """Two-sided p of 'no difference': twice the smaller share of resamples on either side of 0, and at most 1."""
    below = sum(1 for d in differences if d <= 0)
    above = sum(1 for d in differences if d >= 0)
    return min(1.0, 2 * (1 + min(below, above)) / (len(differences) + 1))
