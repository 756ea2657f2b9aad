"""Writes a label table as a JSON file that FiftyOne reads."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec

from partlabel.core.files import replacing
from partlabel.formats.record_options import NEGATIVE, POSITIVE
from partlabel.labels.pairs import MODEL, ORIGINS
from partlabel.labels.table import LabelTable

_ROWS = 16_384
#: how FiftyOne writes the type of a field with several classes
_FIELD = "fiftyone.core.fields.EmbeddedDocumentField(fiftyone.core.labels.Classifications)"
_ABOUT = (
    "Image labels written by partlabel: positive_labels = present, negative_labels = absent, neither = unknown. The "
    "confidence of a label with origin model is the probability that the class is present."
)


def write(table: LabelTable, path: str) -> None:
    """Write a table as the JSON file of a FiftyOne data set.

    FiftyOne reads it with ``fiftyone.Dataset.from_json(path, rel_dir=IMAGES)``, where ``IMAGES`` is the folder that
    the image names start from. Known present labels are in the field ``positive_labels``, known absent ones in
    ``negative_labels``; an image without known labels has null in both. A label of a model has its probability of being
    present as ``confidence``; labels that were not given have the attributes ``origin``, and where known ``score`` and
    ``round``. Class ids, groups, coding and history are not part of this format.

    Raises:
        UserError: the place cannot be written to.
    """
    classes = list(table.classes)
    head = {
        "name": "partlabel",
        "media_type": "image",
        "sample_fields": dict.fromkeys((POSITIVE, NEGATIVE), _FIELD),
        "info": {"description": _ABOUT},
        "classes": {POSITIVE: classes, NEGATIVE: classes},
        "default_classes": classes,
    }
    with replacing(path) as temporary, open(temporary, "wb") as file:
        file.write(msgspec.json.encode(head)[:-1] + b',\n"samples": [')
        for number, sample in enumerate(_samples(table)):
            file.write((b",\n" if number else b"\n") + msgspec.json.encode(sample))
        file.write(b"\n]}\n")


def _samples(table: LabelTable) -> Iterator[dict[str, Any]]:
    for low in range(0, table.num_images, _ROWS):
        for image, name in enumerate(table.images[low : low + _ROWS].to_pylist(), low):
            pairs = range(int(table.indptr[image]), int(table.indptr[image + 1]))
            fields: dict[str, Any] = {POSITIVE: None, NEGATIVE: None}
            if pairs:
                for field, value in ((POSITIVE, 1), (NEGATIVE, -1)):
                    labels = [_label(table, pair) for pair in pairs if table.values[pair] == value]
                    fields[field] = {"_cls": "Classifications", "classifications": labels}
            yield {"filepath": name, "_media_type": "image", "tags": [], "metadata": None, **fields}


def _label(table: LabelTable, pair: int) -> dict[str, Any]:
    label: dict[str, Any] = {"_cls": "Classification", "tags": [], "label": table.classes[table.indices[pair]]}
    if (origin := int(table.origin[pair])) == 0:
        return label
    label["origin"] = ORIGINS[origin]
    if origin == MODEL:
        score = math.nan if table.score is None else float(table.score[pair])
        if not math.isnan(score):
            label |= {"confidence": _sigmoid(score), "score": score}
        if table.round is not None and table.round[pair] >= 0:
            label["round"] = int(table.round[pair])
    return label


def _sigmoid(score: float) -> float:
    small = math.exp(-abs(score))
    return (1 if score >= 0 else small) / (1 + small)
