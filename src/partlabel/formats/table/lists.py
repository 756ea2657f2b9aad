"""List files without header: a path, then one value for each class, as in ``photos/a 1.jpg 1 0 1``."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from partlabel.core.errors import UserError
from partlabel.formats.assemble import Statements
from partlabel.formats.class_names import settle_names
from partlabel.formats.coding import SILENT, canonical
from partlabel.formats.reading import find_encoding
from partlabel.formats.report import plural
from partlabel.formats.table.columns import NameColumn, ValueColumn
from partlabel.formats.table.job import TableJob


def read(job: TableJob) -> Statements:
    """Read the statements of a list file. The values are split off from the right, so that a path may hold blanks.

    A path never loses a part to the labels: a line must end with exactly as many label values as there are classes.

    Raises:
        UserError: no class list; lines with more or fewer values (all are listed); as ``partlabel.formats.table.read``.
    """
    options = job.options
    if options.classes is None:
        raise UserError(
            f"{job.path}: a list file has no header; give the class names in order, as in classes=names.txt"
        )
    encoding = find_encoding(job.path, options.encoding)
    job.report.layout = f"list file, {encoding.upper()}"
    size = len(options.classes)
    vocabulary = frozenset(job.coding.codes) - {""}
    paths: list[str] = []
    tokens: list[str] = []
    lines: list[int] = []
    wrong = []
    for line, text in _lines(job.path, encoding):
        parts = (
            text.split()
            if options.separator in (None, " ")
            else [part.strip() for part in text.split(options.separator)]
        )
        count = _values_at_end(parts, vocabulary)
        if count != size or count == len(parts):
            wrong.append(f"{job.path}:{line} {plural(count, 'value')} at the end, {size} classes: {text[-60:]}")
            continue
        paths.append(_path(text, size, options.separator))
        tokens += parts[-size:]
        lines.append(line)
    if wrong:
        raise UserError(
            f"{job.path}: {plural(len(wrong), 'line')} without exactly one value for each of the {size} classes", wrong
        )
    job.list_lines = lines
    job.report.rows = len(lines)
    return _statements(job, paths, tokens, options.classes)


def _statements(job: TableJob, paths: list[str], tokens: list[str], names: list[str]) -> Statements:
    classes = settle_names(names, job.report, rename=job.options.rename)
    cells = ValueColumn(job.coding)
    codes = cells.read(pa.array(tokens, pa.string()).dictionary_encode(), 0)
    job.settle_values({0: cells}, {0: "values"})
    at = np.flatnonzero(codes != SILENT)
    row, column = np.divmod(at, len(names))
    images = NameColumn()
    images.add(pa.array(paths, pa.string()).dictionary_encode())
    return job.statements(images, classes.names, row, classes.index[column], codes[at])


def _lines(path: str, encoding: str) -> Iterator[tuple[int, str]]:
    try:
        with open(path, encoding=encoding) as file:
            for number, line in enumerate(file, 1):
                if text := line.strip():
                    yield number, text
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: the text is not {encoding}; name its encoding, as in encoding=cp1252") from error


def _values_at_end(parts: list[str], vocabulary: frozenset[str]) -> int:
    """Return how many of the last parts are label values."""
    count = 0
    for part in reversed(parts):
        if canonical(part) not in vocabulary:
            break
        count += 1
    return count


def _path(text: str, size: int, separator: str | None) -> str:
    """Return what stands before the last ``size`` values."""
    return text.rsplit(None if separator in (None, " ") else separator, size)[0].strip()
