"""JSON lines of annotation services, an object for each image: SageMaker, Vertex AI, Azure ML, Labelbox, Prodigy."""

from __future__ import annotations

import codecs
import csv
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from partlabel.core.errors import UserError
from partlabel.core.trouble import plainly
from partlabel.formats import options as read_as
from partlabel.formats.addresses import IMAGE_NAMES, Addresses
from partlabel.formats.manifest.services import ML_USE, SERVICES, Answer, Item, Job, Service
from partlabel.formats.record_options import RecordOptions, weak_option
from partlabel.formats.records import Records, before_sigmoid, is_probability
from partlabel.formats.report import ImportReport, Tally, plural
from partlabel.formats.spine import option
from partlabel.labels.pairs import MODEL
from partlabel.labels.table import LabelTable

__all__ = ["ManifestOptions", "read"]


@dataclass(frozen=True, kw_only=True)
class ManifestOptions(RecordOptions):
    """Options of the format ``manifest``."""

    field: str | None = option(
        None,
        read_as.text,
        "the label attribute (SageMaker) or the question (Labelbox) that is read, where there are several",
    )
    weak: str = weak_option("with a confidence below 1, or marked as a machine's")
    split: list[str] | None = option(
        None, read_as.names, "the parts that are read, such as training: names between commas; otherwise all"
    )
    image_names: str = option("path", read_as.text, IMAGE_NAMES)


def read(path: str, options: ManifestOptions) -> tuple[LabelTable, ImportReport]:
    """Read image labels from an export with a JSON object a line; the service is told by the keys of the first.

    Also the CSV files of Vertex AI and AutoML without header: part, address, and any number of labels.

    Raises:
        UserError: not such a file; lines that cannot be read (all are listed); label attributes or questions to choose
            from; as ``spine.finish``.
    """
    report = ImportReport(path, "manifest")
    lines = _lines(path)
    service = _service(path, lines)
    job, report.layout = Job(""), service.name
    if service.fields is not None:
        job.field = _choose_field(path, options, service.fields([item for _, item in lines]))
        report.layout += f", {job.field}"
    report.coding = service.coding
    records = Records(report, options, weak=options.weak)
    addresses = Addresses(options.image_names)
    places: list[str] = []
    parts: Counter[str] = Counter()
    for line, item in lines:
        place = f"{path}:{line}"
        try:
            answers = list(service.read(item, job, place))
        except ValueError as error:
            records.refuse([f"{place} {plainly(error)}"])
            continue
        except (KeyError, TypeError, AttributeError):
            records.refuse([f"{place} not as {service.name} writes it"])
            continue
        for answer in answers:
            parts[answer.part] += 1
            if options.split is None or answer.part in options.split:
                _take(records, addresses.name(answer.address, lambda place=place: place), answer, options.weak)  # type: ignore[misc]
                places.append(place)
    records.check(path, "line")
    addresses.check(path)
    _describe_parts(report, options.split, parts)
    records.listed.update(job.listed)
    for reason, where in job.dropped.items():
        report.dropped[reason] = Tally.of(where)
    votes = service.votes and not any("label" in item for _, item in lines)
    return records.finish(lambda rows, _: [places[row] for row in rows], votes=votes), report


def _take(records: Records, image: str, answer: Answer, weak: str) -> None:
    records.begin(image, answered=answer.answered, model=answer.model and weak != "given")
    for label in answer.labels:
        model = (answer.model or label.confidence is not None) and weak != "given"
        confidence = label.confidence if is_probability(label.confidence) else None
        score = math.nan if confidence is None or not model else label.value * before_sigmoid(confidence)
        records.say([label.name], label.value, origin=MODEL if model else 0, score=score)


def _describe_parts(report: ImportReport, wanted: Sequence[str] | None, parts: Counter[str]) -> None:
    named = {name or "(no name)": count for name, count in parts.items()}
    if wanted is not None and (unknown := [name for name in wanted if name not in parts]):
        raise UserError(f"{report.source}: no part {' or '.join(unknown)}; there are", list(named))
    if wanted is not None and (others := {name: count for name, count in parts.items() if name not in wanted}):
        report.dropped["lines of other parts"] = Tally.of(others, sum(others.values()))
    elif wanted is None and len(parts) > 1:
        report.notes.append(f"parts: {', '.join(f'{name} {count:,}' for name, count in named.items())}")


def _lines(path: str) -> list[tuple[int, Item]]:
    """Return the objects of the lines that are not blank, with their line numbers; of a CSV file its rows."""
    try:
        content = Path(path).read_bytes().removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    if b"{" not in content[:100].lstrip()[:1]:
        return _rows(path, content)
    lines: list[tuple[int, Item]] = []
    wrong = []
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            if line.strip():
                lines.append((number, _decoded(line)))
        except (ValueError, RecursionError) as error:
            wrong.append(f"{path}:{number} {plainly(error)}")
    if wrong:
        raise UserError(f"{path}: {plural(len(wrong), 'line')} without a JSON object", wrong)
    return lines


def _decoded(line: bytes) -> dict[str, Any]:
    """Return the object of a line; NaN, which Python writes although JSON has none, is null."""
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        if b"NaN" not in line and b"Infinity" not in line:
            raise
        plain = json.loads(line, parse_constant=lambda _: None)
        return msgspec.convert(plain, dict[str, Any])


def _rows(path: str, content: bytes) -> list[tuple[int, Item]]:
    """Return the rows of a CSV file of Vertex AI in the form of its JSON lines."""
    try:
        reader = csv.reader(content.decode("utf-8").splitlines(keepends=True), strict=True)
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(map(str.strip, row))]
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: neither JSON lines nor a CSV file of Vertex AI") from error
    lines: list[tuple[int, Item]] = []
    wrong = []
    for line, row in rows:
        at = next((i for i, cell in enumerate(row[:2]) if "://" in cell), None)
        if at is None:
            wrong.append(f"{path}:{line} {','.join(row)[:60]}")
            continue
        names = [name for name in row[at + 1 :] if name]
        if len(names) > 1 and all(map(_is_number, names[1:])):  # the label of a box and its corners
            names = names[:1]
        item: dict[str, Any] = {"imageGcsUri": row[at], "dataItemResourceLabels": {ML_USE: row[0] if at else ""}}
        if names:
            item["classificationAnnotations"] = [{"displayName": name} for name in names]
        lines.append((line, item))
    if wrong or not lines:
        raise UserError(
            f"{path}: neither JSON lines nor a CSV file of Vertex AI (part, address of an image, labels; no header)",
            wrong,
        )
    return lines


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _service(path: str, lines: Sequence[tuple[int, Item]]) -> Service:
    for service in SERVICES:
        if service.key in lines[0][1]:
            if others := [f"{path}:{line}" for line, item in lines if service.key not in item]:
                raise UserError(f"{path}: {plural(len(others), 'line')} without {service.key}", others)
            return service
    keys = ", ".join(f"{service.key} ({service.name})" for service in SERVICES)
    raise UserError(
        f"{path}: no export that is known; its lines have one of {keys}. Other JSON lines are read by huggingface",
        [f"{path}:{lines[0][0]} {', '.join(lines[0][1])[:200]}"],
    )


def _choose_field(path: str, options: ManifestOptions, found: Mapping[str, str]) -> str:
    wanted = options.field
    if wanted is None and len(found) == 1:
        return next(iter(found))
    if wanted is not None and wanted in found:
        return wanted
    listed = [f"{name}: {kind}" for name, kind in found.items()]
    if wanted is not None:
        raise UserError(f"{path}: no labels under {wanted}; there are", listed)
    problem = "several kinds of labels; name one with field=NAME" if found else "no labels of images"
    raise UserError(f"{path}: {problem}", listed)
