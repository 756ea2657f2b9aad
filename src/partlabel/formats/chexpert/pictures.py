"""The pictures of a chest X-ray table: their view, their patient, and the study that they belong to."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from partlabel.core.errors import UserError
from partlabel.formats.assemble import Statements
from partlabel.formats.report import ImportReport, Tally, plural
from partlabel.formats.table.delimited import open_table
from partlabel.formats.table.tables import Table
from partlabel.labels.pairs import ranges

#: values of the view columns ``Frontal/Lateral`` (CheXpert) and ``ViewPosition`` (MIMIC-CXR)
_VIEWS = {"frontal": "frontal", "ap": "frontal", "pa": "frontal", "lateral": "lateral", "ll": "lateral"}
VIEW_COLUMNS = ("frontal/lateral", "viewposition")
_STUDY_COLUMNS = ("dicom_id", "subject_id", "study_id")
_PATIENT = re.compile(r"(?:^|/)(patient\d+|p\d{4,})/")


def open_unpacked(path: str) -> Table:
    """Read the header of a table; a compressed one is refused with what to do."""
    if path.casefold().endswith((".gz", ".zip")):
        raise UserError(f"{path}: the table is compressed; unpack it first")
    return open_table(path)


def columns(table: Table, wanted: Sequence[str]) -> list[int]:
    """Return the numbers of columns by their names in lower case.

    Raises:
        UserError: columns that are not there (all are listed).
    """
    numbers = {name.strip().casefold(): i for i, name in enumerate(table.header)}
    if lost := [name for name in wanted if name not in numbers]:
        raise UserError(f"{table.path}: the table has no column {', '.join(lost)}", [f"header: {table.header!r}"])
    return [numbers[name] for name in wanted]


def view_column(table: Table) -> str:
    """Return the name of the column with the view, in lower case.

    Raises:
        UserError: the table has none.
    """
    names = {name.strip().casefold() for name in table.header}
    found = next((name for name in VIEW_COLUMNS if name in names), None)
    if found is None:
        raise UserError(f"{table.path}: no column Frontal/Lateral or ViewPosition, so that views cannot be told apart")
    return found


def keep_view(said: Statements, table: Table, path_column: int, view: str, report: ImportReport) -> None:
    """Leave out the images of another view."""
    wanted: set[str] = set()
    for batch in table.batches([path_column, *columns(table, [view_column(table)])]):
        paths, views = (column.to_pylist() for column in batch.columns)
        wanted.update(path.strip() for path, own in zip(paths, views, strict=True) if _is_view(own, view))
    keep = np.array([name in wanted for name in said.images.to_pylist()], bool)
    if not keep.all():
        lost = said.images.filter(pa.array(~keep))
        report.dropped[f"images that are not {view}"] = Tally.of(lost[: Tally.KEPT].to_pylist(), len(lost))
        said.keep(keep[said.image])
        said.image = (np.cumsum(keep, dtype=np.int32) - 1)[said.image]
        said.images = said.images.filter(pa.array(keep))


def _is_view(cell: str, wanted: str) -> bool:
    return _VIEWS.get(cell.strip().casefold()) == wanted


@dataclass
class _Pictures:
    """Pictures of a metadata table: their names, and the study of each."""

    names: list[str]
    studies: list[str]
    other_view: list[str]


def spread(said: Statements, metadata: str, view: str, report: ImportReport) -> None:
    """Turn statements about studies into statements about the pictures of these studies, as MIMIC-CXR-JPG names them.

    Studies without a picture and pictures without a labelled study are left out and counted.
    """
    pictures = _read_metadata(metadata, view)
    number = {study: i for i, study in enumerate(said.images.to_pylist())}
    study = np.array([number.get(own, -1) for own in pictures.studies], np.int64)
    bare = [name for name, own in zip(pictures.names, study.tolist(), strict=True) if own < 0]
    used = np.bincount(study[study >= 0], minlength=len(number)) > 0
    lost = said.images.filter(pa.array(~used)).to_pylist()
    for reason, names in (
        (f"images that are not {view}", pictures.other_view),
        ("pictures of studies without labels", bare),
        ("studies without a picture", lost),
    ):
        if names:
            report.dropped[reason] = Tally.of(names)
    kept = study[study >= 0]
    order = np.argsort(said.image, kind="stable")
    start = np.searchsorted(said.image[order], np.arange(len(number) + 1))
    count = np.diff(start)[kept]
    said.keep(order[ranges(start[kept], count)])  # type: ignore[arg-type]
    said.image = np.repeat(np.arange(len(kept), dtype=np.int32), count)
    names = [name for name, own in zip(pictures.names, study.tolist(), strict=True) if own >= 0]
    said.images = pa.array(names, pa.string())


def _read_metadata(path: str, view: str) -> _Pictures:
    table = open_unpacked(path)
    more = [] if view == "all" else [view_column(table)]
    found = _Pictures([], [], [])
    for batch in table.batches(columns(table, [*_STUDY_COLUMNS, *more])):
        cells = [[cell.strip() for cell in column.to_pylist()] for column in batch.columns]
        for dicom, subject, study, *own in zip(*cells, strict=True):
            name = f"files/p{subject[:2]}/p{subject}/s{study}/{dicom}.jpg"
            if own and not _is_view(own[0], view):
                found.other_view.append(name)
                continue
            found.names.append(name)
            found.studies.append(study)
    if repeated := [name for name, times in Counter(found.names).items() if times > 1]:
        raise UserError(f"{path}: {plural(len(repeated), 'picture')} listed more than once", repeated)
    return found


def group_patients(said: Statements, report: ImportReport) -> None:
    """Set the group of each image to the patient in its path: ``patient00001`` or ``p10000032``."""
    found = [_PATIENT.search(name.replace("\\", "/")) for name in said.images.to_pylist()]
    bare = [said.images[i].as_py() for i, match in enumerate(found) if match is None]
    if len(bare) < len(found):
        said.groups = pa.array([match and match[1] for match in found], pa.string())
    if bare:
        report.warnings.append(
            f"no patient in the path of {plural(len(bare), 'image')}, so a split may part the pictures of one person: "
            f"{Tally.of(bare)}"
        )
