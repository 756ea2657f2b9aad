"""Hugging Face ``datasets``: Parquet files, folders of ``save_to_disk``, and image folders with ``metadata.jsonl``.

Everything is read with pyarrow; the library ``datasets`` is not needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.formats import options as read_as
from partlabel.formats.coding import NOT_A_LABEL, PRESENT, Coding, shown
from partlabel.formats.huggingface.columns import (
    Cells,
    Columns,
    cells,
    choose,
    class_names,
    is_text,
    leaves,
    read_features,
)
from partlabel.formats.huggingface.files import DataFile, find_files, open_file
from partlabel.formats.huggingface.images import ImageFolder
from partlabel.formats.huggingface.values import are_values, coding_of, parse_coding, value_tokens
from partlabel.formats.record_options import RecordOptions
from partlabel.formats.records import Records, listed
from partlabel.formats.report import ImportReport, Tally, ValueCount, plural
from partlabel.formats.spine import option
from partlabel.labels.table import LabelTable

__all__ = ["HuggingFaceOptions", "read"]

_WORDS = {1: "present", -1: "absent"}


@dataclass(frozen=True, kw_only=True)
class HuggingFaceOptions(RecordOptions):
    """Options of the format ``huggingface``."""

    column: str | None = option(
        None,
        read_as.text,
        "column with the present classes (inside another column: objects.category); otherwise positive_labels, or the "
        "only column with class labels",
    )
    negative_column: str | None = option(
        None, read_as.text, "column with the absent classes; otherwise negative_labels beside positive_labels"
    )
    image_column: str | None = option(
        None,
        read_as.text,
        "column with the image names; otherwise the file names in the only column of images, or a usual name such as "
        "file_name",
    )
    coding: Coding | str | None = option(
        None,
        parse_coding,
        "what lists of numbers hold: numbers, the class numbers of an image, or one value for each class, whose "
        "meaning is then declared as for tables: native, zero-absent, zero-unknown, words, or as in "
        "1=present,0=absent",
    )
    split: list[str] | None = option(
        None, read_as.names, "the splits that are read, where there are several: names between commas"
    )
    extract: str | None = option(
        None,
        read_as.text,
        "new folder to which the images inside the data set are written; they are named by their files in it",
    )


def read(path: str, options: HuggingFaceOptions) -> tuple[LabelTable, ImportReport]:
    """Read class labels from the columns of a data set, batch by batch.

    Args:
        path: a Parquet, Arrow or ``metadata.jsonl`` file, or a folder with such files.
        options: of the format.

    Raises:
        UserError: no such files; splits or columns to choose from; files that are cut or damaged; class numbers without
            a class, rows without image name (all are listed); lists that can be read in two ways; as ``spine.finish``.
    """
    report = ImportReport(path, "huggingface")
    if options.extract is not None and options.images is not None:
        raise UserError("extract writes the folder with the images: give extract or images, not both")
    files = [open_file(name) for name in find_files(path, options.split)]
    described = [read_features(file.path, file.schema) for file in files]
    columns = choose(files[0], described[0], options)
    count = f"{len(files)} files" if len(files) > 1 else "1 file"
    report.layout = f"{files[0].kind}, {count}, {' and '.join(columns.labels)} of {columns.names}"
    reader = _Reader(columns, options, report)
    for name in columns.labels:
        reader.codings[name] = coding_of(files, described[0], name, options.coding, options.classes)
    with nullcontext() if options.extract is None else ImageFolder(options.extract) as reader.folder:
        for file, features in zip(files, described, strict=True):
            reader.add_file(file, features)
        reader.records.check(path, "row")
        reader.describe()
        return reader.records.finish(reader.place, parts=len(columns.labels)), report


class _Reader:
    """The labels read so far; rows are numbered through all files, and each is a record."""

    def __init__(self, columns: Columns, options: HuggingFaceOptions, report: ImportReport) -> None:
        self.columns, self.options, self.report = columns, options, report
        self.records = Records(report, options)
        self.folder: ImageFolder | None = None
        self.codings: dict[str, Coding | None] = {}
        self._files: list[tuple[int, DataFile]] = []
        self._dropped: Counter[str] = Counter()
        self._values: Counter[tuple[str, str]] = Counter()

    def place(self, rows: Sequence[int], parts: Sequence[int]) -> list[str]:
        """Return where labels are, for people."""
        columns = list(self.columns.labels)
        return [f"{self._place(row)}, {columns[part]}" for row, part in zip(rows, parts, strict=True)]

    def _place(self, row: int) -> str:
        first, file = max((entry for entry in self._files if entry[0] <= row), key=lambda entry: entry[0])
        return file.place(row - first)

    def _refuse(self, rows: NDArray[np.int64], problem: str) -> None:
        self.records.refuse(f"{self._place(row)}: {problem}" for row in (rows + len(self.records)).tolist())

    def describe(self) -> None:
        """Write into the report what the columns mean and what was left out."""
        report, labels = self.report, self.columns.labels
        report.coding = ", ".join(
            f"a class in {name} = {_WORDS[value]}" if coding is None else f"{name}: {coding.words()} ({coding.name})"
            for (name, value), coding in zip(labels.items(), self.codings.values(), strict=True)
        )
        report.coding += ", null = not labelled" if any(self.codings.values()) else ", null or -1 = not labelled"
        for reason, count in self._dropped.items():
            if count:
                report.dropped[reason] = Tally(count, [])
        for (token, meaning), count in self._values.items():
            report.values[shown(token)] = ValueCount(meaning, count)
        self._note_repeats()

    def _note_repeats(self) -> None:
        names, number = list(self.records.images), self.records.image_of()
        repeated = np.flatnonzero(np.bincount(number, minlength=len(names)) > 1)
        if not len(repeated):
            return
        text = f"images on more than one row, their labels are put together: {Tally.of(names[i] for i in repeated)}"
        if self.columns.is_image and self.folder is None:
            self.report.warnings.append(f"{text}; if these are different images, name another image_column")
        else:
            self.report.notes.append(text)

    def add_file(self, file: DataFile, features: Mapping[str, Any]) -> None:
        """Take in a file.

        Raises:
            UserError: the file lacks a column or is damaged; a column holds no classes or no image names.
        """
        there = dict(leaves(file.schema))
        if lost := [name for name in (self.columns.image, *self.columns.labels) if name not in there]:
            raise UserError(f"{file.path}: this file has no column {' and no column '.join(lost)}")
        self._files.append((len(self.records), file))
        names = {name: class_names(file.path, features, name) for name in self.columns.labels}
        for name, coding in self.codings.items():
            if coding is not None and (names[name] is None or are_values(names[name])):
                names[name] = self.options.classes
        for known in names.values():
            self.records.listed.update(dict.fromkeys(known or ()))
        image = self.columns.image if self.folder is not None else self.columns.names
        for batch in file.batches([image, *self.columns.labels]):
            images = self._images(file, batch)
            labelled = np.zeros(len(batch), bool)
            for part, (column, value) in enumerate(self.columns.labels.items()):
                labelled |= self._add_labels(file, column, value, part, cells(batch, column), names[column])
            self.records.begin_all(images, labelled)

    def _images(self, file: DataFile, batch: pa.RecordBatch) -> list[str]:
        """Return the image name of each row of a batch."""
        values = cells(batch, self.columns.names).values
        if len(values) != len(batch):
            raise UserError(f"{file.path}: the column {self.columns.names} holds lists, not one image name in each row")
        if self.folder is not None:
            images = batch.column(self.columns.image)
            return self.folder.save(images, values, len(self.records), self._place)
        if pa.types.is_integer(values.type):
            values = values.cast(pa.string())
        if not is_text(values.type) and not pa.types.is_null(values.type):
            raise UserError(f"{file.path}: the column {self.columns.names} holds {values.type}, not image names")
        names = pc.call_function("utf8_trim_whitespace", [values.cast(pa.string()).fill_null("")]).to_pylist()
        if "" in names:
            nameless = [row for row, name in enumerate(names) if not name]
            hint = "; extract=FOLDER writes the images and names them" if self.columns.is_image else ""
            self._refuse(np.array(nameless), f"no image name in {self.columns.names}{hint}")
        return names

    def _add_labels(
        self, file: DataFile, column: str, value: int, part: int, entries: Cells, names: Sequence[str] | None
    ) -> NDArray[np.bool_]:
        """Take in the labels of a batch, before its records begin; return which rows are labelled."""
        type = entries.values.type
        if (coding := self.codings[column]) is not None:
            return self._add_values(column, value, part, entries, names or [], coding)
        if pa.types.is_null(type):
            number = np.full(len(entries.values), -1, np.int64)
        elif pa.types.is_integer(type):
            number = self._numbered(column, entries, names)
        elif is_text(type):
            entries, number = self._named(entries)
        else:
            raise UserError(f"{file.path}: the column {column} holds {type}, neither class numbers nor names")
        taken = number >= 0
        self.records.extend(entries.row[taken] + len(self.records), number[taken], value, part)
        size = len(entries.valid)
        count, nothing = (
            np.bincount(entries.row, minlength=size),
            np.bincount(entries.row[number == -1], minlength=size),
        )
        return entries.valid & ~((count > 0) & (nothing == count))

    def _numbered(self, column: str, entries: Cells, names: Sequence[str] | None) -> NDArray[np.int64]:
        """Return the number of the class of each entry, -1 where it says that there is no label, -2 for no name."""
        known = self.options.classes or [] if names is None else names
        value = entries.values.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        outside = (value < -1) | (value >= len(known))
        for wrong in np.unique(value[outside]).tolist():
            text = f"0 to {len(known) - 1} are known" if known else "the column has no class names (classes=NAMES)"
            self._refuse(np.unique(entries.row[value == wrong]), f"class number {wrong} in {column}, {text}")
        self._dropped["entries -1, which are no label"] += int((value == -1).sum()) - entries.values.null_count
        own = [self.records.number(name) if name.strip() else -2 for name in known]
        return np.array([*own, -1], np.int64)[np.where(outside, -1, value)]

    def _named(self, entries: Cells) -> tuple[Cells, NDArray[np.int64]]:
        """Return the entries and the class number of each, -1 for none; lists written as text are taken apart."""
        encoded = entries.values.fill_null("").dictionary_encode()
        index, own = encoded.indices.to_numpy(), []
        for number, text in enumerate(encoded.dictionary.to_pylist()):
            try:
                own.append([self.records.number(name) for name in listed(text)])
            except ValueError as error:
                self._refuse(np.unique(entries.row[index == number]), str(error))
                own.append([-1])
        if any(len(names) != 1 for names in own):
            count = np.array([len(names) for names in own])[index]
            number = np.array([n for i in index.tolist() for n in own[i]], np.int64)
            entries = Cells(entries.valid, np.repeat(entries.row, count), entries.values)
        else:
            number = np.array([names[0] for names in own], np.int64)[index]
        self._dropped["blank class names"] += int((number < 0).sum())
        return entries, number

    def _add_values(
        self, column: str, sign: int, part: int, entries: Cells, names: Sequence[str], coding: Coding
    ) -> NDArray[np.bool_]:
        """Take in lists with one value for each class; return which rows are labelled."""
        count = np.bincount(entries.row, minlength=len(entries.valid))
        for size in np.unique(count[entries.valid & (count != len(names))]).tolist():
            rows = np.flatnonzero(entries.valid & (count == size))
            self._refuse(rows, f"{plural(size, 'value')} in {column}, {len(names):,} classes")
        tokens, number = value_tokens(entries.values)
        codes = np.array([coding.code(token) for token in tokens], np.int8)
        if (wrong := np.flatnonzero(codes[number] == NOT_A_LABEL)).size:
            self._refuse(np.unique(entries.row[wrong]), f"values in {column} that are none of {coding.words()}")
        place = np.arange(len(entries.row)) - (np.cumsum(count) - count)[entries.row]
        said = (codes[number] <= PRESENT) & (place < len(names))
        own = np.array([self.records.number(name) for name in names], np.int64)
        self.records.extend(entries.row[said] + len(self.records), own[place[said]], sign * codes[number][said], part)
        for token, cells_ in zip(tokens, np.bincount(number, minlength=len(tokens)).tolist(), strict=True):
            if cells_ and coding.code(token) != NOT_A_LABEL:
                self._values[token, coding.meaning(token)] += cells_
        return entries.valid
