"""MC dropout as loops: counted masks, and the measures over the passes."""

from __future__ import annotations

import math

import numpy as np

WRAP = 2**64


def output(state: int) -> int:
    """SplitMix64's output function."""
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % WRAP
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) % WRAP
    return state ^ (state >> 31)


def splitmix(seed: int, count: int) -> list[int]:
    """The first numbers of SplitMix64 from a seed."""
    return [output((seed + k * 0x9E3779B97F4A7C15) % WRAP) for k in range(1, count + 1)]


def mask(p: float, seed: int, number: int, t: int, count: int) -> np.ndarray:
    """1 where an input is kept in pass t: the number u = 0.b_1 ... b_16 in base 2 is not below p."""
    image = output((output(seed % WRAP) + number) % WRAP)
    streams = [splitmix(output((image + (t // 64) * 16 + k) % WRAP), count) for k in range(16)]
    kept = np.zeros(count, int)
    for d in range(count):
        u = sum((streams[k][d] >> (t % 64) & 1) * 2.0 ** -(k + 1) for k in range(16))
        kept[d] = u >= round(p * 2**16) / 2**16
    return kept


def measures(x: np.ndarray) -> dict[str, np.ndarray]:
    """x: (T, C) scores of the passes of one image."""
    T, C = x.shape
    names = ("mean", "variance", "probability_variance", "entropy", "mutual_information")
    result = {name: np.zeros(C) for name in names}

    def entropy(p: float) -> float:
        return -sum(q * math.log(q) for q in (p, 1 - p) if q > 0)

    for c in range(C):
        p = [1 / (1 + math.exp(-x[t, c])) for t in range(T)]
        mean, p_mean = sum(x[:, c]) / T, sum(p) / T
        result["mean"][c] = mean
        result["variance"][c] = sum((x[t, c] - mean) ** 2 for t in range(T)) / (T - 1)
        result["probability_variance"][c] = sum((p[t] - p_mean) ** 2 for t in range(T)) / (T - 1)
        result["entropy"][c] = entropy(p_mean)
        result["mutual_information"][c] = entropy(p_mean) - sum(entropy(p[t]) for t in range(T)) / T
    return result
