"""The class lists of ImageSets/Main: ``cat_train.txt`` says of each image 1 present, -1 absent, 0 difficult."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from partlabel.core.errors import UserError
from partlabel.formats.class_names import Classes
from partlabel.formats.coding import canonical
from partlabel.formats.reading import text_lines
from partlabel.formats.report import ImportReport, Tally, ValueCount, plural
from partlabel.formats.spine import Source, settle
from partlabel.formats.voc.tree import DIFFICULT, UNSURE, Tree, VocOptions, class_lists, image_sets, unquoted


def read(path: str, tree: Tree, options: VocOptions, report: ImportReport) -> Source:
    """Read the statements of the class lists of one set.

    Raises:
        UserError: no class lists of the set, or several sets and none is named; lines without one of 1, -1, 0 (all are
            listed); classes that are not in the class list.
    """
    if tree.lists is None:
        raise UserError(f"{path}: there is no folder ImageSets/Main with class lists")
    name = _set(path, tree.lists, options.set)
    report.layout = f"class lists of the set {name}"
    files = class_lists(tree.lists, name)
    settled = settle(list(files), options, report)
    other = [own for own, index in zip(files, settled.index, strict=True) if index < 0]
    if other and options.other_classes == "error":
        raise UserError(
            f"{path}: {plural(len(other), 'list')} of a class that is not in the class list (other_classes=skip leaves "
            "them out)",
            [files[own] for own in other],
        )
    if other:
        report.dropped["lists of classes that are not in the class list"] = Tally.of(other)
    wanted = [own for own in files if own not in set(other)]
    paths = [files[own] for own in wanted]
    rows = _rows(path, paths)
    numbers = {image: n for n, image in enumerate(_images(tree.lists, name))}
    listed = len(numbers)
    for image, _, _, _ in rows:
        numbers.setdefault(image, len(numbers))
    if listed and len(numbers) > listed:
        more = list(numbers)[listed:]
        report.warnings.append(f"images of class lists that are not in {name}.txt: {Tally.of(more)}")
    _report_unlisted(rows, list(numbers), paths, report)
    value = np.array([value for _, value, _, _ in rows], np.int8)
    _report_values(value, options, report)
    return Source(
        pa.array(list(numbers), pa.string()),
        wanted,
        [numbers[image] for image, _, _, _ in rows],
        [file for _, _, file, _ in rows],
        np.where(value == 0, DIFFICULT[options.difficult], value),
        lambda at: [f"{paths[rows[n][2]]}:{rows[n][3]}" for n in at],
        settled=Classes(settled.names, settled.index[settled.index >= 0]),
    )


def _set(path: str, folder: str, wanted: str | None) -> str:
    """Return the set to read: the one that is asked for, or the only one."""
    sets = [name for name in image_sets(folder) if class_lists(folder, name)]
    if wanted is not None and class_lists(folder, wanted):
        return wanted
    if wanted is None and len(sets) == 1:
        return sets[0]
    if not sets:
        raise UserError(f"{path}: no class lists, such as cat_train.txt, are in {folder}")
    problem = "several sets; name one with set=NAME" if wanted is None else f"no class lists of the set {wanted}"
    raise UserError(f"{path}: {problem}; there are", sets)


def _images(folder: str, name: str) -> list[str]:
    """Return the images of the set, where it has a list of its own."""
    file = os.path.join(folder, f"{name}.txt")
    return [unquoted(image) for image in text_lines(file) if image] if os.path.isfile(file) else []


def _rows(path: str, files: Sequence[str]) -> list[tuple[str, int, int, int]]:
    """Return image, value, number of the file and line of all lines that are not blank."""
    rows, wrong = [], []
    for number, file in enumerate(files):
        try:
            lines = text_lines(file)
        except UserError as error:
            wrong += error.offenders or [error.message]
            continue
        for line, text in enumerate(lines, 1):
            image, _, value = text.replace("\t", " ").rpartition(" ")
            if not text:
                continue
            if not image or canonical(value) not in ("1", "-1", "0"):
                wrong.append(f"{file}:{line} {text[-60:]}")
                continue
            rows.append((unquoted(image.rstrip()), int(canonical(value)), number, line))
    if wrong:
        raise UserError(
            f"{path}: {plural(len(wrong), 'mistake')} in class lists; a line is an image and 1, -1 or 0", wrong
        )
    return rows


def _report_unlisted(
    rows: Sequence[tuple[str, int, int, int]], images: Sequence[str], files: Sequence[str], report: ImportReport
) -> None:
    """Warn of images that one list has and another has not."""
    own: list[set[str]] = [set() for _ in files]
    for image, _, file, _ in rows:
        own[file].add(image)
    short = [(file, there) for file, there in zip(files, own, strict=True) if len(there) < len(images)]
    for file, there in short[: Tally.KEPT]:
        lost = [image for image in images if image not in there]
        report.warnings.append(f"{Tally.of(lost)} not listed in {os.path.basename(file)}")
    if len(short) > Tally.KEPT:
        report.warnings.append(f"... and {len(short) - Tally.KEPT} more lists that lack images")


def _report_values(value: np.ndarray, options: VocOptions, report: ImportReport) -> None:
    report.rows = len(value)
    unsure = UNSURE[options.difficult]
    report.coding = f"1 = present; -1 = absent; 0 (difficult) = {unsure}"
    for token, meaning in ((1, "present"), (-1, "absent"), (0, unsure)):
        if count := int((value == token).sum()):
            report.values[str(token)] = ValueCount(meaning, count)
