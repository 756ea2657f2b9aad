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
        person: whose it is, where people have addresses of their own.
    """

    number: int
    browser: str
    answer: Answer
    settles: bool
    time: float
    person: str | None = None

    @property
    def who(self) -> tuple[str, str]:
        """Who gave it: the person, else the browser."""
        return ("browser", self.browser) if self.person is None else ("person", self.person)


@dataclass(frozen=True)
class Verdict:
    """What is believed about one image and class.

    Attributes:
        answer: the latest yes or no that counts; skip where there are only skips.
        conflict: yes and no both count, from different people.
        counting: the answers that count, one for each of them, in the order in which they were given.
    """

    answer: Answer
    conflict: bool
    counting: tuple[Given, ...]


def judge(answers: Iterable[Given]) -> Verdict | None:
    """Judge the answers to one question, or return None where there is none.

    A later answer replaces the earlier one of the same person, or of the same browser where it is not known whose it
    is, because people correct themselves. Answers of different ones stand beside each other: yes against no is a
    conflict, until an answer settles it.
    """
    latest: dict[tuple[str, str], Given] = {}
    for given in sorted(answers, key=lambda given: given.number):
        if given.settles:
            latest.clear()
        latest.pop(given.who, None)
        latest[given.who] = given
    if not latest:
        return None
    counting = tuple(latest.values())
    clear = [given.answer for given in counting if given.answer != "skip"]
    return Verdict(clear[-1] if clear else "skip", len(set(clear)) > 1, counting)
