"""NUS-WIDE: label lists that go with an image list, line by line."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.formats.assemble import Statements, assemble
from partlabel.formats.class_names import settle_names
from partlabel.formats.given import given
from partlabel.formats.nuswide.lists import Lists, find, read_classes, read_columns, read_images
from partlabel.formats.nuswide.options import NusWideOptions
from partlabel.formats.report import ImportReport, Tally, ValueCount
from partlabel.labels.table import LabelTable

__all__ = ["NusWideOptions", "read"]


def read(path: str, options: NusWideOptions) -> tuple[LabelTable, ImportReport]:
    """Read image labels from a folder of NUS-WIDE lists, or from one file with a column for each class.

    Raises:
        UserError: no or several lists that fit; lists of different length, or lines that are neither 0 nor 1 (all are
            listed).
    """
    report = ImportReport(path, "nuswide")
    said = (_from_columns if os.path.isfile(path) else _from_folder)(path, options, report)
    report.coding = f"1 = present; 0 = {options.zero}"
    table = assemble(
        said,
        report,
        conflicts=options.conflicts,
        images=options.images,
        missing=options.missing,
        options=given(options),
    )
    return table, report


def _from_folder(path: str, options: NusWideOptions, report: ImportReport) -> Statements:
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
    classes = settle_names(raw, report, rename=options.rename, chosen=options.classes)
    if other := [own for own, index in zip(raw, classes.index, strict=True) if index < 0]:
        report.dropped["lists of classes that are not in the class list"] = Tally.of(other)
    order = [k for k in np.argsort(classes.index, kind="stable") if classes.index[k] >= 0]
    files = [labels[raw[k]][0] for k in order]

    def place(rows: Sequence[int]) -> list[str]:
        return [f"{files[row % len(files)]}:{row // len(files) + 1}" for row in rows]

    matrix = read_classes(files, len(images))
    return _statements(images, classes.names, classes.index[order], matrix, place, options, report)


def _from_columns(path: str, options: NusWideOptions, report: ImportReport) -> Statements:
    """Read one file with a column for each class."""
    if options.image_list is None or options.classes is None or options.set is not None:
        raise UserError(
            f"{path}: one file of labels needs its images and the names of its columns, as in "
            "image_list=Imagelist.txt classes=Concepts81.txt (and no set)"
        )
    report.layout = "a column for each class"
    images = read_images(options.image_list)
    classes = settle_names(options.classes, report, rename=options.rename)
    width = len(options.classes)

    def place(rows: Sequence[int]) -> list[str]:
        return [f"{path}:{row // width + 1}:{row % width + 1}" for row in rows]

    matrix = read_columns(path, len(images), width)
    return _statements(images, classes.names, classes.index, matrix, place, options, report)


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


def _statements(
    images: list[str],
    names: list[str],
    cls: NDArray[np.int32],
    matrix: NDArray[np.int8],
    place: Callable[[Sequence[int]], list[str]],
    options: NusWideOptions,
    report: ImportReport,
) -> Statements:
    """Return what a matrix (N, columns) of 0 and 1 says; ``cls`` is the class of each column."""
    report.rows = len(images)
    ones = int(matrix.sum())
    report.values = {"1": ValueCount("present", ones), "0": ValueCount(options.zero, matrix.size - ones)}
    encoded = pa.array(images, pa.string()).dictionary_encode()
    if repeated := len(images) - len(encoded.dictionary):
        report.notes.append(
            f"{repeated:,} lines of the image list repeat an earlier one; their labels are put together"
        )
    flat, width = matrix.reshape(-1), matrix.shape[1]
    image, column = encoded.indices.to_numpy().repeat(width), np.tile(cls, len(images))
    said = Statements(encoded.dictionary, names, image, column, 2 * flat - 1, np.arange(flat.size), place)
    if options.zero == "unknown":
        said.keep(flat > 0)
    return said
