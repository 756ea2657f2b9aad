"""How much a number depends on which images it was measured on: draws of test images, the same for all methods."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t


def map_of_draws(scores: NDArray[np.float32], truth: NDArray[np.int8], draws: int) -> NDArray[np.float64]:
    """MAP in percent on draws of as many test images with replacement (Efron, 1979); draw i is the same in each call.

    Args:
        scores: (N, C).
        truth: int8 (N, C), +1 and -1.
        draws: number of draws.

    Returns:
        float64 (draws,), each over the classes of which the draw holds a present label.
    """
    random = np.random.default_rng(0)
    weight = np.stack(
        [np.bincount(random.integers(0, len(truth), len(truth)), minlength=len(truth)) for _ in range(draws)]
    )
    found = np.full((truth.shape[1], draws), np.nan)
    for c in range(truth.shape[1]):
        order = np.argsort(-scores[:, c], kind="stable")
        own = weight[:, order].astype(np.float64)
        present = own * (truth[order, c] > 0)
        count = present.sum(1)
        rank, hits = own.cumsum(1), present.cumsum(1)
        # an image that was drawn k times stands in k places, one after the other
        precision = np.divide(hits, rank, out=np.zeros_like(hits), where=rank > 0)
        value = (present * precision).sum(1)
        found[c] = np.divide(value, count, out=np.full(draws, np.nan), where=count > 0)
    return 100 * np.nanmean(found, axis=0)


def half_width(gaps: NDArray[np.float64], of_draws: NDArray[np.float64]) -> float:
    """Half of the 95 % interval of a mean difference that covers both the seeds and the draw of test images.

    The two are taken as independent: the variance over seeds of the mean (Student's t), and the variance of the mean
    over seeds from one draw of test images to the other (normal).

    Args:
        gaps: the difference with each seed.
        of_draws: the mean difference in each draw of test images.
    """
    seeds = float(t.ppf(0.975, len(gaps) - 1)) * float(np.std(gaps, ddof=1)) / np.sqrt(len(gaps))
    return float(np.hypot(seeds, 1.96 * np.std(of_draws, ddof=1)))
