"""One table that is being read, and the checks that all layouts share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.formats import coding as codings
from partlabel.formats.assemble import Statements, image_groups
from partlabel.formats.coding import Coding
from partlabel.formats.report import ImportReport, Tally, ValueCount, plural
from partlabel.formats.table.columns import NameColumn, ValueColumn
from partlabel.formats.table.delimited import TextTable
from partlabel.formats.table.options import TAG_COLUMNS, TableOptions


@dataclass
class TableJob:
    """One table that is being read: its file, options, report, and the coding its cells are read with."""

    path: str
    options: TableOptions
    report: ImportReport
    coding: Coding
    table: TextTable | None = None
    list_lines: Sequence[int] = ()

    @property
    def text(self) -> TextTable:
        """The delimited file; list files have no header and use ``list_lines`` (line of each row) instead."""
        assert self.table is not None, "a list file is not a delimited table"
        return self.table

    def lines(self, rows: Sequence[int]) -> Mapping[int, int]:
        """Return the line of each of some rows."""
        return self.text.lines(rows) if self.table else {row: self.list_lines[row] for row in rows}

    def column(self, wanted: str | None, known: Sequence[str], what: str) -> int:
        """Return the number of a column by its name, or by one of the usual names.

        Raises:
            UserError: no such column, or several.
        """
        header = [name.strip() for name in self.text.header]
        if wanted is not None:
            return column_number(self.text, wanted)
        found = [i for i, name in enumerate(header) if name.casefold() in known]
        if len(found) == 1:
            return found[0]
        problem = "no column" if not found else f"{len(found)} columns"
        raise UserError(
            f"{self.path}: {problem} in the header for the {what}; name it with {what}_column=NAME",
            [f"{self.path}:1 header as read: {self.text.header!r}"],
        )

    def place(self, rows: Sequence[int]) -> list[str]:
        """Return ``file:line`` of rows."""
        lines = self.lines(rows)
        return [f"{self.path}:{lines[row]}" for row in rows]

    def settle_values(self, columns: Mapping[int, ValueColumn], names: Mapping[int, str]) -> None:
        """Check the values that were read, and report them.

        Args:
            columns: column number -> what was seen in it.
            names: column number -> name.

        Raises:
            UserError: cells that are no label (all are listed), or values whose meaning is not declared and not plain.
        """
        foreign = {i for i, column in columns.items() if column.is_foreign}
        tokens = {token for i, column in columns.items() for token in column.seen if i not in foreign}
        how = self.coding.name
        if self.options.coding is None:
            implied = codings.implied(tokens & codings.VOCABULARY)
            if implied is None:
                raise codings.undeclared(self.path, {names[i]: column.seen for i, column in columns.items()})
            self.coding, how = implied, "implied by the values"
        if any(column.bad_cells for column in columns.values()):
            raise self._not_labels(columns, names, foreign)
        self.report.coding = f"{self.coding.words()} ({how})"
        for token in self.coding.codes:
            if cells := sum(column.seen[token] for column in columns.values()):
                self.report.values[codings.shown(token)] = ValueCount(self.coding.meaning(token), cells)

    def _not_labels(self, columns: Mapping[int, ValueColumn], names: Mapping[int, str], foreign: set[int]) -> UserError:
        cells = [(row, i, cell) for i, c in columns.items() if i not in foreign for row, cell in c.bad]
        lines = self.lines([row for row, _, _ in cells])
        offenders = [f"{self.path}:{lines[row]}:{i + 1} {cell}" for row, i, cell in sorted(cells)]
        offenders += [f"column {i + 1} {names[i]!r}: {columns[i].some()}" for i in sorted(foreign)]
        total = sum(column.bad_cells for i, column in columns.items() if i not in foreign)
        parts = [f"{plural(total, 'cell')} without a label value"] if total else []
        parts += [f"{plural(len(foreign), 'column')} without labels"] if foreign else []
        hint = f"labels are: {self.coding.words()}"
        if len(columns) > 1 or foreign:
            hint += ". Columns that are not classes: ignore=NAME,NAME, or choose with classes=NAME,NAME"
        if any(names[i].casefold() in TAG_COLUMNS for i in foreign):
            hint += ". A column of tags: tag_separator=pipe"
        return UserError(f"{self.path}: {' and '.join(parts)}; {hint}", offenders)

    def image_names(self, images: NameColumn) -> tuple[pa.StringArray, NDArray[np.int32]]:
        """Return the unique image names and the image of each row; outer blanks are trimmed and noted."""
        names, number, trimmed = images.finish(trim=True)
        if trimmed:
            self.report.notes.append("image names with outer blanks were trimmed")
        return names, number

    def statements(
        self,
        images: NameColumn,
        classes: Sequence[str],
        row: NDArray[np.int64],
        cls: NDArray[np.int32],
        value: NDArray[np.int8],
        groups: NameColumn | None = None,
    ) -> Statements:
        """Put together what the rows say.

        Args:
            images: the image name of each row.
            classes: C names.
            row: int64 (S,) row of each statement; cls: its class, -1 where the class is not wanted; value: +1, -1 or 0.
            groups: the group name of each row.

        Raises:
            UserError: labels without an image name; an image in two groups.
        """
        names, number = self.image_names(images)
        said = Statements(names, classes, number[row], cls, value, row, self.place)
        if groups is not None:
            group_names, group, _ = groups.finish()
            image_groups(said, number, group, group_names)
        self._drop_nameless(said, number)
        said.keep(said.cls >= 0)
        return said

    def _drop_nameless(self, said: Statements, number: NDArray[np.int32]) -> None:
        """Refuse labels without an image name, and leave out rows that hold neither."""
        blank = said.images.index("").as_py()
        if blank < 0:
            return
        lost = np.unique(said.row[said.image == blank]).tolist()
        if lost:
            raise UserError(f"{self.path}: {len(lost)} rows have labels but no image name", self.place(lost))
        rows = np.flatnonzero(number == blank)
        self.report.rows -= len(rows)
        self.report.dropped["rows without image name and labels"] = Tally.of(
            self.place(rows[: Tally.KEPT].tolist()), len(rows)
        )
        keep = np.arange(len(said.images)) != blank
        said.images = said.images.filter(pa.array(keep))
        said.groups = None if said.groups is None else said.groups.filter(pa.array(keep))
        said.image = said.image - (said.image > blank).astype(np.int32)

    def report_unwanted(self, raw: Sequence[str], cls: NDArray[np.int32], wanted: NDArray[np.bool_]) -> None:
        """Count the labels of classes that are not in the class list.

        Args:
            raw: class names of the source.
            cls: int32 (S,) number in ``raw`` of each statement.
            wanted: for each raw name whether it is in the list.
        """
        if wanted.all():
            return
        unwanted = np.flatnonzero(~wanted)
        counts = np.bincount(cls, minlength=len(raw))[unwanted]
        reason = f"labels of {len(unwanted):,} classes that are not in the class list"
        self.report.dropped[reason] = Tally.of([raw[int(i)] for i in unwanted], int(counts.sum()))


def column_number(table: TextTable, name: str) -> int:
    """Return the number of a column given by name or as ``#1``.

    Raises:
        UserError: no such column, or several of that name.
    """
    header = [column.strip() for column in table.header]
    if name.startswith("#") and name[1:].isdigit() and 0 < int(name[1:]) <= len(header):
        return int(name[1:]) - 1
    found = [i for i, column in enumerate(header) if column == name.strip()]
    if len(found) == 1:
        return found[0]
    problem = "no column" if not found else f"{len(found)} columns"
    raise UserError(
        f"{table.path}: {problem} named {name!r}; a column can be given by number, as in #1",
        [f"{table.path}:1 header as read: {table.header!r}"],
    )
