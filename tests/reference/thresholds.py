"""Naive loops of thresholds: every score is tried, everything is counted anew."""

from __future__ import annotations


def counts(scores: list[float], present: list[float], absent: list[float], threshold: float) -> tuple[float, float]:
    """Weights of the present and of the absent images with score >= threshold."""
    hits = alarms = 0.0
    for x, p, a in zip(scores, present, absent, strict=True):
        if x >= threshold:
            hits += p
            alarms += a
    return hits, alarms


def f1(scores: list[float], present: list[float], absent: list[float], threshold: float) -> float:
    """2 TP / (2 TP + FP + FN)."""
    hits, alarms = counts(scores, present, absent, threshold)
    return 2 * hits / (2 * hits + alarms + (sum(present) - hits))


def best_f1(scores: list[float], present: list[float], absent: list[float]) -> float:
    """The highest F1 over all thresholds that are a score."""
    return max(f1(scores, present, absent, t) for t in scores)


def best_recall(scores: list[float], present: list[float], absent: list[float], precision: float) -> float | None:
    """The highest recall over the thresholds with at least this precision, or None."""
    found = []
    for t in scores:
        hits, alarms = counts(scores, present, absent, t)
        if hits / (hits + alarms) >= precision:
            found.append(hits / sum(present))
    return max(found) if found else None


def fewest_present(scores: list[float], present: list[float], absent: list[float], recall: float) -> int:
    """How many images the highest threshold with at least this recall calls present."""
    for t in sorted(scores, reverse=True):
        if counts(scores, present, absent, t)[0] / sum(present) >= recall:
            return sum(x >= t for x in scores)
    raise AssertionError("the lowest score has recall 1")
