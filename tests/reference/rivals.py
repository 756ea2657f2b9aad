"""The losses of ``partlabel.method.other_losses`` as loops, one pair at a time.

x, y are scores and labels (N, C), p = sigmoid(x).

Comparisons are on real parts, so that the complex step passes through.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np


def sigmoid(x: complex) -> complex:
    return 1 / (1 + np.exp(-x))


def mean(x: np.ndarray, y: np.ndarray, w: np.ndarray | None, pair: Callable[[int, int], complex]) -> complex:
    """Mean over the images of the mean over the classes."""
    N, C = y.shape
    total = 0.0
    for i in range(N):
        row = 0.0
        for c in range(C):
            row += (1 if w is None else w[i, c]) * pair(i, c)
        total += row / C
    return total / N


def an(x: np.ndarray, y: np.ndarray, w: np.ndarray | None = None) -> complex:
    def pair(i: int, c: int) -> complex:
        p = sigmoid(x[i, c])
        return -np.log(p) if y[i, c] == 1 else -np.log(1 - p)

    return mean(x, y, w, pair)


def wan(x: np.ndarray, y: np.ndarray, w: np.ndarray | None = None) -> complex:
    C = y.shape[1]

    def pair(i: int, c: int) -> complex:
        p = sigmoid(x[i, c])
        if y[i, c] == 1:
            return -np.log(p)
        return -np.log(1 - p) * (1 / (C - 1) if y[i, c] == 0 and C > 1 else 1)

    return mean(x, y, w, pair)


def an_ls(x: np.ndarray, y: np.ndarray, w: np.ndarray | None = None, epsilon: float = 0.1) -> complex:
    def pair(i: int, c: int) -> complex:
        p = sigmoid(x[i, c])
        target = 1 - epsilon / 2 if y[i, c] == 1 else epsilon / 2
        return -target * np.log(p) - (1 - target) * np.log(1 - p)

    return mean(x, y, w, pair)


def asl(
    x: np.ndarray,
    y: np.ndarray,
    w: np.ndarray | None = None,
    gamma_pos: float = 0.0,
    gamma_neg: float = 4.0,
    margin: float = 0.05,
) -> complex:
    def pair(i: int, c: int) -> complex:
        p = sigmoid(x[i, c])
        if y[i, c] == 1:
            return -((1 - p) ** gamma_pos) * np.log(p)
        q = p - margin if np.real(p) > margin else 0.0
        return -(q**gamma_neg) * np.log(1 - q)

    return mean(x, y, w, pair)


def focal_margin(x: complex, margin: float, gamma: float) -> complex:
    p = sigmoid(x - margin)
    return -((1 - p) ** gamma) * np.log(p)


def hill(
    x: np.ndarray,
    y: np.ndarray,
    w: np.ndarray | None = None,
    lam: float = 1.5,
    margin: float = 1.0,
    gamma: float = 2.0,
) -> complex:
    def pair(i: int, c: int) -> complex:
        if y[i, c] == 1:
            return focal_margin(x[i, c], margin, gamma)
        p = sigmoid(x[i, c])
        return (lam - p) * p**2

    return mean(x, y, w, pair)


def splc(
    x: np.ndarray,
    y: np.ndarray,
    w: np.ndarray | None = None,
    epoch: int = 1,
    tau: float = 0.6,
    margin: float = 1.0,
    gamma: float = 2.0,
) -> complex:
    def pair(i: int, c: int) -> complex:
        if y[i, c] == 1:
            return focal_margin(x[i, c], margin, gamma)
        p = sigmoid(x[i, c])
        if y[i, c] == 0 and epoch >= 2 and np.real(p) > tau:
            return focal_margin(x[i, c], 0.0, gamma)
        return -(p**gamma) * np.log(1 - p)

    return mean(x, y, w, pair)


def large(x: np.ndarray, y: np.ndarray, epoch: int, delta: float) -> set[tuple[int, int]]:
    """The unknown pairs with the largest scores, as many as ``(epoch - 1) delta`` percent of all pairs, rounded up."""
    N, C = y.shape
    unknown = [(i, c) for i in range(N) for c in range(C) if y[i, c] == 0]
    unknown.sort(key=lambda pair: -np.real(x[pair]))
    return set(unknown[: math.ceil(N * C * (epoch - 1) * delta / 100)])


def ll_r(x: np.ndarray, y: np.ndarray, w: np.ndarray | None = None, epoch: int = 1, delta: float = 0.1) -> complex:
    out = large(x, y, epoch, delta)

    def pair(i: int, c: int) -> complex:
        p = sigmoid(x[i, c])
        if (i, c) in out:
            return 0.0
        return -np.log(p) if y[i, c] == 1 else -np.log(1 - p)

    return mean(x, y, w, pair)


def ll_ct(x: np.ndarray, y: np.ndarray, w: np.ndarray | None = None, epoch: int = 1, delta: float = 0.1) -> complex:
    turned = large(x, y, epoch, delta)

    def pair(i: int, c: int) -> complex:
        p = sigmoid(x[i, c])
        return -np.log(p) if y[i, c] == 1 or (i, c) in turned else -np.log(1 - p)

    return mean(x, y, w, pair)


def em(x: np.ndarray, y: np.ndarray, w: np.ndarray | None = None, alpha: float = 0.1) -> complex:
    def pair(i: int, c: int) -> complex:
        p = sigmoid(x[i, c])
        if y[i, c] == 0:
            return alpha * (math.log(2) + p * np.log(p) + (1 - p) * np.log(1 - p))
        return -np.log(p) if y[i, c] == 1 else -np.log(1 - p)

    return mean(x, y, w, pair)


def csl(
    x: np.ndarray,
    y: np.ndarray,
    w: np.ndarray | None = None,
    gamma_pos: float = 0.0,
    gamma_neg: float = 1.0,
    gamma_unknown: float = 2.0,
    likely: float = 5.0,
    prior: np.ndarray | None = None,
    eta: float = 0.05,
) -> complex:
    """P-ASL is this with ``likely = 0``."""
    N, C = y.shape
    unknown = [(i, c) for i in range(N) for c in range(C) if y[i, c] == 0]
    unknown.sort(key=lambda pair: -np.real(x[pair]))
    out = set(unknown[: round(likely * N)])
    if prior is not None:
        out |= {(i, c) for i, c in unknown if prior[c] > eta}

    def pair(i: int, c: int) -> complex:
        p = sigmoid(x[i, c])
        if (i, c) in out:
            return 0.0
        if y[i, c] == 1:
            return -((1 - p) ** gamma_pos) * np.log(p)
        return -(p ** (gamma_unknown if y[i, c] == 0 else gamma_neg)) * np.log(1 - p)

    return mean(x, y, w, pair)


def p_asl(x: np.ndarray, y: np.ndarray, w: np.ndarray | None = None, **gammas: float) -> complex:
    return csl(x, y, w, **gammas, likely=0.0)
