"""Strategies, objective and counts of the curriculum as loops over single pairs, with the paper's letters."""

from __future__ import annotations

import itertools
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal

import numpy as np


def down(share: float, of: int) -> int:
    return int((Decimal(repr(share)) * of).quantize(Decimal(1), ROUND_FLOOR))


def nearest(share: float, of: int) -> int:
    return int((Decimal(repr(share)) * of).quantize(Decimal(1), ROUND_HALF_UP))


def sign(x: float) -> int:
    return 1 if x >= 0 else -1


def score_threshold(x: np.ndarray, y: np.ndarray, theta: float) -> np.ndarray:
    new = y.copy()
    for i, c in itertools.product(*map(range, y.shape)):
        if y[i, c] == 0 and x[i, c] >= theta:
            new[i, c] = 1
        elif y[i, c] == 0 and x[i, c] < -theta:
            new[i, c] = -1
    return new


def score_proportion(x: np.ndarray, y: np.ndarray, theta: float) -> np.ndarray:
    new = y.copy()
    pairs = [(-abs(float(x[i, c])), i, c) for i, c in itertools.product(*map(range, y.shape)) if y[i, c] == 0]
    for _, i, c in sorted(pairs)[: down(theta, len(pairs))]:
        new[i, c] = sign(x[i, c])
    return new


def positive_only(x: np.ndarray, y: np.ndarray, theta: float) -> np.ndarray:
    new = y.copy()
    for i, c in itertools.product(*map(range, y.shape)):
        if y[i, c] == 0 and x[i, c] >= theta:
            new[i, c] = 1
    return new


def uncertainty_threshold(x: np.ndarray, u: np.ndarray, y: np.ndarray, theta: float) -> np.ndarray:
    new = y.copy()
    for i, c in itertools.product(*map(range, y.shape)):
        if y[i, c] == 0 and u[i, c] <= theta:
            new[i, c] = sign(x[i, c])
    return new


def class_adaptive(
    x: np.ndarray, y: np.ndarray, prior: list[float], theta: float, theta_absent: float | None = None
) -> np.ndarray:
    """Present from above and absent from below, one pair after the other."""
    below = theta if theta_absent is None else theta_absent
    new = y.copy()
    for c in range(y.shape[1]):
        left = sorted((-float(x[i, c]), i) for i in range(len(y)) if y[i, c] == 0)
        present = nearest(prior[c], down(theta, len(left)))
        absent = down(below, len(left)) - nearest(prior[c], down(below, len(left)))
        for k in range(present + absent):
            _, i = left.pop(0) if k < present else left.pop()
            new[i, c] = 1 if k < present else -1
    return new


def class_prior(present: list[int], absent: list[int], strength: float) -> list[float]:
    """Share present of each class; 0 where only present ones are known and chance hardly explains it."""
    known = sum(present) + sum(absent)
    common = sum(present) / known
    shares = []
    for n1, n0 in zip(present, absent, strict=True):
        chance = 1.0
        for _ in range(n1):
            chance *= common
        one_sided = n1 > 0 and n0 == 0 and chance < 0.05
        shares.append(0.0 if one_sided else (n1 + strength * common) / (n1 + n0 + strength))
    return shares


def J(x: np.ndarray, y: np.ndarray, v: np.ndarray, theta: float) -> float:
    """Eq. 7 without its weight decay, with the G that agrees with strategy [a]."""
    N, C = y.shape
    total = 0.0
    for i, c in itertools.product(range(N), range(C)):
        label = y[i, c] or sign(x[i, c])
        loss = np.log(1 + np.exp(-label * x[i, c]))
        total += v[i, c] * (loss + np.log(1 / (1 + np.exp(-theta)))) / (N * C)
    return total


def J_as_printed(x: np.ndarray, y: np.ndarray, v: np.ndarray, theta: float, loss_sign: int) -> float:
    """Eq. 7 with G as the supplementary prints it; the sign of the loss is -1 as eq. 1 is printed, 1 as it is meant."""
    N, C = y.shape
    total = 0.0
    for i, c in itertools.product(range(N), range(C)):
        label = y[i, c] or sign(x[i, c])
        total += v[i, c] * loss_sign * np.log(1 + np.exp(-label * x[i, c])) / (N * C)
        total -= v[i, c] * np.log(1 / (1 + np.exp(-theta)))
    return total


def selections(y: np.ndarray) -> list[np.ndarray]:
    """All v that select the known pairs."""
    places = [(i, c) for i, c in itertools.product(*map(range, y.shape)) if y[i, c] == 0]
    found = []
    for chosen in itertools.product((0, 1), repeat=len(places)):
        v = (y != 0).astype(int)
        for place, value in zip(places, chosen, strict=True):
            v[place] = value
        found.append(v)
    return found
