"""CheXpert and MIMIC-CXR tables: 1 present, 0 absent, -1 uncertain, blank not mentioned."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.formats import options as read_as
from partlabel.formats.class_names import tidy
from partlabel.formats.coding import ABSENT, PRESENT, SILENT, UNCERTAIN, Coding
from partlabel.formats.report import ImportReport, Tally, plural
from partlabel.formats.spine import CommonOptions, Source, choice, finish, option
from partlabel.formats.table.delimited import open_table
from partlabel.formats.table.job import Job
from partlabel.formats.table.layouts import read_wide
from partlabel.formats.table.options import TableOptions
from partlabel.formats.table.tables import Table
from partlabel.labels.pairs import ranges
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
#: values of the view columns ``Frontal/Lateral`` (CheXpert) and ``ViewPosition`` (MIMIC-CXR)
_VIEWS = {"frontal": "frontal", "ap": "frontal", "pa": "frontal", "lateral": "lateral", "ll": "lateral"}
_VIEW_COLUMNS = ("frontal/lateral", "viewposition")
_STUDY_COLUMNS = ("dicom_id", "subject_id", "study_id")
_PATIENT = re.compile(r"(?:^|/)(patient\d+|p\d{4,})/")


@dataclass(frozen=True, kw_only=True)
class ChexpertOptions(CommonOptions):
    """Options of the format ``chexpert``."""

    uncertain: str = choice("unknown", *_UNCERTAIN, help="what -1 (uncertain) counts as: unknown, present or absent")
    not_listed: str | None = choice(
        "unknown", "absent", help="what a blank cell (finding not mentioned) counts as: unknown or absent"
    )
    view: str = choice("all", "frontal", "lateral", help="the images that are wanted: all, frontal or lateral")
    metadata: str | None = option(
        None,
        read_as.text,
        "for a table of studies (MIMIC-CXR): the table that lists the images with dicom_id, subject_id and study_id",
    )
    classes: list[str] | None = option(
        None,
        read_as.names,
        "the columns that are wanted, in this order: names between commas, or a file with one name a line; otherwise "
        "those of the 14 findings that are there",
    )


def read(path: str, options: ChexpertOptions) -> tuple[LabelTable, ImportReport]:
    """Read image labels from a table in the CheXpert layout, or of MIMIC-CXR studies with the table of their images.

    Raises:
        UserError: no column with paths or studies, no finding, other values than 1, 0, -1 and blank (all are listed).
    """
    report = ImportReport(path, "chexpert")
    table = open_table(path)
    names = {name.strip().casefold() for name in table.header}
    studies = "path" not in names and "study_id" in names
    _check_metadata(path, studies, options)
    (image_column,) = _columns(table, ["study_id" if studies else "path"])
    report.layout = f"{'studies' if studies else 'images'}, {table.describe()}"
    codes = {"1": PRESENT, "0": ABSENT, "-1": _UNCERTAIN[options.uncertain], "": SILENT}
    columns = TableOptions(
        coding=Coding("the CheXpert layout", codes),
        classes=options.classes or _findings(table, options),
        rename=options.rename,
        image_column=f"#{image_column + 1}",
    )
    job = Job(columns, report)
    read_wide(job, table)
    source = job.source()
    if options.metadata is not None:
        _spread(source, options.metadata, options.view, report)
    elif options.view != "all":
        _keep_view(source, table, image_column, options.view, report)
    _group_patients(source, report)
    return finish(source, options, report), report


def _check_metadata(path: str, studies: bool, options: ChexpertOptions) -> None:
    if studies and options.metadata is None:
        raise UserError(
            f"{path}: a table of studies, without the images; name the table that lists them, as in "
            "metadata=mimic-cxr-2.0.0-metadata.csv"
        )
    if not studies and options.metadata is not None:
        raise UserError(f"{path}: metadata is for a table of studies with study_id and without Path")


def _findings(table: Table, options: ChexpertOptions) -> list[str]:
    """Return the findings that the table has, under their new names."""
    known = {name.casefold() for name in FINDINGS}
    rename = {tidy(old): tidy(new) for old, new in (options.rename or {}).items()}
    found = [tidy(name) for name in table.header if tidy(name).casefold() in known]
    if not found:
        raise table.refusal("none of the 14 CheXpert findings is a column; name the columns with classes=NAME,NAME")
    return list(dict.fromkeys(rename.get(name, name) for name in found))


def _columns(table: Table, wanted: Sequence[str]) -> list[int]:
    """Return the numbers of columns by their names in lower case."""
    numbers = {name.strip().casefold(): i for i, name in enumerate(table.header)}
    if lost := [name for name in wanted if name not in numbers]:
        raise table.refusal(f"the table has no column {', '.join(lost)}")
    return [numbers[name] for name in wanted]


def _view_column(table: Table) -> str:
    names = {name.strip().casefold() for name in table.header}
    found = next((name for name in _VIEW_COLUMNS if name in names), None)
    if found is None:
        raise UserError(f"{table.path}: no column Frontal/Lateral or ViewPosition, so that views cannot be told apart")
    return found


def _is_view(cell: str, wanted: str) -> bool:
    return _VIEWS.get(cell.strip().casefold()) == wanted


def _keep_view(source: Source, table: Table, path_column: int, view: str, report: ImportReport) -> None:
    """Leave out the images of another view."""
    wanted: set[str] = set()
    for batch in table.batches([path_column, *_columns(table, [_view_column(table)])]):
        paths, views = (column.to_pylist() for column in batch.columns)
        wanted.update(path.strip() for path, own in zip(paths, views, strict=True) if _is_view(own, view))
    keep: NDArray[np.bool_] = np.array([name in wanted for name in source.images.to_pylist()], bool)
    if not keep.all():
        lost = source.images.filter(pa.array(~keep))
        report.dropped[f"images that are not {view}"] = Tally.of(lost[: Tally.KEPT].to_pylist(), len(lost))
        source.keep(keep[np.asarray(source.image)])
        source.image = (np.cumsum(keep, dtype=np.int32) - 1)[np.asarray(source.image)]
        source.images = source.images.filter(pa.array(keep))


def _spread(source: Source, metadata: str, view: str, report: ImportReport) -> None:
    """Turn statements about studies into statements about the images of these studies, as MIMIC-CXR-JPG names them.

    Studies without an image and images without a labelled study are left out and counted.
    """
    names, studies, other_view = _read_metadata(metadata, view)
    number = {study: i for i, study in enumerate(source.images.to_pylist())}
    study = np.array([number.get(own, -1) for own in studies], np.int64)
    used = np.bincount(study[study >= 0], minlength=len(number)) > 0
    for reason, lost in (
        (f"images that are not {view}", other_view),
        ("images of studies without labels", [names[i] for i in np.flatnonzero(study < 0)]),
        ("studies without an image", source.images.filter(pa.array(~used)).to_pylist()),
    ):
        if lost:
            report.dropped[reason] = Tally.of(lost)
    kept = study[study >= 0]
    image = np.asarray(source.image)
    order = np.argsort(image, kind="stable")
    start = np.searchsorted(image[order], np.arange(len(number) + 1))
    count = np.diff(start)[kept]
    source.keep(order[ranges(start[kept], count)])
    source.image = np.repeat(np.arange(len(kept), dtype=np.int32), count)
    source.images = pa.array([names[i] for i in np.flatnonzero(study >= 0)], pa.string())


def _read_metadata(path: str, view: str) -> tuple[list[str], list[str], list[str]]:
    """Return the names of the images, the study of each, and the images of another view."""
    table = open_table(path)
    more = [] if view == "all" else [_view_column(table)]
    names: list[str] = []
    studies: list[str] = []
    other_view: list[str] = []
    for batch in table.batches(_columns(table, [*_STUDY_COLUMNS, *more])):
        cells = [[cell.strip() for cell in column.to_pylist()] for column in batch.columns]
        for dicom, subject, study, *own in zip(*cells, strict=True):
            name = f"files/p{subject[:2]}/p{subject}/s{study}/{dicom}.jpg"
            if own and not _is_view(own[0], view):
                other_view.append(name)
            else:
                names.append(name)
                studies.append(study)
    if repeated := [name for name, times in Counter(names).items() if times > 1]:
        raise UserError(f"{path}: {plural(len(repeated), 'image')} listed more than once", repeated)
    return names, studies, other_view


def _group_patients(source: Source, report: ImportReport) -> None:
    """Set the group of each image to the patient in its path: ``patient00001`` or ``p10000032``."""
    names = source.images.to_pylist()
    found = [_PATIENT.search(name.replace("\\", "/")) for name in names]
    bare = [name for name, match in zip(names, found, strict=True) if match is None]
    if len(bare) < len(found):
        source.groups = pa.array([match and match[1] for match in found], pa.string())
    if bare:
        report.warnings.append(
            f"no patient in the path of {plural(len(bare), 'image')}, so a split may part the images of one person: "
            f"{Tally.of(bare)}"
        )
