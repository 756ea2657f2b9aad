"""The label table with the answers in it, as a file."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from partlabel import formats
from partlabel.app.review.answers import Pair
from partlabel.app.review.verdicts import Verdict
from partlabel.core.errors import UserError
from partlabel.labels.table import ORIGINS, LabelTable

_ENDINGS = {"parquet": ".parquet", "csv": ".csv", "openimages": ".csv"}


@dataclass(frozen=True)
class Counts:
    """What became of the answers.

    Attributes:
        answers: labels that rest on an answer now.
        confirmed: labels of people that an answer confirmed; they stay as they were.
        changed: labels of people that an answer turned into their opposite.
        unsettled: conflicts; their labels stay as they were.
        strange: answers about images or classes that the table lacks.
    """

    answers: int
    confirmed: int
    changed: int
    unsettled: int
    strange: int


def with_answers(table: LabelTable, verdicts: Mapping[Pair, Verdict]) -> tuple[LabelTable, Counts]:
    """Put answers into a table, with the origin ``review``.

    A label of the model gives way to the answer, and so does a label of a person that the answer contradicts. One that
    it confirms stays as it is, because a given label is part of a random sample and a reviewed one is not. Skipped
    questions and unsettled conflicts change nothing.

    Args:
        table: the labels.
        verdicts: what the answers came to, by names of image and class.
    """
    clear = {pair: v.answer for pair, v in verdicts.items() if v.answer != "skip" and not v.conflict}
    unsettled = sum(v.conflict for v in verdicts.values())
    columns = {name: number for number, name in enumerate(table.classes)}
    image = table.image_index([image for image, _ in clear])
    cls = np.array([columns.get(name, -1) for _, name in clear], np.int64)
    value = np.array([1 if answer == "yes" else -1 for answer in clear.values()], np.int8)
    there = (image >= 0) & (cls >= 0)
    image, cls, value = image[there], cls[there], value[there]
    old = table.pairs()
    key = image * table.num_classes + cls
    at = np.searchsorted(old.key, key)
    known = at < len(old.key)
    known[known] = old.key[at[known]] == key[known]
    at = np.where(known, at, 0)
    by_person = known & (old.origin[at] != ORIGINS.index("model")) if len(old.key) else known
    same = by_person & (old.values[at] == value) if len(old.key) else known
    changed = by_person & ~same
    if changed.any():
        keep = np.ones(len(old.key), bool)
        keep[at[changed]] = False
        table = table.hide(keep, "review", contradicted=int(changed.sum()))
    if not same.all():
        table = table.with_labels(image[~same], cls[~same], value[~same], origin="review")
    counts = Counts(int((~same).sum()), int(same.sum()), int(changed.sum()), unsettled, int((~there).sum()))
    return table, counts


def format_names() -> list[str]:
    """The formats that labels can be exported in."""
    return ["parquet", *(name for name, entry in formats.FORMATS.items() if entry.write)]


def write(table: LabelTable, format: str, folder: Path) -> Path:
    """Write a table into a folder under a new name that holds the time.

    Raises:
        UserError: a format that cannot be written, or the disk refuses.
    """
    if format not in format_names():
        raise UserError(f"the format {format!r} cannot be written; these can: {', '.join(format_names())}")
    time = datetime.now().strftime("%Y-%m-%d-%H%M%S")
    kind = "" if format in ("parquet", "csv") else f"-{format}"
    ending = _ENDINGS.get(format, ".json")
    path = folder / f"labels-{time}{kind}{ending}"
    for number in itertools.count(2):  # several in one second
        if not path.exists():
            break
        path = folder / f"labels-{time}-{number}{kind}{ending}"
    if format == "parquet":
        table.write_parquet(path)
    else:
        formats.write(format, table, path)
    return path
