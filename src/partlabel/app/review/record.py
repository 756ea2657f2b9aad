"""The record of all answers for people who have to account for them: who, when, what, before, after."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from pathlib import Path

from partlabel.app.review.answers import AnswerStore, Pair
from partlabel.app.review.verdicts import Given, judge
from partlabel.core.files import replacing
from partlabel.core.text import as_cell

RECORD = "record.csv"
COLUMNS = ("number", "time", "person", "browser", "image", "class", "before", "answer", "after", "queue", "taken_back",
           "image_content")  # fmt: skip
_MEANS = {"yes": "present", "no": "absent"}


def write_record(store: AnswerStore, path: Path) -> None:
    """Write every answer ever given as a row of a CSV file, whole or not at all; nothing is left out.

    ``time`` and ``taken_back`` are in UTC. ``before`` is the label that the person saw; ``after`` what all answers to
    the question came to once this one was given: ``present``, ``absent``, ``conflict``, or the label as it was.

    Raises:
        UserError: the disk refuses.
        StoreError: the answers cannot be read.
    """
    given: dict[Pair, list[Given]] = {}
    rows = list(store.rows())
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for row in rows:
            pair = (row["image"], row["class"])
            answers = given.setdefault(pair, [])
            said = row["answer"], bool(row["settles"]), row["time"], row["person"]
            answers.append(Given(row["number"], row["browser"], *said))
            counting = [one for one in answers if not _taken_back(rows[one.number - 1], row["time"])]
            verdict = judge(counting)
            before = row["before"] or "unknown"
            after = before if verdict is None else _MEANS.get(verdict.answer, before)
            writer.writerow(
                [
                    row["number"],
                    _time(row["time"]),
                    as_cell(row["person"] or ""),
                    as_cell(row["browser"]),
                    as_cell(row["image"]),
                    as_cell(row["class"]),
                    before,
                    row["answer"],
                    "conflict" if verdict is not None and verdict.conflict else after,
                    row["queue"],
                    _time(row["undone_time"]) if row["undone_time"] else "yes" if row["undone"] else "",
                    row["content"] or "",
                ]
            )


def _taken_back(row: dict[str, object], now: float) -> bool:
    """Whether an answer was taken back before another was given; of earlier versions, the time is not known."""
    when = row["undone_time"]
    return bool(row["undone"]) and (not isinstance(when, float) or when <= now)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
