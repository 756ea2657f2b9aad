"""Writes a label table as COCO JSON with image labels."""

from __future__ import annotations

from itertools import count
from typing import Any, BinaryIO

import msgspec
import numpy as np

from partlabel.core.files import replacing
from partlabel.labels.table import LabelTable

_ROWS = 16_384


def write(table: LabelTable, path: str) -> None:
    """Write a table as COCO JSON.

    Each known present label is one annotation without a box. Known absent labels are the ``neg_category_ids`` of their
    image, as in LVIS; a class in neither is unknown. Category ids are the class ids of the table where all are whole
    numbers, otherwise 1 .. C. Origins, scores and groups are not part of this format.

    Raises:
        UserError: the place cannot be written to.
    """
    ids = _category_ids(table)
    with replacing(path) as temporary, open(temporary, "wb") as file:
        about = (
            "image labels written by partlabel: an annotation = present, neg_category_ids = absent, neither = unknown"
        )
        file.write(b'{"info":' + msgspec.json.encode({"description": about}) + b',\n"categories":')
        file.write(
            msgspec.json.encode([{"id": int(n), "name": name} for n, name in zip(ids, table.classes, strict=True)])
        )
        file.write(b',\n"images":[')
        comma = b"\n"
        for low, high in _parts(table):
            comma = _append(file, comma, _image_entries(table, ids, low, high))
        file.write(b'],\n"annotations":[')
        comma, number = b"\n", count(1)
        images = table.pair_images()
        for low, high in _parts(table):
            part = slice(table.indptr[low], table.indptr[high])
            present = np.flatnonzero(table.values[part] > 0) + part.start
            pairs = zip(images[present].tolist(), ids[table.indices[present]].tolist(), strict=True)
            entries = [{"id": next(number), "image_id": i + 1, "category_id": c, "iscrowd": 0} for i, c in pairs]
            comma = _append(file, comma, entries)
        file.write(b"]}\n")


def _category_ids(table: LabelTable) -> np.ndarray[Any, Any]:
    own = table.class_ids or ()
    if own and all(n.isascii() and n.isdigit() for n in own) and len({int(n) for n in own}) == len(own):
        return np.array([int(n) for n in own], np.int64)
    return np.arange(1, table.num_classes + 1)


def _parts(table: LabelTable) -> list[tuple[int, int]]:
    return [(low, min(low + _ROWS, table.num_images)) for low in range(0, table.num_images, _ROWS)]


def _image_entries(table: LabelTable, ids: np.ndarray[Any, Any], low: int, high: int) -> list[dict[str, Any]]:
    entries = []
    for number, name in enumerate(table.images[low:high].to_pylist(), low):
        own = slice(table.indptr[number], table.indptr[number + 1])
        absent = ids[table.indices[own][table.values[own] < 0]].tolist()
        entries.append({"id": number + 1, "file_name": name, "neg_category_ids": absent})
    return entries


def _append(file: BinaryIO, comma: bytes, entries: list[dict[str, Any]]) -> bytes:
    """Write list items; return what goes before the next ones."""
    if not entries:
        return comma
    file.write(comma + b",\n".join(map(msgspec.json.encode, entries)))
    return b",\n"
