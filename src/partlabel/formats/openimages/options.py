"""Options of the format ``openimages``, and the files with names of label ids that they may name."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from partlabel.core.errors import UserError
from partlabel.core.trouble import plainly
from partlabel.formats import options as read_as
from partlabel.formats.class_names import tidy
from partlabel.formats.reading import find_encoding
from partlabel.formats.source import CONFLICTS
from partlabel.formats.spine import CommonOptions, choice, option

_ID = re.compile(r"\s*\"?/[a-z]/[^,\s]+\"?\s*,")


def _threshold(name: str, value: Any) -> float:
    """Read a confidence above 0 and up to 1."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0.0
    if not 0 < number <= 1:
        raise UserError(f"{name} is a confidence above 0 and up to 1, such as 0.8; not {value!r}")
    return number


def _descriptions(name: str, value: Any) -> dict[str, str]:
    """Read names of label ids: a mapping, or the path of a file."""
    if isinstance(value, Mapping):
        return {str(label): str(text) for label, text in value.items()}
    return read_descriptions(read_as.text(name, value))


def _classes(name: str, value: Any) -> list[str] | dict[str, str]:
    """Read a class list: names and ids, or the ids with their names that a description file or a mapping holds."""
    if isinstance(value, Mapping):
        return _descriptions(name, value)
    if isinstance(value, str | os.PathLike) and os.path.isfile(value):
        with open(value, encoding="utf-8-sig", errors="replace") as file:
            if any(_ID.match(file.readline(4096)) for _ in range(2)):
                return _descriptions(name, value)
    return read_as.names(name, value)


def read_descriptions(path: str) -> dict[str, str]:
    """Return id -> name in the order of a file with ``/m/01g317,Person`` on each line; a header (V7) is skipped.

    Raises:
        UserError: the file cannot be read, or lines that are not an id and a name, or that give an id another name (all
            are listed).
    """
    encoding = find_encoding(path)
    names: dict[str, str] = {}
    wrong: list[str] = []
    line = 0
    try:
        with open(path, encoding=encoding, newline="") as file:
            reader = csv.reader(file, strict=True)
            for row in reader:
                line, start = reader.line_num, line + 1
                cells = [tidy(cell) for cell in row]
                if not any(cells) or (start == 1 and cells[0].casefold() == "labelname"):
                    continue
                if len(cells) != 2 or not all(cells):
                    wrong.append(f"{path}:{start} an id and a name are needed: {','.join(row)[:60]}")
                elif names.setdefault(*cells) != cells[1]:
                    wrong.append(f"{path}:{start} {cells[0]} is {names[cells[0]]} and {cells[1]}")
    except (OSError, UnicodeError, csv.Error) as error:
        raise UserError(
            f"{path}: cannot be read as names of label ids", [f"{path}:{line + 1} {plainly(error)}"]
        ) from error
    if wrong:
        raise UserError(f"{path}: not a list of label ids with names", wrong)
    return names


@dataclass(frozen=True, kw_only=True)
class OpenImagesOptions(CommonOptions):
    """Options of the format ``openimages``; the help of each is in its metadata."""

    descriptions: dict[str, str] | None = option(
        None,
        _descriptions,
        "file with the names of the label ids, such as class-descriptions.csv; without it classes are called by their "
        "ids",
    )
    undescribed: str = choice(
        "error", *("error", "keep"), help="labels whose id has no description: error, or keep the class under its id"
    )
    machine_threshold: float | None = option(
        None,
        _threshold,
        "confidence from which on a machine's label counts as a weak present label (origin model); "
        "otherwise machine labels are left out. Below it a pair is unknown, never absent",
    )
    classes: list[str] | dict[str, str] | None = option(
        None,
        _classes,
        "the classes that are wanted, in this order: names or ids between commas, a file with one of them a line, or a "
        "description file such as class-descriptions-boxable.csv",
    )
    image_list: str | None = option(
        None,
        read_as.text,
        "file with the images of the table, in the column ImageID or the first one: others are left out, and images "
        "that no label is about are kept",
    )
    not_listed: str = choice(
        "unknown",
        *("unknown", "absent"),
        help="what a pair counts as that no row is about, not even of a machine: unknown, or absent",
    )
    conflicts: str = choice(
        "error", *CONFLICTS, help=f"one pair stated present and absent by persons: {', '.join(CONFLICTS)}"
    )
    missing_list: str | None = option(
        None, read_as.text, "file that the names of all images without a file are written to, one a line"
    )

    def given(self) -> dict[str, Any]:
        """Return the options that are not at their default; of descriptions, only how many there were."""
        own = super().given()
        return own if self.descriptions is None else {**own, "descriptions": f"{len(self.descriptions)} names"}
