"""The share of present labels among unknown ones, and imputed metrics, as naive loops."""

from __future__ import annotations

import math

from tests.reference import metrics


def log_likelihood(p_unknown: list[float], p_known: float, delta: float) -> float:
    """log L of delta = logit(pi) - logit(p): sum over unknown labels of log(pi p(x)/p + (1 - pi)(1 - p(x))/(1 - p))."""
    odds = math.exp(delta) * p_known / (1 - p_known)
    pi = odds / (1 + odds)
    return sum(math.log(pi * p / p_known + (1 - pi) * (1 - p) / (1 - p_known)) for p in p_unknown)


def saerens(p_unknown: list[float], p_known: float, rounds: int = 10_000) -> float:
    """Share of present labels by EM (Saerens, Latinne and Decaestecker, 2002): the maximum of the likelihood."""
    pi = p_known
    for _ in range(rounds):
        posterior = []
        for p in p_unknown:
            present, absent = pi / p_known * p, (1 - pi) / (1 - p_known) * (1 - p)
            posterior.append(present / (present + absent))
        pi = sum(posterior) / len(posterior)
    return pi


def weighted(x, present, weights, limit: float) -> list[float]:
    """AP, AUROC, precision, recall, F1 and prevalence where image i is there ``weights[i]`` times and all is known."""
    rows = [i for i in range(len(x)) for _ in range(int(weights[i]))]
    x, y = x[rows], [1 if present[i] else -1 for i in rows]
    if len(set(y)) < 2:
        return [metrics.NAN] * 6
    said = [value >= limit for value in x]
    right = sum(1 for s, label in zip(said, y, strict=True) if s and label == 1)
    total = y.count(1)
    return [
        metrics.average_precision(x, y),
        metrics.roc_auc(x, y),
        metrics.ratio(right, sum(said)),
        right / total,
        metrics.ratio(2 * right, sum(said) + total),
        total / len(y),
    ]
