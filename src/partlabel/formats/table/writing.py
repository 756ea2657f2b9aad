"""Writes a label table as a wide CSV file."""

from __future__ import annotations

import csv

from partlabel.core.files import replacing
from partlabel.core.text import as_cell
from partlabel.labels.table import LabelTable

_ROWS = 4096
_CELLS = {1: "1", -1: "-1", 0: ""}


def write(table: LabelTable, path: str) -> None:
    """Write a table as wide CSV: ``image``, a column for each class (1 present, -1 absent, blank unknown), ``group``.

    UTF-8, commas, CRLF as RFC 4180 says. The group column is there when the table has groups. Origins, scores and
    class ids are not part of this format. A name that a spreadsheet would take for a formula has ``'`` before it, which
    reading takes away.

    Raises:
        UserError: the place cannot be written to.
    """
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", *map(as_cell, table.classes), *([] if table.groups is None else ["group"])])
        for start in range(0, table.num_images, _ROWS):
            part = slice(start, start + _ROWS)
            names = table.images[part].to_pylist()
            own = None if table.groups is None else table.groups[part].to_pylist()
            groups = [[]] * len(names) if own is None else [[as_cell(name or "")] for name in own]
            for name, labels, group in zip(names, table.dense(part).tolist(), groups, strict=True):
                writer.writerow([as_cell(name), *(_CELLS[label] for label in labels), *group])
