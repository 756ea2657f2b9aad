"""The label table: which labels of which images are known, as flat arrays."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from partlabel.core.errors import UserError
from partlabel.labels import pandas_frame
from partlabel.labels.arrays import LabelArrays, Rows
from partlabel.labels.checks import check_names, checked_pairs, class_numbers, describe
from partlabel.labels.merge import add, merge
from partlabel.labels.names import string_array
from partlabel.labels.pairs import ORIGINS as ORIGINS
from partlabel.labels.pairs import csr, origin_code, pointers, ranges, settle
from partlabel.labels.parquet import read, write
from partlabel.labels.split import split

if TYPE_CHECKING:
    from pandas import DataFrame


class LabelTable(LabelArrays):
    """Which labels of which images are known; it never changes, each operation returns a new table.

    The arrays and all that is looked up or counted are described at ``LabelArrays``, whose arguments it takes too;
    they are checked. ``from_dense`` and ``from_pairs`` take labels in the form in which they come.

    >>> labels = LabelTable.from_dense(["a.jpg", "b.jpg"], ["cat", "dog"], [[1, 0], [-1, 1]])
    >>> labels
    LabelTable(2 images, 2 classes, 3 known labels)
    >>> labels.dense()
    array([[ 1,  0],
           [-1,  1]], dtype=int8)
    >>> labels[1].images.to_pylist()
    ['b.jpg']
    """

    #: of a table that :func:`partlabel.read` has just read: what was read, changed, left out and assumed
    report: Any = None

    @classmethod
    def from_dense(
        cls, images: Sequence[str] | pa.Array, classes: Sequence[str], labels: ArrayLike, **optional: Any
    ) -> LabelTable:
        """Build a table from a matrix.

        Args:
            images: N unique names.
            classes: C unique names.
            labels: (N, C) of +1 present, -1 absent, 0 unknown.
            optional: ``origin`` (one name of ``ORIGINS``), ``class_ids``, ``groups``, ``coding``, ``history``.

        Raises:
            UserError: another shape, another value, repeated names.
        """
        matrix = np.asarray(labels)
        names = string_array(images)
        if matrix.shape != (len(names), len(classes)):
            raise UserError(
                f"the label matrix is {matrix.shape}, expected {(len(names), len(classes))}: images, classes"
            )
        row, column = np.nonzero(matrix != 0)
        return cls.from_pairs(names, classes, row, column, matrix[row, column], **optional)

    @classmethod
    def from_pairs(
        cls,
        images: Sequence[str] | pa.Array,
        classes: Sequence[str],
        image_index: ArrayLike,
        class_index: ArrayLike,
        values: ArrayLike,
        *,
        origin: str | ArrayLike = "given",
        score: ArrayLike | None = None,
        round: ArrayLike | None = None,
        class_ids: Sequence[str] | None = None,
        groups: Sequence[str | None] | pa.Array | None = None,
        coding: str = "",
        history: Iterable[Mapping[str, Any]] = (),
        duplicates: str = "error",
    ) -> LabelTable:
        """Build a table from known pairs in any order.

        Args:
            images: N unique names.
            classes: C unique names.
            image_index: (K,) numbers 0 .. N - 1.
            class_index: (K,) numbers 0 .. C - 1.
            values: (K,) +1 or -1. Unknown pairs are simply not listed.
            origin: one name of ``ORIGINS`` for all, or (K,) codes.
            score: (K,) scores of model labels, NaN elsewhere.
            round: (K,) rounds of model labels, -1 elsewhere.
            class_ids: C ids of the source.
            groups: N names of what stays together in a split; null or an empty text: the image stands alone.
            coding: what the values of the source meant, in words.
            history: records of what was done before.
            duplicates: a pair listed twice: ``error`` refuses it; ``same`` merges equal repeats and refuses
                contradictions; ``unknown``, ``present``, ``absent`` and ``first`` also settle contradictions that way.

        Raises:
            UserError: numbers out of range, other values, repeats or contradictions, repeated names.
        """
        names = string_array(images)
        classes = tuple(classes)
        listed = checked_pairs(
            names, classes, image_index, class_index, values, origin=origin, score=score, round=round
        )
        pairs, settled = settle(listed, duplicates, lambda key: describe(key, names, classes))
        log = tuple(history)
        if settled:
            log = (*log, {"operation": "contradictions", "policy": duplicates, "settled": settled})
        return cls(
            images=names,
            classes=classes,
            class_ids=None if class_ids is None else tuple(map(str, class_ids)),
            groups=None if groups is None else string_array(groups, empty_is_null=True),
            coding=coding,
            history=log,
            **csr(pairs, len(names), len(classes)),
        )

    @classmethod
    def from_pandas(cls, frame: DataFrame, **optional: Any) -> LabelTable:
        """Build a table from a data frame: a row for each image, a column for each class.

        Args:
            frame: image names in a column ``image`` or else in the index; in each other column 1 present, -1 absent,
                a missing value for unknown. 0 is unknown too, but only in a frame that also holds -1: without it, 0
                could mean absent.
            optional: as for :meth:`from_dense`.

        Raises:
            UserError: values that are no labels (every column that has some is named), 0 that could mean absent,
                repeated names.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"cat": [1, -1], "dog": [None, 1]}, index=["a.jpg", "b.jpg"])
        >>> LabelTable.from_pandas(frame)
        LabelTable(2 images, 2 classes, 3 known labels)
        """
        return cls.from_dense(*pandas_frame.read(frame), **optional)

    def to_pandas(self) -> DataFrame:
        """Return the labels as a data frame, with N x C cells: mind its memory for many images and classes.

        The index is the image names, each class is a column of 1 present, -1 absent and missing values (``Int8``), so
        that :meth:`from_pandas` reads it back.

        Raises:
            UserError: pandas is not installed.

        >>> LabelTable.from_dense(["a.jpg"], ["cat", "dog"], [[1, 0]]).to_pandas()
               cat   dog
        image
        a.jpg    1  <NA>
        """
        return pandas_frame.write(self)

    @classmethod
    def read_parquet(cls, path: str | os.PathLike[str]) -> LabelTable:
        """Read a file that ``write_parquet`` wrote, decoded straight into the arrays, and check it.

        Raises:
            UserError: no such file, cut or foreign file, or content that is not a label table.
        """
        fields = read(path)
        try:
            return cls(**fields)
        except UserError as error:
            raise UserError(f"{path}: {error.message}", error.offenders) from error

    def write_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the table, one row for each image, whole or not at all.

        Columns: ``image``, ``classes`` (list of class numbers), ``labels`` (list of +1 and -1), ``origin`` (list of
        codes), and where the table has them ``score``, ``round`` (lists) and ``group``. Class names, ids, coding and
        history are JSON in the schema metadata under ``partlabel``.
        """
        write(self, path)

    def __len__(self) -> int:
        """Return N, the number of images."""
        return self.num_images

    def __getitem__(self, rows: Rows) -> LabelTable:
        """Return the table of some images, see :meth:`select`; a single number selects one image.

        >>> table = LabelTable.from_dense(["a.jpg", "b.jpg", "c.jpg"], ["cat"], [[1], [0], [-1]])
        >>> table[:2]
        LabelTable(2 images, 1 classes, 1 known labels)
        """
        return self.select(np.array([rows]) if isinstance(rows, int | np.integer) else rows)

    def select(self, rows: Rows) -> LabelTable:
        """Return a table of some images, in the order given.

        Args:
            rows: image numbers without repeats, a mask (N,) or a slice.

        Raises:
            UserError: an image is listed twice.
            IndexError: a row that does not exist.
        """
        row = self.row_numbers(rows)
        repeated = np.flatnonzero(np.bincount(row, minlength=self.num_images) > 1)
        if len(repeated):
            names = self.images.take(pa.array(repeated)).to_pylist()
            raise UserError(f"{len(repeated)} images are selected more than once", names)
        count = self.indptr[row + 1] - self.indptr[row]
        return self.derive(
            "select",
            {"images": len(row), "of": self.num_images},
            images=self.images.take(pa.array(row)),
            groups=None if self.groups is None else self.groups.take(pa.array(row)),
            indptr=pointers(count),
            **self.taken(ranges(self.indptr[row], count)),
        )

    def select_classes(self, names: Sequence[str]) -> LabelTable:
        """Return a table of some classes, in the order given; labels of the others are left out, the images stay.

        Raises:
            UserError: a name that is not in the table (all of them are listed) or that is given twice.
        """
        names = tuple(names)
        old = class_numbers(names, self.classes)
        check_names(self.images.slice(0, 0), names, None, None)
        new = np.full(self.num_classes, -1, np.int64)
        new[old] = np.arange(len(old))
        column = new[self.indices]
        kept = np.flatnonzero(column >= 0)
        pairs = self.pairs().take(kept)
        key = pairs.key // max(self.num_classes, 1) * len(names) + column[kept]
        return self.derive(
            "select_classes",
            {"classes": len(names), "of": self.num_classes},
            classes=names,
            class_ids=None if self.class_ids is None else tuple(self.class_ids[i] for i in old),
            **csr(pairs.at(key).sorted(), self.num_images, len(names)),
        )

    def hide(self, keep: ArrayLike, operation: str = "hide", **details: Any) -> LabelTable:
        """Return a table in which only some of the known labels are known; images and classes stay.

        Args:
            keep: bool (K,), in the order of ``indices``; False makes the label unknown.
            operation: the name of the operation in the history.
            details: what else to write there.

        Raises:
            UserError: ``keep`` is not a mask of K entries.
        """
        mask = np.asarray(keep)
        if mask.dtype != bool or mask.shape != (self.num_known,):
            raise UserError(f"keep is {mask.dtype}{mask.shape}, expected bool({self.num_known},)")
        details = {**details, "kept": int(mask.sum()), "of": self.num_known}
        if mask.all():
            return self.derive(operation, details)  # the arrays never change, so both have the same
        return self.derive(operation, details, indptr=pointers(mask)[self.indptr], **self.taken(mask))

    def without_origin(self, origin: str, since_round: int | None = None) -> LabelTable:
        """Return a table in which the labels of one origin are unknown again, or only those of later rounds.

        Args:
            origin: a name of ``ORIGINS``.
            since_round: leave labels of earlier rounds in place.
        """
        hidden = self.origin == origin_code(origin)
        if since_round is not None:
            hidden &= False if self.round is None else self.round >= since_round
        return self.hide(~hidden, "without_origin", origin=origin, since_round=since_round)

    def with_labels(
        self,
        image_index: ArrayLike,
        class_index: ArrayLike,
        values: ArrayLike,
        *,
        origin: str,
        score: ArrayLike | None = None,
        round: int | None = None,
    ) -> LabelTable:
        """Return a table with more known labels.

        Labels of origin ``model``, ``asked`` and ``sampled`` are added to unknown pairs only. ``review`` labels may
        also replace ``model`` and earlier ``review`` labels, whose score and round are then dropped. Labels given,
        asked or sampled never change.

        Args:
            image_index: (M,) image numbers.
            class_index: (M,) class numbers.
            values: (M,) +1 or -1.
            origin: ``model``, ``review``, ``asked`` or ``sampled``.
            score: (M,) scores of model labels.
            round: the round of model labels.

        Raises:
            UserError: a pair that is already known and may not be replaced, or that is listed twice (all are named), a
                wrong value or number, another origin, a score or round for labels that are not from a model.
        """
        return add(self, image_index, class_index, values, origin=origin, score=score, round=round)

    def merge(self, other: LabelTable | Sequence[LabelTable], conflicts: str = "error") -> LabelTable:
        """Return the union of the images, classes and labels of tables; those of this table come first.

        Where tables know a pair and agree, a person's label stays before a model's, then an earlier table's. Class ids
        stay where every class has one, and no two have the same.

        Args:
            other: the other table, or several of them.
            conflicts: what becomes of a pair that is present in one table and absent in another: ``error``,
                ``unknown``, ``present``, ``absent``, or ``first`` (the label of the earliest table).

        Raises:
            UserError: contradictions under ``error``, an image in two groups, a class with two ids; all are named.
        """
        return merge(self, [other] if isinstance(other, LabelTable) else other, conflicts)

    def split(
        self, fractions: Sequence[float], seed: int, groups: Sequence[str | None] | pa.Array | None = None
    ) -> list[NDArray[np.int64]]:
        """Return row numbers of disjoint parts that hold each class's present and absent labels in proportion.

        Multi-label iterative stratification (Sechidis, Tsoumakas, Vlahavas, ECML 2011), on the known labels of both
        signs: the rarest remaining label is dealt out first. A label that enough images have appears in each part.
        Without groups the part sizes are exact (largest remainder).

        Args:
            fractions: shares of the images, above 0, sum 1.
            seed: the same seed gives the same parts.
            groups: (N,) names of what stays in one part, null or empty: alone; None: the table's own ``groups``.

        Returns:
            For each fraction the sorted image numbers, int64.

        Raises:
            UserError: wrong fractions, or fewer images (groups) than parts.
        """
        names = self.groups if groups is None else string_array(groups, empty_is_null=True)
        return split(self, fractions, seed, names)
