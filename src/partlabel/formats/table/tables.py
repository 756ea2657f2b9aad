"""What every kind of table gives: a header, columns of text in batches, and the place of a row."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from partlabel.core.errors import UserError

#: cells that are held at once where a table is read row by row
_BATCH_CELLS = 1 << 20

_SPACES = re.compile(r"[\s_-]+")


def usual_name(column: str) -> str:
    """Return how usual names of columns are compared: without case, and with ``_`` for spaces and hyphens."""
    return _SPACES.sub("_", column.strip().casefold())


def batch_rows(columns: int) -> int:
    """Return how many rows of so many columns are held at once."""
    return max(_BATCH_CELLS // max(columns, 1), 256)


@dataclass(frozen=True)
class Batch:
    """Some consecutive rows: the number of the first (0 is the row after the header) and one text column each."""

    first_row: int
    columns: list[pa.StringArray]

    def __len__(self) -> int:
        return len(self.columns[0])


class Table(ABC):
    """A table whose header has been read.

    Attributes:
        path: as given.
        header: column names as they stand in the file.
        header_end: the line (or row of a sheet) on which the header ends.
    """

    path: str
    header: list[str]
    header_end: int

    @abstractmethod
    def describe(self) -> str:
        """Return how the file is written, as people read it."""

    @abstractmethod
    def batches(self, columns: Sequence[int]) -> Iterator[Batch]:
        """Read the chosen columns (at least one) as text, some thousand rows at a time.

        Raises:
            UserError: anything in the file that cannot be read; all is listed with its line.
        """

    @abstractmethod
    def lines(self, rows: Iterable[int]) -> dict[int, int]:
        """Return the line of some rows, numbered as in ``batches``."""

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield each row after the header with its line."""
        for batch in self.batches(range(len(self.header))):
            numbers = range(batch.first_row, batch.first_row + len(batch))
            lines = self.lines(numbers)
            cells = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            yield from ((lines[number], list(row)) for number, row in zip(numbers, cells, strict=True))

    def column(self, name: str) -> int:
        """Return the number of a column given by name or as ``#1``.

        Raises:
            UserError: no such column, or several of that name.
        """
        if name.startswith("#") and name[1:].isdigit() and 0 < int(name[1:]) <= len(self.header):
            return int(name[1:]) - 1
        found = [i for i, column in enumerate(self.header) if column.strip() == name.strip()]
        if len(found) == 1:
            return found[0]
        problem = "no column" if not found else f"{len(found)} columns"
        raise self.refusal(f"{problem} named {name!r}; a column can be given by number, as in #1")

    def usual_column(self, wanted: str | None, known: Sequence[str], what: str, otherwise: Sequence[str] = ()) -> int:
        """Return the number of a column by its name, or by one of the usual names, whatever their case and spaces.

        Args:
            wanted: its name; None looks for a usual one.
            known: usual names.
            what: it is for.
            otherwise: names that count where there is none of the others.

        Raises:
            UserError: no such column, or several.
        """
        if wanted is not None:
            return self.column(wanted)
        names = [usual_name(name) for name in self.header]
        found = [i for i, name in enumerate(names) if name in known]
        found = found or [i for i, name in enumerate(names) if name in otherwise]
        if len(found) == 1:
            return found[0]
        problem = "no column" if not found else f"{len(found)} columns"
        raise self.refusal(f"{problem} in the header for the {what}; name it with {what}_column=NAME")

    def refusal(self, problem: str) -> UserError:
        """Return an error that shows the header as it was read."""
        return UserError(f"{self.path}: {problem}", [f"{self.path}:{self.header_end} header as read: {self.header!r}"])


class HeldTable(Table):
    """A table whose rows are held as text.

    Args:
        path: as given; ``what`` says how the file is written.
        header: column names, on line ``header_end``.
        rows: line and cells of each row.
    """

    def __init__(
        self, path: str, what: str, header: list[str], header_end: int, rows: Sequence[tuple[int, list[str]]]
    ) -> None:
        self.path, self.header, self.header_end = path, header, header_end
        self._what, self._rows = what, rows

    def describe(self) -> str:
        """Return how the file is written."""
        return self._what

    def batches(self, columns: Sequence[int]) -> Iterator[Batch]:
        """Give the chosen columns; see ``Table``."""
        size = batch_rows(len(columns))
        for low in range(0, len(self._rows), size):
            part = self._rows[low : low + size]
            yield Batch(low, [pa.array([row[i] for _, row in part], pa.string()) for i in columns])

    def lines(self, rows: Iterable[int]) -> dict[int, int]:
        """Return the lines of some rows."""
        return {row: self._rows[row][0] for row in rows}
