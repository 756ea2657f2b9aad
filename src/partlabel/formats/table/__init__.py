"""CSV and other tables: wide (a column for each class), long (a row for each label), tag lists, list files."""

from __future__ import annotations

import os
from collections.abc import Sequence

from partlabel.core.errors import UserError
from partlabel.core.text import some
from partlabel.formats.reading import matching
from partlabel.formats.report import ImportReport, plural
from partlabel.formats.spine import finish
from partlabel.formats.table.delimited import open_table
from partlabel.formats.table.job import Job
from partlabel.formats.table.layouts import find_layout, read_long, read_tags, read_wide
from partlabel.formats.table.lists import has_count, read_list
from partlabel.formats.table.options import TableOptions
from partlabel.formats.table.writing import write
from partlabel.labels.table import LabelTable

__all__ = ["TableOptions", "read", "write"]

_READERS = {"wide": read_wide, "long": read_long, "tags": read_tags}
#: how classes are called that say that nothing is there
_NOTHING = frozenset({"no finding", "no findings", "nofinding", "nothing", "none", "normal", "healthy", "background"})


def read(paths: Sequence[str], options: TableOptions) -> tuple[LabelTable, ImportReport]:
    """Read one table of labels, or several as one; each may have other classes and another layout.

    Args:
        paths: files, or patterns such as ``parts/*.csv``.
        options: of all of them.

    Raises:
        UserError: anything in the files or the options that is wrong or not plain; nothing is read by halves.
    """
    files = find_files(paths)
    report = ImportReport(some(files, 3), "csv")
    job = Job(options, report, files=len(files))
    layouts = []
    for path in files:
        if options.layout == "list" or (options.layout == "auto" and has_count(path)):
            read_list(job, path)
        else:
            table = open_table(path, encoding=options.encoding, separator=options.separator, sheet=options.sheet)
            layout = find_layout(table, options) if options.layout == "auto" else options.layout
            report.layout = f"{layout} table, {table.describe()}"
            _READERS[layout](job, table)
        layouts.append(report.layout)
    report.layout = "; ".join(dict.fromkeys(layouts))
    if len(files) > 1:
        report.layout += f"; {plural(len(files), 'file')}"
    table = finish(job.source(), options, report)
    if named := [name for name in report.classes if name.casefold().replace("_", " ") in _NOTHING]:
        report.warnings.append(
            f"a class is called {named[0]}; if it says that nothing is there, nothing={named[0]!r} counts every other "
            "class as absent there"
        )
    return table, report


def find_files(paths: Sequence[str]) -> list[str]:
    """Return the files of some paths and patterns with ``*``, in their order.

    Raises:
        UserError: patterns that fit no file, folders, and files that are named twice; all are listed.
    """
    found: dict[str, None] = {}
    wrong = []
    for path in paths:
        names = matching(path)
        wrong += [f"{path}: no file fits the pattern"] if not names else []
        wrong += [f"{name}: a folder; name its files, as in {name}/*.csv" for name in names if os.path.isdir(name)]
        wrong += [f"{name}: named more than once" for name in names if name in found]
        found.update(dict.fromkeys(names))
    if wrong:
        raise UserError(f"{', '.join(paths[:3])}: not tables", wrong)
    return list(found)
