"""How precise the labels of the model are, by answers to a random sample of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from partlabel.app.review.verdicts import Answer

CONFIDENCE = 0.95
#: what an estimate rests on
BASIS = "Answers to a random sample that is mixed into the queue of filled-in labels"


@dataclass(frozen=True)
class Precision:
    """An estimate from ``checked`` labels of which ``right`` are right.

    ``low`` and ``high``: exact interval of the share (Clopper and Pearson, Biometrika 1934), which holds the true share
    with a probability of at least 95 %.
    """

    checked: int
    right: int
    low: float
    high: float

    @property
    def estimate(self) -> float:
        """Share of the checked labels that are right."""
        return self.right / self.checked


def interval(right: int, checked: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Exact interval of a share: all p for which neither tail of the binomial is below ``(1 - confidence) / 2``.

    Args:
        right: successes, 0 .. checked.
        checked: trials, at least 1.
        confidence: probability with which the interval holds the true share.
    """
    from scipy.special import betaincinv

    tail = (1 - confidence) / 2
    low = float(betaincinv(right, checked - right + 1, tail)) if right else 0.0
    high = float(betaincinv(right + 1, checked - right, 1 - tail)) if right < checked else 1.0
    return low, high


def estimate(sample: Iterable[Answer | None], sign: str) -> Precision | None:
    """Estimate the precision of one sign.

    Only the part of the sample before the first pair without an answer counts. Which pairs a person comes to first
    depends on the queue, so that those answered behind it are no random sample. Skipped pairs count neither as right
    nor as wrong.

    Args:
        sample: the answer to each pair of the sample, in the order of the draw; None: not answered yet.
        sign: ``present`` or ``absent``, what the model said.

    Returns:
        None while nothing counts.
    """
    expected = "yes" if sign == "present" else "no"
    checked = right = 0
    for answer in sample:
        if answer is None:
            break
        if answer != "skip":
            checked += 1
            right += answer == expected
    return Precision(checked, right, *interval(right, checked)) if checked else None
