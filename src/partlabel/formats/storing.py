"""The files that an import leaves: the label table, and beside it the report as JSON and as text."""

from __future__ import annotations

import json
import os
from pathlib import Path

from partlabel.core.errors import UserError
from partlabel.core.files import replacing
from partlabel.formats.report import ImportReport
from partlabel.labels.table import LabelTable


def report_paths(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Return where the report of a table is kept: ``labels.report.json`` and ``labels.report.txt``."""
    return Path(path).with_suffix(".report.json"), Path(path).with_suffix(".report.txt")


def check_place(path: str | os.PathLike[str]) -> None:
    """Refuse a place that cannot hold a table and its report, before anything is read.

    Raises:
        UserError: a folder has one of the names, or the folder of the file does not exist.
    """
    target = Path(path)
    if not target.name or target.is_dir():
        raise UserError(f"{target}: a folder; name the file of the label table")
    if not target.parent.is_dir():
        raise UserError(f"{target}: the folder {target.parent} does not exist")
    for place in report_paths(target):
        if place.is_dir():
            raise UserError(f"{place}: a folder has the name of the import report")


def store(table: LabelTable, report: ImportReport, path: str | os.PathLike[str]) -> None:
    """Write a label table and the report on its import, all whole or none at all.

    Args:
        table: written to ``path``, as ``LabelTable.write_parquet`` does.
        report: written beside it, as ``report_paths`` says; the JSON is that of ``ImportReport.to_dict``.
        path: the .parquet file.

    Raises:
        UserError: the place cannot be written to.
    """
    check_place(path)
    as_json, as_text = report_paths(path)
    # All are written before any is moved into place; the table is moved last, so it never lacks its report.
    with replacing(path) as new_table, replacing(as_json) as new_json, replacing(as_text) as new_text:
        table.write_parquet(new_table)
        content = json.dumps(report.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
        new_json.write_text(content + "\n", encoding="utf-8")
        new_text.write_text(report.text() + "\n", encoding="utf-8")
