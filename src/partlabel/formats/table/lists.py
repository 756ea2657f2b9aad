"""List files without header: a path, then values of the classes (``photos/a 1.jpg 1 0 1``), or class numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from partlabel.core.errors import UserError
from partlabel.formats.coding import canonical
from partlabel.formats.packed import opened
from partlabel.formats.reading import find_encoding, text_lines
from partlabel.formats.report import plural
from partlabel.formats.table.entries import Entries
from partlabel.formats.table.job import Job
from partlabel.formats.table.tables import HeldTable

_SIGNS = {",": "comma", ";": "semicolon", "|": "pipe"}


def has_count(path: str) -> bool:
    """Tell whether a file is a list as CelebA has them: first the number of images, then a line of class names."""
    try:
        with opened(path) as content:
            first = content.file.read(4096).splitlines()[:2]
    except UserError:
        return False
    return len(first) == 2 and first[0].strip().isdigit() and len(first[1].split()) > 1


def read_list(job: Job, path: str) -> None:
    """Read a list file. Values are split off from the right, so that a path may hold blanks.

    A path never loses a part to the labels: a line must end with exactly as many label values as there are classes.

    Raises:
        UserError: no class list; lines with more or fewer values (all are listed); text of another encoding.
    """
    options = job.options
    encoding = find_encoding(path, options.encoding)
    lines = [(number, line) for number, line in enumerate(text_lines(path, encoding), 1) if line]
    names = options.classes
    if len(lines) > 2 and lines[0][1].isdigit() and len(lines[1][1].split()) == len(lines[2][1].split()) - 1:
        names = lines[1][1].split()
        if len(lines) - 2 != int(lines[0][1]):
            job.report.warnings.append(f"the first line says {lines[0][1]} images, {len(lines) - 2} follow")
        lines = lines[2:]
    meaning = options.entries or "values"
    if names is None and meaning != "names":
        raise UserError(f"{path}: a list file has no header; give the class names in order, as in classes=names.txt")
    rows: list[tuple[int, list[str]]] = []
    lists: list[list[str]] = []
    wrong = []
    for number, line in lines:
        taken = _take_apart(line, meaning, names or [], job)
        if isinstance(taken, str):
            wrong.append(f"{path}:{number} {taken}")
        else:
            rows.append((number, [taken[0]]))
            lists.append(taken[1])
    if wrong:
        what = "exactly one value for each of the {size} classes" if meaning == "values" else "an image and entries"
        raise UserError(f"{path}: {plural(len(wrong), 'line')} without {what.format(size=len(names or []))}", wrong)
    job.report.layout = f"list file, {encoding.upper()}"
    entries = Entries(job, path, meaning, "", names)
    low = job.rows.count
    for batch in job.batches(HeldTable(path, "list file", ["image"], 0, rows), [0]):
        start = batch.first_row - low
        entries.add(lists[start : start + len(batch)], np.arange(len(batch), dtype=np.int32), batch.first_row)
    entries.finish()
    if meaning != "values":
        job.report.coding = f"a listed {'number' if meaning == 'numbers' else 'name'} = present"
    job.sort = meaning == "names"


def _take_apart(line: str, meaning: str, names: Sequence[str], job: Job) -> tuple[str, list[str]] | str:
    """Return the path and the entries of a line, or what is wrong with it."""
    options = job.options
    separator = None if options.separator == " " else options.separator
    if options.tag_separator is not None:
        path, *tail = (part.strip() for part in line.rsplit(separator, 1))
        return path, [part.strip() for part in tail[0].split(options.tag_separator)] if tail else []
    parts = [part.strip() for part in line.split(separator)]
    if meaning == "values":
        are_values = [part != "" and canonical(part) in job.coding.codes for part in parts]
        count = _number_at_end(are_values)
        if count != len(names) or count == len(parts):
            found = f"{plural(count, 'value')} at the end, {len(names)} classes: {line[-60:]}"
            return found + _other_reading(parts, are_values)
    elif meaning == "numbers":
        count = _number_at_end([part.isdigit() for part in parts])
    else:
        count = len(parts) - 1
    if count == len(parts):
        return f"no image name: {line[-60:]}"
    # cut from the line, not joined from the parts: a path keeps the blanks that it has
    path = line.rsplit(separator, count)[0].strip() if count else line
    return path, parts[len(parts) - count :]


def _other_reading(parts: Sequence[str], are_values: Sequence[bool]) -> str:
    """Return the option that would read a line without enough values, in brackets, or nothing."""
    joined = next((word for sign, word in _SIGNS.items() if sign in parts[-1]), None)
    if joined is not None and not are_values[-1]:
        return f" (values with another character between them: tag_separator={joined})"
    if any(part.isdigit() and not value for part, value in zip(parts, are_values, strict=True)):
        return " (numbers of classes: entries=numbers)"
    return ""


def _number_at_end(fits: Sequence[bool]) -> int:
    """Return how many of the last are true."""
    return next((i for i, fit in enumerate(reversed(fits)) if not fit), len(fits))
