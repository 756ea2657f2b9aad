"""Predictions as a table for people: a row for each image, a column for each class, in CSV or in a workbook."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from itertools import compress
from pathlib import Path

import numpy as np
import xlsxwriter
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.core.files import replacing, temporary_folder
from partlabel.core.text import as_cell

#: what a sheet of Excel holds (https://support.microsoft.com/office/1672b34d-7043-467e-8e27-269d656771c3), and a cell
_ROWS, _COLUMNS, _LETTERS = 1_048_576, 16_384, 32_767
#: widths of columns, in letters
_NAME_WIDTH, _PRESENT_WIDTH, _CLASS_WIDTH = 32, 36, 10


def write_wide(
    path: Path,
    images: Sequence[str],
    classes: Sequence[str],
    probabilities: NDArray[np.float64],
    present: NDArray[np.bool_],
) -> None:
    """Write a CSV file with the columns image, present (classes between semicolons) and one for each class.

    Args:
        path: the file.
        images: N names.
        classes: C names.
        probabilities: (N, C) in [0, 1].
        present: (N, C).

    Raises:
        UserError: the disk is full or refuses.
    """
    with replacing(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["image", "present", *map(as_cell, classes)])
        for name, own, decided in zip(images, probabilities, present, strict=True):
            said = "; ".join(compress(classes, decided))
            rows.writerow([as_cell(name), as_cell(said), *(f"{p:.6g}" for p in own.tolist())])


def write_workbook(
    path: Path,
    images: Sequence[str],
    classes: Sequence[str],
    probabilities: NDArray[np.float64],
    present: NDArray[np.bool_],
) -> None:
    """Write the same as a workbook (.xlsx): what is present is in bold, and the first row and column stay in sight.

    Args:
        path: the file.
        images: N names.
        classes: C names.
        probabilities: (N, C) in [0, 1].
        present: (N, C).

    Raises:
        UserError: more images or classes than a sheet holds; the disk is full or refuses.
    """
    if len(images) >= _ROWS or len(classes) + 2 > _COLUMNS:
        raise UserError(
            f"{path}: a sheet holds {_ROWS - 1:,} images and {_COLUMNS - 2:,} classes, not {len(images):,} and "
            f"{len(classes):,}; write .csv or .parquet"
        )
    packed = io.BytesIO()  # of a file that could not be written Python prints a traceback when it goes
    with replacing(path) as temporary:
        _pack(packed, images, classes, probabilities, present)
        temporary.write_bytes(packed.getbuffer())


def _pack(
    packed: io.BytesIO,
    images: Sequence[str],
    classes: Sequence[str],
    probabilities: NDArray[np.float64],
    present: NDArray[np.bool_],
) -> None:
    with (
        temporary_folder() as folder,  # where the sheet lies until it is packed
        xlsxwriter.Workbook(packed, {"constant_memory": True, "tmpdir": str(folder)}) as book,
    ):
        head = book.add_format({"bold": True, "bottom": 1})
        plain, bold = (book.add_format({"num_format": "0.0%", "bold": wanted}) for wanted in (False, True))
        sheet = book.add_worksheet("predictions")
        sheet.freeze_panes(1, 1)
        sheet.set_column(0, 0, _NAME_WIDTH)
        sheet.set_column(1, 1, _PRESENT_WIDTH)
        sheet.set_column(2, len(classes) + 1, _CLASS_WIDTH)
        sheet.autofilter(0, 0, len(images), len(classes) + 1)
        for column, name in enumerate(("image", "present", *classes)):
            sheet.write_string(0, column, name, head)
        for row, (name, own, decided) in enumerate(zip(images, probabilities, present, strict=True), 1):
            sheet.write_string(row, 0, name[:_LETTERS])
            sheet.write_string(row, 1, "; ".join(compress(classes, decided))[:_LETTERS])
            for column, (value, is_present) in enumerate(zip(own.tolist(), decided.tolist(), strict=True), 2):
                sheet.write_number(row, column, value, bold if is_present else plain)
