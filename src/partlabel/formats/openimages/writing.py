"""Writes a label table as image-level labels of Open Images."""

from __future__ import annotations

import csv
import io

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv

from partlabel.core.files import replacing
from partlabel.core.text import as_cell
from partlabel.labels.pairs import MODEL
from partlabel.labels.table import LabelTable
from partlabel.metrics.calibration import sigmoid

_ROWS = 16_384


def write(table: LabelTable, path: str) -> None:
    """Write a table as ``ImageID,Source,LabelName,Confidence``, a row for each known label.

    ``LabelName`` is the class id where the table has ids, otherwise the class name. Labels of persons have the source
    ``verification`` and the confidence 1 (present) or 0 (absent). Labels of a model have the source ``machine`` and
    the probability of their score with six decimals (without a score 1 or 0), so that nobody takes them for clean.

    Lost: images and classes without a known label, names of classes that have ids, groups, rounds, and which person's
    label came from a review. Of a model's label only the probability is read back: present from
    ``machine_threshold`` on, otherwise unknown, because machine files hold no absent ones. A name that a spreadsheet
    would take for a formula has ``'`` before it, which reading takes away.

    Raises:
        UserError: the place cannot be written to.
    """
    labels = pa.array(map(as_cell, table.class_ids or table.classes), pa.string())
    images = table.pair_images()
    with replacing(path) as temporary, open(temporary, "wb") as file:
        file.write(b"ImageID,Source,LabelName,Confidence\n")
        for low in range(0, table.num_images, _ROWS):
            high = min(low + _ROWS, table.num_images)
            part = slice(table.indptr[low], table.indptr[high])
            machine = table.origin[part] == MODEL
            names = pa.array(map(as_cell, table.images[low:high].to_pylist()), pa.string())
            rows = pa.table(
                {
                    "image": names.take(pa.array(images[part] - low)),
                    "source": pc.call_function("if_else", [pa.array(machine), "machine", "verification"]),
                    "label": labels.take(pa.array(table.indices[part])),
                    "confidence": _confidences(table, part, machine),
                }
            )
            file.write(_lines(rows))


def _lines(rows: pa.Table) -> bytes:
    """Return rows as CSV with quotes only where they are needed; pyarrow writes them nowhere or everywhere."""
    sink = io.BytesIO()
    try:
        arrow_csv.write_csv(rows, sink, arrow_csv.WriteOptions(include_header=False, quoting_style="none"))
        return sink.getvalue()
    except pa.ArrowInvalid:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(
            zip(*(column.to_pylist() for column in rows.columns), strict=True)
        )
        return text.getvalue().encode()


def _confidences(table: LabelTable, part: slice, machine: NDArray[np.bool_]) -> pa.StringArray:
    values = table.values[part]
    words = np.where(values > 0, "1", "0").astype(object)
    if table.score is not None:
        scored = np.flatnonzero(machine & ~np.isnan(table.score[part]))
        probability = sigmoid(table.score[part][scored].astype(np.float64))
        words[scored] = [f"{p:.6f}" for p in probability.tolist()]
    return pa.array(words, pa.string())
