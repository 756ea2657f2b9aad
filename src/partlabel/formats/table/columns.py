"""Columns of names and of label values, gathered batch by batch without a Python object for each cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from partlabel.formats.coding import NOT_A_LABEL, USUAL, Coding, canonical
from partlabel.formats.source import unique

#: distinct values and bad cells of one column that are kept for an error; the rest is counted
KEPT = 1000


class NameColumn:
    """Names of rows (images, classes, groups) gathered as numbers into one list of unique names."""

    def __init__(self) -> None:
        self._dictionaries: list[pa.StringArray] = []
        self._codes: list[NDArray[np.int32]] = []
        self._size = 0

    def add(self, column: pa.StringArray) -> None:
        """Add the rows of one batch."""
        encoded = column.dictionary_encode()
        self.add_codes(encoded.dictionary, encoded.indices.to_numpy())

    def add_runs(self, column: pa.StringArray) -> None:
        """Add the rows of one batch in which equal names stand together, as those of images do; faster than ``add``."""
        starts = np.ones(len(column), bool)
        if len(column):
            starts[1:] = pc.call_function("not_equal", [column[1:], column[:-1]]).to_numpy(zero_copy_only=False)
        self.add_codes(column.filter(pa.array(starts)), np.cumsum(starts, dtype=np.int32) - 1)

    def add_codes(self, names: pa.StringArray, codes: NDArray[np.int32]) -> None:
        """Add rows given as positions in ``names``."""
        self._codes.append(codes.astype(np.int32) + np.int32(self._size))
        self._dictionaries.append(names)
        self._size += len(names)

    def finish(self, *, trim: bool = False) -> tuple[pa.StringArray, NDArray[np.int32], int]:
        """Return the unique names in order of appearance, the number of each row (int32), and how many were trimmed."""
        names, number = unique(pa.chunked_array(self._dictionaries, pa.string()).combine_chunks())
        codes = np.concatenate(self._codes) if self._codes else np.zeros(0, np.int32)
        self._dictionaries, self._codes = [], []
        trimmed = 0
        if trim:
            plain = pc.call_function("utf8_trim_whitespace", [names])
            trimmed = int(pc.call_function("not_equal", [plain, names]).to_numpy(zero_copy_only=False).sum())
            if trimmed:
                names, merged = unique(plain)
                number = merged[number]
        return names, number[codes] if len(number) else codes, trimmed


@dataclass
class Seen:
    """What was seen in one column of label values.

    Attributes:
        name: of the column; ``place``: its number for people, after ``file:line``, such as ``:3``.
        tokens: canonical value (of a cell that is no label: its text) -> cells.
        bad: (row, cell) of the first cells that are no label; ``bad_cells`` counts all.
    """

    name: str
    place: str = ""
    tokens: Counter[str] = field(default_factory=Counter)
    bad: list[tuple[int, str]] = field(default_factory=list)
    bad_cells: int = 0

    @property
    def is_foreign(self) -> bool:
        """Whether the column is full of cells that are no label, and holds hardly a label: an age, a name, a view."""
        cells = self.tokens.total() - self.tokens[""]
        return self.bad_cells > 0 and (self.bad_cells == cells or (self.bad_cells > 50 and 2 * self.bad_cells > cells))

    @property
    def is_mostly_bad(self) -> bool:
        """Whether half of the cells that are not blank, or more, are no label."""
        return self.bad_cells > 0 and 2 * self.bad_cells >= self.tokens.total() - self.tokens[""]

    @property
    def is_other(self) -> bool:
        """Whether half of the cells that are not blank, or more, are not even what people write for a label (y, ?)."""
        usual = sum(cells for token, cells in self.tokens.items() if canonical(token) in USUAL)
        return self.is_mostly_bad and 2 * usual <= self.tokens.total() - self.tokens[""]

    @property
    def is_worded(self) -> bool:
        """Whether all cells are what people write for labels, half of them or more in another way than 1, -1 and 0."""
        return self.is_mostly_bad and all(not token or canonical(token) in USUAL for token in self.tokens)

    @property
    def option(self) -> str:
        """How an option names the column: by its name, or by its number where the name holds a comma."""
        return f"#{self.place[1:]}" if "," in self.name or not self.name else self.name

    def some(self) -> str:
        """Return the first values for a message."""
        first = [value or "blank" for value in list(self.tokens)[:5]]
        return ", ".join(first) + (", ..." if len(self.tokens) > len(first) else "")


class ValueColumns:
    """Columns of label values side by side: reads their cells by a coding and remembers what was seen in each."""

    def __init__(self, coding: Coding, seen: Sequence[Seen]) -> None:
        self.seen = list(seen)
        self._coding = coding
        self._tokens = [*coding.codes, None]
        self._counts = np.zeros((len(self.seen), len(self._tokens)), np.int64)

    def read(self, columns: Sequence[pa.StringArray], first_row: int) -> NDArray[np.int8]:
        """Return the codes of one batch, int8 (columns, rows), as ``Coding.code`` gives them."""
        if not columns or not len(columns[0]):
            return np.zeros((len(columns), 0), np.int8)
        encoded = pa.concat_arrays(columns).dictionary_encode()
        cells, at = encoded.dictionary.to_pylist(), encoded.indices.to_numpy().reshape(len(columns), -1)
        number = {token: i for i, token in enumerate(self._tokens)}
        token = np.array([number.get(canonical(cell), len(number) - 1) for cell in cells], np.int32)
        meaning = np.array([*self._coding.codes.values(), NOT_A_LABEL], np.int8)
        own = np.arange(len(columns))[:, None] * len(self._tokens) + token[at]
        counts = np.bincount(own.reshape(-1), minlength=self._counts.size).reshape(self._counts.shape)
        self._counts += counts
        for i in np.flatnonzero(counts[:, -1]).tolist():
            self._remember(self.seen[i], cells, at[i], token[at[i]] == len(number) - 1, first_row)
        return meaning[token][at]

    def _remember(
        self, seen: Seen, cells: Sequence[str], at: NDArray[np.int32], bad: NDArray[np.bool_], first_row: int
    ) -> None:
        rows = np.flatnonzero(bad)
        seen.bad_cells += len(rows)
        seen.bad += [(first_row + int(r), cells[at[r]]) for r in rows[: KEPT - len(seen.bad)]]
        found, first, counts = np.unique(at[rows], return_index=True, return_counts=True)
        for i in np.argsort(first).tolist():
            text = cells[found[i]].strip()
            if text in seen.tokens or len(seen.tokens) < KEPT:
                seen.tokens[text] += int(counts[i])

    def finish(self) -> list[Seen]:
        """Return what was seen in each column: label values in the order of the coding, other cells, blank ones."""
        for seen, counts in zip(self.seen, self._counts.tolist(), strict=True):
            labels = {token: n for token, n in zip(self._tokens, counts, strict=True) if n and token is not None}
            blank = {"": labels.pop("")} if "" in labels else {}
            seen.tokens = Counter({**labels, **seen.tokens, **blank})
        return self.seen
