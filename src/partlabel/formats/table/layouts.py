"""The layouts of tables with a header: wide, long, and tags."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from partlabel.core.errors import UserError
from partlabel.formats.class_names import tidy
from partlabel.formats.coding import PRESENT
from partlabel.formats.report import Tally
from partlabel.formats.table.entries import Entries, parse_list
from partlabel.formats.table.job import Job
from partlabel.formats.table.options import (
    CLASS_COLUMNS,
    IMAGE_COLUMNS,
    OTHER_IMAGE_COLUMNS,
    TAG_COLUMNS,
    VALUE_COLUMNS,
    TableOptions,
)
from partlabel.formats.table.tables import Table, usual_name


def read_wide(job: Job, table: Table) -> None:
    """Read a row for each image, a column for each class.

    Raises:
        UserError: no column for one of the classes that are wanted, or none at all; a column with labels but no name.
    """
    image = table.usual_column(job.options.image_column, IMAGE_COLUMNS, "image", OTHER_IMAGE_COLUMNS)
    columns = _label_columns(job, table, image)
    names = [table.header[i].strip() for i in columns]
    values = job.values(names, [f":{i + 1}" for i in columns])
    raw = pa.array([table.header[i] for i in columns], pa.string())
    job.classes.add_codes(raw, np.zeros(0, np.int32))  # a table without rows has its classes too
    for batch in job.batches(table, [image, *columns]):
        job.say_block(values.read(batch.columns[1:], batch.first_row), raw, batch.first_row)
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
    taken = {image, *job.set_aside(table)}
    present = {name.strip() for name in header}
    ignored = {table.column(name) for name in options.ignore or [] if job.files == 1 or name.strip() in present}
    free = [i for i in range(len(header)) if i not in taken | ignored]
    chosen = free
    if options.classes is not None:
        rename = {tidy(old): tidy(new) for old, new in (options.rename or {}).items()}
        names = {i: rename.get(tidy(header[i]), tidy(header[i])) for i in free}
        wanted = {tidy(name) for name in options.classes}
        nothing = {tidy(name).casefold() for name in options.nothing or []}
        chosen = [i for i in free if names[i] in wanted or tidy(header[i]).casefold() in nothing]
        absent = [name for name in options.classes if tidy(name) not in names.values()]
        if absent and job.files == 1:  # of several tables each may have its own classes
            close = [f"{name}{_close(name, list(names.values()))}" for name in absent]
            raise UserError(f"{table.path}: the table has no column for {len(absent)} of the classes", close)
    if not chosen and job.files == 1:
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
    image = table.usual_column(options.image_column, IMAGE_COLUMNS, "image", OTHER_IMAGE_COLUMNS)
    cls = table.usual_column(options.class_column, CLASS_COLUMNS, "class")
    columns = [image, cls]
    if options.value_column is not None or {name.strip().casefold() for name in table.header} & set(VALUE_COLUMNS):
        columns.append(table.usual_column(options.value_column, VALUE_COLUMNS, "value"))
    job.note_unused(table, columns)
    values = job.values([table.header[i].strip() for i in columns[2:]], [f":{i + 1}" for i in columns[2:]])
    for batch in job.batches(table, columns):
        names = batch.columns[1].dictionary_encode()
        if lists := [name for name in names.dictionary.to_pylist() if name[:1] == "[" and parse_list(name) is not None]:
            raise UserError(
                f"{table.path}: the column {table.header[cls]!r} holds lists, not a class in each row; "
                f"read it with tags_column={table.header[cls].strip()!r}",
                lists,
            )
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
        UserError: the separator of the tags is not given, or cells that cannot be read (all are listed).
    """
    options = job.options
    image = table.usual_column(options.image_column, IMAGE_COLUMNS, "image", OTHER_IMAGE_COLUMNS)
    tags = table.usual_column(options.tags_column, TAG_COLUMNS, "tags")
    job.note_unused(table, [image, tags])
    entries = Entries(job, table.path, options.entries, f":{tags + 1}")
    for batch in job.batches(table, [image, tags]):
        entries.add_cells(batch.columns[1], batch.first_row)
    entries.finish()
    if options.entries != "values":
        job.report.coding = "a listed tag = present"
    job.sort = options.entries in (None, "names")


def find_layout(table: Table, options: TableOptions) -> str:
    """Tell the layout of a table by the options, its header, and cells that hold lists."""
    names = {usual_name(name) for name in table.header}
    if options.tag_separator is not None or options.tags_column is not None:
        return "tags"
    if options.class_column is not None or options.value_column is not None:
        return "long"
    if all(names & set(usual) for usual in (IMAGE_COLUMNS + OTHER_IMAGE_COLUMNS, CLASS_COLUMNS, VALUE_COLUMNS)):
        return "long"
    usual = [i for i, name in enumerate(table.header) if usual_name(name) in TAG_COLUMNS]
    if len(usual) == 1:
        first = next(table.batches(usual), None)
        cells = [] if first is None else [cell for cell in first.columns[0].unique().to_pylist() if cell.strip()]
        if cells and all(parse_list(cell) is not None for cell in cells):
            return "tags"
    return "wide"
