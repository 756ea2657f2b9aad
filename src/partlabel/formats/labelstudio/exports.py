"""The exports of Label Studio in one form: what was chosen in each annotation, and where it stands."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Raw, Struct

from partlabel.core.errors import UserError
from partlabel.core.trouble import plainly
from partlabel.formats.labelstudio.options import LabelStudioOptions, choose_controls, choose_image, likely_controls
from partlabel.formats.reading import load_json
from partlabel.formats.report import ImportReport, Tally, plural
from partlabel.formats.table.delimited import open_table

#: what Label Studio itself writes beside the task data and the controls of a short export
_OWN = ("id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "was_cancelled", "agreement")
#: how text begins that is an object or a list; a name such as [other] is neither
_LITERAL = re.compile(r"""\s*[\[{]\s*["'\[{\]}]""")
_YES = (True, 1, "true", "True", "1")
_SKIPPED = "annotations that were skipped"
_NOTHING = Raw(b"null")
_WRONG = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Choices(Struct, gc=False):
    """The choices of one answer, and the confidence of a model in it."""

    names: Sequence[str]
    confidence: Any = None


class Entry(Struct, gc=False):
    """One annotation, or a task without any.

    Attributes:
        data: of the task, with the address of the image.
        chosen: control -> choices; None: nobody looked at the image.
    """

    data: Mapping[str, Any]
    chosen: Mapping[str, Sequence[Choices]] | None


@dataclass
class Export:
    """What an export holds.

    Attributes:
        image: key of the address of the image in the data.
        present, absent: names of the controls for present and for absent classes, empty where there is none.
        entries: in the order of the file.
        place: numbers of entries -> where they are; called only to explain.
    """

    image: str
    present: str
    absent: str
    entries: list[Entry]
    place: Callable[[Sequence[int]], list[str]]


def open_export(path: str, options: LabelStudioOptions, report: ImportReport) -> Export:
    """Read an export, of whatever kind; the errors are those of ``partlabel.formats.labelstudio.read``."""
    try:
        with open(path, "rb") as file:
            start = file.read(4096)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    if start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] not in (b"[", b"{"):
        return _read_csv(path, options, report)
    items = load_json(path, list[Raw] | dict[str, Raw], "an export of Label Studio")
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
    return (_read_tasks if full else _read_min)(path, items, options, report)


class _Head(Struct):
    data: Raw = _NOTHING


def _is_task(item: Raw) -> bool:
    with suppress(*_WRONG):
        return bytes(msgspec.json.decode(item, type=_Head).data).startswith(b"{")
    return False


def _columns(records: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the values of each key."""
    columns: dict[str, list[Any]] = {}
    for record in records:
        for key, value in record.items():
            columns.setdefault(key, []).append(value)
    return columns


class Task(Struct, gc=False):
    """A task; ``completions`` is what old versions call annotations."""

    data: dict[str, Any]
    id: int | str | None = None
    annotations: list[Raw] | None = None
    completions: list[Raw] | None = None
    predictions: list[Raw] | None = None


class Result(Struct, gc=False):
    """The answer of one control."""

    from_name: str | None = None
    type: str | None = None
    value: Raw = _NOTHING
    score: Any = None


class Annotation(Struct, gc=False):
    """What one person submitted, or one model predicted."""

    id: int | str | None = None
    result: list[Result] | None = None
    was_cancelled: bool | None = None
    skipped: bool | None = None
    score: Any = None


class Value(Struct, gc=False):
    """Choices; with a place in the image they are about a region."""

    choices: list[str] | str
    x: Raw = _NOTHING
    points: Raw = _NOTHING
    rle: Raw = _NOTHING

    @property
    def is_region(self) -> bool:
        """Whether the choices are about a part of the image."""
        return any(bytes(place) != b"null" for place in (self.x, self.points, self.rle))


class _Tasks:
    """Reads task after task and counts what is left out."""

    def __init__(self, options: LabelStudioOptions) -> None:
        self.options = options
        self.data: list[dict[str, Any]] = []
        self.entries: list[Entry] = []
        self.places: list[str] = []
        self.controls: Counter[str] = Counter()
        self.other_types: Counter[str] = Counter()
        self.skipped: list[str] = []
        self.predicted = 0
        self.wrong: list[str] = []

    def add(self, number: int, item: Raw) -> None:
        try:
            task = msgspec.json.decode(item, type=Task)
        except _WRONG as error:
            self.wrong.append(f"task entry {number + 1}: {plainly(error)}")
            return
        name = f"task {task.id}" if task.id is not None else f"task entry {number + 1}"
        self.data.append(task.data)
        self.predicted += bool(task.predictions)
        models = self.options.answers == "predictions"
        before = len(self.entries)
        for raw in (task.predictions if models else (task.annotations or task.completions)) or ():
            try:
                self._annotation(name, msgspec.json.decode(raw, type=Annotation))
            except _WRONG as error:
                self.wrong.append(f"{name}: {self.options.answers} {plainly(error)}")
        if len(self.entries) == before:
            self._add(name, None)

    def _annotation(self, name: str, annotation: Annotation) -> None:
        if annotation.was_cancelled or annotation.skipped:
            self.skipped.append(name)
            return
        chosen: dict[str, list[Choices]] = {}
        for result in annotation.result or ():
            value = msgspec.json.decode(result.value, type=Value) if result.type == "choices" else None
            if value is None or value.is_region:
                self.other_types["choices for regions" if value else result.type or "unnamed"] += 1
                continue
            control = result.from_name or ""
            self.controls[control] += 1
            confidence = annotation.score if result.score is None else result.score
            names = [value.choices] if isinstance(value.choices, str) else value.choices
            chosen.setdefault(control, []).append(Choices(names, confidence))
        who = "" if annotation.id is None else f", {self.options.answers.removesuffix('s')} {annotation.id}"
        self._add(name + who, chosen)

    def _add(self, place: str, chosen: dict[str, list[Choices]] | None) -> None:
        self.places.append(place)
        self.entries.append(Entry(self.data[-1], chosen))


def _read_tasks(path: str, items: Sequence[Raw], options: LabelStudioOptions, report: ImportReport) -> Export:
    tasks = _Tasks(options)
    for number, item in enumerate(items):
        tasks.add(number, item)
    if tasks.wrong:
        raise UserError(f"{path}: {plural(len(tasks.wrong), 'task')} not as in an export", tasks.wrong)
    present, absent = choose_controls(path, tasks.controls, options, _why(tasks))
    image = choose_image(path, _columns(tasks.data), options)
    _describe(tasks, present, absent, report)
    return Export(image, present, absent, tasks.entries, lambda rows: [tasks.places[row] for row in rows])


def _why(tasks: _Tasks) -> str:
    """Return what to say where there is no control with choices."""
    if tasks.options.answers == "annotations" and tasks.predicted and not tasks.controls:
        return f"of people, but predictions in {plural(tasks.predicted, 'task')}: answers=predictions reads those"
    if tasks.other_types:
        return f"for whole images; other results are not read: {_counts(tasks.other_types)}"
    return f"in the {tasks.options.answers}; name the classes with classes=NAME,NAME if nothing was chosen"


def _describe(tasks: _Tasks, present: str, absent: str, report: ImportReport) -> None:
    if tasks.skipped:
        report.dropped[_SKIPPED] = Tally.of(tasks.skipped)
    if tasks.other_types:
        report.notes.append(f"results that are not read: {_counts(tasks.other_types)}")
    unused = {name: count for name, count in tasks.controls.items() if name not in (present, absent)}
    if unused:
        report.notes.append(f"Choices controls that are not read: {_counts(Counter(unused))}")
    if tasks.options.answers == "predictions":
        report.warnings.append("the labels are predictions of a model, not answers of people; their origin is model")
    elif tasks.predicted:
        report.notes.append(f"predictions in {plural(tasks.predicted, 'task')} are not read")


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counter.most_common(Tally.KEPT))


def _read_min(path: str, items: Sequence[Raw], options: LabelStudioOptions, report: ImportReport) -> Export:
    records, wrong = [], []
    for number, item in enumerate(items, 1):
        try:
            records.append(msgspec.json.decode(item, type=dict[str, Any]))
        except _WRONG as error:
            wrong.append(f"entry {number}: {plainly(error)}")
    if wrong:
        raise UserError(f"{path}: {plural(len(wrong), 'record')} not as in an export", wrong)

    def place(rows: Sequence[int]) -> list[str]:
        return [_record(records[row], row) for row in rows]

    keys = _keys(path, _columns(records), options, report)
    return _read_records(path, records, keys, place, report, parse_text=False)


def _record(record: Mapping[str, Any], row: int) -> str:
    name = f"task {record['id']}" if record.get("id") is not None else f"entry {row + 1}"
    number = record.get("annotation_id")
    return name if number is None else f"{name}, annotation {number}"


def _read_csv(path: str, options: LabelStudioOptions, report: ImportReport) -> Export:
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
    present, absent = choose_controls(path, likely_controls(free, options), options, why)
    if unused := [key for key in free if key not in (present, absent)]:
        report.notes.append(f"columns not used: {Tally.of(unused)}")
    return image, present, absent


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
    entries, skipped = [], []
    wrong: list[tuple[int, str]] = []
    for row, record in enumerate(records):
        chosen: dict[str, list[Choices]] = {}
        for control in (present, absent):
            try:
                chosen[control] = [Choices(own)] if (own := _choices(record.get(control), parse_text)) else []
            except ValueError as error:
                wrong.append((row, f"{control}: {error}"))
        answered = any(chosen.values()) or record.get("annotation_id") is not None
        if record.get("was_cancelled") in _YES:
            skipped.append(row)
            answered = False
        entries.append(Entry({image: record.get(image)}, chosen if answered else None))
    if wrong:
        places = place([row for row, _ in wrong])
        offenders = [f"{where} {what}" for where, (_, what) in zip(places, wrong, strict=True)]
        raise UserError(f"{path}: {plural(len(wrong), 'answer')} that cannot be choices", offenders)
    if skipped:
        report.dropped[_SKIPPED] = Tally.of(place(skipped[: Tally.KEPT]), len(skipped))
    return Export(image, present, absent, entries, place)


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
