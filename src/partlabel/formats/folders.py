"""Class folders: an image in the folder of a class shows the class; copies of one image are one image."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.formats.report import ImportReport, Tally, plural
from partlabel.formats.spine import CommonOptions, Source, choice, finish, without
from partlabel.images.locate import PICTURES, first_copies
from partlabel.labels.table import LabelTable

#: names of folders that hold parts of a data set, not classes
_PARTS = frozenset(
    {"train", "training", "val", "valid", "validation", "dev", "test", "testing", "images", "labels", "annotations"}
)


@dataclass(frozen=True, kw_only=True)
class FolderOptions(CommonOptions):
    """Options of the format ``folders``; every image has its file, and nothing can contradict."""

    not_listed: str | None = choice(
        "unknown", "absent", help="what a class counts as in whose folder an image does not lie: unknown or absent"
    )
    conflicts: str = without("error")
    images: str | None = without()
    image_names: str = without("path")
    missing: str = without("error")


@dataclass
class _Found:
    """The images below the class folders, and everything else that lies there; paths relative with ``/``."""

    classes: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    cls: list[int] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)


def read(path: str, options: FolderOptions) -> tuple[LabelTable, ImportReport]:
    """Read image labels from class folders; images in folders below a class folder belong to the class.

    Files with the same bytes are one image, named after the first of them, and present in every class in whose folder
    one of them lies. Files with the same name and other bytes stay apart.

    Raises:
        UserError: not a folder, no class folders, folders of train and test parts in place of classes, files or folders
            that cannot be read (all are listed).
    """
    report = ImportReport(path, "folders", "a folder for each class")
    found = _scan(path, options.classes is not None)
    report.rows = len(found.images)
    report.coding = "an image in the folder of a class = present"
    if found.outside:
        report.dropped["images in no class folder"] = Tally.of(found.outside)
    if found.other:
        report.notes.append(f"left aside (not images by their ending, or links to folders): {Tally.of(found.other)}")
    first = _copies(path, found.images, report)
    kept = np.flatnonzero(first == np.arange(len(first)))
    source = Source(
        pa.array([found.images[i] for i in kept], pa.string()),
        found.classes,
        np.searchsorted(kept, first),
        found.cls,
        np.ones(len(first), np.int8),
        lambda rows: [found.images[row] for row in rows],
        sort=True,
    )
    return finish(source, options, report), report


def _scan(path: str, named: bool) -> _Found:
    """List the images of each class folder; hidden files and folders do not count.

    Args:
        path: the folder.
        named: the user has named the classes, so that no folder is taken for a part of the data.

    Raises:
        UserError: as ``read``.
    """
    if not os.path.isdir(path):
        raise UserError(f"{path}: not a folder of class folders")
    found = _Found()
    wrong: list[OSError] = []
    names = sorted(name for name in os.listdir(path) if not name.startswith("."))
    for name in names:
        if os.path.isdir(os.path.join(path, name)):
            _scan_class(path, name, found, wrong)
        else:
            (found.outside if _is_image(name) else found.other).append(name)
    if wrong:
        raise UserError(
            f"{path}: {plural(len(wrong), 'folder')} cannot be read", [f"{e.filename}: {e.strerror}" for e in wrong]
        )
    if not found.images:
        raise UserError(f"{path}: no folder in it holds an image ({', '.join(PICTURES)})")
    filled = {found.classes[i] for i in found.cls}
    if not named and {name.casefold() for name in filled} <= _PARTS:
        raise UserError(
            f"{path}: these folders look like parts of a data set; give the folder of the class folders, import "
            f"YOLO's with import yolo, or say classes={','.join(sorted(filled))} if these are the classes",
            [os.path.join(path, name) for name in sorted(filled)],
        )
    return found


def _scan_class(path: str, name: str, found: _Found, wrong: list[OSError]) -> None:
    for parent, folders, files in os.walk(os.path.join(path, name), onerror=wrong.append):
        inner = os.path.relpath(parent, path).replace(os.sep, "/")
        links = {folder for folder in folders if os.path.islink(os.path.join(parent, folder))}
        found.other += [f"{inner}/{folder}" for folder in sorted(links)]
        folders[:] = sorted(folder for folder in folders if folder not in links and not folder.startswith("."))
        for file in sorted(file for file in files if not file.startswith(".")):
            if _is_image(file):
                found.images.append(f"{inner}/{file}")
                found.cls.append(len(found.classes))
            else:
                found.other.append(f"{inner}/{file}")
    found.classes.append(name)


def _is_image(name: str) -> bool:
    return os.path.splitext(name)[1].casefold() in PICTURES


def _copies(path: str, images: Sequence[str], report: ImportReport) -> NDArray[np.int64]:
    """Return for each image the number of the first with the same bytes, int64 (N,).

    Raises:
        UserError: files that cannot be read (all are listed).
    """
    first, empty = first_copies(path, images)
    if empty:
        report.warnings.append(f"empty files: {Tally.of([images[i] for i in empty])}")
    if copies := [f"{images[i]} = {images[k]}" for i, k in enumerate(first) if i != k]:
        report.notes.append(f"copies of another image, put together with it: {Tally.of(copies)}")
    return np.array(first, np.int64)
