"""Label Studio: the Choices that people made (full JSON, JSON-MIN, CSV, TSV), and tasks with predictions to check."""

from __future__ import annotations

import math

import msgspec
from msgspec import Raw, Struct

from partlabel.core.errors import UserError
from partlabel.formats.addresses import Addresses
from partlabel.formats.class_names import tidy
from partlabel.formats.labelstudio.exports import Export, LabelStudioOptions
from partlabel.formats.labelstudio.flat import read_csv, read_min
from partlabel.formats.labelstudio.tasks import read_tasks
from partlabel.formats.labelstudio.writing import write
from partlabel.formats.reading import load_json
from partlabel.formats.records import Records, before_sigmoid, is_probability
from partlabel.formats.report import ImportReport
from partlabel.labels.pairs import MODEL
from partlabel.labels.table import LabelTable

__all__ = ["LabelStudioOptions", "read", "write"]

#: in the table of absent choices: every class is absent
_EVERY = "*"


def read(path: str, options: LabelStudioOptions) -> tuple[LabelTable, ImportReport]:
    """Read image labels from an export of Label Studio; its kind is told by the content.

    A choice in a prediction is a label of a model. Where the result, or else the prediction, has a confidence c from 0
    to 1, the score of the label is log(c / (1 - c)) for a present class, and the opposite for an absent one.

    Raises:
        UserError: not an export; tasks without an image, answers that are no choices (all are listed); several
            controls or keys that may be meant; annotators that contradict each other under ``conflicts=error``.
    """
    report = ImportReport(path, "labelstudio")
    export = _open(path, options, report)
    report.coding = _coding(export, options)
    records, addresses = Records(report, options), Addresses(options.image_names)
    denied = {tidy(choice): name for choice, name in (options.absent_choices or {}).items()}
    model = options.answers == "predictions"

    def say(name: str, value: int, confidence: object) -> None:
        if name.strip():
            score = value * before_sigmoid(confidence) if is_probability(confidence) else math.nan
            records.say(name, value, origin=MODEL if model else 0, score=score)

    for number, answer in enumerate(export.answers):
        image = addresses.name(answer.address, lambda number=number: export.place([number])[0])  # type: ignore[misc]
        records.begin(image, answered=answer.answered, model=model)
        for name, confidence in answer.present:
            other = denied.get(tidy(name)) if denied else None
            if other is None:
                say(name, 1, confidence)
            elif other.strip() == _EVERY:
                records.deny_all()
            else:
                say(other, -1, confidence)
        for name, confidence in answer.absent:
            say(name, -1, confidence)
    addresses.check(path)
    return records.finish(lambda records, _: export.place(records), votes=True), report


def _coding(export: Export, options: LabelStudioOptions) -> str:
    parts = [f"a choice of {export.present} = present"] if export.present else []
    parts += [f"a choice of {export.absent} = absent"] if export.absent else []
    parts += [
        f"{choice} = {'every class' if name.strip() == _EVERY else name} absent"
        for choice, name in (options.absent_choices or {}).items()
    ]
    return ", ".join(parts)


def _open(path: str, options: LabelStudioOptions, report: ImportReport) -> Export:
    """Read an export, of whatever kind.

    Raises:
        UserError: not an export; tasks of another layout or without an image, answers that are no choices (all are
            listed); no control with choices, or several.
    """
    try:
        with open(path, "rb") as file:
            start = file.read(4096)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    if start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] not in (b"[", b"{"):
        return read_csv(path, options, report)
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
    return (read_tasks if full else read_min)(path, items, options, report)


class _Head(Struct):
    data: Raw = Raw(b"null")


def _is_task(item: Raw) -> bool:
    try:
        return bytes(msgspec.json.decode(item, type=_Head).data).startswith(b"{")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
