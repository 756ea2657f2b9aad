"""Naive loops of calibration."""

from __future__ import annotations

import math


def probability(score: float, slope: float, offset: float) -> float:
    """``1 / (1 + exp(-(a x + b)))``."""
    return 1 / (1 + math.exp(-(slope * score + offset)))


def expected_calibration_error(probabilities: list[float], present: list[bool], bins: int) -> float:
    """Sum over the bins of (labels in the bin / labels) |mean probability - share present|."""
    error = 0.0
    for b in range(bins):
        inside = [
            k for k, p in enumerate(probabilities) if b / bins <= p < (b + 1) / bins or (p == 1 and b == bins - 1)
        ]
        if inside:
            confidence = sum(probabilities[k] for k in inside) / len(inside)
            share = sum(present[k] for k in inside) / len(inside)
            error += len(inside) / len(probabilities) * abs(confidence - share)
    return error


def brier(probabilities: list[float], present: list[bool]) -> float:
    """Mean of (p - y)^2."""
    return sum((p - y) ** 2 for p, y in zip(probabilities, present, strict=True)) / len(present)


def penalised_loss(
    theta: tuple[float, float],
    scores: list[float],
    present: list[bool],
    mean: tuple[float, float],
    precision: list[list[float]],
) -> float:
    """Logistic loss of one class plus (theta - mean)' P (theta - mean) / 2."""
    loss = 0.0
    for x, y in zip(scores, present, strict=True):
        p = probability(x, *theta)
        loss -= math.log(p if y else 1 - p)
    away = [theta[0] - mean[0], theta[1] - mean[1]]
    for i in range(2):
        for j in range(2):
            loss += away[i] * precision[i][j] * away[j] / 2
    return loss
