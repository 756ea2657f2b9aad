"""Class folders: a picture in the folder of a class shows the class; copies of one picture are one image."""

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
_SPLITS = frozenset({"train", "training", "val", "valid", "validation", "dev", "test", "testing"})


@dataclass(frozen=True, kw_only=True)
class FolderOptions(CommonOptions):
    """Options of the format ``folders``; every image has its file, and nothing can contradict."""

    not_listed: str | None = choice(
        "unknown",
        "unknown",
        "absent",
        help="what a class counts as in whose folder a picture does not lie: unknown or absent",
    )
    conflicts: str = without("error")
    images: str | None = without()
    image_names: str = without("path")
    missing: str = without("error")


@dataclass
class _Found:
    """The pictures below the class folders, and everything else that lies there; paths relative with ``/``."""

    classes: list[str] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    cls: list[int] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)


def read(path: str, options: FolderOptions) -> tuple[LabelTable, ImportReport]:
    """Read image labels from class folders; pictures in folders below a class folder belong to the class.

    Files with the same bytes are one image, named after the first of them, and present in every class in whose folder
    one of them lies. Files with the same name and other bytes stay apart.

    Raises:
        UserError: not a folder, no class folders, folders of train and test parts in place of classes, files or folders
            that cannot be read (all are listed).
    """
    report = ImportReport(path, "folders", "a folder for each class")
    found = _scan(path)
    report.rows = len(found.pictures)
    report.coding = "a picture in the folder of a class = present"
    if found.outside:
        report.dropped["pictures in no class folder"] = Tally.of(found.outside)
    if found.other:
        report.notes.append(f"left aside (not pictures by their ending, or links to folders): {Tally.of(found.other)}")
    first = _copies(path, found.pictures, report)
    kept = np.flatnonzero(first == np.arange(len(first)))
    source = Source(
        pa.array([found.pictures[i] for i in kept], pa.string()),
        found.classes,
        np.searchsorted(kept, first),
        found.cls,
        np.ones(len(first), np.int8),
        lambda rows: [found.pictures[row] for row in rows],
        sort=True,
    )
    return finish(source, options, report), report


def _scan(path: str) -> _Found:
    """List the pictures of each class folder; hidden files and folders do not count.

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
            (found.outside if _is_picture(name) else found.other).append(name)
    if wrong:
        raise UserError(
            f"{path}: {plural(len(wrong), 'folder')} cannot be read", [f"{e.filename}: {e.strerror}" for e in wrong]
        )
    if not found.pictures:
        raise UserError(f"{path}: no folder in it holds a picture ({', '.join(PICTURES)})")
    filled = {found.classes[i] for i in found.cls}
    if {name.casefold() for name in filled} <= _SPLITS and all(p.count("/") > 1 for p in found.pictures):
        raise UserError(
            f"{path}: these folders look like parts of a data set, with the classes below; give the folder of one part",
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
            if _is_picture(file):
                found.pictures.append(f"{inner}/{file}")
                found.cls.append(len(found.classes))
            else:
                found.other.append(f"{inner}/{file}")
    found.classes.append(name)


def _is_picture(name: str) -> bool:
    return os.path.splitext(name)[1].casefold() in PICTURES


def _copies(path: str, pictures: Sequence[str], report: ImportReport) -> NDArray[np.int64]:
    """Return for each picture the number of the first with the same bytes, int64 (N,).

    Raises:
        UserError: files that cannot be read (all are listed).
    """
    first, empty = first_copies(path, pictures)
    if empty:
        report.warnings.append(f"empty files: {Tally.of([pictures[i] for i in empty])}")
    if copies := [f"{pictures[i]} = {pictures[k]}" for i, k in enumerate(first) if i != k]:
        report.notes.append(f"copies of another picture, put together with it: {Tally.of(copies)}")
    return np.array(first, np.int64)
