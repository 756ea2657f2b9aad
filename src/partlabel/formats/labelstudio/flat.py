"""The short exports, JSON-MIN and CSV or TSV: a record for each annotation, with the choices under their control."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from partlabel.core.errors import UserError
from partlabel.formats.labelstudio.exports import (
    ABSENT,
    PRESENT,
    SKIPPED,
    Answer,
    Choice,
    Export,
    LabelStudioOptions,
    choose_controls,
    choose_image,
    columns_of,
    is_filled,
)
from partlabel.formats.report import ImportReport, Tally, plural
from partlabel.formats.table.delimited import open_table

#: what Label Studio itself writes beside the task data and the controls
_OWN = ("id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "was_cancelled", "agreement")
#: how text begins that is an object or a list; a name such as [other] is neither
_LITERAL = re.compile(r"""\s*[\[{]\s*["'\[{\]}]""")
_YES = (True, 1, "true", "True", "1")


def read_min(path: str, items: Sequence[Raw], options: LabelStudioOptions, report: ImportReport) -> Export:
    """Read a JSON-MIN export; the errors are those of ``partlabel.formats.labelstudio.read``."""
    records, wrong = [], []
    for number, item in enumerate(items, 1):
        try:
            records.append(msgspec.json.decode(item, type=dict[str, Any]))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            wrong.append(f"entry {number}: {error}")
    if wrong:
        raise UserError(f"{path}: {plural(len(wrong), 'record')} not as in an export", wrong)

    def place(rows: Sequence[int]) -> list[str]:
        return [_record(records[row], row) for row in rows]

    keys = _keys(path, columns_of(records), options, report)
    return _read_records(path, records, keys, place, report, parse_text=False)


def _record(record: Mapping[str, Any], row: int) -> str:
    name = f"task {record['id']}" if record.get("id") is not None else f"entry {row + 1}"
    number = record.get("annotation_id")
    return name if number is None else f"{name}, annotation {number}"


def read_csv(path: str, options: LabelStudioOptions, report: ImportReport) -> Export:
    """Read a CSV or TSV export; the errors are those of ``partlabel.formats.labelstudio.read``."""
    text = open_table(path, encoding=options.encoding, separator=options.separator)
    header = [name.strip() for name in text.header]
    if twice := [name for name, count in Counter(header).items() if count > 1 and name]:
        raise UserError(f"{path}: columns have the same name", [f"{path}:1 {name}" for name in twice])
    report.layout = f"CSV export, {text.describe()}"
    first = next(text.batches(range(len(header))), None)
    if first is None:
        raise UserError(f"{path}: the table has no rows")
    columns = {name: cells.unique().to_pylist() for name, cells in zip(header, first.columns, strict=True) if name}
    keys = _keys(path, columns, options, report)
    used = [header.index(name) for name in header if name in {*keys, "annotation_id", "was_cancelled"} - {""}]

    def place(rows: Sequence[int]) -> list[str]:
        lines = text.lines(rows)
        return [f"{path}:{lines[row]}" for row in rows]

    def records() -> Iterator[dict[str, str]]:
        for batch in text.batches(used):
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                yield {header[i]: cell for i, cell in zip(used, row, strict=True) if cell.strip()}

    return _read_records(path, records(), keys, place, report, parse_text=True)


def _keys(
    path: str, columns: Mapping[str, Sequence[Any]], options: LabelStudioOptions, report: ImportReport
) -> tuple[str, str, str]:
    """Return the keys of the image and of the controls for present and for absent classes."""
    if options.answers == "predictions":
        raise UserError(f"{path}: only the full JSON export holds predictions")
    image = choose_image(path, columns, options)
    free = {key: values for key, values in columns.items() if key != image and key not in _OWN}
    why = "in any column; name the control with control=NAME" if free else "in it: no column but the image"
    present, absent = choose_controls(path, _controls(free, options), options, why)
    if unused := [key for key in free if key not in (present, absent)]:
        report.notes.append(f"columns not used: {Tally.of(unused)}")
    return image, present, absent


def _controls(columns: Mapping[str, Sequence[Any]], options: LabelStudioOptions) -> dict[str, int]:
    """Return the keys that may be controls (with objects, or else with text) and how often each is filled."""
    answers = {
        key: sum(bool(value.strip()) if isinstance(value, str) else value is not None for value in values)
        for key, values in columns.items()
    }
    if options.control is not None or options.absent_control is not None:
        return answers
    if PRESENT in columns and ABSENT in columns:
        return {PRESENT: answers[PRESENT], ABSENT: answers[ABSENT]}
    found = [key for key, values in columns.items() if any(map(_is_object, values))]
    found = found or [key for key, values in columns.items() if any(map(is_filled, values))]
    return {key: answers[key] for key in found}


def _read_records(
    path: str,
    records: Iterable[Mapping[str, Any]],
    keys: tuple[str, str, str],
    place: Callable[[Sequence[int]], list[str]],
    report: ImportReport,
    *,
    parse_text: bool,
) -> Export:
    image, present, absent = keys
    answers, nameless, skipped = [], [], []
    wrong: list[tuple[int, str]] = []
    for row, record in enumerate(records):
        address = record.get(image)
        if not is_filled(address):
            nameless.append(row)
        chosen: list[list[Choice]] = [[], []]
        for own, control in zip(chosen, (present, absent), strict=True):
            try:
                own += [(name, None) for name in _choices(record.get(control), parse_text)]
            except ValueError as error:
                wrong.append((row, f"{control}: {error}"))
        answered = any(chosen) or record.get("annotation_id") is not None
        if record.get("was_cancelled") in _YES:
            skipped.append(row)
            chosen, answered = [[], []], False
        answers.append(Answer(str(address), chosen[0], chosen[1], answered))
    if nameless:
        raise UserError(
            f"{path}: {plural(len(nameless), 'record')} without the address of an image as {image!r}", place(nameless)
        )
    if wrong:
        places = place([row for row, _ in wrong])
        offenders = [f"{where} {what}" for where, (_, what) in zip(places, wrong, strict=True)]
        raise UserError(f"{path}: {plural(len(wrong), 'answer')} that cannot be choices", offenders)
    if skipped:
        report.dropped[SKIPPED] = Tally.of(place(skipped[: Tally.KEPT]), len(skipped))
    return Export(present, absent, answers, place)


def _is_object(value: Any) -> bool:
    if isinstance(value, str):
        return value.lstrip(" [").startswith(('{"choices"', "{'choices'"))
    if isinstance(value, list):
        return any(map(_is_object, value))
    return isinstance(value, dict) and "choices" in value


def _choices(value: Any, parse_text: bool) -> tuple[str, ...]:
    """Return the choices of one answer: one is plain text, several are ``{"choices": [...]}``.

    Args:
        value: text, an object, a list of both (a control that was answered several times), or None.
        parse_text: whether text may hold such an object as JSON, as in CSV, or as old versions wrote it, as Python.

    Raises:
        ValueError: something else.
    """
    if value is None:
        return ()
    if isinstance(value, str):
        if parse_text and _LITERAL.match(value):
            return _choices(_parsed(value), parse_text=False)
        return (value,) if value.strip() else ()
    if isinstance(value, dict) and "choices" in value:
        value = value["choices"]
        if isinstance(value, str):
            return (value,)
        if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
            return tuple(value)
    elif isinstance(value, list) and not any(isinstance(entry, list) for entry in value):
        return tuple(name for entry in value for name in _choices(entry, parse_text=False))
    raise ValueError(f"{json.dumps(value, ensure_ascii=False)[:60]} is not a choice")


def _parsed(text: str) -> Any:
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    raise ValueError(f"{text[:60]} cannot be read as JSON")
