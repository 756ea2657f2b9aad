"""FiftyOneDataset: ``samples.json`` with a JSON object for each sample, whose fields hold the labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from partlabel.core.errors import UserError
from partlabel.formats.fiftyone.documents import Source
from partlabel.formats.fiftyone.gathering import Gathered, Label
from partlabel.formats.fiftyone.options import FiftyOneOptions
from partlabel.formats.report import plural
from partlabel.images.locate import name_below

#: fields with checked present and absent classes, as the Open Images of FiftyOne's zoo have them
POSITIVE, NEGATIVE = "positive_labels", "negative_labels"
#: kinds of values that hold classes
_KINDS = ("Classification", "Classifications", "Detections")


class LabelField(Label):
    """The value of a field: one label, or a list of them."""

    kind: str | None = msgspec.field(name="_cls", default=None)
    classifications: list[Label] | None = None
    detections: list[Label] | None = None

    def labels(self) -> list[Label]:
        """Return the labels.

        Raises:
            ValueError: a value of another kind.
        """
        if self.kind not in _KINDS:
            raise ValueError(f"a {self.kind or 'value without _cls'} holds no classes")
        if self.kind == "Classification":
            return [self]
        return (self.classifications if self.kind == "Classifications" else self.detections) or []


class _Kind(msgspec.Struct):
    kind: Any = msgspec.field(name="_cls", default=None)


def gather(source: Source, gathered: Gathered) -> None:
    """Take in the samples.

    Raises:
        UserError: ``negative`` given; no field with labels, or several to choose from.
    """
    options, report = gathered.options, gathered.report
    if options.negative is not None:
        raise UserError(f"{source.path}: negative is for a second labels.json; a field is named with negative_field")
    fields = _choose(source, options)
    report.layout = f"samples, {' and '.join(fields)}"
    words = {1: "present", -1: "absent"}
    report.coding = ", ".join(f"a class listed in {name} = {words[value]}" for name, value in fields.items())
    report.coding += ", null = not labelled"
    lists = [gathered.class_list(f"{source.path}, {name}", source.class_list(name)) for name in fields]
    numbers = [gathered.source(f"{source.path}, {name}") for name in fields]
    decoder = _decoder(list(fields))
    for position, raw in enumerate(source.content.samples or []):
        try:
            sample = decoder.decode(raw)
            image = name_below(sample.filepath.strip(), options.images)
            values = [getattr(sample, f"field{i}") for i in range(len(fields))]
            labels = [[] if value is None else value.labels() for value in values]
            if not image:
                raise ValueError("the filepath is blank")
        except (ValueError, RecursionError) as error:
            gathered.wrong.append(f"{source.place(position)}: {error}")
            continue
        gathered.see(image, labelled=any(value is not None for value in values))
        for listed, value, number, classes in zip(labels, fields.values(), numbers, lists, strict=True):
            for label in listed:
                gathered.add(image, label, value, number, classes)


def _decoder(fields: list[str]) -> msgspec.json.Decoder[Any]:
    """Return what decodes the file path and some fields of a sample; field i becomes the attribute ``field{i}``."""
    columns = [
        (f"field{i}", LabelField | None, msgspec.field(name=name, default=None)) for i, name in enumerate(fields)
    ]
    return msgspec.json.Decoder(msgspec.defstruct("Sample", [("filepath", str), *columns]))


def _choose(source: Source, options: FiftyOneOptions) -> dict[str, int]:
    """Return the fields that are read, each with what it says: +1 present, -1 absent."""
    kinds = _label_fields(source)
    there = [f"{name}: {kind}" for name, kind in kinds.items()]
    wanted = [name for name in (options.field, options.negative_field) if name is not None]
    if unknown := [name for name in wanted if name not in kinds]:
        raise UserError(
            f"{source.path}: no sample has labels in {' or '.join(unknown)}; the fields with labels are", there
        )
    positive = options.field
    if positive is None and options.negative_field is None:
        if POSITIVE in kinds:
            positive = POSITIVE
        elif len(kinds) == 1:
            (positive,) = kinds
        else:
            problem = "more than one field has labels" if kinds else "no field has labels"
            raise UserError(f"{source.path}: {problem}; name it with field=NAME", there)
    negative = options.negative_field
    if negative is None and positive == POSITIVE and NEGATIVE in kinds:
        negative = NEGATIVE
    if positive == negative:
        raise UserError(f"{source.path}: field and negative_field are both {positive}")
    pairs: Mapping[str | None, int] = {positive: 1, negative: -1}
    return {name: value for name, value in pairs.items() if name is not None}


def _label_fields(source: Source) -> dict[str, str]:
    """Return the names of the fields that hold classes, with their kind.

    Raises:
        UserError: samples that are no objects; all are listed.
    """
    decoder, kind_of = msgspec.json.Decoder(dict[str, msgspec.Raw]), msgspec.json.Decoder(_Kind)
    found: dict[str, str] = {}
    wrong = []
    for position, raw in enumerate(source.content.samples or []):
        try:
            for name, value in decoder.decode(raw).items():
                if name in (POSITIVE, NEGATIVE):  # there may be no label in any sample
                    found[name] = "Classifications"
                elif name not in found and bytes(value).lstrip()[:1] == b"{":
                    kind = kind_of.decode(value).kind
                    if isinstance(kind, str) and kind in _KINDS:
                        found[name] = kind
        except (ValueError, RecursionError) as error:
            wrong.append(f"{source.place(position)}: {error}")
    if wrong:
        raise UserError(f"{source.path}: {plural(len(wrong), 'sample')} cannot be read", wrong)
    return found
