"""Names of label ids, from files such as ``class-descriptions.csv``: ``/m/01g317,Person`` on each line."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Mapping

from partlabel.core.errors import UserError
from partlabel.formats.class_names import tidy
from partlabel.formats.reading import find_encoding

_ID = re.compile(r"\s*\"?/[a-z]/[^,\s]+\"?\s*,")


def is_descriptions(path: str) -> bool:
    """Return whether the first line of a file, or the one after its header, is an id with a name."""
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        return any(_ID.match(file.readline(4096)) for _ in range(2))


def read_descriptions(path: str) -> dict[str, str]:
    """Return id -> name in the order of the file; a header ``LabelName,DisplayName`` (V7) is skipped.

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
        raise UserError(f"{path}: cannot be read as names of label ids", [f"{path}:{line + 1} {error}"]) from error
    if wrong:
        raise UserError(f"{path}: not a list of label ids with names", wrong)
    return names


def unique_names(descriptions: Mapping[str, str]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return id -> name, where ids that share a name have their id added to it, and the names that are shared."""
    ids: defaultdict[str, list[str]] = defaultdict(list)
    for label, name in descriptions.items():
        ids[tidy(name)].append(label)
    shared = {name: own for name, own in ids.items() if len(own) > 1}
    names = {label: tidy(name) for label, name in descriptions.items()}
    return {label: f"{name} ({label})" if name in shared else name for label, name in names.items()}, shared
