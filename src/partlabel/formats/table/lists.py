"""List files without header: a path, then one value for each class, as in ``photos/a 1.jpg 1 0 1``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from partlabel.core.errors import UserError
from partlabel.formats.coding import canonical
from partlabel.formats.reading import find_encoding
from partlabel.formats.report import plural
from partlabel.formats.table.job import Job
from partlabel.formats.table.packed import opened
from partlabel.formats.table.tables import Batch, Table


class ListFile(Table):
    """The lines of a list file: paths with the values of ``size`` classes, read by ``read_list``."""

    header_end = 0

    def __init__(self, path: str, encoding: str, size: int) -> None:
        self.path, self.encoding = path, encoding
        self.header = ["image", *(f"value {n}" for n in range(1, size + 1))]
        self.paths: list[str] = []
        self.values: list[list[str]] = []
        self._lines: list[int] = []

    def describe(self) -> str:
        """Return the encoding."""
        return self.encoding.upper()

    def add(self, line: int, path: str, values: list[str]) -> None:
        """Add a line that was taken apart."""
        self._lines.append(line)
        self.paths.append(path)
        self.values.append(values)

    def batches(self, columns: Sequence[int]) -> Iterator[Batch]:
        """Give all lines at once."""
        if self.paths:
            cells = [self.paths, *zip(*self.values, strict=True)]
            yield Batch(0, [pa.array(cells[i], pa.string()) for i in columns])

    def lines(self, rows: Iterable[int]) -> dict[int, int]:
        """Return the line of some rows."""
        return {row: self._lines[row] for row in rows}


def read_list(job: Job, path: str) -> None:
    """Read a list file. The values are split off from the right, so that a path may hold blanks.

    A path never loses a part to the labels: a line must end with exactly as many label values as there are classes.

    Raises:
        UserError: no class list; lines with more or fewer values (all are listed); text of another encoding.
    """
    options = job.options
    if options.classes is None:
        raise UserError(f"{path}: a list file has no header; give the class names in order, as in classes=names.txt")
    table = ListFile(path, find_encoding(path, options.encoding), len(options.classes))
    size, wrong = len(options.classes), []
    separator = None if options.separator == " " else options.separator
    vocabulary = frozenset(job.coding.codes) - {""}
    for line, text in _lines(path, table.encoding):
        parts = [part.strip() for part in text.split(separator)]
        count = _values_at_end(parts, vocabulary)
        if count != size or count == len(parts):
            wrong.append(f"{path}:{line} {plural(count, 'value')} at the end, {size} classes: {text[-60:]}")
        else:
            table.add(line, text.rsplit(separator, size)[0].strip(), parts[-size:])
    if wrong:
        raise UserError(
            f"{path}: {plural(len(wrong), 'line')} without exactly one value for each of the {size} classes", wrong
        )
    job.report.layout = f"list file, {table.describe()}"
    names = pa.array(options.classes, pa.string())
    job.classes.add_codes(names, np.zeros(0, np.int32))
    values = job.values(["values"] * size, [""] * size)
    for batch in job.batches(table, range(size + 1)):
        codes = values.read(batch.columns[1:], batch.first_row).T
        row, column = (np.arange(n) for n in codes.shape)
        job.say(np.repeat(row, size), names, np.tile(column.astype(np.int32), len(row)), codes.reshape(-1))
    values.finish()


def _lines(path: str, encoding: str) -> Iterator[tuple[int, str]]:
    try:
        with opened(path) as content:
            for number, line in enumerate(content.file.read().decode(encoding).splitlines(), 1):
                if text := line.strip():
                    yield number, text
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: the text is not {encoding}; name its encoding, as in encoding=cp1252") from error


def _values_at_end(parts: Sequence[str], vocabulary: frozenset[str]) -> int:
    """Return how many of the last parts are label values."""
    count = 0
    for part in reversed(parts):
        if canonical(part) not in vocabulary:
            break
        count += 1
    return count
