"""The layouts of tables with a header: wide, long, and tags."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partlabel.core.errors import UserError
from partlabel.formats.class_names import tidy
from partlabel.formats.coding import PRESENT
from partlabel.formats.report import Tally
from partlabel.formats.table.job import Job
from partlabel.formats.table.options import CLASS_COLUMNS, IMAGE_COLUMNS, TAG_COLUMNS, VALUE_COLUMNS
from partlabel.formats.table.tables import Table
from partlabel.labels.pairs import ranges


def read_wide(job: Job, table: Table) -> None:
    """Read a row for each image, a column for each class.

    Raises:
        UserError: no column for one of the classes that are wanted, or none at all; a column with labels but no name.
    """
    image = table.usual_column(job.options.image_column, IMAGE_COLUMNS, "image")
    columns = _label_columns(job, table, image)
    names = [table.header[i].strip() for i in columns]
    values = job.values(names, [f":{i + 1}" for i in columns])
    raw = pa.array([table.header[i] for i in columns], pa.string())
    job.classes.add_codes(raw, np.zeros(0, np.int32))  # a table without rows has its classes too
    for batch in job.batches(table, [image, *columns]):
        codes = np.ascontiguousarray(values.read(batch.columns[1:], batch.first_row).T)
        row, column = (np.arange(size) for size in codes.shape)
        job.say(
            np.repeat(row + batch.first_row, len(column)),
            raw,
            np.tile(column.astype(np.int32), len(row)),
            codes.reshape(-1),
        )
    values.finish()
    for i, seen in zip(columns, list(values.seen), strict=True):
        if seen.name:
            continue
        if seen.tokens.keys() - {""}:
            raise UserError(
                f"{table.path}: column {i + 1} has no name ({seen.some()}); leave it out with ignore=#{i + 1}"
            )
        job.seen.remove(seen)  # a separator at the end of each line makes a column that is empty from the header on
        job.report.notes.append(f"column {i + 1} is empty, header included")
    rename = {tidy(old): tidy(new) for old, new in (job.options.rename or {}).items()}
    counts = Counter(rename.get(tidy(name), tidy(name)) for name in names if name)
    if repeated := [f"{name} ({count})" for name, count in counts.items() if count > 1]:
        job.report.notes.append(f"classes with more than one column, put together: {Tally.of(repeated)}")


def _label_columns(job: Job, table: Table, image: int) -> list[int]:
    """Return the columns that are classes: those of the class list, or all that nothing else is known about."""
    options, header = job.options, table.header
    taken = {image, *(table.column(name) for name in (options.group,) if name is not None)}
    ignored = {table.column(name) for name in options.ignore or []}
    free = [i for i in range(len(header)) if i not in taken | ignored]
    chosen = free
    if options.classes is not None:
        rename = {tidy(old): tidy(new) for old, new in (options.rename or {}).items()}
        names = {i: rename.get(tidy(header[i]), tidy(header[i])) for i in free}
        wanted = {tidy(name) for name in options.classes}
        chosen = [i for i in free if names[i] in wanted]
        if absent := [name for name in options.classes if tidy(name) not in names.values()]:
            close = [f"{name}{_close(name, list(names.values()))}" for name in absent]
            raise UserError(f"{table.path}: the table has no column for {len(absent)} of the classes", close)
    if not chosen:
        raise table.refusal("no column is left for a class")
    if unused := [header[i].strip() for i in range(len(header)) if i not in taken and i not in chosen]:
        job.report.notes.append(f"columns not used: {Tally.of(unused)}")
    return chosen


def _close(name: str, names: Sequence[str]) -> str:
    match = difflib.get_close_matches(name, names, 1)
    return f" (did you mean {match[0]}?)" if match else ""


def read_long(job: Job, table: Table) -> None:
    """Read a row for each label; without a value column each row says that its class is present."""
    options = job.options
    image = table.usual_column(options.image_column, IMAGE_COLUMNS, "image")
    cls = table.usual_column(options.class_column, CLASS_COLUMNS, "class")
    columns = [image, cls]
    if options.value_column is not None or {name.strip().casefold() for name in table.header} & set(VALUE_COLUMNS):
        columns.append(table.usual_column(options.value_column, VALUE_COLUMNS, "value"))
    job.note_unused(table, columns)
    values = job.values([table.header[i].strip() for i in columns[2:]], [f":{i + 1}" for i in columns[2:]])
    for batch in job.batches(table, columns):
        names = batch.columns[1].dictionary_encode()
        row = np.arange(batch.first_row, batch.first_row + len(batch))
        codes = values.read(batch.columns[2:], batch.first_row) if values.seen else np.full((1, len(row)), PRESENT)
        job.say(row, names.dictionary, names.indices.to_numpy(), codes[0], named=bool(values.seen))
    values.finish()
    if not values.seen:
        job.report.coding = "each row = present"
    job.sort = True


def read_tags(job: Job, table: Table) -> None:
    """Read a column with all tags of an image; a tag says that its class is present.

    Raises:
        UserError: the separator of the tags is not given.
    """
    options = job.options
    image = table.usual_column(options.image_column, IMAGE_COLUMNS, "image")
    tags = table.usual_column(options.tags_column, TAG_COLUMNS, "tags")
    job.note_unused(table, [image, tags])
    for batch in job.batches(table, [image, tags]):
        cells = batch.columns[1].dictionary_encode()
        if options.tag_separator is None:
            some = ", ".join(repr(cell) for cell in cells.dictionary[:3].to_pylist())
            raise UserError(
                f"{table.path}: name the character between tags, as in tag_separator=pipe; the cells are {some}, ..."
            )
        split = pc.call_function("split_pattern", [cells.dictionary], pc.SplitPatternOptions(options.tag_separator))
        start, code = split.offsets.to_numpy().astype(np.int64), cells.indices.to_numpy()
        count = np.diff(start)[code]
        row = np.repeat(np.arange(len(batch)) + batch.first_row, count)
        job.say(row, split.values, ranges(start[code], count).astype(np.int32), np.full(len(row), PRESENT, np.int8))
    job.report.coding = "a listed tag = present"
    job.sort = True
