"""The label table: which labels of which images are known, as flat arrays."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from partlabel.errors import UserError
from partlabel.label_checks import check_names, check_pairs, check_structure, class_numbers, string_array
from partlabel.label_pairs import ORIGINS, Pairs, csr, origin_code, pointers, ranges, settle

Rows = ArrayLike | slice | None


@dataclass(frozen=True, eq=False, repr=False)
class LabelTable:
    """The known labels of N images and C classes; it never changes, each operation returns a new table.

    Only the K known pairs are stored, in CSR order: the labels of image ``i`` are ``indptr[i]:indptr[i + 1]``.

    Attributes:
        images: (N,) names as the source writes them, unique; images without any label are kept.
        classes: C unique names.
        indptr: int64 (N + 1,).
        indices: int32 (K,) class numbers, strictly increasing inside each image.
        values: int8 (K,), +1 present or -1 absent.
        origin: uint8 (K,), codes of ``ORIGINS``.
        class_ids: ids of the classes in the source (COCO category id, ``/m/...``), same order, or None.
        score: float32 (K,) score before the sigmoid of labels with origin ``model``, NaN elsewhere, or None.
        round: int16 (K,) round in which a model label was added, -1 elsewhere, or None.
        groups: (N,) names of what must stay together in a split (patient, scene), null where an image stands alone.
        coding: what the values of the source meant, in words.
        history: one JSON-able record for each operation, oldest first.

    Raises:
        UserError: wrong shapes, values, repeated names; the error lists every offender.
    """

    images: pa.StringArray
    classes: tuple[str, ...]
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.int8]
    origin: NDArray[np.uint8]
    class_ids: tuple[str, ...] | None = None
    score: NDArray[np.float32] | None = None
    round: NDArray[np.int16] | None = None
    groups: pa.StringArray | None = None
    coding: str = ""
    history: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        check_names(self.images, self.classes, self.class_ids, self.groups)
        check_structure(self, len(ORIGINS))
        self._freeze()

    def _freeze(self) -> None:
        for name in ("indptr", "indices", "values", "origin", "score", "round"):
            array = getattr(self, name)
            if array is not None and array.flags.writeable:
                view = array.view()
                view.flags.writeable = False
                object.__setattr__(self, name, view)

    def derive(self, operation: str, details: Mapping[str, Any], **changes: Any) -> LabelTable:
        """Return a copy with some fields changed and a record in the history; unchecked, so they must be right."""
        table = object.__new__(LabelTable)
        changes["history"] = (*self.history, {"operation": operation, **details})
        for field in fields(self):
            object.__setattr__(table, field.name, changes.get(field.name, getattr(self, field.name)))
        table._freeze()
        return table

    def __repr__(self) -> str:
        return f"LabelTable({self.num_images} images, {self.num_classes} classes, {self.num_known} known labels)"

    @property
    def num_images(self) -> int:
        """N, with the images that have no known label."""
        return len(self.images)

    @property
    def num_classes(self) -> int:
        """C."""
        return len(self.classes)

    @property
    def num_known(self) -> int:
        """K, the number of known labels."""
        return len(self.indices)

    # ---------------------------------------------------------------- build, read, write

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
                f"the label matrix is {matrix.shape}, but there are {(len(names), len(classes))} images and classes"
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
        check_names(names, classes, None, None)
        row, column = np.asarray(image_index), np.asarray(class_index)
        value = np.asarray(values)
        check_pairs(names, classes, row, column, value)
        size = len(row)
        pairs = Pairs(
            row.astype(np.int64) * len(classes) + column,
            value.astype(np.int8),
            np.full(size, origin_code(origin), np.uint8) if isinstance(origin, str) else np.asarray(origin, np.uint8),
            None if score is None else np.broadcast_to(np.asarray(score, np.float32), size),
            None if round is None else np.broadcast_to(np.asarray(round, np.int16), size),
        ).sorted()
        pairs, settled = settle(
            pairs, duplicates, lambda key: f"{names[key // len(classes)]}, {classes[key % len(classes)]}"
        )
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
    def read_parquet(cls, path: str | os.PathLike[str]) -> LabelTable:
        """Read a file that ``write_parquet`` wrote; the arrays are used as they lie in the file's columns.

        Raises:
            UserError: no such file, cut or foreign file, or content that is not a label table.
        """
        from partlabel.label_storage import read

        return read(cls, path)

    def write_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the table, one row for each image, whole or not at all.

        Columns: ``image``, ``classes`` (list of class numbers), ``labels`` (list of +1 and -1), ``origin`` (list of
        codes), and where the table has them ``score``, ``round`` (lists) and ``group``. Class names, ids, coding and
        history are JSON in the schema metadata under ``partlabel``.
        """
        from partlabel.label_storage import write

        write(self, path)

    # ---------------------------------------------------------------- look up and count

    def dense(self, rows: Rows = None) -> NDArray[np.int8]:
        """Return the labels of some images as int8 (len(rows), C): +1 present, -1 absent, 0 unknown.

        Args:
            rows: image numbers in any order, a mask (N,), a slice, or None for all (mind the memory: N x C bytes).

        Raises:
            IndexError: a row that does not exist.
        """
        row = self._rows(rows)
        result = np.zeros((len(row), self.num_classes), np.int8)
        start = self.indptr[row]
        count = self.indptr[row + 1] - start
        at = ranges(start, count)
        target = np.repeat(np.arange(len(row)) * self.num_classes, count)
        target += self.indices[at]
        result.reshape(-1)[target] = self.values[at]
        return result

    def _rows(self, rows: Rows) -> NDArray[np.int64]:
        if rows is None or isinstance(rows, slice):
            return np.arange(*(rows or slice(None)).indices(self.num_images))
        row = np.asarray(rows)
        if row.dtype == bool:
            if row.shape != (self.num_images,):
                raise IndexError(f"a mask of shape {row.shape} for {self.num_images} images")
            return np.flatnonzero(row)
        row = row.astype(np.int64, casting="same_kind") if row.size else np.zeros(0, np.int64)
        if row.size and (row.min() < -self.num_images or row.max() >= self.num_images):
            raise IndexError(f"rows {row.min()} .. {row.max()} of a table with {self.num_images} images")
        return np.where(row < 0, row + self.num_images, row)

    def pair_images(self) -> NDArray[np.int64]:
        """Return the image number of each known label, int64 (K,)."""
        return np.repeat(np.arange(self.num_images), np.diff(self.indptr))

    def image_index(self, names: Sequence[str] | pa.Array) -> NDArray[np.int64]:
        """Return the numbers of the named images, int64 (len(names),), -1 for a name that is not in the table."""
        found = pc.index_in(string_array(names), value_set=self.images)
        return found.fill_null(-1).to_numpy().astype(np.int64)

    def class_index(self, name: str) -> int:
        """Return the number of the named class.

        Raises:
            UserError: no class has this name; the message offers those that are spelled alike.
        """
        return class_numbers([name], self.classes)[0]

    def proportion(self) -> NDArray[np.float64]:
        """Return p_y of each image: known labels / C, float64 (N,)."""
        return np.diff(self.indptr) / max(self.num_classes, 1)

    def image_counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the numbers of known present and known absent labels of each image, int64 (N,) each."""
        present = np.diff(pointers(self.values > 0)[self.indptr])
        return present, np.diff(self.indptr) - present

    def class_counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the numbers of known present and known absent labels of each class, int64 (C,) each."""
        known = np.bincount(self.indices, minlength=self.num_classes)
        present = np.bincount(self.indices[self.values > 0], minlength=self.num_classes)
        return present, known - present

    def cooccurrence(self) -> NDArray[np.int64]:
        """Return in how many images both classes are known present, int64 (C, C); the diagonal counts one class."""
        result = np.zeros((self.num_classes, self.num_classes), np.int64)
        flat = result.reshape(-1)
        present, _ = self.image_counts()
        index = self.indices[self.values > 0].astype(np.int64)
        start, work = pointers(present), pointers(present**2)
        chunk = 4_000_000  # pairs of present labels worked on at once
        cuts = np.searchsorted(work, np.arange(0, work[-1] + chunk, chunk))
        cuts = np.unique(np.append(np.minimum(cuts, self.num_images), self.num_images))
        for low, high in zip(cuts[:-1], cuts[1:], strict=True):
            partners = np.repeat(present[low:high], present[low:high])
            first = np.repeat(index[start[low] : start[high]] * self.num_classes, partners)
            second = index[ranges(np.repeat(start[low:high], present[low:high]), partners)]
            np.add.at(flat, first + second, 1)
        return result

    def content_hash(self) -> str:
        """Return 32 hexadecimal digits that change with the images, groups, classes or labels (values and origin).

        Scores, rounds, class ids, coding and history do not count: they do not change what is trained.
        """
        digest = hashlib.blake2b(digest_size=16)
        for names in (self.images, pa.array(self.classes, pa.string()), self.groups):
            if names is not None:
                text = names.fill_null("")
                digest.update(pc.binary_length(text).to_numpy())
                digest.update(pc.binary_join(pa.ListArray.from_arrays([0, len(text)], text), "")[0].as_buffer())
        for array in (self.indptr, self.indices, self.values, self.origin):
            digest.update(np.ascontiguousarray(array))
        return digest.hexdigest()

    # ---------------------------------------------------------------- new tables

    def pairs(self) -> Pairs:
        """Return the known labels with the key ``image * C + class`` of each."""
        key = np.repeat(np.arange(self.num_images) * self.num_classes, np.diff(self.indptr))
        key += self.indices
        return Pairs(key, self.values, self.origin, self.score, self.round)

    def describe(self, key: int) -> str:
        """Name the pair with this key for an error message."""
        return f"{self.images[key // self.num_classes]}, {self.classes[key % self.num_classes]}"

    def _take(self, index: NDArray[Any]) -> dict[str, Any]:
        """Return the arrays of the known labels at ``index`` (positions or a mask)."""
        names = ("indices", "values", "origin", "score", "round")
        return {name: None if (array := getattr(self, name)) is None else array[index] for name in names}

    def select(self, rows: Rows) -> LabelTable:
        """Return a table of some images, in the order given.

        Args:
            rows: image numbers without repeats, a mask (N,) or a slice.

        Raises:
            UserError: an image is listed twice.
            IndexError: a row that does not exist.
        """
        row = self._rows(rows)
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
            **self._take(ranges(self.indptr[row], count)),
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
        return self.derive(operation, details, indptr=pointers(mask)[self.indptr], **self._take(mask))

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

        Labels of origin ``model``, ``asked`` and ``sampled`` are added to unknown pairs only. ``review`` labels may also
        replace ``model`` and earlier ``review`` labels, whose score and round are then dropped. Labels given, asked or sampled never
        change.

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
        from partlabel.label_merge import add

        return add(self, image_index, class_index, values, origin=origin, score=score, round=round)

    def merge(self, other: LabelTable, conflicts: str = "error") -> LabelTable:
        """Return the union of the images, classes and labels of two tables; those of this table come first.

        Where both know a pair and agree, a person's label stays before a model's, then this table's before the other's.

        Args:
            other: the other table.
            conflicts: what becomes of a pair that is present in one table and absent in the other: ``error``, ``unknown``,
                ``present``, ``absent``, or ``first`` (this table's label).

        Raises:
            UserError: contradictions under ``error``, an image in two groups, a class with two ids; all are named.
        """
        from partlabel.label_merge import merge

        return merge(self, other, conflicts)

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
        from partlabel.label_split import split

        names = self.groups if groups is None else string_array(groups, empty_is_null=True)
        return split(self, fractions, seed, names)
