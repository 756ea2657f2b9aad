"""Long tables (a row for each label) and tag lists (all present classes of an image in one cell)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.formats.assemble import Statements
from partlabel.formats.class_names import Classes, settle_names
from partlabel.formats.coding import NOT_A_LABEL, PRESENT, SILENT
from partlabel.formats.report import Tally
from partlabel.formats.table.columns import NameColumn, ValueColumn
from partlabel.formats.table.job import TableJob, column_number
from partlabel.formats.table.options import CLASS_COLUMNS, IMAGE_COLUMNS, TAG_COLUMNS, VALUE_COLUMNS
from partlabel.labels.pairs import ranges


def read_long(job: TableJob) -> Statements:
    """Read the statements of a long table; without a value column each row says that its class is present.

    Raises:
        UserError: as ``partlabel.formats.table.read``.
    """
    options, header = job.options, [name.strip().casefold() for name in job.text.header]
    image_at = job.column(options.image_column, IMAGE_COLUMNS, "image")
    class_at = job.column(options.class_column, CLASS_COLUMNS, "class")
    has_value = options.value_column is not None or bool(set(header) & set(VALUE_COLUMNS))
    value_at = job.column(options.value_column, VALUE_COLUMNS, "value") if has_value else None
    group_at = None if options.group is None else column_number(job.text, options.group)
    used = [i for i in (image_at, class_at, value_at, group_at) if i is not None]
    _note_unused(job, used)
    images, raw, groups, cells = NameColumn(), NameColumn(), NameColumn(), ValueColumn(job.coding)
    values: list[NDArray[np.int8]] = [np.zeros(0, np.int8)]
    for batch in job.text.batches(used):
        columns = dict(zip(used, batch.columns, strict=True))
        images.add(columns[image_at])
        raw.add(columns[class_at])
        if group_at is not None:
            groups.add(columns[group_at])
        values.append(
            np.full(len(batch), PRESENT, np.int8)
            if value_at is None
            else cells.read(columns[value_at], batch.first_row)
        )
        job.report.rows += len(batch)
    if value_at is None:
        job.report.coding = "each row = present"
    else:
        job.settle_values({value_at: cells}, {value_at: job.text.header[value_at].strip()})
    value = np.concatenate(values)
    row = np.flatnonzero((value != SILENT) & (value != NOT_A_LABEL))
    names, number, _ = raw.finish()
    cls = number[row]
    classes = _classes(job, names, cls, row, refuse_nameless=value_at is not None)
    return job.statements(
        images, classes.names, row, classes.index[cls], value[row], groups if group_at is not None else None
    )


def read_tags(job: TableJob) -> Statements:
    """Read the statements of a table with a column of tags; a tag says that its class is present.

    Raises:
        UserError: as ``partlabel.formats.table.read``; the separator of the tags is not given.
    """
    options = job.options
    image_at = job.column(options.image_column, IMAGE_COLUMNS, "image")
    tags_at = job.column(options.tags_column, TAG_COLUMNS, "tags")
    group_at = None if options.group is None else column_number(job.text, options.group)
    used = [i for i in (image_at, tags_at, group_at) if i is not None]
    _note_unused(job, used)
    images, raw, groups = NameColumn(), NameColumn(), NameColumn()
    rows: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    for batch in job.text.batches(used):
        if options.tag_separator is None:
            some = ", ".join(repr(cell) for cell in batch.columns[1].dictionary[:3].to_pylist())
            raise UserError(
                f"{job.path}: name the character between tags, as in tag_separator=pipe; the cells are {some}, ..."
            )
        images.add(batch.columns[0])
        if group_at is not None:
            groups.add(batch.columns[2])
        split = pc.call_function(
            "split_pattern", [batch.columns[1].dictionary], pc.SplitPatternOptions(options.tag_separator)
        )
        start, code = split.offsets.to_numpy().astype(np.int64), batch.columns[1].indices.to_numpy()
        count = np.diff(start)[code]
        raw.add_codes(split.values, ranges(start[code], count).astype(np.int32))
        rows.append(np.repeat(np.arange(len(batch)) + batch.first_row, count))
        job.report.rows += len(batch)
    job.report.coding = "a listed tag = present"
    row = np.concatenate(rows)
    names, cls, _ = raw.finish()
    classes = _classes(job, names, cls, row, refuse_nameless=False)
    value = np.full(len(row), PRESENT, np.int8)
    return job.statements(
        images, classes.names, row, classes.index[cls], value, groups if group_at is not None else None
    )


def _classes(
    job: TableJob, names: pa.StringArray, cls: NDArray[np.int32], row: NDArray[np.int64], *, refuse_nameless: bool
) -> Classes:
    """Return the classes, numbered for the raw names; a blank name is no class.

    Args:
        job: the table.
        names: class names as the source writes them.
        cls: int32 (S,) number in ``names`` of each statement; row: its row.
        refuse_nameless: whether a statement without a class name is a mistake, or says that there is none.
    """
    known = names.to_pylist()
    blank = np.array([not name.strip() for name in known], bool)
    if refuse_nameless and (lost := row[blank[cls]].tolist()):
        raise UserError(f"{job.path}: {len(lost)} rows have a label but no class name", job.place(lost))
    named = np.flatnonzero(~blank)
    settled = settle_names(
        [known[i] for i in named], job.report, rename=job.options.rename, chosen=job.options.classes, sort=True
    )
    index = np.full(len(known), -1, np.int32)
    index[named] = settled.index
    job.report_unwanted(known, cls, (index >= 0) | blank)
    return Classes(settled.names, index)


def _note_unused(job: TableJob, used: list[int]) -> None:
    if unused := [name.strip() for i, name in enumerate(job.text.header) if i not in used]:
        job.report.notes.append(f"columns not used: {Tally.of(unused)}")
