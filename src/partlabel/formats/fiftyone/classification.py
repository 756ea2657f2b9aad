"""FiftyOneImageClassificationDataset: ``labels.json`` with the classes of each image."""

from __future__ import annotations

from typing import Any

from partlabel.core.errors import UserError
from partlabel.formats.fiftyone.documents import Source, open_source
from partlabel.formats.fiftyone.gathering import Gathered, Label


def gather(source: Source, gathered: Gathered) -> None:
    """Take in ``labels.json``, and the second one with the absent classes.

    Raises:
        UserError: options for fields; a second file that cannot be read or is not this layout.
    """
    options, report = gathered.options, gathered.report
    if options.field is not None or options.negative_field is not None:
        raise UserError(f"{source.path}: this file has no fields; a second one with absent classes is negative=FILE")
    _gather(source, 1, gathered)
    report.layout = "labels.json"
    report.coding = "a listed class = present"
    if options.negative is not None:
        second = open_source(options.negative)
        if second.content.labels is None:
            raise UserError(f"{second.path}: negative names a labels.json, and this file has no labels")
        _gather(second, -1, gathered)
        report.layout += f" and {second.path}"
        report.coding += f", a class listed in {second.path} = absent"
    report.coding += ", null = not labelled"


def _gather(source: Source, value: int, gathered: Gathered) -> None:
    content = source.content
    classes = gathered.class_list(source.path, content.classes if isinstance(content.classes, list) else None)
    number = gathered.source(source.path)
    for image, target in (content.labels or {}).items():
        if not (name := image.strip()):
            gathered.wrong.append(f"{source.path}: an entry without image name")
            continue
        gathered.see(name, labelled=target is not None)
        for entry in [] if target is None else target if isinstance(target, list) else [target]:
            gathered.add(name, _label(entry), value, number, classes)


def _label(entry: Any) -> Label:
    """Return one entry: a class, or an object with a label, a confidence and attributes."""
    if not isinstance(entry, dict):
        return Label(entry)
    more = entry.get("attributes")
    more = more if isinstance(more, dict) else {}
    return Label(entry.get("label"), entry.get("confidence"), more.get("origin"), more.get("score"), more.get("round"))
