"""Tables that are no text: a sheet of a workbook (Excel, LibreOffice), and Parquet."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from partlabel.core.errors import UserError
from partlabel.formats.table.tables import Batch, HeldTable, Table, batch_rows

#: what a workbook may unpack to
_MOST_BYTES = 4 << 30


def _text(cell: Any) -> str:
    """Return a cell of a sheet as text: whole numbers without a point, true and false in lower case."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell)


class ParquetTable(Table):
    """A Parquet file with a column for each class, or of images, classes and values; lines are rows, from 1 on."""

    header_end = 0

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self.header = pq.read_schema(path).names
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path}: is damaged, cut off, or no Parquet file") from error

    def describe(self) -> str:
        """Return the kind of the file."""
        return "Parquet"

    def batches(self, columns: Sequence[int]) -> Iterator[Batch]:
        """Read the chosen columns as text; see ``Table``.

        Raises:
            UserError: the file is damaged, or a column holds neither values nor lists.
        """
        done = 0
        try:
            with pq.ParquetFile(self.path) as file:
                unique = len(set(self.header)) == len(self.header)
                names = [self.header[i] for i in columns] if unique else None
                for batch in file.iter_batches(batch_rows(len(columns)), columns=names):
                    own = [batch.column(self.header[i] if unique else i) for i in columns]
                    texts = [self._texts(column, i) for column, i in zip(own, columns, strict=True)]
                    for text in texts:
                        text.validate(full=True)  # pyarrow does not look whether text is UTF-8
                    yield Batch(done, texts)
                    done += len(batch)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise UserError(f"{self.path}: is damaged, cut off, or no Parquet file") from error

    def _texts(self, column: pa.Array, number: int) -> pa.StringArray:
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            texts = [json.dumps(entry, default=str) if entry is not None else "" for entry in column.to_pylist()]
            return pa.array(texts, pa.string())
        try:
            texts = column.cast(pa.string()).fill_null("")
        except pa.ArrowException:
            raise UserError(
                f"{self.path}: the column {self.header[number]!r} holds {column.type}, not text, numbers or lists; "
                "partlabel import huggingface reads data sets with images in them"
            ) from None
        if pa.types.is_floating(column.type):
            is_nan = pc.call_function("equal", [texts, pa.scalar("nan")])
            texts = pc.call_function("if_else", [is_nan, pa.scalar(""), texts])
        return texts

    def lines(self, rows: Iterable[int]) -> dict[int, int]:
        """Return the numbers of rows as people count them."""
        return {row: row + 1 for row in rows}


def open_sheet(path: str, sheet: str | None) -> Table | None:
    """Open a workbook or a Parquet file, told by its first bytes; None for everything else.

    Raises:
        UserError: the file cannot be read; no sheet of that name; several sheets and no name.
    """
    try:
        with open(path, "rb") as file:
            start = file.read(8)
        if start[:4] == b"PAR1":
            return ParquetTable(path)
        if start != b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" and (start[:4] != b"PK\x03\x04" or not _is_workbook(path)):
            return None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    sheets = _read_workbook(path)
    if sheet is not None and sheet not in sheets:
        raise UserError(f"{path}: no sheet {sheet!r} with cells in it; there are: {', '.join(sheets)}")
    if not sheets:
        raise UserError(f"{path}: the workbook is empty")
    if sheet is None and len(sheets) > 1:
        raise UserError(
            f"{path}: the workbook has {len(sheets)} sheets; name one, as in sheet={next(iter(sheets))!r}", sheets
        )
    name = next(iter(sheets)) if sheet is None else sheet
    rows = sheets[name]
    return HeldTable(path, f"sheet {name!r} of a workbook", rows[0][1], rows[0][0], rows[1:])


def _is_workbook(path: str) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            found = not {"[Content_Types].xml", "mimetype"}.isdisjoint(archive.namelist())
            size = sum(entry.file_size for entry in archive.infolist())
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise UserError(f"{path}: the workbook or zip is damaged") from error
    if found and size > _MOST_BYTES:
        raise UserError(f"{path}: the workbook unpacks to more than {_MOST_BYTES >> 30} GiB")
    return found


def _read_workbook(path: str) -> dict[str, list[tuple[int, list[str]]]]:
    """Return name -> rows that are not blank, with their numbers, for each sheet that holds any."""
    import python_calamine

    found = {}
    try:
        with open(path, "rb") as file:
            workbook = python_calamine.load_workbook(file)
            for name in workbook.sheet_names:
                cells = workbook.get_sheet_by_name(name).to_python(skip_empty_area=False)
                rows = [(line, [_text(cell) for cell in row]) for line, row in enumerate(cells, 1)]
                if kept := [(line, row) for line, row in rows if any(map(str.strip, row))]:
                    found[name] = kept
    except (python_calamine.CalamineError, OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as a workbook") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # how a failed assertion in Rust arrives, outside of Exception
            raise
        raise UserError(f"{path}: cannot be read as a workbook; it is damaged") from error
    return found
