"""Annotation formats: each reads its files into a label table with a report, and some are written.

A format is one module; ``FORMATS`` is the only place that lists them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from partlabel.core.errors import UserError
from partlabel.core.special import check_folder, refuse_special
from partlabel.formats import (
    chexpert,
    coco,
    cvat,
    fiftyone,
    folders,
    huggingface,
    labelme,
    labelstudio,
    manifest,
    nuswide,
    openimages,
    table,
    voc,
    yolo,
)
from partlabel.formats.options import build
from partlabel.formats.report import ImportReport
from partlabel.labels.table import LabelTable

__all__ = ["FORMATS", "Format", "ImportReport", "read", "write"]


@dataclass(frozen=True)
class Format:
    """One annotation format.

    Attributes:
        name: as on the command line.
        summary: one line for the help.
        options: dataclass whose fields are the options; each field's metadata holds its ``help``.
        read: (path, options) -> table and report.
        write: (table, path) -> None; None where the format cannot hold a label table.
        several: whether ``read`` takes a list of paths, or one.
    """

    name: str
    summary: str
    options: type[Any]
    read: Callable[[Any, Any], tuple[LabelTable, ImportReport]]
    write: Callable[[LabelTable, str], None] | None = None
    several: bool = False


#: name -> module, its options, one line for the help
_MODULES: dict[str, tuple[ModuleType, type[Any], str]] = {
    "csv": (table, table.TableOptions, "tables: a column for each class, a row for each label, tag lists, list files"),
    "coco": (coco, coco.CocoOptions, "COCO and LVIS: instances JSON (boxes, or image labels without boxes)"),
    "cvat": (cvat, cvat.CvatOptions, "CVAT for images (XML, zip or folder): tags, shapes, checkboxes as image labels"),
    "voc": (voc, voc.VocOptions, "Pascal VOC: XML files, or the class lists of ImageSets/Main"),
    "yolo": (yolo, yolo.YoloOptions, "YOLO text files: data.yaml, or a folder with classes.txt"),
    "labelme": (
        labelme,
        labelme.LabelMeOptions,
        "LabelMe JSON files: the flags of images, and by option the labels of shapes",
    ),
    "folders": (folders, folders.FolderOptions, "class folders; an image copied into several folders is one image"),
    "nuswide": (nuswide, nuswide.NusWideOptions, "NUS-WIDE: an image list and a label list for each class"),
    "chexpert": (
        chexpert,
        chexpert.ChexpertOptions,
        "CheXpert and MIMIC-CXR: tables of findings with 1, 0, -1 (uncertain) and blank",
    ),
    "labelstudio": (
        labelstudio,
        labelstudio.LabelStudioOptions,
        "Label Studio exports (JSON, JSON-MIN, CSV, TSV) with Choices",
    ),
    "fiftyone": (
        fiftyone,
        fiftyone.FiftyOneOptions,
        "FiftyOne: labels.json, or samples.json with classifications in one or two fields",
    ),
    "huggingface": (
        huggingface,
        huggingface.HuggingFaceOptions,
        "Hugging Face datasets: Parquet, folders of save_to_disk, image folders with metadata.jsonl",
    ),
    "manifest": (
        manifest,
        manifest.ManifestOptions,
        "JSON lines of annotation services: SageMaker, Vertex AI (also CSV), Azure ML, Labelbox, Prodigy",
    ),
    "openimages": (
        openimages,
        openimages.OpenImagesOptions,
        "Open Images: image labels of persons and machines, or boxes; one file, a folder of them, or a pattern",
    ),
}
#: formats that also read several files at once
_SEVERAL = ("csv", "openimages")
#: name -> format
FORMATS = {
    name: Format(name, summary, options, module.read, getattr(module, "write", None), name in _SEVERAL)
    for name, (module, options, summary) in _MODULES.items()
}


def read(
    format: str, path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], **options: Any
) -> tuple[LabelTable, ImportReport]:
    """Read annotations.

    Args:
        format: a name in ``FORMATS``.
        path: file to read, or a folder, as the format says; ``csv`` and ``openimages`` also take several.
        options: of the format, as Python values or as the text of the command line; None means not given.

    Returns:
        The label table, and the report on what was found, changed, left out and assumed.

    Raises:
        UserError: an unknown format or option, or anything wrong in the file; all offenders of the pass are listed and
            nothing is read by halves. Also when the memory does not suffice.
    """
    chosen = _find(format)
    given = build(chosen.options, format, options)
    paths = [os.fspath(path)] if isinstance(path, str | os.PathLike) else [os.fspath(own) for own in path]
    if not paths:
        raise UserError(f"no file is named that the format {format} could read")
    if len(paths) > 1 and not chosen.several:
        raise UserError(
            f"the format {format} reads one source at a time, not {len(paths)}; import each by itself and put the "
            "label tables together with partlabel labels merge"
        )
    _check_plain(paths, options)
    try:
        return chosen.read(paths if chosen.several else paths[0], given)
    except MemoryError as error:
        named = ", ".join(paths)
        raise UserError(
            f"{named}: not enough memory for its labels; choose classes with classes=FILE, or import it in parts"
        ) from error


def _check_plain(paths: list[str], options: Mapping[str, Any]) -> None:
    """Refuse pipes and the like, in folders too, and in the place of files that options name."""
    for path in [*paths, *(value for value in options.values() if isinstance(value, str | os.PathLike))]:
        refuse_special(path)
    for path in paths:
        check_folder(Path(path))


def write(format: str, table: LabelTable, path: str | os.PathLike[str]) -> None:
    """Write a label table in a format that can hold one; the file appears whole or not at all.

    Raises:
        UserError: an unknown format, one that cannot be written, or a place that cannot be written to.
    """
    chosen = _find(format)
    if chosen.write is None:
        writable = ", ".join(name for name, entry in FORMATS.items() if entry.write)
        raise UserError(f"the format {format} cannot be written; these can: {writable}")
    chosen.write(table, os.fspath(path))


def _find(name: str) -> Format:
    if name not in FORMATS:
        raise UserError(f"the format {name!r} is not known; there are: {', '.join(FORMATS)}")
    return FORMATS[name]
