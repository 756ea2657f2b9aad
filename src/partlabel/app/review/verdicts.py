"""What the answers to one question come to when several people gave them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Answer = Literal["yes", "no", "skip"]


@dataclass(frozen=True)
class Given:
    """One stored answer.

    Attributes:
        number: increases with every answer stored.
        browser: who gave it.
        answer: yes (the class is present), no (absent), or skip (cannot tell).
        settles: it was given to settle a conflict, so that earlier answers no longer count.
        time: seconds since 1970.
    """

    number: int
    browser: str
    answer: Answer
    settles: bool
    time: float


@dataclass(frozen=True)
class Verdict:
    """What is believed about one image and class.

    Attributes:
        answer: the latest yes or no that counts; skip where there are only skips.
        conflict: yes and no both count, from different browsers.
        counting: the answers that count, one for each browser, in the order in which they were given.
    """

    answer: Answer
    conflict: bool
    counting: tuple[Given, ...]


def judge(answers: Iterable[Given]) -> Verdict | None:
    """Judge the answers to one question, or return None where there is none.

    A browser's later answer replaces its earlier one, because people correct themselves. Answers of different browsers
    stand beside each other: yes against no is a conflict, until an answer settles it.
    """
    latest: dict[str, Given] = {}
    for given in sorted(answers, key=lambda given: given.number):
        if given.settles:
            latest.clear()
        latest.pop(given.browser, None)
        latest[given.browser] = given
    if not latest:
        return None
    counting = tuple(latest.values())
    clear = [given.answer for given in counting if given.answer != "skip"]
    return Verdict(clear[-1] if clear else "skip", len(set(clear)) > 1, counting)
