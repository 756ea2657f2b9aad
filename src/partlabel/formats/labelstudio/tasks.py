"""The full JSON export: tasks with their annotations and predictions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from partlabel.core.errors import UserError
from partlabel.formats.labelstudio.exports import (
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


class _Entry(NamedTuple):
    """An annotation: the task it belongs to, and the choices of each control; None: there is none."""

    task: int
    place: str
    chosen: dict[str, list[Choice]] | None


class _Tasks:
    """Reads task after task and counts what is left out."""

    def __init__(self, options: LabelStudioOptions) -> None:
        self.options = options
        self.data: list[dict[str, Any]] = []
        self.names: list[str] = []
        self.entries: list[_Entry] = []
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
        self.names.append(name)
        self.data.append(task.data)
        self.predicted += bool(task.predictions)
        models = self.options.answers == "predictions"
        before = len(self.entries)
        for raw in (task.predictions if models else (task.annotations or task.completions)) or ():
            try:
                self._annotation(name, msgspec.json.decode(raw, type=Annotation))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                self.wrong.append(f"{name}: {self.options.answers} {error}")
        if len(self.entries) == before:
            self.entries.append(_Entry(len(self.names) - 1, name, None))

    def _annotation(self, name: str, annotation: Annotation) -> None:
        if annotation.was_cancelled or annotation.skipped:
            self.skipped.append(name)
            return
        chosen: dict[str, list[Choice]] = {}
        for result in annotation.result or ():
            value = msgspec.json.decode(result.value, type=Value) if result.type == "choices" else None
            if value is None or value.is_region:
                self.other_types["choices for regions" if value else result.type or "unnamed"] += 1
                continue
            control = result.from_name or ""
            self.controls[control] += 1
            confidence = annotation.score if result.score is None else result.score
            names = [value.choices] if isinstance(value.choices, str) else value.choices
            chosen.setdefault(control, []).extend((name, confidence) for name in names)
        who = "" if annotation.id is None else f", {self.options.answers.removesuffix('s')} {annotation.id}"
        self.entries.append(_Entry(len(self.names) - 1, name + who, chosen))


def read_tasks(path: str, items: Sequence[Raw], options: LabelStudioOptions, report: ImportReport) -> Export:
    """Read a full export; the errors are those of ``partlabel.formats.labelstudio.read``."""
    tasks = _Tasks(options)
    for number, item in enumerate(items):
        tasks.add(number, item)
    if tasks.wrong:
        raise UserError(f"{path}: {plural(len(tasks.wrong), 'task')} not as in an export", tasks.wrong)
    present, absent = choose_controls(path, tasks.controls, options, _why(tasks))
    key = choose_image(path, columns_of(tasks.data), options)
    found = [data.get(key) for data in tasks.data]
    wrong = [name for name, value in zip(tasks.names, found, strict=True) if not is_filled(value)]
    if wrong:
        raise UserError(f"{path}: {plural(len(wrong), 'task')} without the address of an image as {key!r}", wrong)
    _describe(tasks, present, absent, report)
    answers = [
        Answer(str(found[task]), (own or {}).get(present, ()), (own or {}).get(absent, ()), own is not None)
        for task, _, own in tasks.entries
    ]
    return Export(present, absent, answers, lambda rows: [tasks.entries[row].place for row in rows])


def _why(tasks: _Tasks) -> str:
    """Return what to say where there is no control with choices."""
    if tasks.options.answers == "annotations" and tasks.predicted and not tasks.controls:
        return f"of people, but predictions in {plural(tasks.predicted, 'task')}: answers=predictions reads those"
    if tasks.other_types:
        return f"for whole images; other results are not read: {_counts(tasks.other_types)}"
    return f"in the {tasks.options.answers}; name the classes with classes=NAME,NAME if nothing was chosen"


def _describe(tasks: _Tasks, present: str, absent: str, report: ImportReport) -> None:
    if tasks.skipped:
        report.dropped[SKIPPED] = Tally.of(tasks.skipped)
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
