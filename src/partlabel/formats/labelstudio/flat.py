"""The short exports, JSON-MIN and CSV or TSV: a record for each annotation, with the choices under their control."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from partlabel.core.errors import UserError
from partlabel.formats.labelstudio.answers import ABSENT, PRESENT, Answers, choose_controls, choose_image
from partlabel.formats.labelstudio.options import LabelStudioOptions
from partlabel.formats.report import ImportReport, Tally, plural
from partlabel.formats.table.tables import Table

#: what Label Studio itself writes beside the task data and the controls
_OWN = ("id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "was_cancelled", "agreement")
#: how text begins that is an object or a list; a name such as [other] is neither
_LITERAL = re.compile(r"""\s*[\[{]\s*["'\[{\]}]""")
_YES = (True, 1, "true", "True", "1")


def read_min(path: str, items: Sequence[msgspec.Raw], options: LabelStudioOptions, report: ImportReport) -> Answers:
    """Read a JSON-MIN export.

    Raises:
        UserError: records that are not objects, without a picture, or with something else than choices (all are
            listed); no control with choices, or several.
    """
    records, wrong = [], []
    for number, item in enumerate(items, 1):
        try:
            records.append(msgspec.json.decode(item, type=dict[str, Any]))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            wrong.append(f"entry {number}: {error}")
    if wrong:
        raise UserError(f"{path}: {plural(len(wrong), 'record')} not as in an export", wrong)
    columns: dict[str, list[Any]] = {}
    for record in records:
        for key, value in record.items():
            columns.setdefault(key, []).append(value)

    def place(rows: Sequence[int]) -> list[str]:
        return [_record(records[row], row) for row in rows]

    job = _Job(path, columns, options, report)
    return job.read(records, Answers(place, (job.present, job.absent)), parse_text=False)


def read_csv(text: Table, options: LabelStudioOptions, report: ImportReport) -> Answers:
    """Read a CSV or TSV export.

    Raises:
        UserError: as ``read_min``; rows that cannot be read.
    """
    header = [name.strip() for name in text.header]
    first = next(text.batches(range(len(header))), None)
    if first is None:
        raise UserError(f"{text.path}: the table has no rows")
    columns = {name: cells.unique().to_pylist() for name, cells in zip(header, first.columns, strict=True) if name}
    job = _Job(text.path, columns, options, report)
    used = [header.index(name) for name in header if name in job.used]

    def place(rows: Sequence[int]) -> list[str]:
        lines = text.lines(rows)
        return [f"{text.path}:{lines[row]}" for row in rows]

    def records() -> Iterator[dict[str, str]]:
        for batch in text.batches(used):
            cells = [column.to_pylist() for column in batch.columns]
            for row in zip(*cells, strict=True):
                yield {header[i]: cell for i, cell in zip(used, row, strict=True) if cell.strip()}

    return job.read(records(), Answers(place, (job.present, job.absent)), parse_text=True)


class _Job:
    """One export whose keys have been told apart."""

    def __init__(
        self, path: str, columns: Mapping[str, Sequence[Any]], options: LabelStudioOptions, report: ImportReport
    ) -> None:
        if options.answers == "predictions":
            raise UserError(f"{path}: only the full JSON export holds predictions")
        self.path, self.report = path, report
        self.image = choose_image(path, columns, options)
        free = {key: values for key, values in columns.items() if key != self.image and key not in _OWN}
        found = _controls(free, options)
        why = "in any column; name the control with control=NAME" if free else "in it: no column but the picture"
        self.present, self.absent = choose_controls(path, found, options, why)
        self.used = {self.image, self.present, self.absent, "id", "annotation_id", "was_cancelled"}
        if unused := [key for key in free if key not in self.used]:
            report.notes.append(f"columns not used: {Tally.of(unused)}")

    def read(self, records: Iterable[Mapping[str, Any]], answers: Answers, *, parse_text: bool) -> Answers:
        nameless, wrong, skipped = [], [], []
        for row, record in enumerate(records):
            address = record.get(self.image)
            if not isinstance(address, str) or not address.strip():
                nameless.append(row)
                address = ""
            chosen: list[Sequence[str]] = []
            for control in (self.present, self.absent):
                try:
                    chosen.append(choices(record.get(control), parse_text))
                except ValueError as error:
                    wrong.append((row, f"{control}: {error}"))
                    chosen.append(())
            is_skipped = record.get("was_cancelled") in _YES
            if is_skipped:
                skipped.append(row)
                chosen = [(), ()]
            answered = any(chosen) or record.get("annotation_id") is not None
            answers.add(address, chosen[0], chosen[1], answered and not is_skipped)
        if nameless:
            raise UserError(
                f"{self.path}: {plural(len(nameless), 'record')} without the address of a picture as {self.image!r}",
                answers.place(nameless),
            )
        if wrong:
            places = answers.place([row for row, _ in wrong])
            offenders = [f"{place} {what}" for place, (_, what) in zip(places, wrong, strict=True)]
            raise UserError(f"{self.path}: {plural(len(wrong), 'answer')} that cannot be choices", offenders)
        if skipped:
            self.report.dropped["annotations that were skipped"] = Tally.of(
                answers.place(skipped[: Tally.KEPT]), len(skipped)
            )
        return answers


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
    if not found:
        found = [key for key, values in columns.items() if any(isinstance(v, str) and v.strip() for v in values)]
    return {key: answers[key] for key in found}


def _is_object(value: Any) -> bool:
    if isinstance(value, str):
        return value.lstrip(" [").startswith(('{"choices"', "{'choices'"))
    if isinstance(value, list):
        return any(map(_is_object, value))
    return isinstance(value, dict) and "choices" in value


def choices(value: Any, parse_text: bool) -> tuple[str, ...]:
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
            return choices(_parsed(value), parse_text=False)
        return (value,) if value.strip() else ()
    if isinstance(value, dict) and "choices" in value:
        value = value["choices"]
        if isinstance(value, str):
            return (value,)
        if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
            return tuple(value)
    elif isinstance(value, list) and not any(isinstance(entry, list) for entry in value):
        return tuple(name for entry in value for name in choices(entry, parse_text=False))
    raise ValueError(f"{json.dumps(value, ensure_ascii=False)[:60]} is not a choice")


def _parsed(text: str) -> Any:
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    raise ValueError(f"{text[:60]} cannot be read as JSON")


def _record(record: Mapping[str, Any], row: int) -> str:
    name = f"task {record['id']}" if record.get("id") is not None else f"entry {row + 1}"
    number = record.get("annotation_id")
    return name if number is None else f"{name}, annotation {number}"
