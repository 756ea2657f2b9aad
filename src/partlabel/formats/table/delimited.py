"""Text tables of any encoding and separator.

Rows are read by pyarrow. What it refuses, and files whose quoted cells run over several lines, are read once more by
Python's slower reader, which names every mistake with its line, or reads what pyarrow could not.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from partlabel.core.errors import UserError
from partlabel.core.text import CELL, from_cell
from partlabel.core.trouble import plainly
from partlabel.formats.packed import Content, opened
from partlabel.formats.reading import advance, find_encoding
from partlabel.formats.table.sheets import open_sheet
from partlabel.formats.table.tables import Batch, Table, batch_rows

BLOCK_BYTES = 2 << 20
_SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
#: lines from which encoding, separator and header are told
_FIRST_LINES = 200
_QUOTE = " (a quote that is not closed?)"
_JSON = re.compile(r'\s*(\{\s*"|\[\s*\{)')
_WORD, _NUMBER = re.compile(r"[^\W\d_]+"), re.compile(r"\d+")
#: a column whose cells have more shapes than this holds free text
_FREE_TEXT = 50
csv.field_size_limit(2**31 - 1)  # a header of thousands of classes, read with a wrong separator, is one long cell


@dataclass
class TextTable(Table):
    """A delimited text file whose header has been read.

    Attributes:
        path: as given.
        encoding: a Python codec; ``utf-8-sig`` for UTF-8 with a byte-order mark.
        separator: one character.
        header: column names as they stand in the file.
        header_end: the line on which the header ends.
    """

    path: str
    encoding: str
    separator: str
    header: list[str]
    header_end: int

    def describe(self) -> str:
        """Return separator and encoding as people read them."""
        encoding = self.encoding.upper().replace("-SIG", " with byte-order mark")
        return f"separated by {_SEPARATORS.get(self.separator, repr(self.separator))}, {encoding}"

    def batches(self, columns: Sequence[int]) -> Iterator[Batch]:
        """Read the chosen columns as text; see ``Table``.

        Raises:
            UserError: rows with another number of cells than the header, quotes that are not closed, bytes of another
                encoding; all are listed with their lines.
        """
        done = 0
        try:
            with opened(self.path) as content:
                file = _Counted(content)
                for batch in self._fast(file, columns):
                    advance(content.raw.tell(), content.size)
                    if batch.num_rows:
                        yield Batch(done, [_from_cells(column) for column in batch.columns])
                        done += batch.num_rows
            # a quote that is not closed swallows the rows after it: the quotes are odd, or rows are fewer than lines
            if file.quotes % 2 or (file.quotes and done != file.lines - self.header_end):
                self._check()
        except (pa.ArrowInvalid, UnicodeError):
            yield from self._exact(columns, done)

    def _fast(self, file: _Counted, columns: Sequence[int]) -> Iterable[pa.RecordBatch]:
        names = [f"c{i}" for i in range(len(self.header))]
        wanted = [names[i] for i in columns]
        return arrow_csv.open_csv(
            file,
            arrow_csv.ReadOptions(
                column_names=names,
                skip_rows=self.header_end,
                encoding="utf8" if self.encoding.startswith("utf-8") else self.encoding,
                block_size=BLOCK_BYTES,
            ),
            arrow_csv.ParseOptions(delimiter=self.separator, newlines_in_values=True),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(wanted, pa.string()), include_columns=wanted, strings_can_be_null=False
            ),
        )

    def _exact(self, columns: Sequence[int], skip: int) -> Iterator[Batch]:
        self._check()
        rows = itertools.islice(self.rows(), skip, None)
        while chunk := list(itertools.islice(rows, batch_rows(len(self.header)))):
            yield Batch(skip, [pa.array([row[i] for _, row in chunk], pa.string()) for i in columns])
            skip += len(chunk)

    def _check(self) -> None:
        """Refuse rows of another length, bytes of another encoding, and quotes that swallow lines; list all."""
        wrong: list[tuple[int, str]] = []
        width = len(self.header)
        look = _Look(width)
        line = self.header_end
        try:
            for line, row, lines in _records(self.path, self.encoding, self.separator):
                if line <= self.header_end:
                    continue
                problem = _quote_problem(lines, self.separator)
                if problem and (len(lines) > 1 or problem.startswith("unexpected end")):
                    wrong.append((line, f" a row over {len(lines)} lines{_QUOTE}"))
                elif not _is_row(row):
                    continue
                elif len(row) != width:
                    wrong.append((line, f" {len(row)} cells, the header has {width}"))
                else:
                    look.add(line, row, lines, self.separator)
                wrong += [(line, text) for text in _undecoded(self.encoding, row)]
        except (csv.Error, UnicodeError) as error:
            wrong.append((line, f" and what follows: {plainly(error)}"))
        wrong += [(line, f" a row over {count} lines{_QUOTE}") for line, count in look.swallowed()]
        if wrong:
            raise _unreadable(self.path, sorted(wrong, key=lambda entry: entry[0]))

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield each row after the header with the line on which it starts; blank lines are skipped.

        Quotes are read as leniently as pyarrow reads them; a ``'`` that keeps a cell from being a formula is no part of
        its text.
        """
        for line, row, _ in _records(self.path, self.encoding, self.separator):
            if line > self.header_end and _is_row(row):
                yield line, [from_cell(cell) for cell in row]

    def lines(self, rows: Iterable[int]) -> dict[int, int]:
        """Return the lines of some rows (numbers as in ``batches``); reads the file up to the last of them."""
        wanted = set(rows)
        numbered = enumerate(itertools.islice(self.rows(), max(wanted, default=-1) + 1))
        return {number: line for number, (line, _) in numbered if number in wanted}


class _Counted:
    """A file that pyarrow reads; counts its lines and its quotes."""

    closed = False

    def __init__(self, content: Content) -> None:
        self._file = content.file
        self._end = b"\n"
        self.lines, self.quotes = 0, 0

    def read(self, size: int = -1) -> bytes:
        part = self._file.read(size)
        self.lines += part.count(b"\n") if part else self._end != b"\n"
        self.quotes += part.count(b'"')
        self._end = part[-1:] or b"\n"
        return part

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """The file is closed where it was opened."""

    flush = close


def open_table(
    path: str, *, encoding: str | None = None, separator: str | None = None, sheet: str | None = None
) -> Table:
    """Read the header of a table: text, packed or not, a sheet of a workbook, or Parquet, told by the first bytes.

    Args:
        path: of the file.
        encoding: of text; found where it is not given.
        separator: of text; found where it is not given.
        sheet: of a workbook that has several.

    Raises:
        UserError: the file cannot be read, its encoding is not known, or its separator cannot be told.
    """
    if (table := open_sheet(path, sheet)) is not None:
        return table
    encoding = find_encoding(path, encoding)
    try:
        with _text(path, encoding) as file:
            start = list(itertools.islice(file, _FIRST_LINES))
        readings = {c: _beginning(start, c) for c in ([separator] if separator else _SEPARATORS)}
    except (csv.Error, UnicodeError) as error:
        raise UserError(f"{path}: the beginning of the table cannot be read ({plainly(error)})") from error
    if not any(readings.values()):
        raise UserError(f"{path}: the file holds only blank lines")
    if _JSON.match("".join(start[:3])):
        raise UserError(
            f"{path}: JSON, not a table; these formats are JSON: coco, labelstudio, fiftyone, huggingface, labelme"
        )
    if separator is None:
        separator = _tell_separator(path, readings)
    line, header, lines = (readings[separator] or next(filter(None, readings.values())))[0]
    if wrong := _undecoded(encoding, header):
        raise _unreadable(path, [(line, text) for text in wrong])
    return TextTable(path, encoding, separator, [from_cell(name) for name in header], line + len(lines) - 1)


@contextmanager
def _text(path: str, encoding: str) -> Generator[io.TextIOWrapper]:
    errors = "surrogateescape" if encoding.startswith("utf-8") else "strict"
    with opened(path) as content, io.TextIOWrapper(content.file, encoding, errors, newline="") as file:
        yield file


def _records(path: str, encoding: str, separator: str) -> Iterator[tuple[int, list[str], list[str]]]:
    """Yield each record, blank lines included, with the line on which it starts and the lines that it takes."""
    with _text(path, encoding) as file:
        yield from _parsed(file, separator)


def _parsed(text: Iterable[str], separator: str) -> Iterator[tuple[int, list[str], list[str]]]:
    taken: list[str] = []
    line = 1
    for row in csv.reader((taken.append(part) or part for part in text), delimiter=separator):
        yield line, row, taken
        line += len(taken)
        taken.clear()


def _from_cells(column: pa.StringArray) -> pa.StringArray:
    """:func:`partlabel.core.text.from_cell` of a column."""
    quoted = pc.call_function("starts_with", [column], pc.MatchSubstringOptions("'"))
    if not pc.call_function("any", [quoted]).as_py():
        return column
    return pc.call_function("replace_substring_regex", [column], pc.ReplaceSubstringOptions(CELL, r"\1"))


def _is_row(row: Sequence[str]) -> bool:
    return len(row) > 1 or any(cell.strip() for cell in row)


def _quote_problem(lines: Sequence[str], separator: str) -> str:
    """Return what is wrong with the quotes of a record: it ends within them, or text follows a closing one."""
    if not any('"' in line for line in lines):
        return ""
    try:
        list(csv.reader(lines, delimiter=separator, strict=True))
    except csv.Error as error:
        return str(error)
    return ""


class _Look:
    """What the cells of each column look like, to tell a text over several lines from rows that a quote swallowed."""

    def __init__(self, width: int) -> None:
        self._shapes: list[set[str]] = [set() for _ in range(width)]
        self._suspects: list[tuple[int, int, int, list[list[str]]]] = []

    def add(self, line: int, row: Sequence[str], lines: Sequence[str], separator: str) -> None:
        """Remember the look of a row on one line, or the lines in a cell that have as many cells as a row."""
        width = len(self._shapes)
        if len(lines) == 1:
            for shapes, cell in zip(self._shapes, row, strict=True):
                if len(shapes) <= _FREE_TEXT:
                    shapes.add(_shape(cell))
            return
        for number, cell in enumerate(row):
            inner = [part.split(separator) for part in cell.splitlines()[1 : None if number == width - 1 else -1]]
            if (len(inner) > 1 or (inner and width > 2)) and all(len(cells) == width for cells in inner):
                self._suspects.append((line, len(lines), number, inner))

    def swallowed(self) -> list[tuple[int, int]]:
        """Return line and number of lines of each record with lines in it that look like rows of this table."""
        known = [shapes if len(shapes) <= _FREE_TEXT else None for shapes in self._shapes]
        return [
            (line, count)
            for line, count, own, inner in self._suspects
            if all(
                shapes is None or number == own or _shape(cell) in shapes
                for cells in inner
                for number, (shapes, cell) in enumerate(zip(known, cells, strict=True))
            )
        ]


def _shape(cell: str) -> str:
    """Return a cell with each word as ``a`` and each number as ``0``."""
    return _NUMBER.sub("0", _WORD.sub("a", cell))


def _undecoded(encoding: str, row: Sequence[str]) -> list[str]:
    """Return the cells with bytes that are not in the encoding; those bytes were read as lone surrogates."""
    return [
        f":{column} {cell.encode('utf-8', 'surrogateescape')!r} is not {encoding}"
        for column, cell in enumerate(row, 1)
        if not cell.isascii() and any("\udc80" <= character <= "\udcff" for character in cell)
    ]


def _unreadable(path: str, wrong: Sequence[tuple[int, str]]) -> UserError:
    hint = "; if it is in another encoding, name it, as in encoding=cp1252" if "is not utf-8" in wrong[0][1] else ""
    return UserError(f"{path}: the table cannot be read{hint}", [f"{path}:{line}{text}" for line, text in wrong])


def _beginning(start: Sequence[str], separator: str) -> list[tuple[int, list[str], list[str]]]:
    """Return the header and up to 20 rows, without the last record if it may be cut off."""
    records = [(line, row, list(taken)) for line, row, taken in _parsed(start, separator)]
    whole = records[:-1] if len(start) == _FIRST_LINES and len(records) > 1 else records
    return [record for record in whole if _is_row(record[1])][:21]


def _tell_separator(path: str, readings: dict[str, list[tuple[int, list[str], list[str]]]]) -> str:
    """Return the only separator that gives a header of several columns and rows of the same length."""
    several = [c for c, records in readings.items() if records and len(records[0][1]) > 1]
    fitting = [c for c in several if all(len(row) == len(readings[c][0][1]) for _, row, _ in readings[c])]
    found = fitting or several
    if len(found) == 1:
        return found[0]
    line, row, _ = next(records for records in readings.values() if records)[0]
    names = " or ".join(_SEPARATORS[c] for c in found)
    what = f"{names} are both possible" if found else "no comma, semicolon, tab or pipe in the header"
    raise UserError(
        f"{path}: the separator cannot be told ({what}); name it, as in separator=semicolon or separator=space",
        [f"{path}:{line} header as read: {','.join(row)!r}"],
    )
