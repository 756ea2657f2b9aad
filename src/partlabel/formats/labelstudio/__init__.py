"""Label Studio: the Choices that people made (full JSON, JSON-MIN, CSV, TSV), and tasks with predictions to check."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from partlabel.core.errors import UserError
from partlabel.formats.addresses import Addresses
from partlabel.formats.class_names import tidy
from partlabel.formats.labelstudio.exports import open_export
from partlabel.formats.labelstudio.options import LabelStudioOptions, is_filled
from partlabel.formats.labelstudio.writing import write
from partlabel.formats.records import Records, before_sigmoid, is_probability
from partlabel.formats.report import ImportReport, plural
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
    export = open_export(path, options, report)
    records, addresses = Records(report, options), Addresses(options.image_names)
    model = options.answers == "predictions"
    denied = {tidy(choice): name for choice, name in (options.absent_choices or {}).items()}

    def say(names: Iterable[str], value: int, confidence: Any) -> None:
        score = value * before_sigmoid(confidence) if is_probability(confidence) else math.nan
        records.say(names, value, origin=MODEL if model else 0, score=score)

    nameless = []
    for number, entry in enumerate(export.entries):
        if not is_filled(address := entry.data.get(export.image)):
            nameless.append(number)
            continue
        image = addresses.name(address, lambda number=number: export.place([number])[0])  # type: ignore[misc]
        records.begin(image, answered=entry.chosen is not None, model=model)
        chosen = entry.chosen or {}
        for answer in chosen.get(export.present, ()):
            names, confidence = answer.names, answer.confidence
            for name in (name for name in names if denied and tidy(name) in denied):
                if denied[tidy(name)].strip() == _EVERY:
                    records.deny_all()
                else:
                    say([denied[tidy(name)]], -1, confidence)
            say([name for name in names if tidy(name) not in denied] if denied else names, 1, confidence)
        for answer in chosen.get(export.absent, ()):
            say(answer.names, -1, answer.confidence)
    if nameless:
        what = f"{plural(len(nameless), 'record')} without the address of an image as {export.image!r}"
        raise UserError(f"{path}: {what}", export.place(nameless))
    addresses.check(path)
    parts = [f"a choice of {export.present} = present"] if export.present else []
    parts += [f"a choice of {export.absent} = absent"] if export.absent else []
    for name, other in (options.absent_choices or {}).items():
        parts.append(f"{name} = {'every class' if other.strip() == _EVERY else other} absent")
    report.coding = ", ".join(parts)
    return records.finish(lambda records, _: export.place(records), votes=True), report
