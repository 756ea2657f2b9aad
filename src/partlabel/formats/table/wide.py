"""Wide tables: a row for each image, a column for each class."""

from __future__ import annotations

import difflib

import numpy as np
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.formats.assemble import Statements
from partlabel.formats.class_names import settle_names, tidy
from partlabel.formats.coding import NOT_A_LABEL, SILENT
from partlabel.formats.report import Tally
from partlabel.formats.table.columns import NameColumn, ValueColumn
from partlabel.formats.table.job import TableJob, column_number
from partlabel.formats.table.options import IMAGE_COLUMNS


def read(job: TableJob) -> Statements:
    """Read the statements of a wide table.

    Raises:
        UserError: as ``partlabel.formats.table.read``.
    """
    options = job.options
    image_at = job.column(options.image_column, IMAGE_COLUMNS, "image")
    group_at = None if options.group is None else column_number(job.text, options.group)
    label_columns = _label_columns(job, {image_at, group_at})
    columns = {i: ValueColumn(job.coding) for i in label_columns}
    images, groups = NameColumn(), NameColumn()
    parts: list[tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int8]]] = []
    for batch in job.text.batches([image_at, *label_columns, *([] if group_at is None else [group_at])]):
        images.add(batch.columns[0])
        if group_at is not None:
            groups.add(batch.columns[-1])
        codes = np.empty((len(label_columns), len(batch)), np.int8)
        for k, i in enumerate(label_columns):
            codes[k] = columns[i].read(batch.columns[k + 1], batch.first_row)
        parts.append(_stated(codes, batch.first_row))
        job.report.rows += len(batch)
    _refuse_nameless_columns(job, columns)
    job.settle_values(columns, {i: job.text.header[i].strip() for i in columns})
    named = [i for i in label_columns if job.text.header[i].strip()]
    classes = settle_names(
        [job.text.header[i] for i in named], job.report, rename=options.rename, chosen=options.classes
    )
    _note_repeated(job, classes.names, classes.index)
    of_column = np.full(len(label_columns), -1, np.int32)
    of_column[np.isin(label_columns, named)] = classes.index
    row, column, value = (
        np.concatenate(arrays) for arrays in zip(*parts, _stated(np.zeros((1, 0), np.int8), 0), strict=True)
    )
    return job.statements(
        images, classes.names, row, of_column[column], value, groups if group_at is not None else None
    )


def _stated(codes: NDArray[np.int8], first_row: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int8]]:
    """Return row, column and value of the cells (columns, rows) that state something."""
    flat = np.ascontiguousarray(codes.T).reshape(-1)
    at = np.flatnonzero((flat != SILENT) & (flat != NOT_A_LABEL))
    row, column = np.divmod(at, max(len(codes), 1))
    return row + first_row, column.astype(np.int32), flat[at]


def _label_columns(job: TableJob, taken: set[int | None]) -> list[int]:
    """Return the columns that are classes: those of the class list, or all that nothing else is known about."""
    options, header = job.options, job.text.header
    ignored = {column_number(job.text, name) for name in options.ignore or []}
    free = [i for i in range(len(header)) if i not in taken and i not in ignored]
    if options.classes is None:
        chosen = free
    else:
        rename = {tidy(old): tidy(new) for old, new in (options.rename or {}).items()}
        names = {i: rename.get(tidy(header[i]), tidy(header[i])) for i in free}
        wanted = {tidy(name) for name in options.classes}
        chosen = [i for i in free if names[i] in wanted]
        if absent := [name for name in options.classes if tidy(name) not in names.values()]:
            close = [f"{name}{_close(name, list(names.values()))}" for name in absent]
            raise UserError(f"{job.path}: the table has no column for {len(absent)} of the classes", close)
    if not chosen:
        raise UserError(f"{job.path}: no column is left for a class", [f"{job.path}:1 header as read: {header!r}"])
    if unused := [header[i].strip() for i in range(len(header)) if i not in taken and i not in chosen]:
        job.report.notes.append(f"columns not used: {Tally.of(unused)}")
    return chosen


def _close(name: str, names: list[str]) -> str:
    match = difflib.get_close_matches(name, names, 1)
    return f" (did you mean {match[0]}?)" if match else ""


def _refuse_nameless_columns(job: TableJob, columns: dict[int, ValueColumn]) -> None:
    """Leave out columns that are empty from the header on, as a separator at the end of each line makes them."""
    for i in [i for i in columns if not job.text.header[i].strip()]:
        if columns[i].seen.keys() - {""}:
            raise UserError(
                f"{job.path}: column {i + 1} has no name ({columns[i].some()}); leave it out with ignore=#{i + 1}"
            )
        del columns[i]
        job.report.notes.append(f"column {i + 1} is empty, header included")


def _note_repeated(job: TableJob, names: list[str], index: NDArray[np.int32]) -> None:
    counts = np.bincount(index[index >= 0], minlength=len(names))
    if (counts > 1).any():
        repeated = [f"{names[i]} ({counts[i]})" for i in np.flatnonzero(counts > 1)]
        job.report.notes.append(f"classes with more than one column, put together: {Tally.of(repeated)}")
