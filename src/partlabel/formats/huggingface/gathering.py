"""The labels of a data set, gathered batch by batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.formats.assemble import Statements
from partlabel.formats.class_names import settle_names
from partlabel.formats.huggingface import features
from partlabel.formats.huggingface.choosing import Columns
from partlabel.formats.huggingface.options import HuggingFaceOptions
from partlabel.formats.huggingface.pictures import PictureFolder
from partlabel.formats.huggingface.reading import Cells, DataFile, cells
from partlabel.formats.report import ImportReport, Tally, plural
from partlabel.formats.table.columns import NameColumn
from partlabel.images.locate import name_below

#: offenders of one kind that are kept for an error
_KEPT = 1000


class Gathered:
    """The labels read so far; rows are numbered through all files."""

    def __init__(
        self, columns: Columns, options: HuggingFaceOptions, report: ImportReport, folder: PictureFolder | None
    ) -> None:
        self.columns, self.options, self.report, self.folder = columns, options, report, folder
        self.rows = 0
        self._files: list[tuple[int, DataFile]] = []
        self._images = NameColumn()
        self._number: dict[str, int] = {}  # class name as in the source -> number
        self._listed: dict[str, None] = {}
        self._parts: list[tuple[NDArray[np.int64], NDArray[np.int32], int, int]] = []
        self._labelled: list[NDArray[np.bool_]] = []
        self._wrong: list[str] = []
        self._wrong_count = 0
        self._dropped: Counter[str] = Counter()

    def add_file(self, file: DataFile, described: Mapping[str, Any]) -> None:
        """Take in a file.

        Raises:
            UserError: the file lacks a column or is damaged; a column holds no classes or no image names.
        """
        there = dict(features.leaves(file.schema))
        if lost := [name for name in (self.columns.image, *self.columns.labels) if name not in there]:
            raise UserError(f"{file.path}: this file has no column {' and no column '.join(lost)}")
        self._files.append((self.rows, file))
        names = {name: features.class_names(file.path, described, name) for name in self.columns.labels}
        for listed in names.values():
            self._listed.update(dict.fromkeys(listed or ()))
        image = self.columns.image if self.folder is not None else self.columns.names
        for batch in file.batches([image, *self.columns.labels]):
            self._add_images(file, batch)
            labelled = np.zeros(len(batch), bool)
            for source, (column, value) in enumerate(self.columns.labels.items()):
                labelled |= self._add_labels(file, column, value, source, cells(batch, column), names[column])
            self._labelled.append(labelled)
            self.rows += len(batch)

    def place(self, row: int) -> str:
        """Return where a row is, for people."""
        first, file = max((entry for entry in self._files if entry[0] <= row), key=lambda entry: entry[0])
        return file.place(row - first)

    def _refuse(self, rows: Sequence[int], problem: str) -> None:
        self._wrong_count += len(rows)
        self._wrong += [f"{self.place(row)}: {problem}" for row in rows[: max(_KEPT - len(self._wrong), 0)]]

    def _add_images(self, file: DataFile, batch: pa.RecordBatch) -> None:
        entries = cells(batch, self.columns.names)
        values = entries.values
        if len(values) != len(batch):
            raise UserError(f"{file.path}: the column {self.columns.names} holds lists, not one image name in each row")
        if self.folder is not None:
            names = self.folder.save(batch.column(self.columns.image), values, self.rows, self.place)
            self._images.add(pa.array(names, pa.string()).dictionary_encode())
            return
        if pa.types.is_integer(values.type):
            values = values.cast(pa.string())
        if not features.is_text(values.type) and not pa.types.is_null(values.type):
            raise UserError(f"{file.path}: the column {self.columns.names} holds {values.type}, not image names")
        values = pc.call_function("utf8_trim_whitespace", [values.cast(pa.string()).fill_null("")])
        nameless = np.flatnonzero(pc.call_function("equal", [values, pa.scalar("")]).to_numpy(zero_copy_only=False))
        if len(nameless):
            hint = "; extract=FOLDER writes the pictures and names them" if self.columns.picture else ""
            self._refuse((nameless + self.rows).tolist(), f"no image name in {self.columns.names}{hint}")
        if self.options.images is not None:
            values = pa.array([name_below(name, self.options.images) for name in values.to_pylist()], pa.string())
        self._images.add(values.dictionary_encode())

    def _add_labels(
        self, file: DataFile, column: str, value: int, source: int, entries: Cells, names: Sequence[str] | None
    ) -> NDArray[np.bool_]:
        """Take in the labels of a batch; return which rows are labelled."""
        values = entries.values
        if pa.types.is_null(values.type):
            number, nothing = np.full(len(values), -1, np.int32), np.ones(len(values), bool)
        elif pa.types.is_integer(values.type):
            number, nothing = self._numbered(column, entries, names)
        elif features.is_text(values.type):
            number, nothing = self._named(values)
        else:
            raise UserError(f"{file.path}: the column {column} holds {values.type}, neither class numbers nor names")
        taken = number >= 0
        self._parts.append((entries.row[taken] + self.rows, number[taken], value, source))
        size = len(entries.valid)
        count = np.bincount(entries.row, minlength=size)
        return entries.valid & ~((count > 0) & (np.bincount(entries.row[nothing], minlength=size) == count))

    def _numbered(
        self, column: str, entries: Cells, names: Sequence[str] | None
    ) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Return the number of the class of each entry, -1 for none; and which entries say that there is no label."""
        known = self.options.classes or [] if names is None else names
        value = entries.values.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        outside = (value < -1) | (value >= len(known))
        for wrong in np.unique(value[outside]).tolist():
            where = np.unique(entries.row[value == wrong] + self.rows).tolist()
            text = f"0 to {len(known) - 1} are known" if known else "the column has no class names (classes=NAMES)"
            self._refuse(where, f"class number {wrong} in {column}, {text}")
        nothing = value == -1
        self._dropped["entries -1, which are no label"] += int(nothing.sum()) - entries.values.null_count
        own = [self._number.setdefault(name, len(self._number)) if name.strip() else -1 for name in known]
        number = np.array([*own, -1], np.int32)[np.where(outside, -1, value)]
        return number, nothing

    def _named(self, values: pa.Array) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        encoded = values.fill_null("").dictionary_encode()
        own = [
            self._number.setdefault(name, len(self._number)) if name.strip() else -1
            for name in encoded.dictionary.to_pylist()
        ]
        number = np.array([*own, -1], np.int32)[encoded.indices.to_numpy()]
        self._dropped["blank class names"] += int((number < 0).sum())
        return number, number < 0

    def statements(self, source: str) -> tuple[Statements, NDArray[np.bool_]]:
        """Put the labels together; return them, and which images are not labelled.

        Raises:
            UserError: rows whose image or labels cannot be read.
        """
        if self._wrong:
            raise UserError(f"{source}: {plural(self._wrong_count, 'row')} cannot be read", self._wrong)
        report = self.report
        report.rows = self.rows
        for reason, count in self._dropped.items():
            if count:
                report.dropped[reason] = Tally(count, [])
        names, number, _ = self._images.finish()
        self._note_repeats(names, number)
        row = np.concatenate([np.zeros(0, np.int64), *(part[0] for part in self._parts)])
        own = np.concatenate([np.zeros(0, np.int32), *(part[1] for part in self._parts)])
        value = np.repeat([part[2] for part in self._parts], [len(part[0]) for part in self._parts]).astype(np.int8)
        column = np.repeat([part[3] for part in self._parts], [len(part[0]) for part in self._parts]).astype(np.int64)
        classes, cls = self._classes(own)
        columns = list(self.columns.labels)

        def place(rows: Sequence[int]) -> list[str]:
            return [f"{self.place(row // len(columns))}, {columns[row % len(columns)]}" for row in rows]

        said = Statements(names, classes, number[row], cls, value, row * len(columns) + column, place)
        said.keep(cls >= 0)
        labelled = np.zeros(len(names), bool)
        labelled[number[np.concatenate([np.zeros(0, bool), *self._labelled])]] = True
        return said, ~labelled

    def _note_repeats(self, names: pa.StringArray, number: NDArray[np.int32]) -> None:
        repeated = np.flatnonzero(np.bincount(number, minlength=len(names)) > 1)
        if not len(repeated):
            return
        some = Tally.of(names.take(pa.array(repeated)).to_pylist())
        text = f"images on more than one row, their labels are put together: {some}"
        if self.columns.picture and self.folder is None:
            self.report.warnings.append(f"{text}; if these are different pictures, name another image_column")
        else:
            self.report.notes.append(text)

    def _classes(self, own: NDArray[np.int32]) -> tuple[list[str], NDArray[np.int32]]:
        """Return the class names, and the class of each label, -1 where it is not wanted."""
        listed = [name for name in self._listed if name.strip()]
        raw = list(dict.fromkeys([*listed, *self._number]))
        settled = settle_names(
            raw, self.report, rename=self.options.rename, chosen=self.options.classes, sort=not listed
        )
        at = {name: i for i, name in enumerate(raw)}
        which = np.array([at[name] for name in self._number], np.int32)[own]
        counts = np.bincount(which, minlength=len(raw))
        unwanted = np.flatnonzero((settled.index < 0) & (counts > 0))
        if len(unwanted):
            reason = f"labels of {len(unwanted):,} classes that are not in the class list"
            self.report.dropped[reason] = Tally.of([raw[i] for i in unwanted], int(counts[unwanted].sum()))
        return settled.names, settled.index[which]
