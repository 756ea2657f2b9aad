"""NUS-WIDE: an image list, and 0 or 1 for each of its lines in a file for each class, or in columns."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.formats import options as read_as
from partlabel.formats.class_names import Classes, settle_names
from partlabel.formats.reading import files_below, text_lines
from partlabel.formats.report import ImportReport, Tally, ValueCount, plural
from partlabel.formats.spine import CommonOptions, Source, choice, finish, option, settle, unique, without
from partlabel.labels.table import LabelTable

__all__ = ["NusWideOptions", "read"]

_LABELS = re.compile(r"labels_(?P<name>.+?)(?:_(?P<set>train|test))?\.txt", re.IGNORECASE)
_IMAGES = {"imagelist.txt": "all", "trainimagelist.txt": "train", "testimagelist.txt": "test"}


@dataclass(frozen=True, kw_only=True)
class NusWideOptions(CommonOptions):
    """Options of the format ``nuswide``; a list has a value for every pair."""

    set: str | None = choice(
        None,
        "all",
        "train",
        "test",
        help="the lists to read: all (Labels_sky.txt), train (Labels_sky_Train.txt) or test; needed where several are "
        "there and all is not",
    )
    image_list: str | None = option(
        None,
        read_as.text,
        "file that names the image of each line; otherwise Imagelist.txt, TrainImagelist.txt or TestImagelist.txt in "
        "or below the folder",
    )
    zero: str = choice("absent", "unknown", help="what 0 means: absent or unknown")
    not_listed: str | None = without("unknown")
    classes: list[str] | None = option(
        None,
        read_as.names,
        "the classes that are wanted, in this order: names between commas, or a file with one name a line. For a file "
        "with a column for each class the names of all columns, such as Concepts81.txt",
    )


def read(path: str, options: NusWideOptions) -> tuple[LabelTable, ImportReport]:
    """Read image labels from a folder of NUS-WIDE lists, or from one file with a column for each class.

    Raises:
        UserError: no or several lists that fit; lists of different length, or lines that are neither 0 nor 1 (all are
            listed).
    """
    report = ImportReport(path, "nuswide")
    source = (_from_columns if os.path.isfile(path) else _from_folder)(path, options, report)
    report.coding = f"1 = present; 0 = {options.zero}"
    return finish(source, options, report), report


def _from_folder(path: str, options: NusWideOptions, report: ImportReport) -> Source:
    """Read the class files of one set."""
    if not os.path.isdir(path):
        raise UserError(f"{path}: no such folder or file")
    lists = find(path)
    name = _set(path, lists, options.set)
    report.layout = f"class files of the set {name}"
    labels = lists.labels[name]
    if several := [", ".join(files) for files in labels.values() if len(files) > 1]:
        raise UserError(f"{path}: several files for one class; give the folder of one of them", several)
    images = read_images(options.image_list or _image_list(path, lists, name))
    raw = sorted(labels)
    settled = settle(raw, options, report)
    if other := [own for own, index in zip(raw, settled.index, strict=True) if index < 0]:
        report.dropped["lists of classes that are not in the class list"] = Tally.of(other)
    wanted = np.flatnonzero(settled.index >= 0)  # the lists of other classes are not read
    files = [labels[raw[k]][0] for k in wanted]
    source = _matrix_source(
        images,
        [raw[k] for k in wanted],
        read_classes(files, len(images)),
        lambda rows: [f"{files[row % len(files)]}:{row // len(files) + 1}" for row in rows],
        options,
        report,
    )
    source.settled = Classes(settled.names, settled.index[wanted])
    return source


def _from_columns(path: str, options: NusWideOptions, report: ImportReport) -> Source:
    """Read one file with a column for each class."""
    if options.image_list is None or options.classes is None or options.set is not None:
        raise UserError(
            f"{path}: one file of labels needs its images and the names of its columns, as in "
            "image_list=Imagelist.txt classes=Concepts81.txt (and no set)"
        )
    report.layout = "a column for each class"
    images, width = read_images(options.image_list), len(options.classes)
    source = _matrix_source(
        images,
        options.classes,
        read_columns(path, len(images), width),
        lambda rows: [f"{path}:{row // width + 1}:{row % width + 1}" for row in rows],
        options,
        report,
    )
    source.settled = settle_names(options.classes, report, rename=options.rename)
    return source


def _matrix_source(
    images: list[str],
    classes: Sequence[str],
    matrix: NDArray[np.int8],
    place: Callable[[Sequence[int]], list[str]],
    options: NusWideOptions,
    report: ImportReport,
) -> Source:
    """Return what a matrix (N, columns) of 0 and 1 says; cell i is statement i."""
    report.rows = len(images)
    ones = int(matrix.sum())
    report.values = {"1": ValueCount("present", ones), "0": ValueCount(options.zero, matrix.size - ones)}
    names, number = unique(images)
    if repeated := len(images) - len(names):
        report.notes.append(
            f"{repeated:,} lines of the image list repeat an earlier one; their labels are put together"
        )
    width = matrix.shape[1]
    source = Source(
        names,
        classes,
        number.repeat(width),
        np.tile(np.arange(width, dtype=np.int32), len(images)),
        2 * matrix.reshape(-1) - 1,
        place,
    )
    if options.zero == "unknown":
        source.keep(np.flatnonzero(matrix))
    return source


def _set(path: str, lists: Lists, wanted: str | None) -> str:
    """Return the set to read: as asked, the whole, or the only one."""
    there = list(lists.labels)
    if wanted is None:
        wanted = "all" if "all" in there or len(there) > 1 else there[0]
        if wanted not in there:
            raise UserError(f"{path}: there are lists of two sets; say set=train or set=test")
    if wanted not in there:
        raise UserError(f"{path}: no label lists of the set {wanted}; there are: {', '.join(there)}")
    return wanted


def _image_list(path: str, lists: Lists, name: str) -> str:
    found = lists.images.get(name, [])
    if len(found) == 1:
        return found[0]
    problem = "several image lists" if found else "no image list"
    file = {"all": "Imagelist.txt", "train": "TrainImagelist.txt", "test": "TestImagelist.txt"}[name]
    raise UserError(f"{path}: {problem} of the set {name} in or below it; name it, as in image_list={file}", found)


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
    for file in (os.path.join(folder, name) for name in files_below(folder, ".txt")):
        name = os.path.basename(file)
        if owner := _IMAGES.get(name.casefold()):
            found.images.setdefault(owner, []).append(file)
        elif match := _LABELS.fullmatch(name):
            owner = (match["set"] or "all").casefold()
            found.labels.setdefault(owner, {}).setdefault(match["name"], []).append(file)
    if not found.labels:
        raise UserError(f"{folder}: no label lists, such as Labels_sky.txt or Labels_sky_Train.txt, in or below it")
    return found


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
        size: N, the lines of the image list.
        width: C.

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
