"""CheXpert and MIMIC-CXR tables: 1 present, 0 absent, -1 uncertain, blank not mentioned."""

from __future__ import annotations

import numpy as np

from partlabel.core.errors import UserError
from partlabel.formats.assemble import Statements, assemble
from partlabel.formats.chexpert.options import ChexpertOptions
from partlabel.formats.chexpert.pictures import columns, group_patients, keep_view, open_unpacked, spread
from partlabel.formats.class_names import tidy
from partlabel.formats.coding import ABSENT, PRESENT, SILENT, UNCERTAIN, Coding
from partlabel.formats.given import given
from partlabel.formats.report import ImportReport
from partlabel.formats.spine import settle
from partlabel.formats.table.job import Job
from partlabel.formats.table.layouts import read_wide
from partlabel.formats.table.options import TableOptions
from partlabel.formats.table.tables import Table
from partlabel.labels.table import LabelTable

__all__ = ["ChexpertOptions", "read"]

#: the findings of the CheXpert labeller
FINDINGS = (
    "No Finding",
    "Enlarged Cardiomediastinum",
    "Cardiomegaly",
    "Lung Opacity",
    "Lung Lesion",
    "Edema",
    "Consolidation",
    "Pneumonia",
    "Atelectasis",
    "Pneumothorax",
    "Pleural Effusion",
    "Pleural Other",
    "Fracture",
    "Support Devices",
)
_UNCERTAIN = {"unknown": UNCERTAIN, "present": PRESENT, "absent": ABSENT}


def read(path: str, options: ChexpertOptions) -> tuple[LabelTable, ImportReport]:
    """Read image labels from a table in the CheXpert layout, or of MIMIC-CXR studies with the table of their pictures.

    Raises:
        UserError: no column with paths or studies, no finding, other values than 1, 0, -1 and blank (all are listed).
    """
    report = ImportReport(path, "chexpert")
    text = open_unpacked(path)
    names = {name.strip().casefold() for name in text.header}
    studies = "path" not in names and "study_id" in names
    _check_metadata(path, studies, options)
    (image_column,) = columns(text, ["study_id" if studies else "path"])
    report.layout = f"{'studies' if studies else 'pictures'}, {text.describe()}"
    coding = Coding(
        "the CheXpert layout",
        {"1": PRESENT, "0": ABSENT, "-1": _UNCERTAIN[options.uncertain], "": SILENT},
    )
    table_options = TableOptions(
        layout="wide",
        coding=coding,
        classes=options.classes or _findings(text, options),
        rename=options.rename,
        image_column=f"#{image_column + 1}",
    )
    job = Job(table_options, report)
    read_wide(job, text)
    source = job.source()
    settled = settle(source.classes, table_options, report)
    said = Statements(
        source.images,
        settled.names,
        np.asarray(source.image, np.int32),
        settled.index[np.asarray(source.cls)],
        np.asarray(source.value),
        np.asarray(source.row),
        source.place,
    )
    if options.metadata is not None:
        spread(said, options.metadata, options.view, report)
    elif options.view != "all":
        keep_view(said, text, image_column, options.view, report)
    group_patients(said, report)
    table = assemble(
        said,
        report,
        conflicts=options.conflicts,
        not_listed=options.not_listed,
        images=options.images,
        missing=options.missing,
        options=given(options),
    )
    return table, report


def _check_metadata(path: str, studies: bool, options: ChexpertOptions) -> None:
    if studies and options.metadata is None:
        raise UserError(
            f"{path}: a table of studies, without the pictures; name the table that lists them, as in "
            "metadata=mimic-cxr-2.0.0-metadata.csv"
        )
    if not studies and options.metadata is not None:
        raise UserError(f"{path}: metadata is for a table of studies with study_id and without Path")


def _findings(text: Table, options: ChexpertOptions) -> list[str]:
    """Return the findings that the table has, under their new names."""
    known = {name.casefold() for name in FINDINGS}
    rename = {tidy(old): tidy(new) for old, new in (options.rename or {}).items()}
    found = [tidy(name) for name in text.header if tidy(name).casefold() in known]
    if not found:
        raise UserError(
            f"{text.path}: none of the 14 CheXpert findings is a column; name the columns with classes=NAME,NAME",
            [f"{text.path}:1 header as read: {text.header!r}"],
        )
    return list(dict.fromkeys(rename.get(name, name) for name in found))
