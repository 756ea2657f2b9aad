"""CSV and other tables: wide (a column for each class), long (a row for each label), tag lists, list files."""

from __future__ import annotations

import os

from partlabel.formats import coding as codings
from partlabel.formats.assemble import assemble
from partlabel.formats.coding import Coding
from partlabel.formats.given import given
from partlabel.formats.report import ImportReport
from partlabel.formats.table import lists, long, wide
from partlabel.formats.table.delimited import open_table
from partlabel.formats.table.job import TableJob
from partlabel.formats.table.options import CLASS_COLUMNS, IMAGE_COLUMNS, VALUE_COLUMNS, TableOptions
from partlabel.formats.table.writing import write
from partlabel.labels.table import LabelTable

__all__ = ["TableOptions", "read", "write"]

_READERS = {"wide": wide.read, "long": long.read_long, "tags": long.read_tags, "list": lists.read}


def read(path: str | os.PathLike[str], options: TableOptions) -> tuple[LabelTable, ImportReport]:
    """Read a table of labels.

    Raises:
        UserError: anything in the file or the options that is wrong or not plain; nothing is read by halves.
    """
    path = os.fspath(path)
    report = ImportReport(path, "csv")
    job = TableJob(path, options, report, options.coding or codings.UNDECLARED)
    layout = options.layout
    if layout != "list":
        job.table = open_table(path, encoding=options.encoding, separator=options.separator)
        layout = _layout(job) if layout == "auto" else layout
        report.layout = f"{layout} table, {job.table.describe()}"
    said = _READERS[layout](job)
    table = assemble(
        said,
        report,
        conflicts=options.conflicts,
        not_listed=options.not_listed,
        images=options.images,
        missing=options.missing,
        options=_given(options),
    )
    return table, report


def _layout(job: TableJob) -> str:
    """Tell long from wide by the header; a tag list is declared by one of its options."""
    names = {name.strip().casefold() for name in job.text.header}
    options = job.options
    if options.tag_separator is not None or options.tags_column is not None:
        return "tags"
    if options.class_column is not None or options.value_column is not None:
        return "long"
    return (
        "long" if names & set(IMAGE_COLUMNS) and names & set(CLASS_COLUMNS) and names & set(VALUE_COLUMNS) else "wide"
    )


def _given(options: TableOptions) -> dict[str, object]:
    """Return the options that are not at their default, JSON-able."""
    return {name: value.words() if isinstance(value, Coding) else value for name, value in given(options).items()}
