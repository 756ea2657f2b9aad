"""CSV and other tables: wide (a column for each class), long (a row for each label), tag lists, list files."""

from __future__ import annotations

import os

from partlabel.formats.report import ImportReport
from partlabel.formats.spine import finish
from partlabel.formats.table.delimited import open_table
from partlabel.formats.table.job import Job
from partlabel.formats.table.layouts import read_long, read_tags, read_wide
from partlabel.formats.table.lists import read_list
from partlabel.formats.table.options import CLASS_COLUMNS, IMAGE_COLUMNS, VALUE_COLUMNS, TableOptions
from partlabel.formats.table.tables import Table
from partlabel.formats.table.writing import write
from partlabel.labels.table import LabelTable

__all__ = ["TableOptions", "read", "write"]

_READERS = {"wide": read_wide, "long": read_long, "tags": read_tags}


def read(path: str | os.PathLike[str], options: TableOptions) -> tuple[LabelTable, ImportReport]:
    """Read a table of labels.

    Raises:
        UserError: anything in the file or the options that is wrong or not plain; nothing is read by halves.
    """
    path = os.fspath(path)
    report = ImportReport(path, "csv")
    job = Job(options, report)
    if options.layout == "list":
        read_list(job, path)
    else:
        table = open_table(path, encoding=options.encoding, separator=options.separator)
        layout = _layout(table, options) if options.layout == "auto" else options.layout
        report.layout = f"{layout} table, {table.describe()}"
        _READERS[layout](job, table)
    return finish(job.source(), options, report), report


def _layout(table: Table, options: TableOptions) -> str:
    """Tell long from wide by the header; a tag list is declared by one of its options."""
    names = {name.strip().casefold() for name in table.header}
    if options.tag_separator is not None or options.tags_column is not None:
        return "tags"
    if options.class_column is not None or options.value_column is not None:
        return "long"
    return "long" if all(names & set(usual) for usual in (IMAGE_COLUMNS, CLASS_COLUMNS, VALUE_COLUMNS)) else "wide"
