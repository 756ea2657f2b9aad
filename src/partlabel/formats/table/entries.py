"""Cells with several entries: tags between separators, lists as Python or JSON writes them, values, class numbers."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.formats.coding import PRESENT
from partlabel.formats.report import Tally, plural
from partlabel.formats.table.columns import KEPT, ValueColumns
from partlabel.formats.table.job import Job
from partlabel.labels.pairs import ranges

_DECIDE = (
    "say what they are: entries=names (of present classes), entries=numbers (of present classes, from 0; with "
    "classes=FILE), or entries=values (one for each class; with classes=FILE)"
)

_VALUES = frozenset({"0", "1", "-1"})


def parse_list(cell: str) -> list[object] | None:
    """Return the entries of a cell that holds a list as Python or JSON writes it; None for any other cell."""
    text = cell.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    for parse in (json.loads, ast.literal_eval):
        try:
            found = parse(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        return found if isinstance(found, list) else None
    return None


class Entries:
    """Turns the entries of each row into statements; what is wrong is listed by ``finish``.

    Args:
        job: gets the statements.
        path: of the table.
        meaning: ``names``, ``numbers`` or ``values``; None for names, unless the entries look like something else.
        place: number of the column, after ``file:line``, such as ``:2``.
        names: the classes that numbers and values are about; None for those of the class list.

    Raises:
        UserError: numbers or values without a class list.
    """

    def __init__(
        self, job: Job, path: str, meaning: str | None, place: str, names: Sequence[str] | None = None
    ) -> None:
        self._job, self._path, self._meaning, self._place = job, path, meaning, place
        self._wrong: list[tuple[int, str]] = []
        self._kinds: dict[str, list[tuple[int, str]]] = {"list": [], "plain": []}
        self._blank = Tally()
        self._only_values, self._several = True, False
        self._values: ValueColumns | None = None
        names = job.options.classes if names is None else names
        if meaning in ("numbers", "values"):
            if names is None:
                raise UserError(f"{path}: entries={meaning} needs the class names in order, as in classes=names.txt")
            self._names = pa.array(names, pa.string())
            job.classes.add_codes(self._names, np.zeros(0, np.int32))
            if meaning == "values":
                self._values = job.values(names, [place] * len(names))

    def add_cells(self, column: pa.StringArray, first_row: int) -> None:
        """Add cells as they stand in a table.

        Raises:
            UserError: tags without a separator.
        """
        encoded = column.dictionary_encode()
        code = encoded.indices.to_numpy()
        first = dict(zip(reversed(code.tolist()), range(len(code) - 1, -1, -1), strict=True))
        separator = self._job.options.tag_separator
        lists: list[list[str]] = []
        for number, cell in enumerate(encoded.dictionary.to_pylist()):
            row = first_row + first[number]
            found = parse_list(cell)
            if found is not None:
                self._keep(self._kinds["list"], row, cell)
                lists.append(self._texts(found, row, cell))
            elif not cell.strip():
                lists.append([])
            elif separator is None:
                some = ", ".join(repr(cell) for cell in encoded.dictionary[:3].to_pylist())
                raise UserError(
                    f"{self._path}: name the character between tags, as in tag_separator=pipe; the cells are {some}, "
                    "..."
                )
            else:
                self._keep(self._kinds["plain"], row, cell)
                lists.append([part for part in cell.split(separator) if part.strip()])
        self.add(lists, code, first_row)

    def _texts(self, found: list[object], row: int, cell: str) -> list[str]:
        """Return the entries of a list as text; blank ones are left out and counted."""
        if not all(isinstance(entry, str | int | float | None) for entry in found):
            self._keep(self._wrong, row, f"{cell[:60]} is not a list of names or numbers")
            return []
        if self._meaning is None and any(isinstance(entry, int | float) for entry in found):
            raise UserError(f"{self._path}: the cells hold lists of numbers; {_DECIDE}", [self._at(row, cell)])
        texts = ["" if entry is None else str(entry) for entry in found]
        if self._meaning == "values":
            return texts
        if lost := sum(not text.strip() for text in texts):
            self._blank.count += lost
            self._blank.examples = [*self._blank.examples, cell[:60]][: Tally.KEPT]
        return [text for text in texts if text.strip()]

    def add(self, lists: Sequence[Sequence[str]], code: NDArray[np.int32], first_row: int) -> None:
        """Add rows.

        Args:
            lists: entries.
            code: int32 (R,) number in ``lists`` of each row.
            first_row: number of the first of the rows.
        """
        flat = [entry for entries in lists for entry in entries]
        start = np.cumsum([0, *map(len, lists)])
        count = np.diff(start)[code]
        row = np.repeat(np.arange(len(code)) + first_row, count)
        at = ranges(start[code], count).astype(np.int32)
        if self._values is not None:
            self._add_values(lists, code, first_row)
        elif self._meaning == "numbers":
            size = len(self._names)
            plain = [entry.strip() for entry in flat]
            number = np.array(
                [int(e) if e.isascii() and e.isdigit() and int(e) < size else -1 for e in plain], np.int32
            )
            cls = number[at]
            for i in np.flatnonzero(cls < 0).tolist():
                self._keep(self._wrong, int(row[i]), f"{flat[at[i]].strip()} is no number of a class, 0 to {size - 1}")
            self._job.say(row[cls >= 0], self._names, cls[cls >= 0], np.full(int((cls >= 0).sum()), PRESENT, np.int8))
        else:
            self._only_values = self._only_values and _VALUES.issuperset(map(str.strip, flat))
            self._several = self._several or any(len(entries) > 1 for entries in lists)
            if odd := [i for i, name in enumerate(flat) if _is_bracketed(name.strip())]:
                for i in np.flatnonzero(np.isin(at, odd)).tolist():
                    self._keep(self._wrong, int(row[i]), f"{flat[at[i]].strip()} begins or ends with a bracket")
            self._job.say(row, pa.array(flat, pa.string()), at, np.full(len(row), PRESENT, np.int8))

    def _add_values(self, lists: Sequence[Sequence[str]], code: NDArray[np.int32], first_row: int) -> None:
        assert self._values is not None
        size = len(self._names)
        for row, number in enumerate(code.tolist()):
            if len(lists[number]) not in (0, size):
                self._keep(self._wrong, first_row + row, f"{plural(len(lists[number]), 'value')}, {size} classes")
        fit = [entries if len(entries) == size else [""] * size for entries in lists]
        columns = [pa.array([entries[k] for entries in fit], pa.string()).take(pa.array(code)) for k in range(size)]
        self._job.say_block(self._values.read(columns, first_row), self._names, first_row)

    def finish(self) -> None:
        """Report what was left out.

        Raises:
            UserError: cells that cannot be read (all are listed), lists beside plain tags, values that may be names.
        """
        kinds, report = self._kinds, self._job.report
        if self._values is not None:
            self._values.finish()
        if kinds["list"] and kinds["plain"]:
            fewer = min(kinds.values(), key=len)
            beside = "lists" if fewer is kinds["plain"] else "tags"
            self._wrong += [(row, f"{cell[:60]} beside {beside}") for row, cell in fewer]
        if self._wrong:
            places = self._job.rows.place([row for row, _ in self._wrong])
            offenders = [f"{at}{self._place} {why}" for at, (_, why) in zip(places, self._wrong, strict=True)]
            what = f"{plural(len(offenders), 'cell')} cannot be read as lists or tags"
            raise UserError(f"{self._path}: {what}", offenders)
        if self._meaning is None and self._only_values and self._several:
            raise UserError(f"{self._path}: every entry is 0, 1 or -1; {_DECIDE}")
        if self._blank.count:
            report.dropped["blank names in lists"] = self._blank

    def _at(self, row: int, text: str) -> str:
        return f"{self._job.rows.place([row])[0]}{self._place} {text[:60]}"

    @staticmethod
    def _keep(kept: list[tuple[int, str]], row: int, text: str) -> None:
        if len(kept) < KEPT:
            kept.append((row, text))


def _is_bracketed(name: str) -> bool:
    """Tell whether a name has a bracket at one end only, as a list has that was cut at its commas."""
    return (name.startswith("[") and not name.endswith("]")) or (name.endswith("]") and "[" not in name)
