"""CVAT for images: a tag or a shape says that its class is present in an image."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.formats.assemble import Statements, assemble
from partlabel.formats.class_names import settle_names, tidy
from partlabel.formats.cvat.layout import Content
from partlabel.formats.cvat.options import CvatOptions
from partlabel.formats.given import given
from partlabel.formats.report import ImportReport, Tally, plural
from partlabel.labels.table import LabelTable

__all__ = ["CvatOptions", "read"]

_FILE = "annotations.xml"


def read(path: str, options: CvatOptions) -> tuple[LabelTable, ImportReport]:
    """Read image labels from an export of CVAT for images 1.1: the XML file, the zip file, or the unpacked folder.

    Raises:
        UserError: no such file, not XML or cut off, another layout, a video, images or labels without a name, or one
            image name in several tasks; all offenders are listed.
    """
    content = _load(path)
    report = ImportReport(path, "cvat", "images, XML", rows=len(content.cls))
    table = assemble(
        _statements(content, options, report),
        report,
        not_listed=options.not_listed,
        images=options.images,
        missing=options.missing,
        options=given(options),
    )
    return table, report


def _load(path: str) -> Content:
    try:
        if os.path.isdir(path):
            path = os.path.join(path, _FILE)
        content = Content(path)
        with open(path, "rb") as file:
            if file.read(2) == b"PK":
                return _load_zip(path)
            file.seek(0)
            content.read(file)
        return content
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error


def _load_zip(path: str) -> Content:
    try:
        with zipfile.ZipFile(path) as archive:
            found = [name for name in archive.namelist() if name.rpartition("/")[2] == _FILE]
            if len(found) != 1:
                raise UserError(f"{path}: {len(found)} files {_FILE} in the archive, one is needed", found)
            content = Content(f"{path}/{found[0]}")
            with archive.open(found[0]) as file:
                content.read(file)
            return content
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise UserError(f"{path}: the archive is damaged or locked ({error})") from error


def _statements(content: Content, options: CvatOptions, report: ImportReport) -> Statements:
    """Return what the tags and shapes say."""
    images, number = _images(content, report)
    image = number[np.array(content.image, np.int32)]
    bare = np.flatnonzero(np.bincount(image, minlength=len(images)) == 0)
    report.without_annotations = Tally.of(images.take(pa.array(bare[: Tally.KEPT])).to_pylist(), len(bare))
    _describe(content, options, report)
    declared = list(dict.fromkeys(map(tidy, content.declared)))
    used = list(content.names)
    if declared and (foreign := [name for name in used if tidy(name) not in set(declared)]):
        report.warnings.append(f"labels that the labels block does not list: {Tally.of(foreign)}")
    classes = settle_names([*declared, *used], report, rename=options.rename, chosen=options.classes, sort=not declared)
    raw = np.array(content.cls, np.int32)
    cls = classes.index[len(declared) :][raw]
    value = np.ones(len(raw), np.int8)
    if options.shapes == "unknown":
        value -= np.array(content.shape, np.int8)

    def place(rows: Sequence[int]) -> list[str]:
        return [f"{content.path}:{content.lines[row]}" for row in rows]

    said = Statements(images, classes.names, image, cls, value, np.arange(len(raw)), place)
    unwanted = [name for name, kept in zip(used, classes.index[len(declared) :] >= 0, strict=True) if not kept]
    if unwanted:
        reason = f"labels of {len(unwanted):,} classes that are not in the class list"
        report.dropped[reason] = Tally.of(unwanted, int((cls < 0).sum()))
        said.keep(cls >= 0)
    return said


def _images(content: Content, report: ImportReport) -> tuple[pa.StringArray, NDArray[np.int32]]:
    """Return the unique image names, and the number there of each image element."""
    encoded = pa.array(content.images, pa.string()).dictionary_encode()
    names, number = encoded.dictionary, encoded.indices.to_numpy().astype(np.int32)
    if len(names) == len(number):
        return names, number
    first: dict[int, int] = {}
    clash = []
    for position, name in enumerate(number.tolist()):
        other = first.setdefault(name, position)
        if content.owners[other] != content.owners[position]:
            places = " and ".join(_owner(content, p) for p in (other, position))
            clash.append(f"{content.images[position]}: {places}")
    if clash:
        raise UserError(
            f"{content.path}: pictures of different tasks have the same name; export each task by itself and "
            "put its pictures into a folder of its own",
            clash,
        )
    report.notes.append(
        f"{plural(len(number) - len(names), 'image element')} with the name of an earlier one; "
        "their labels are put together"
    )
    return names, number


def _owner(content: Content, position: int) -> str:
    task, subset = content.owners[position]
    parts = [
        f"line {content.image_lines[position]}",
        f"task {task}" if task else "",
        f"subset {subset}" if subset else "",
    ]
    return " ".join(filter(None, parts))


def _describe(content: Content, options: CvatOptions, report: ImportReport) -> None:
    """Say in the report what was read, and what was not."""
    shapes = sorted(kind for kind in content.kinds if kind != "tag")
    report.coding = "a tag = present"
    if shapes:
        word = "present" if options.shapes == "present" else "uncertain (kept unknown)"
        report.coding += f", a shape = {word}"
    found = [f"{kind} {content.kinds[kind]:,}" for kind in (["tag"] if content.kinds["tag"] else []) + shapes]
    if found:
        report.notes.append(f"labels by kind: {', '.join(found)}")
    if not content.declared:
        report.notes.append("no labels block: classes are those that occur, by name")
    if content.attributes:
        report.notes.append(f"{plural(content.attributes, 'attribute')} of tags and shapes are not read")
