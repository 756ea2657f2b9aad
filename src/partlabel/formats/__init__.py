"""Annotation formats: each reads its files into a label table with a report, and some are written.

A format is one module; ``FORMATS`` is the only place that lists them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from partlabel.core.errors import UserError
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
    """

    name: str
    summary: str
    options: type[Any]
    read: Callable[[str, Any], tuple[LabelTable, ImportReport]]
    write: Callable[[LabelTable, str], None] | None = None


#: name -> format
FORMATS = {
    entry.name: entry
    for entry in (
        Format(
            "csv",
            "tables: a column for each class, a row for each label, tag lists, list files",
            table.TableOptions,
            table.read,
            table.write,
        ),
        Format(
            "coco",
            "COCO instances JSON (boxes, or image labels without boxes)",
            coco.CocoOptions,
            coco.read,
            coco.write,
        ),
        Format(
            "cvat",
            "CVAT for images (XML, zip or folder): tags, and shapes as image labels",
            cvat.CvatOptions,
            cvat.read,
        ),
        Format(
            "voc",
            "Pascal VOC: XML files, or the class lists of ImageSets/Main",
            voc.VocOptions,
            voc.read,
        ),
        Format(
            "yolo",
            "YOLO text files: data.yaml, or a folder with classes.txt",
            yolo.YoloOptions,
            yolo.read,
        ),
        Format(
            "labelme",
            "LabelMe JSON files: the flags of pictures, and by option the labels of shapes",
            labelme.LabelMeOptions,
            labelme.read,
        ),
        Format(
            "folders",
            "class folders; a picture copied into several folders is one image",
            folders.FolderOptions,
            folders.read,
        ),
        Format(
            "nuswide",
            "NUS-WIDE: an image list and a label list for each class",
            nuswide.NusWideOptions,
            nuswide.read,
        ),
        Format(
            "chexpert",
            "CheXpert and MIMIC-CXR: tables of findings with 1, 0, -1 (uncertain) and blank",
            chexpert.ChexpertOptions,
            chexpert.read,
        ),
        Format(
            "labelstudio",
            "Label Studio exports (JSON, JSON-MIN, CSV, TSV) with Choices",
            labelstudio.LabelStudioOptions,
            labelstudio.read,
            labelstudio.write,
        ),
        Format(
            "fiftyone",
            "FiftyOne: labels.json, or samples.json with classifications in one or two fields",
            fiftyone.FiftyOneOptions,
            fiftyone.read,
            fiftyone.write,
        ),
        Format(
            "huggingface",
            "Hugging Face datasets: Parquet, folders of save_to_disk, image folders with metadata.jsonl",
            huggingface.HuggingFaceOptions,
            huggingface.read,
        ),
        Format(
            "manifest",
            "JSON lines of annotation services: SageMaker, Vertex AI (also CSV), Azure ML, Labelbox, Prodigy",
            manifest.ManifestOptions,
            manifest.read,
        ),
        Format(
            "openimages",
            "Open Images: image labels of persons and machines, or boxes; one file, a folder of them, or a pattern",
            openimages.OpenImagesOptions,
            openimages.read,
            openimages.write,
        ),
    )
}


def read(format: str, path: str | os.PathLike[str], **options: Any) -> tuple[LabelTable, ImportReport]:
    """Read annotations.

    Args:
        format: a name in ``FORMATS``.
        path: file to read.
        options: of the format, as Python values or as the text of the command line; None means not given.

    Returns:
        The label table, and the report on what was found, changed, left out and assumed.

    Raises:
        UserError: an unknown format or option, or anything wrong in the file; all offenders of the pass are listed and
            nothing is read by halves. Also when the memory does not suffice.
    """
    chosen = _find(format)
    given = build(chosen.options, format, options)
    try:
        return chosen.read(os.fspath(path), given)
    except MemoryError as error:
        raise UserError(
            f"{path}: not enough memory for its labels; choose classes with classes=FILE, or import it in parts"
        ) from error


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
