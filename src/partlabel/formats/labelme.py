"""LabelMe: the flags of an image, ticked or not, and by option the classes of its shapes."""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass

import msgspec
import numpy as np

from partlabel.core.errors import UserError
from partlabel.formats.reading import files_below, load_json
from partlabel.formats.report import ImportReport, plural
from partlabel.formats.spine import CommonOptions, Source, choice, finish, unique
from partlabel.labels.table import LabelTable

__all__ = ["LabelMeOptions", "read"]

#: what LabelMe writes for a label that is none
_NO_CLASS = "__ignore__"


class _Shape(msgspec.Struct):
    label: str


class _File(msgspec.Struct):
    """What a file says of its image; outlines and the image itself are not read."""

    image_path: str = msgspec.field(name="imagePath")
    flags: dict[str, bool] | None = None
    shapes: list[_Shape] = []


@dataclass(frozen=True, kw_only=True)
class LabelMeOptions(CommonOptions):
    """Options of the format ``labelme``."""

    shapes: str = choice(
        "ignored",
        "present",
        help="present: the label of a shape is a class that is present in the image, beside the flags",
    )
    not_listed: str | None = choice(
        "unknown",
        "absent",
        help="what a class counts as that is no flag of an image and has no shape in it: unknown or absent. Images "
        "without flags and shapes stay unknown",
    )


def read(path: str, options: LabelMeOptions) -> tuple[LabelTable, ImportReport]:
    """Read the flags of images from a JSON file of LabelMe, or from all of a folder and below it.

    A ticked flag is present, one that is not ticked is absent. Images are named relative to the folder.

    Raises:
        UserError: no JSON files; files that are not of LabelMe (all are listed).
    """
    folder, files = (path, files_below(path, ".json")) if os.path.isdir(path) else os.path.split(path)
    files = [files] if isinstance(files, str) else files
    if not files:
        raise UserError(f"{path}: no JSON files are in this folder or below it")
    content = _load_all(path, folder, files)
    said: list[tuple[int, str, int]] = []
    for number, entry in enumerate(content):
        said += [(number, name, 1 if ticked else -1) for name, ticked in (entry.flags or {}).items()]
        if options.shapes == "present":
            said += [(number, name, 1) for name in dict.fromkeys(shape.label for shape in entry.shapes)]
    said = [statement for statement in said if statement[1].strip() not in ("", _NO_CLASS)]
    report = ImportReport(path, "labelme", plural(len(files), "JSON file"), rows=len(said))
    report.coding = "a ticked flag = present, a flag that is not ticked = absent"
    report.coding += ", a shape = present" if options.shapes == "present" else ""
    if options.shapes == "ignored" and (shapes := sum(len(entry.shapes) for entry in content)):
        report.notes.append(f"{plural(shapes, 'shape')} are not read; shapes=present takes their labels in")
    names = [
        posixpath.normpath(posixpath.join(posixpath.dirname(file), entry.image_path.replace("\\", "/")))
        for file, entry in zip(files, content, strict=True)
    ]
    images, image = unique(names)
    classes, cls = unique([name for _, name, _ in said])
    labelled = np.zeros(len(images), bool)
    labelled[image[[number for number, _, _ in said]]] = True
    source = Source(
        images,
        classes.to_pylist(),
        image[[number for number, _, _ in said]],
        cls,
        [value for _, _, value in said],
        lambda rows: [os.path.join(folder, files[said[row][0]]) for row in rows],
        unlabelled=~labelled,
    )
    return finish(source, options, report), report


def _load_all(path: str, folder: str, files: list[str]) -> list[_File]:
    content, wrong = [], []
    for name in files:
        try:
            content.append(load_json(os.path.join(folder, name), _File, "a file of LabelMe"))
        except UserError as error:
            wrong += error.offenders or [error.message]
    if wrong:
        raise UserError(f"{path}: {plural(len(wrong), 'file')} cannot be read as LabelMe's", wrong)
    return content
