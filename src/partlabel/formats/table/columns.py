"""Columns of names and of label values, gathered batch by batch without a Python object for each cell."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from partlabel.formats.coding import NOT_A_LABEL, Coding, canonical
from partlabel.labels.names import hashes

#: distinct values and bad cells of one column that are kept for an error; the rest is counted
_KEPT = 1000


class NameColumn:
    """Names of rows (images, classes, groups) gathered as numbers into one list of unique names."""

    def __init__(self) -> None:
        self._dictionaries: list[pa.StringArray] = []
        self._codes: list[NDArray[np.int32]] = []
        self._size = 0

    def add(self, column: pa.DictionaryArray) -> None:
        """Add the rows of one batch."""
        self.add_codes(column.dictionary, column.indices.to_numpy())

    def add_codes(self, names: pa.StringArray, codes: NDArray[np.int32]) -> None:
        """Add rows given as positions in ``names``."""
        self._codes.append(codes.astype(np.int32) + np.int32(self._size))
        self._dictionaries.append(names)
        self._size += len(names)

    def finish(self, *, trim: bool = False) -> tuple[pa.StringArray, NDArray[np.int32], int]:
        """Return the unique names in order of appearance, the number of each row (int32), and how many were trimmed."""
        names = pa.chunked_array(self._dictionaries, pa.string()).combine_chunks()
        codes = np.concatenate(self._codes) if self._codes else np.zeros(0, np.int32)
        self._dictionaries, self._codes = [], []
        trimmed = 0
        if trim:
            plain = pc.call_function("utf8_trim_whitespace", [names])
            trimmed = int(pc.call_function("not_equal", [plain, names]).to_numpy(zero_copy_only=False).sum())
            names = plain
        unique, number = _numbered(names)
        return unique, number[codes] if len(number) else codes, trimmed


def _numbered(names: pa.StringArray) -> tuple[pa.StringArray, NDArray[np.int32]]:
    """Return the unique names in order of appearance, and the number there of each name, int32.

    Where few names are repeated, as when the rows of an image stand together, sorting hashes takes a fraction of the
    time of a hash table of millions of names. Names with one hash are compared.
    """
    hashed = hashes(names)
    order = np.argsort(hashed, kind="stable")
    hashed = hashed[order]
    repeat = np.flatnonzero(hashed[1:] == hashed[:-1])
    same = 4 * len(repeat) < len(names) and names.take(pa.array(order[repeat])).equals(
        names.take(pa.array(order[repeat + 1]))
    )
    if not same:
        encoded = names.dictionary_encode()
        return encoded.dictionary, encoded.indices.to_numpy()
    first = np.arange(len(names), dtype=np.int32)
    for before, after in zip(order[repeat].tolist(), order[repeat + 1].tolist(), strict=True):
        first[after] = first[before]
    is_first = first == np.arange(len(names))
    return names.filter(pa.array(is_first)), (np.cumsum(is_first, dtype=np.int32) - 1)[first]


class ValueColumn:
    """One column of label values: reads cells by a coding, counts the values and remembers what is no label.

    Attributes:
        coding: what the cells mean.
        seen: canonical value (of a cell that is no label: its text) -> cells.
        bad: (row, cell) of the first cells that are no label; ``bad_cells`` counts all.
    """

    def __init__(self, coding: Coding) -> None:
        self.coding = coding
        self.seen: Counter[str] = Counter()
        self.bad: list[tuple[int, str]] = []
        self.bad_cells = 0

    def read(self, column: pa.DictionaryArray, first_row: int) -> NDArray[np.int8]:
        """Return the codes of one batch, int8, as ``Coding.code`` gives them."""
        cells = column.dictionary.to_pylist()
        rows = column.indices.to_numpy()
        codes = np.array([self.coding.code(cell) for cell in cells], np.int8)
        if len(cells) == 0:
            return codes
        counts = np.bincount(rows, minlength=len(cells))
        for cell, code, count in zip(cells, codes.tolist(), counts.tolist(), strict=True):
            token = cell.strip() if code == NOT_A_LABEL else canonical(cell)
            if count and (token in self.seen or len(self.seen) < _KEPT):
                self.seen[token] += count
        result = codes[rows]
        if (codes == NOT_A_LABEL).any():
            wrong = np.flatnonzero(result == NOT_A_LABEL)
            self.bad_cells += len(wrong)
            self.bad += [(first_row + int(r), cells[rows[r]]) for r in wrong[: _KEPT - len(self.bad)]]
        return result

    @property
    def is_foreign(self) -> bool:
        """Whether the column is full of cells that are no label, and holds hardly a label: an age, a name, a view."""
        cells = self.seen.total() - self.seen[""]
        return self.bad_cells > 0 and (self.bad_cells == cells or (self.bad_cells > 50 and 2 * self.bad_cells > cells))

    def some(self) -> str:
        """Return the first values for a message."""
        first = [value or "blank" for value in list(self.seen)[:5]]
        return ", ".join(first) + (", ..." if len(self.seen) > len(first) else "")
