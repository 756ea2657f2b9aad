"""The rows of one or several tables on their way to statements, and the checks that all layouts share."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.formats import coding as codings
from partlabel.formats.coding import NOT_A_LABEL, SILENT, Coding
from partlabel.formats.report import ImportReport, Tally, ValueCount, plural
from partlabel.formats.source import Source, image_groups
from partlabel.formats.table.columns import NameColumn, Seen, ValueColumns
from partlabel.formats.table.options import TAG_COLUMNS, TableOptions
from partlabel.formats.table.tables import Batch, Table


@dataclass
class Rows:
    """The rows of one or several tables, numbered through; ``count`` is how many were read so far."""

    count: int = 0
    _parts: list[tuple[int, Table]] = field(default_factory=list)

    def batches(self, table: Table, columns: Sequence[int]) -> Iterator[Batch]:
        """Read the chosen columns of one more table; batches are numbered through all tables."""
        first = self.count
        self._parts.append((first, table))
        for batch in table.batches(columns):
            self.count += len(batch)
            yield Batch(first + batch.first_row, batch.columns)

    def place(self, rows: Sequence[int]) -> list[str]:
        """Return ``file:line`` of rows."""
        places: dict[int, str] = {}
        owner = [bisect_right(self._parts, row, key=lambda part: part[0]) - 1 for row in rows]
        for number in set(owner):
            first, table = self._parts[number]
            own = [row - first for row, part in zip(rows, owner, strict=True) if part == number]
            places |= {first + row: f"{table.path}:{line}" for row, line in table.lines(own).items()}
        return [places[row] for row in rows]


class Job:
    """What the rows say, as the readers of the layouts gather it; ``source`` puts it together."""

    def __init__(self, options: TableOptions, report: ImportReport, coding: Coding | None = None) -> None:
        self.options, self.report = options, report
        self.coding = coding or options.coding or codings.UNDECLARED
        self.rows = Rows()
        self.images, self.groups, self.classes = NameColumn(), NameColumn(), NameColumn()
        self.seen: list[Seen] = []
        self.sort = False
        self._said: list[tuple[NDArray[np.int64], NDArray[np.int8]]] = []
        self._nameless: list[int] = []

    def batches(self, table: Table, columns: Sequence[int]) -> Iterator[Batch]:
        """Read columns of a table; the first holds the image names. Names of images and groups are gathered here."""
        group = [] if self.options.group is None else [table.column(self.options.group)]
        for batch in self.rows.batches(table, [*columns, *group]):
            self.images.add_runs(batch.columns[0])
            if group:
                self.groups.add(batch.columns.pop())
            self.report.rows += len(batch)
            yield batch

    def say(
        self,
        row: NDArray[np.int64],
        names: pa.StringArray,
        cls: NDArray[np.int32],
        value: NDArray[np.int8],
        *,
        named: bool = False,
    ) -> None:
        """Add statements; a blank class name states nothing.

        Args:
            row: int64 (S,) rows, numbered through all tables.
            names: class names; ``cls``: int32 (S,) numbers in them.
            value: int8 (S,) codes as ``Coding.code`` gives them; those that are no label or unknown are left out.
            named: whether a statement without a class name is a mistake.
        """
        blank = pc.call_function("equal", [pc.call_function("utf8_trim_whitespace", [names]), pa.scalar("")])
        lost = blank.to_numpy(zero_copy_only=False)[cls]
        kept = (value != SILENT) & (value != NOT_A_LABEL)
        if named:
            self._nameless += row[lost & kept].tolist()
        kept &= ~lost
        if not kept.all():
            row, cls, value = row[kept], cls[kept], value[kept]
        self._said.append((row, value))
        self.classes.add_codes(names, cls)

    def values(self, names: Sequence[str], places: Sequence[str]) -> ValueColumns:
        """Return columns of label values that are to be read; what is seen in them is checked at the end."""
        columns = ValueColumns(self.coding, [Seen(n, place) for n, place in zip(names, places, strict=True)])
        self.seen += columns.seen
        return columns

    def note_unused(self, table: Table, used: Sequence[int]) -> None:
        """Note the columns of a table that are not read."""
        used = [*used, *([] if self.options.group is None else [table.column(self.options.group)])]
        if unused := [name.strip() for i, name in enumerate(table.header) if i not in used]:
            self.report.notes.append(f"columns not used: {Tally.of(unused)}")

    def source(self) -> Source:
        """Return everything that was gathered.

        Raises:
            UserError: cells that are no label, values whose meaning is not plain, labels without an image or a class
                name, images in two groups; all offenders are listed.
        """
        if self.seen:
            self._settle_values()
        if self._nameless:
            what = f"{len(self._nameless)} rows have a label but no class name"
            raise UserError(f"{self.report.source}: {what}", self.rows.place(self._nameless))
        row = np.concatenate([np.zeros(0, np.int64), *(row for row, _ in self._said)])
        value = np.concatenate([np.zeros(0, np.int8), *(value for _, value in self._said)])
        classes, cls, _ = self.classes.finish()
        images, number, trimmed = self.images.finish(trim=True)
        if trimmed:
            self.report.notes.append("image names with outer blanks were trimmed")
        names = classes.to_pylist()
        named = np.array([bool(name.strip()) for name in names], bool)
        if not named.all():
            names, cls = [n for n, is_name in zip(names, named, strict=True) if is_name], (np.cumsum(named) - 1)[cls]
        source = Source(images, names, number[row], cls, value, self.rows.place, row=row, sort=self.sort)
        if self.options.group is not None:
            groups, group, _ = self.groups.finish()
            source.groups = image_groups(source, number, group, groups)
        self._drop_nameless(source, number)
        return source

    def _settle_values(self) -> None:
        """Check the values that were read, and report them."""
        tokens = {token for seen in self.seen if not seen.is_foreign for token in seen.tokens}
        how = self.coding.name
        if self.coding is codings.UNDECLARED:
            implied = codings.implied(tokens & codings.VOCABULARY)
            if implied is None:
                columns: dict[str, Counter[str]] = {}
                for seen in self.seen:
                    columns[seen.name] = columns.get(seen.name, Counter()) + seen.tokens
                raise codings.undeclared(self.report.source, columns)
            self.coding, how = implied, "implied by the values"
        if any(seen.bad_cells for seen in self.seen):
            raise self._not_labels()
        self.report.coding = f"{self.coding.words()} ({how})"
        for token in self.coding.codes:
            if cells := sum(seen.tokens[token] for seen in self.seen):
                self.report.values[codings.shown(token)] = ValueCount(self.coding.meaning(token), cells)

    def _not_labels(self) -> UserError:
        foreign = [seen for seen in self.seen if seen.is_foreign]
        cells = sorted((row, i, cell) for i, c in enumerate(self.seen) if not c.is_foreign for row, cell in c.bad)
        places = self.rows.place([row for row, _, _ in cells])
        offenders = [f"{at}{self.seen[i].place} {cell}" for at, (_, i, cell) in zip(places, cells, strict=True)]
        offenders += [f"column {seen.place[1:]} {seen.name!r}: {seen.some()}" for seen in foreign]
        total = sum(seen.bad_cells for seen in self.seen if not seen.is_foreign)
        parts = [f"{plural(total, 'cell')} without a label value"] if total else []
        parts += [f"{plural(len(foreign), 'column')} without labels"] if foreign else []
        hint = f"labels are: {self.coding.words()}"
        if len(self.seen) > 1 or foreign:
            hint += ". Columns that are not classes: ignore=NAME,NAME, or choose with classes=NAME,NAME"
        if any(seen.name.casefold() in TAG_COLUMNS for seen in foreign):
            hint += ". A column of tags: tag_separator=pipe"
        return UserError(f"{self.report.source}: {' and '.join(parts)}; {hint}", offenders)

    def _drop_nameless(self, source: Source, number: NDArray[np.int32]) -> None:
        """Refuse labels without an image name, and leave out rows that hold neither."""
        blank = source.images.index("").as_py()
        if blank < 0:
            return
        image = np.asarray(source.image)
        if lost := np.unique(np.asarray(source.row)[image == blank]).tolist():
            what = f"{len(lost)} rows have labels but no image name"
            raise UserError(f"{self.report.source}: {what}", self.rows.place(lost))
        rows = np.flatnonzero(number == blank)
        self.report.rows -= len(rows)
        some = self.rows.place(rows[: Tally.KEPT].tolist())
        self.report.dropped["rows without image name and labels"] = Tally.of(some, len(rows))
        keep = pa.array(np.arange(len(source.images)) != blank)
        source.images = source.images.filter(keep)
        source.groups = None if source.groups is None else source.groups.filter(keep)
        source.image = image - (image > blank)
