"""The rows of one or several tables on their way to statements, and the checks that all layouts share."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.formats import coding as codings
from partlabel.formats.class_names import Classes, tidy
from partlabel.formats.coding import NOT_A_LABEL, SILENT, Coding
from partlabel.formats.report import ImportReport, Tally, ValueCount, plural
from partlabel.formats.source import MOST_FILLED, Source, image_groups
from partlabel.formats.spine import settle
from partlabel.formats.table.columns import KEPT, NameColumn, Seen, ValueColumns
from partlabel.formats.table.options import TAG_COLUMNS, TableOptions
from partlabel.formats.table.tables import Batch, Table


@dataclass
class Rows:
    """The rows of one or several tables, numbered through; ``count`` is how many were read so far."""

    count: int = 0
    _parts: list[tuple[int, Table, list[NDArray[np.int64]] | None]] = field(default_factory=list)

    def batches(
        self, table: Table, columns: Sequence[int], keep: Callable[[Batch], NDArray[np.bool_]] | None = None
    ) -> Iterator[Batch]:
        """Read the chosen columns of one more table; batches are numbered through all tables.

        Args:
            table: its rows follow those of the tables before.
            columns: as ``Table.batches`` takes them.
            keep: tells which rows of a batch are read, where not all are.
        """
        kept: list[NDArray[np.int64]] = []
        self._parts.append((self.count, table, None if keep is None else kept))
        for batch in table.batches(columns):
            own = batch.columns
            if keep is not None:
                mask = keep(batch)
                kept.append(batch.first_row + np.flatnonzero(mask))
                own = [column.filter(pa.array(mask)) for column in own]
            if len(own[0]):
                yield Batch(self.count, own)
                self.count += len(own[0])

    def place(self, rows: Sequence[int]) -> list[str]:
        """Return ``file:line`` of rows."""
        places: dict[int, str] = {}
        owner = [bisect_right(self._parts, row, key=lambda part: part[0]) - 1 for row in rows]
        for number in set(owner):
            first, table, kept = self._parts[number]
            numbers = np.array([row for row, part in zip(rows, owner, strict=True) if part == number])
            own = (numbers - first if kept is None else np.concatenate(kept)[numbers - first]).tolist()
            lines = table.lines(own)
            places |= {n: f"{table.path}:{lines[row]}" for n, row in zip(numbers.tolist(), own, strict=True)}
        return [places[row] for row in rows]


class Job:
    """What the rows say, as the readers of the layouts gather it; ``source`` puts it together.

    Args:
        options: of the format.
        report: gets what is found.
        coding: of the cells; None for that of the options.
        files: how many tables are read as one.
    """

    def __init__(
        self, options: TableOptions, report: ImportReport, coding: Coding | None = None, *, files: int = 1
    ) -> None:
        self.options, self.report, self.files = options, report, files
        self.coding = coding or options.coding or codings.UNDECLARED
        self.rows = Rows()
        self.images, self.groups, self.classes = NameColumn(), NameColumn(), NameColumn()
        self.seen: list[Seen] = []
        self.sort = False
        self._said: list[tuple[NDArray[np.int64], NDArray[np.int8]]] = []
        self._nameless: list[int] = []

    def batches(self, table: Table, columns: Sequence[int]) -> Iterator[Batch]:
        """Read columns of a table; the first holds the image names. Names of images and groups are gathered here.

        Raises:
            UserError: no row is as ``where`` says, or an option names a column that is not there.
        """
        group = [] if self.options.group is None else [table.column(self.options.group)]
        where = self.options.where or {}
        columns = [*columns, *group]
        chosen = [table.column(name) for name in where]
        left_out: Counter[str] = Counter()

        def keep(batch: Batch) -> NDArray[np.bool_]:
            mask = np.ones(len(batch), bool)
            for (name, wanted), cells in zip(where.items(), batch.columns[len(columns) :], strict=True):
                encoded = cells.dictionary_encode()
                values = encoded.dictionary.to_pylist()
                rows = encoded.indices.to_numpy()
                fits = np.array([codings.canonical(value) in wanted for value in values], bool)[rows]
                lost = np.bincount(rows[mask & ~fits], minlength=len(values)).tolist()
                for value, count in zip(values, lost, strict=True):
                    if count and (len(left_out) < KEPT or f"{name}={value}" in left_out):
                        left_out[f"{name}={value}"] += count
                mask &= fits
            return mask

        before = self.rows.count
        for batch in self.rows.batches(table, [*columns, *chosen], keep if where else None):
            own = batch.columns[: len(columns)]
            self.images.add_runs(own[0])
            if group:
                self.groups.add(own.pop())
            self.report.rows += len(batch)
            yield Batch(batch.first_row, own)
        if left_out:
            if self.rows.count == before:
                wanted = ", ".join(f"{name}={' or '.join(values)}" for name, values in where.items())
                some = [f"{value} ({count:,})" for value, count in left_out.most_common()]
                raise UserError(f"{table.path}: no row has {wanted}; the rows have", some)
            for number, (value, count) in enumerate(left_out.most_common()):
                reason = f"rows with {value}" if number < Tally.KEPT else "rows with other values"
                self.report.dropped.setdefault(reason, Tally()).count += count

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
            names: class names.
            cls: int32 (S,) numbers in ``names``.
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

    def say_block(self, codes: NDArray[np.int8], names: pa.StringArray, first_row: int) -> None:
        """Add the statements of a block of cells, int8 codes (classes, rows), from a row on."""
        flat = np.ascontiguousarray(codes.T).reshape(-1)
        at = np.flatnonzero((flat != SILENT) & (flat != NOT_A_LABEL))
        row, cls = np.divmod(at, max(len(codes), 1))
        self.say(row + first_row, names, cls.astype(np.int32), flat[at])

    def values(self, names: Sequence[str], places: Sequence[str]) -> ValueColumns:
        """Return columns of label values that are to be read; what is seen in them is checked at the end."""
        columns = ValueColumns(self.coding, [Seen(n, place) for n, place in zip(names, places, strict=True)])
        self.seen += columns.seen
        return columns

    def set_aside(self, table: Table) -> list[int]:
        """Return the columns that hold groups or what ``where`` is about."""
        names = [*([] if self.options.group is None else [self.options.group]), *(self.options.where or {})]
        return [table.column(name) for name in names]

    def note_unused(self, table: Table, used: Sequence[int]) -> None:
        """Note the columns of a table that are not read."""
        used = [*used, *self.set_aside(table)]
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
        return source if self.options.nothing is None else self._spread_nothing(source, self.options.nothing)

    def _settle_values(self) -> None:
        """Check the values that were read, and report them."""
        tokens = {token for seen in self.seen if not seen.is_foreign for token in seen.tokens}
        how = self.coding.name
        if self.coding is codings.UNDECLARED:
            implied = codings.implied(tokens & codings.VOCABULARY)
            if implied is None or any(seen.is_worded for seen in self.seen):
                columns: dict[str, Counter[str]] = {}
                for seen in self.seen:
                    columns[seen.name] = columns.get(seen.name, Counter()) + seen.tokens
                other = [seen for seen in self.seen if seen.is_other]
                labels = {token for seen in self.seen if seen not in other for token in seen.tokens}
                ignored = dict.fromkeys([*(self.options.ignore or []), *(seen.option for seen in other)])
                raise codings.undeclared(self.report.source, columns, labels, list(ignored))
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
            names = ",".join(seen.option for seen in foreign) or "NAME,NAME"
            hint += f". Columns that are not classes: ignore={names}, or choose with classes=NAME,NAME"
        if any(seen.name.casefold() in TAG_COLUMNS for seen in foreign):
            hint += ". A column of tags: tag_separator=pipe"
        return UserError(f"{self.report.source}: {' and '.join(parts)}; {hint}", offenders)

    def _spread_nothing(self, source: Source, words: Sequence[str]) -> Source:
        """Say of images in which a class says that nothing is there that all other classes are absent.

        Raises:
            UserError: more labels than memory may hold.
        """
        folded = {tidy(word).casefold() for word in words}
        is_word = np.array([tidy(name).casefold() in folded for name in source.classes], bool)
        if not is_word.any():
            self.report.warnings.append(f"nothing={','.join(words)}: no class has such a name")
            return source
        cls, value = np.asarray(source.cls), np.asarray(source.value)
        names = [name for name, own in zip(source.classes, is_word, strict=True) if not own]
        chosen = self.options.classes
        if chosen is not None:
            chosen = [name for name in chosen if tidy(name).casefold() not in folded]
        settled = settle(names, replace(self.options, classes=chosen), self.report, sort=self.sort)
        bare = np.flatnonzero(is_word[cls] & (value > 0))
        size = len(settled.names)
        if len(bare) * size > MOST_FILLED:
            raise UserError(
                f"{self.report.source}: nothing= would write {len(bare) * size:,} labels; choose fewer classes"
            )
        image, row = np.asarray(source.image)[bare], np.asarray(source.row)[bare]
        source.keep(~is_word[cls])
        self.report.coding += f"; {', '.join(words)} = every class absent"
        self.report.notes.append(f"images with {' or '.join(words)}: {len(np.unique(image)):,}")
        return replace(
            source,
            classes=[*names, *settled.names],
            settled=Classes(settled.names, np.concatenate([settled.index, np.arange(size, dtype=np.int32)])),
            image=np.concatenate([np.asarray(source.image), np.repeat(image, size)]),
            cls=np.concatenate(
                [(np.cumsum(~is_word) - 1)[np.asarray(source.cls)], np.tile(np.arange(size) + len(names), len(bare))]
            ),
            value=np.concatenate([np.asarray(source.value), np.full(len(bare) * size, -1, np.int8)]),
            row=np.concatenate([np.asarray(source.row), np.repeat(row, size)]),
        )

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
