"""FiftyOne: classifications in ``labels.json``, or in the fields of ``samples.json``."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from partlabel.core.errors import UserError
from partlabel.core.trouble import plainly
from partlabel.formats import options as read_as
from partlabel.formats.fiftyone.writing import write
from partlabel.formats.reading import load_json
from partlabel.formats.record_options import NEGATIVE, POSITIVE, RecordOptions, choose_signs, weak_option
from partlabel.formats.records import Records, before_sigmoid, is_probability
from partlabel.formats.report import ImportReport, Tally, plural
from partlabel.formats.spine import option
from partlabel.labels.pairs import MODEL, ORIGINS
from partlabel.labels.table import LabelTable

__all__ = ["FiftyOneOptions", "read", "write"]

#: kinds of values that hold classes
_KINDS = ("Classification", "Classifications", "Detections")
#: scores from here on do not fit into 32 bits, and are taken from the confidence
_LARGEST = 3e38
_WORDS = {1: "present", -1: "absent"}


@dataclass(frozen=True, kw_only=True)
class FiftyOneOptions(RecordOptions):
    """Options of the format ``fiftyone``."""

    field: str | None = option(
        None,
        read_as.text,
        "field of samples.json with the present classes; otherwise positive_labels, or the only field with labels",
    )
    negative_field: str | None = option(
        None,
        read_as.text,
        "field of samples.json with the absent classes; otherwise negative_labels beside positive_labels",
    )
    negative: str | None = option(
        None, read_as.text, "second labels.json, or its folder, that lists the absent classes of the same images"
    )
    weak: str = weak_option("with a confidence between 0 and 1")


def read(path: str, options: FiftyOneOptions) -> tuple[LabelTable, ImportReport]:
    """Read a FiftyOneImageClassificationDataset or a FiftyOneDataset.

    Args:
        path: ``labels.json``, ``samples.json``, or the folder of either.
        options: of the format.

    Raises:
        UserError: not one of these; labels that cannot be read, class numbers without a class (all are listed); label
            fields to choose from; as ``spine.finish``.
    """
    source = _open(path)
    report = ImportReport(path, "fiftyone")
    reader = _Reader(report, options)
    (reader.read_classes if source.content.samples is None else reader.read_samples)(source)
    reader.records.check(source.path, "label")
    report.coding += ", null = not labelled"
    report.rows = len(reader.records.images)
    if reader.nameless:
        report.dropped["labels without a class name"] = Tally.of(reader.nameless)
    return reader.records.finish(lambda _, parts: [reader.parts[part] for part in parts], parts=2), report


class ClassLists(msgspec.Struct):
    """Class lists: the one of a ``labels.json``, or those of the fields of samples and the one for all fields."""

    classes: list[Any] | dict[str, list[Any] | None] | None = None
    default_classes: list[Any] | None = None


class Content(ClassLists):
    """A ``labels.json``, ``samples.json`` or ``metadata.json``, or a data set that was written into one file."""

    labels: dict[str, Any] | None = None
    samples: list[msgspec.Raw] | None = None
    info: ClassLists | None = None


@dataclass
class Source:
    """What is read: a file, or the folder with a file for each sample (``files``)."""

    path: str
    content: Content
    files: Sequence[str] = ()

    def place(self, sample: int) -> str:
        """Return where a sample is."""
        return self.files[sample] if self.files else f"{self.path}: sample {sample + 1}"

    def class_list(self, name: str) -> list[Any] | None:
        """Return the class list of a field of the samples: its own, or the one for all fields."""
        path = os.path.join(os.path.dirname(self.path), "metadata.json")
        contents = [self.content]
        if os.path.isfile(path):
            contents.append(load_json(path, Content, "the metadata of a FiftyOne data set"))
        for lists in (lists for content in contents for lists in (content, content.info) if lists is not None):
            own = lists.classes.get(name) if isinstance(lists.classes, dict) else None
            if found := own or lists.default_classes:
                return found
        return None


def _open(path: str) -> Source:
    """Read ``labels.json`` or ``samples.json``; of a folder the one that is in it."""
    if not os.path.isdir(path):
        return Source(path, _load(path))
    for name in ("samples.json", "labels.json"):
        if os.path.isfile(inside := os.path.join(path, name)):
            return Source(inside, _load(inside))
    folder = os.path.join(path, "samples")
    if not os.path.isdir(folder):
        raise UserError(f"{path}: the folder has no samples.json and no labels.json")
    files = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".json")]
    samples = [load_json(file, msgspec.Raw, "a sample of a FiftyOne data set") for file in files]
    return Source(folder, Content(samples=samples), files)


def _load(path: str) -> Content:
    content = load_json(path, Content, "a file of FiftyOne")
    if content.samples is None and content.labels is None:
        raise UserError(f"{path}: not a file of FiftyOne: it has neither samples nor labels")
    return content


class Label(msgspec.Struct):
    """One label of a sample: the class, and what else FiftyOne or partlabel has written beside it."""

    label: Any = None
    confidence: Any = None
    origin: Any = None
    score: Any = None
    round: Any = None


class LabelField(Label):
    """The value of a field: one label, or a list of them."""

    kind: str | None = msgspec.field(name="_cls", default=None)
    classifications: list[Label] | None = None
    detections: list[Label] | None = None

    def labels(self) -> Sequence[Label]:
        """Return the labels.

        Raises:
            ValueError: a value of another kind.
        """
        if self.kind not in _KINDS:
            raise ValueError(f"a {self.kind or 'value without _cls'} holds no classes")
        if self.kind == "Classification":
            return [self]
        return (self.classifications if self.kind == "Classifications" else self.detections) or ()


class _Kind(msgspec.Struct):
    kind: Any = msgspec.field(name="_cls", default=None)


class _Reader:
    """Reads the labels of one or two files or fields: the ``parts``, each with its class list."""

    def __init__(self, report: ImportReport, options: FiftyOneOptions) -> None:
        self.report, self.options = report, options
        self.records = Records(report, options, weak=options.weak)
        self.parts: list[str] = []
        self.lists: list[Sequence[str]] = []
        self.nameless: list[str] = []

    def read_classes(self, source: Source) -> None:
        """Take in ``labels.json``, and the second one with the absent classes.

        Raises:
            UserError: options for fields; a second file that cannot be read or is not this layout.
        """
        options, report = self.options, self.report
        if options.field is not None or options.negative_field is not None:
            raise UserError(
                f"{source.path}: this file has no fields; a second one with absent classes is negative=FILE"
            )
        sources, report.layout, report.coding = [source], "labels.json", "a listed class = present"
        if options.negative is not None:
            sources.append(_open(options.negative))
            path = sources[1].path
            if sources[1].content.labels is None:
                raise UserError(f"{path}: negative names a labels.json, and this file has no labels")
            report.layout += f" and {path}"
            report.coding += f", a class listed in {path} = absent"
        for value, own in zip((1, -1), sources, strict=False):
            classes = own.content.classes
            self._add_part(own.path, classes if isinstance(classes, list) else None)
            for image, target in (own.content.labels or {}).items():
                if not (name := image.strip()):
                    self.records.refuse([f"{own.path}: an entry without image name"])
                    continue
                self.records.begin(name, answered=target is not None)
                for entry in target if isinstance(target, list) else [] if target is None else [target]:
                    self._say(name, _label(entry), value, len(self.parts) - 1)

    def read_samples(self, source: Source) -> None:
        """Take in ``samples.json``.

        Raises:
            UserError: ``negative`` given; no field with labels, or several to choose from.
        """
        options, report = self.options, self.report
        if options.negative is not None:
            raise UserError(
                f"{source.path}: negative is for a second labels.json; a field is named with negative_field"
            )
        fields = _choose(source, options)
        report.layout = f"samples, {' and '.join(fields)}"
        report.coding = ", ".join(f"a class listed in {name} = {_WORDS[value]}" for name, value in fields.items())
        for name in fields:
            self._add_part(f"{source.path}, {name}", source.class_list(name))
        decoder = _decoder(list(fields))
        for position, raw in enumerate(source.content.samples or []):
            try:
                sample = decoder.decode(raw)
                image = sample.filepath.strip()
                values = [getattr(sample, f"field{i}") for i in range(len(fields))]
                labels = [[] if value is None else value.labels() for value in values]
                if not image:
                    raise ValueError("the filepath is blank")
            except (ValueError, RecursionError) as error:
                self.records.refuse([f"{source.place(position)}: {plainly(error)}"])
                continue
            self.records.begin(image, answered=any(value is not None for value in values))
            for part, (listed, value) in enumerate(zip(labels, fields.values(), strict=True)):
                for label in listed:
                    self._say(image, label, value, part)

    def _add_part(self, place: str, classes: Sequence[Any] | None) -> None:
        """Add a file or field, and the class list that its class numbers refer to."""
        self.parts.append(place)
        self.lists.append(self.options.classes or ())
        if classes:
            wrong = [name for name in classes if not isinstance(name, str)]
            self.records.refuse(f"{place}: {name!r} in the class list is no name" for name in wrong)
            self.lists[-1] = [name if isinstance(name, str) else "" for name in classes]
            self.records.listed.update(dict.fromkeys(self.lists[-1]))

    def _say(self, image: str, label: Label, value: int, part: int) -> None:
        """Take in one label of the last record: +1 present, -1 absent."""
        name, classes, place = label.label, self.lists[part], f"{self.parts[part]}: {image}"
        if type(name) is int:
            if not 0 <= name < len(classes):
                known = f"0 to {len(classes) - 1} are known" if classes else "there is no class list (classes=NAMES)"
                self.records.refuse([f"{place}: class number {name}, {known}"])
                return
            name = classes[name]
        elif name is not None and not isinstance(name, str):
            self.records.refuse([f"{place}: {name!r} is no class"])
            return
        if name is None or not name.strip():
            self.nameless.append(place)
            return
        try:
            score = _score(label, value, self.options.weak)
        except ValueError as error:
            self.records.refuse([f"{place}, {name}: {error}"])
            return
        if score is None:
            origin = ORIGINS.index(label.origin) if label.origin in ORIGINS else 0
            self.records.say([name], value, part=part, origin=origin)
        else:
            round = label.round if type(label.round) is int and 0 <= label.round < 2**15 else -1
            self.records.say([name], value, part=part, origin=MODEL, score=score, round=round)


def _label(entry: Any) -> Label:
    """Return one entry of a ``labels.json``: a class, or an object with a label, a confidence and attributes."""
    if not isinstance(entry, dict):
        return Label(entry)
    more = entry.get("attributes")
    more = more if isinstance(more, dict) else {}
    return Label(entry.get("label"), entry.get("confidence"), more.get("origin"), more.get("score"), more.get("round"))


def _score(label: Label, value: int, weak: str) -> float | None:
    """Return the score before the sigmoid of a label that a model gave, NaN if it has none; None: a person gave it.

    The confidence is that the class is present, as in the Open Images of FiftyOne's zoo: a checked absent label has 0.

    Raises:
        ValueError: a confidence that is none.
    """
    confidence = None if isinstance(label.confidence, dict) else label.confidence  # how MongoDB writes NaN, infinity
    if weak == "given" and label.origin != ORIGINS[MODEL]:
        return None
    if confidence is not None and not is_probability(confidence):
        raise ValueError(f"the confidence {confidence!r} is not between 0 and 1")
    if label.origin == ORIGINS[MODEL]:
        if type(label.score) in (int, float) and abs(label.score) < _LARGEST:
            return float(label.score)
        return math.nan if confidence is None else before_sigmoid(confidence)
    clean = confidence == 1 or (confidence == 0 and value < 0) or label.origin in ORIGINS
    return None if confidence is None or clean else before_sigmoid(confidence)


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
    return choose_signs(source.path, list(kinds), list(kinds), (options.field, options.negative_field), there, "field")


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
            wrong.append(f"{source.place(position)}: {plainly(error)}")
    if wrong:
        raise UserError(f"{source.path}: {plural(len(wrong), 'sample')} cannot be read", wrong)
    return found
