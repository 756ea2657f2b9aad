"""What the lines of each annotation service say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

ML_USE = "aiplatform.googleapis.com/ml_use"
#: lists of annotations in lines of Vertex AI, and a single one
_VERTEX = ("classificationAnnotations", "boundingBoxAnnotations", "polygonAnnotations", "classificationAnnotation")
_CLASSIFICATION, _DETECTION = "groundtruth/image-classification", "groundtruth/object-detection"


class Label(NamedTuple):
    """What is said of a class: +1 present, -1 absent, 0 undecided; ``confidence`` of a model in it, or None."""

    name: str
    value: int = 1
    confidence: float | None = None


class Answer(NamedTuple):
    """What one person or model said of an image."""

    address: str
    labels: Sequence[Label]
    answered: bool = True
    model: bool = False
    part: str = ""


Item = Mapping[str, Any]


@dataclass
class Job:
    """One file that is being read: the label attribute or question, what is left out, and the classes it lists."""

    field: str
    dropped: dict[str, list[str]] = field(default_factory=dict)
    listed: dict[str, None] = field(default_factory=dict)

    def drop(self, reason: str, place: str) -> None:
        """Count what is left out."""
        self.dropped.setdefault(reason, []).append(place)


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{what} is no name: {value!r}"[:100])
    return value.strip()


# SageMaker Ground Truth: "source-ref", a label attribute, and its "-metadata"


def _sagemaker_fields(items: Sequence[Item]) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in items:
        for name, value in item.items():
            if name.endswith("-metadata") and isinstance(value, dict):
                kind = str(value.get("type", ""))
                named = "class-map" in value or "class-name" in value
                if kind.startswith((_CLASSIFICATION, _DETECTION)) or (not kind and named):
                    found.setdefault(name.removesuffix("-metadata"), kind or "no type")
    return found


def _sagemaker(item: Item, job: Job, place: str) -> Iterator[Answer]:
    address = _text(item["source-ref"], "source-ref")
    about = item.get(f"{job.field}-metadata")
    if about is None or "failure-reason" in about or job.field not in item:
        if about is not None and "failure-reason" in about:
            job.drop("labels whose making failed", place)
        yield Answer(address, (), answered=False)
        return
    value, model = item[job.field], about.get("human-annotated") == "no"
    names, confidences = about.get("class-map", {}), about.get("confidence-map", {})
    if not isinstance(value, dict | list):
        confidence = about.get("confidence") if model else None
        yield Answer(address, [Label(_text(about["class-name"], "class-name"), 1, confidence)], model=model)
        return
    if isinstance(value, dict):
        numbers = [box["class_id"] for box in value["annotations"]]
        sure = [box.get("confidence") for box in about.get("objects", [])] or [None] * len(numbers)
    else:
        numbers, sure = value, [confidences.get(str(number)) for number in value]
    if unknown := [number for number in numbers if str(number) not in names]:
        raise ValueError(f"class numbers that are not in the class-map: {unknown}")
    labels = [
        Label(_text(names[str(number)], "class-map"), 1, one if model else None)
        for number, one in zip(numbers, sure, strict=True)
    ]
    yield Answer(address, labels, model=model)


# Vertex AI


def _vertex(item: Item, job: Job, place: str) -> Iterator[Answer]:
    part = (item.get("dataItemResourceLabels") or {}).get(ML_USE, "")
    found = [item[key] for key in _VERTEX if item.get(key) is not None]
    labels = [
        Label(_text(one["displayName"], "displayName"))
        for own in found
        for one in (own if isinstance(own, list) else [own])
    ]
    yield Answer(_text(item["imageGcsUri"], "imageGcsUri"), labels, answered=bool(found), part=str(part))


# Azure Machine Learning


def _azure(item: Item, job: Job, place: str) -> Iterator[Answer]:
    address, value, sure = _text(item["image_url"], "image_url"), item.get("label"), item.get("label_confidence")
    own = value if isinstance(value, list) else [] if value in (None, "") else [value]
    names = [_text(one["label"] if isinstance(one, dict) else one, "label") for one in own]
    sure = sure if isinstance(sure, list) and len(sure) == len(names) else [sure] * len(names)
    labels = [Label(name, 1, None if c in (None, 1) else c) for name, c in zip(names, sure, strict=True)]
    yield Answer(address, labels, answered=value not in (None, ""))


# Labelbox


def _labelbox_labels(item: Item) -> Iterator[Item]:
    for project in (item.get("projects") or {}).values():
        yield from project.get("labels") or ()


def _labelbox_questions(items: Sequence[Item]) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in items:
        for label in _labelbox_labels(item):
            for own in (label.get("annotations") or {}).get("classifications") or ():
                kind = next((key for key in ("checklist_answers", "radio_answer") if key in own), None)
                if kind is not None:
                    found.setdefault(str(own.get("name")), kind.split("_")[0])
    return found


def _labelbox(item: Item, job: Job, place: str) -> Iterator[Answer]:
    row = item["data_row"]
    name = next(filter(None, (row.get(key) for key in ("external_id", "global_key", "row_data", "id"))), "")
    address, any_label = _text(name, "data_row"), False
    for label in _labelbox_labels(item):
        if (label.get("performance_details") or {}).get("skipped"):
            job.drop("labels that were skipped", place)
            continue
        said = label.get("annotations") or {}
        if said.get("objects"):
            job.drop("objects of Labelbox, which are no labels of whole images", place)
        own = [one for one in said.get("classifications") or () if one.get("name") == job.field]
        chosen = [a for one in own for a in one.get("checklist_answers") or [one.get("radio_answer")] if a]
        yield Answer(address, [Label(_text(one["name"], "answer")) for one in chosen])
        any_label = True
    if not any_label:
        yield Answer(address, (), answered=False)


# Prodigy, and other answers of people with accept, reject and ignore


def _prodigy(item: Item, job: Job, place: str) -> Iterator[Answer]:
    about = item["meta"] if isinstance(item.get("meta"), dict) else {}
    names = [item.get("path"), item.get("image"), item.get("file_name"), about.get("path"), about.get("file")]
    usable = [name for name in names if isinstance(name, str) and name.strip() and not name.startswith("data:")]
    if not usable:
        raise ValueError("no image name in path or image")
    answer = item.get("answer", "accept")
    if answer not in ("accept", "reject", "ignore"):
        raise ValueError(f"the answer {answer!r} is not accept, reject or ignore")
    options = {one["id"]: one.get("text") for one in item.get("options") or ()}
    job.listed.update(dict.fromkeys(_choice(number, options) for number in options))
    chosen = item.get("accept")
    if isinstance(item.get("label"), str) and chosen is None:
        value = {"accept": 1, "reject": -1, "ignore": 0}[answer]
        yield Answer(usable[0], [Label(item["label"], value)], answered=answer != "ignore")
        return
    if answer != "accept":
        job.drop(f"questions that were answered with {answer}", place)
        yield Answer(usable[0], (), answered=False)
        return
    labels = [
        Label(_choice(one, options), value)
        for key, value in (("accept", 1), ("reject", -1), ("ignore", 0))
        for one in (item.get(key) or () if isinstance(item.get(key), list | None) else [item[key]])
    ]
    if chosen is None and "reject" not in item:
        labels = [Label(_text(span["label"], "label")) for span in item.get("spans") or ()]
    yield Answer(usable[0], labels)


def _choice(number: Any, options: Mapping[Any, Any]) -> str:
    """Return the name of a choice: its id where that is text, or else the text that was shown."""
    return _text(number if isinstance(number, str) else options.get(number), "choice")


@dataclass(frozen=True)
class Service:
    """One service.

    Attributes:
        name: in words.
        key: that each of its lines has.
        read: (object, job, place) -> answers; ValueError, KeyError, TypeError, AttributeError: not as it should be.
        coding: what its labels mean.
        fields: objects -> the label attributes or questions to choose from, each with its kind; None: no choice.
        votes: several answers about one image are people who answered the same question.
    """

    name: str
    key: str
    read: Callable[[Item, Job, str], Iterator[Answer]]
    coding: str
    fields: Callable[[Sequence[Item]], dict[str, str]] | None = None
    votes: bool = False


SERVICES = (
    Service(
        "SageMaker Ground Truth",
        "source-ref",
        _sagemaker,
        "a class of the label attribute = present, without it = not labelled",
        _sagemaker_fields,
    ),
    Service("Labelbox", "data_row", _labelbox, "an answer = present", _labelbox_questions, votes=True),
    Service("Vertex AI", "imageGcsUri", _vertex, "an annotation = present, none of any kind = not labelled"),
    Service("Azure Machine Learning", "image_url", _azure, "a label = present, null = not labelled"),
    Service("Prodigy", "answer", _prodigy, "accept = present, reject = absent, ignore = unknown", votes=True),
    Service("accepted and rejected classes", "accept", _prodigy, "accept = present, reject = absent, ignore = unknown"),
)
