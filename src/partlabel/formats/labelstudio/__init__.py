"""Label Studio: the Choices that people made (full JSON, JSON-MIN, CSV, TSV), and tasks with predictions to check."""

from __future__ import annotations

from collections import Counter

import msgspec

from partlabel.core.errors import UserError
from partlabel.formats.assemble import assemble
from partlabel.formats.given import given
from partlabel.formats.labelstudio.answers import Answers
from partlabel.formats.labelstudio.flat import read_csv, read_min
from partlabel.formats.labelstudio.options import LabelStudioOptions
from partlabel.formats.labelstudio.statements import statements
from partlabel.formats.labelstudio.tasks import read_tasks
from partlabel.formats.labelstudio.writing import write
from partlabel.formats.reading import load_json
from partlabel.formats.report import ImportReport
from partlabel.formats.table.delimited import open_table
from partlabel.labels.table import LabelTable

__all__ = ["LabelStudioOptions", "read", "write"]


class _Head(msgspec.Struct):
    data: msgspec.Raw = msgspec.Raw(b"null")


def read(path: str, options: LabelStudioOptions) -> tuple[LabelTable, ImportReport]:
    """Read image labels from an export of Label Studio; its kind is told by the content.

    Raises:
        UserError: not an export; tasks without a picture, answers that are no choices (all are listed); several
            controls or keys that may be meant; annotators that contradict each other under ``conflicts=error``.
    """
    report = ImportReport(path, "labelstudio")
    answers = _read_json(path, options, report) if _is_json(path) else _read_csv(path, options, report)
    report.rows = len(answers.addresses)
    table = assemble(
        statements(path, answers, options, report),
        report,
        conflicts=options.conflicts,
        not_listed=options.not_listed,
        images=options.images,
        missing=options.missing,
        options=given(options),
    )
    return table, report


def _is_json(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            start = file.read(4096)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    return start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"[", b"{")


def _read_csv(path: str, options: LabelStudioOptions, report: ImportReport) -> Answers:
    text = open_table(path, encoding=options.encoding, separator=options.separator)
    twice = [name for name, count in Counter(map(str.strip, text.header)).items() if count > 1 and name]
    if twice:
        raise UserError(f"{path}: columns have the same name", [f"{path}:1 {name}" for name in twice])
    report.layout = f"CSV export, {text.describe()}"
    return read_csv(text, options, report)


def _read_json(path: str, options: LabelStudioOptions, report: ImportReport) -> Answers:
    items = load_json(path, list[msgspec.Raw] | dict[str, msgspec.Raw], "an export of Label Studio")
    if isinstance(items, dict):
        raise UserError(
            f"{path}: not an export of Label Studio, which is a list of tasks; this is one object", list(items)[:10]
        )
    if not items:
        raise UserError(f"{path}: the list of tasks is empty")
    full = sum(map(_is_task, items))
    if full not in (0, len(items)):
        raise UserError(f"{path}: {full:,} of {len(items):,} entries are tasks with data, the others are not")
    report.layout = "full JSON export" if full else "JSON-MIN export"
    return (read_tasks if full else read_min)(path, items, options, report)


def _is_task(item: msgspec.Raw) -> bool:
    try:
        return bytes(msgspec.json.decode(item, type=_Head).data).startswith(b"{")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
