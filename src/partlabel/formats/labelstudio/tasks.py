"""The full JSON export: tasks with their annotations and predictions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from partlabel.core.errors import UserError
from partlabel.formats.labelstudio.answers import Answers, choose_controls, choose_image
from partlabel.formats.labelstudio.options import LabelStudioOptions
from partlabel.formats.report import ImportReport, Tally, plural

_NOTHING = Raw(b"null")


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


class Annotation(Struct, gc=False):
    """What one person submitted, or one model predicted."""

    id: int | str | None = None
    result: list[Result] | None = None
    was_cancelled: bool | None = None
    skipped: bool | None = None


class Value(Struct, gc=False):
    """Choices; with a place in the picture they are about a region."""

    choices: list[str] | str
    x: Raw = _NOTHING
    points: Raw = _NOTHING
    rle: Raw = _NOTHING

    @property
    def is_region(self) -> bool:
        """Whether the choices are about a part of the picture."""
        return any(bytes(place) != b"null" for place in (self.x, self.points, self.rle))


class _Reader:
    """Reads task after task and counts what is left out."""

    def __init__(self, path: str, options: LabelStudioOptions) -> None:
        self.path, self.options = path, options
        self.data: list[dict[str, Any]] = []
        self.tasks: list[str] = []
        self.rows: list[tuple[int, int | str | None, dict[str, list[str]] | None]] = []
        self.controls: Counter[str] = Counter()
        self.other_types: Counter[str] = Counter()
        self.skipped: list[str] = []
        self.predicted = 0
        self.wrong: list[str] = []

    def add(self, number: int, item: Raw) -> None:
        try:
            task = msgspec.json.decode(item, type=Task)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self.wrong.append(f"task entry {number + 1}: {error}")
            return
        name = f"task {task.id}" if task.id is not None else f"task entry {number + 1}"
        self.tasks.append(name)
        self.data.append(task.data)
        self.predicted += bool(task.predictions)
        use_predictions = self.options.answers == "predictions"
        given = task.predictions if use_predictions else (task.annotations or task.completions)
        before = len(self.rows)
        for entry in given or ():
            try:
                self._annotation(name, msgspec.json.decode(entry, type=Annotation))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                self.wrong.append(f"{name}: {self.options.answers} {error}")
        if len(self.rows) == before:
            self.rows.append((len(self.tasks) - 1, None, None))

    def _annotation(self, name: str, annotation: Annotation) -> None:
        if annotation.was_cancelled or annotation.skipped:
            self.skipped.append(name)
            return
        chosen: dict[str, list[str]] = {}
        for result in annotation.result or ():
            if result.type != "choices":
                self.other_types[result.type or "unnamed"] += 1
                continue
            value = msgspec.json.decode(result.value, type=Value)
            if value.is_region:
                self.other_types["choices for regions"] += 1
                continue
            control = result.from_name or ""
            self.controls[control] += 1
            more = [value.choices] if isinstance(value.choices, str) else value.choices
            chosen.setdefault(control, []).extend(more)
        self.rows.append((len(self.tasks) - 1, annotation.id, chosen))


def read_tasks(path: str, items: Sequence[Raw], options: LabelStudioOptions, report: ImportReport) -> Answers:
    """Read the tasks of a full JSON export.

    Raises:
        UserError: tasks of another layout or without a picture (all are listed); no control with choices, or several.
    """
    reader = _Reader(path, options)
    for number, item in enumerate(items):
        reader.add(number, item)
    if reader.wrong:
        raise UserError(f"{path}: {plural(len(reader.wrong), 'task')} not as in an export", reader.wrong)
    present, absent = choose_controls(path, reader.controls, options, _why(reader))
    addresses = _addresses(reader)
    who = "annotation" if options.answers == "annotations" else "prediction"

    def place(rows: Sequence[int]) -> list[str]:
        named = [(reader.tasks[reader.rows[row][0]], reader.rows[row][1]) for row in rows]
        return [task if number is None else f"{task}, {who} {number}" for task, number in named]

    answers = Answers(place, (present, absent))
    for task, _, chosen in reader.rows:
        own = chosen or {}
        answers.add(addresses[task], own.get(present, ()), own.get(absent, ()), chosen is not None)
    _describe(reader, present, absent, report)
    return answers


def _addresses(reader: _Reader) -> list[str]:
    columns: dict[str, list[Any]] = {}
    for data in reader.data:
        for key, value in data.items():
            columns.setdefault(key, []).append(value)
    key = choose_image(reader.path, columns, reader.options)
    found = [data.get(key) for data in reader.data]
    wrong = [
        name for name, value in zip(reader.tasks, found, strict=True) if not isinstance(value, str) or not value.strip()
    ]
    if wrong:
        raise UserError(
            f"{reader.path}: {plural(len(wrong), 'task')} without the address of a picture as {key!r}", wrong
        )
    return [str(value) for value in found]


def _why(reader: _Reader) -> str:
    if reader.options.answers == "annotations" and reader.predicted and not reader.controls:
        return f"of people, but predictions in {plural(reader.predicted, 'task')}: answers=predictions reads those"
    if reader.other_types:
        return f"for whole images; other results are not read: {_counts(reader.other_types)}"
    return f"in the {reader.options.answers}; name the classes with classes=NAME,NAME if nothing was chosen"


def _describe(reader: _Reader, present: str, absent: str, report: ImportReport) -> None:
    if reader.skipped:
        report.dropped["annotations that were skipped"] = Tally.of(reader.skipped)
    if reader.other_types:
        report.notes.append(f"results that are not read: {_counts(reader.other_types)}")
    unused = {name: count for name, count in reader.controls.items() if name not in (present, absent)}
    if unused:
        report.notes.append(f"Choices controls that are not read: {_counts(Counter(unused))}")
    if reader.options.answers == "predictions":
        report.warnings.append("the labels are predictions of a model, not answers of people")
    elif reader.predicted:
        report.notes.append(f"predictions in {plural(reader.predicted, 'task')} are not read")


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counter.most_common(Tally.KEPT))
