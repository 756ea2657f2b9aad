"""The files of NUS-WIDE: a list of images, and 0 or 1 for each of them in a file for each class, or in columns."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from partlabel.errors import UserError
from partlabel.formats.reading import text_lines
from partlabel.formats.report import plural

_LABELS = re.compile(r"labels_(?P<name>.+?)(?:_(?P<set>train|test))?\.txt", re.IGNORECASE)
_IMAGES = {"imagelist.txt": "all", "trainimagelist.txt": "train", "testimagelist.txt": "test"}


@dataclass
class Lists:
    """The lists below a folder: set (all, train, test) -> files of its images, and class -> files of its labels."""

    images: dict[str, list[str]] = field(default_factory=dict)
    labels: dict[str, dict[str, list[str]]] = field(default_factory=dict)


def find(folder: str) -> Lists:
    """Find the lists in a folder and below it.

    Raises:
        UserError: there are no label lists.
    """
    found = Lists()
    for file in _text_files(folder):
        name = os.path.basename(file)
        if owner := _IMAGES.get(name.casefold()):
            found.images.setdefault(owner, []).append(file)
        elif match := _LABELS.fullmatch(name):
            owner = (match["set"] or "all").casefold()
            found.labels.setdefault(owner, {}).setdefault(match["name"], []).append(file)
    if not found.labels:
        raise UserError(f"{folder}: no label lists, such as Labels_sky.txt or Labels_sky_Train.txt, in or below it")
    return found


def _text_files(folder: str) -> Iterator[str]:
    for parent, folders, names in os.walk(folder):
        folders.sort()
        yield from (os.path.join(parent, name) for name in sorted(names) if name.casefold().endswith(".txt"))


def read_images(path: str) -> list[str]:
    r"""Return the image of each line; ``actor\0001.jpg`` becomes ``actor/0001.jpg``.

    Raises:
        UserError: the file cannot be read, or has blank lines between others.
    """
    lines = text_lines(path)
    if blank := [f"{path}:{number} blank" for number, line in enumerate(lines, 1) if not line]:
        raise UserError(f"{path}: {plural(len(blank), 'line')} without an image", blank)
    return [line.replace("\\", "/") for line in lines]


def read_classes(files: Sequence[str], size: int) -> NDArray[np.int8]:
    """Read one file for each class, with 0 or 1 on each line.

    Args:
        files: C files.
        size: N, the lines of the image list.

    Returns:
        int8 (N, C) of 0 and 1.

    Raises:
        UserError: files with another number of lines, or lines that are neither 0 nor 1 (all are listed).
    """
    matrix = np.zeros((size, len(files)), np.int8)
    wrong: list[str] = []
    for column, file in enumerate(files):
        try:
            lines = text_lines(file)
        except UserError as error:
            wrong += error.offenders or [error.message]
            continue
        bad = []
        if not set(lines) <= {"0", "1"}:
            bad = [f"{file}:{n} {line[:40] or 'blank'}" for n, line in enumerate(lines, 1) if line not in ("0", "1")]
        if len(lines) != size:
            bad.append(f"{file}: {plural(len(lines), 'line')}, the image list has {size:,}")
        wrong += bad
        if not bad:
            matrix[:, column] = np.frombuffer("".join(lines).encode(), np.uint8) - ord("0")
    if wrong:
        raise UserError("the label lists do not fit: 0 or 1 is needed for each line of the image list", wrong)
    return matrix


def read_columns(path: str, size: int, width: int) -> NDArray[np.int8]:
    """Read one file with a column for each class.

    Args:
        path: lines of 0 and 1 between blanks.
        size: N, the lines of the image list; width: C.

    Returns:
        int8 (N, C) of 0 and 1.

    Raises:
        UserError: another number of lines or values, or values that are neither 0 nor 1 (all are listed).
    """
    lines = text_lines(path)
    matrix = np.zeros((len(lines), width), np.int8)
    wrong = [] if len(lines) == size else [f"{path}: {plural(len(lines), 'line')}, the image list has {size:,}"]
    for row, line in enumerate(lines):
        values = line.split()
        text = "".join(values)
        if len(values) != width:
            wrong.append(f"{path}:{row + 1} {plural(len(values), 'value')}, {width} classes")
        elif len(text) != width or text.strip("01"):
            wrong += [f"{path}:{row + 1}:{n} {value}" for n, value in enumerate(values, 1) if value not in ("0", "1")]
        else:
            matrix[row] = np.frombuffer(text.encode(), np.uint8) - ord("0")
    if wrong:
        raise UserError(f"{path}: a line has 0 or 1 for each class, and there is one for each image", wrong)
    return matrix
