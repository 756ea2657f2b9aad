"""Text tables of any encoding and separator: the header, batches of text columns, and line numbers of rows.

Rows are read by pyarrow. What it refuses is read again by the slower exact reader, which either explains every mistake
with its line or reads what pyarrow could not.
"""

from __future__ import annotations

import csv
import itertools
import mmap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import csv as arrow_csv

from partlabel.core.errors import UserError
from partlabel.formats.reading import find_encoding
from partlabel.formats.table.blocks import BLOCK_BYTES, TEXT, read_blocks

_SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
_BATCH_ROWS = 65_536


@dataclass(frozen=True)
class Batch:
    """Some consecutive rows: the number of the first (0 is the row after the header) and one text column each."""

    first_row: int
    columns: list[pa.DictionaryArray]

    def __len__(self) -> int:
        return len(self.columns[0])


@dataclass(frozen=True)
class TextTable:
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
        """Read the chosen columns (at least one) as dictionary-encoded text, a few megabytes at a time.

        Raises:
            UserError: rows with another number of cells than the header, open quotes, bytes of another encoding; all
                are listed with their lines.
        """
        done = 0
        try:
            for batch in self._fast(columns):
                if len(batch):
                    yield Batch(done, batch)
                    done += len(batch[0])
        except (pa.ArrowInvalid, UnicodeError):
            yield from self._exact(columns, done)

    def _fast(self, columns: Sequence[int]) -> Iterator[list[pa.DictionaryArray]]:
        if self.header_end > 1:
            raise pa.ArrowInvalid("the header does not end on the first line")
        names = [f"c{i}" for i in range(len(self.header))]
        wanted = [names[i] for i in columns]
        quoted, encoding = _has_quotes(self.path), "utf8" if self.encoding.startswith("utf-8") else self.encoding
        if encoding == "utf8" and not quoted and self._ends_lines_with_lf():
            yield from read_blocks(self.path, names, wanted, self.separator)
            return
        reader = arrow_csv.open_csv(
            self.path,
            arrow_csv.ReadOptions(
                column_names=names, skip_rows_after_names=1, encoding=encoding, block_size=BLOCK_BYTES
            ),
            arrow_csv.ParseOptions(delimiter=self.separator, newlines_in_values=quoted),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(wanted, TEXT), include_columns=wanted, strings_can_be_null=False
            ),
        )
        for batch in reader:
            yield batch.columns

    def _ends_lines_with_lf(self) -> bool:
        """Whether the header ends with a line feed, and no line before that with a carriage return alone."""
        with open(self.path, "rb") as file:
            return b"\r" not in file.readline(BLOCK_BYTES).replace(b"\r\n", b"")

    def _exact(self, columns: Sequence[int], skip: int) -> Iterator[Batch]:
        self._check()
        rows = itertools.islice(self.rows(), skip, None)
        while chunk := list(itertools.islice(rows, _BATCH_ROWS)):
            texts = [pa.array([row[i] for _, row in chunk], pa.string()).dictionary_encode() for i in columns]
            yield Batch(skip, texts)
            skip += len(chunk)

    def _check(self) -> None:
        wrong = []
        line = self.header_end
        try:
            for line, row in self.rows():
                if len(row) != len(self.header):
                    wrong.append(f"{self.path}:{line} {len(row)} cells, the header has {len(self.header)}")
                wrong += _undecoded(self.path, self.encoding, line, row)
        except csv.Error as error:
            wrong.append(f"{self.path}: after line {line}: {error} (a quote that is not closed?)")
        except UnicodeError as error:
            wrong.append(f"{self.path}: after line {line}: {error}")
        if wrong:
            raise _unreadable(self.path, wrong)

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield each row after the header with the line on which it starts; blank lines are skipped."""
        return _records(self.path, self.encoding, self.separator, self.header_end)

    def lines(self, rows: Iterable[int]) -> dict[int, int]:
        """Return the lines of some rows (numbers as in ``batches``); reads the file up to the last of them.

        Quotes are read as leniently as pyarrow reads them.
        """
        wanted = set(rows)
        last = max(wanted, default=-1)
        records = _records(self.path, self.encoding, self.separator, self.header_end, strict=False)
        numbered = enumerate(itertools.islice(records, last + 1))
        return {number: line for number, (line, _) in numbered if number in wanted}


def open_table(path: str, *, encoding: str | None = None, separator: str | None = None) -> TextTable:
    """Read the header of a delimited file; encoding and separator are found where they are not given.

    Raises:
        UserError: the file cannot be read, its encoding is not known, or its separator cannot be told.
    """
    encoding = find_encoding(path, encoding)
    candidates = [separator] if separator else list(_SEPARATORS)
    readings = {c: _beginning(path, encoding, c) for c in candidates}
    if separator is None:
        separator = _tell_separator(path, readings)
    header_end, header = readings[separator][0]
    if wrong := _undecoded(path, encoding, header_end, header):
        raise _unreadable(path, wrong)
    return TextTable(path, encoding, separator, header, header_end)


def _records(
    path: str, encoding: str, separator: str, after: int = 0, strict: bool = True
) -> Iterator[tuple[int, list[str]]]:
    errors = "surrogateescape" if encoding.startswith("utf-8") else "strict"
    with open(path, encoding=encoding, errors=errors, newline="") as file:
        reader = csv.reader(file, delimiter=separator, strict=strict)
        line = 1
        for row in reader:
            if line > after and row and (len(row) > 1 or row[0].strip()):
                yield line, row
            line = reader.line_num + 1


def _undecoded(path: str, encoding: str, line: int, row: Sequence[str]) -> list[str]:
    """Return the cells with bytes that are not in the encoding; those bytes were read as lone surrogates."""
    return [
        f"{path}:{line}:{column} {cell.encode('utf-8', 'surrogateescape')!r} is not {encoding}"
        for column, cell in enumerate(row, 1)
        if not cell.isascii() and any("\udc80" <= character <= "\udcff" for character in cell)
    ]


def _unreadable(path: str, wrong: list[str]) -> UserError:
    hint = "; if it is in another encoding, name it, as in encoding=cp1252" if "is not utf-8" in wrong[0] else ""
    return UserError(f"{path}: the table cannot be read{hint}", wrong)


def _beginning(path: str, encoding: str, separator: str) -> list[tuple[int, list[str]]]:
    """Return the line where the header ends with the header, then the first rows with their lines.

    Quotes are read leniently: with the wrong separator they stand where they should not.
    """
    try:
        records = list(itertools.islice(_records(path, encoding, separator, strict=False), 21))
    except (csv.Error, UnicodeError) as error:
        raise UserError(f"{path}: the beginning of the table cannot be read ({error})") from error
    if not records:
        raise UserError(f"{path}: the file holds only blank lines")
    line, header = records[0]
    return [(line + sum(name.count("\n") for name in header), header), *records[1:]]


def _tell_separator(path: str, readings: dict[str, list[tuple[int, list[str]]]]) -> str:
    """Return the only separator that gives a header of several columns and rows of the same length."""
    several = [c for c, records in readings.items() if len(records[0][1]) > 1]
    fitting = [c for c in several if all(len(row) == len(readings[c][0][1]) for _, row in readings[c])]
    found = fitting if fitting else several
    if len(found) == 1:
        return found[0]
    line = readings[","][0][0]
    with_comma = ",".join(readings[","][0][1])
    names = " or ".join(_SEPARATORS[c] for c in found)
    what = f"{names} are both possible" if found else "no comma, semicolon, tab or pipe in the header"
    raise UserError(
        f"{path}: the separator cannot be told ({what}); name it, as in separator=semicolon or separator=space",
        [f"{path}:{line} header as read: {with_comma!r}"],
    )


def _has_quotes(path: str) -> bool:
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(b'"') >= 0
