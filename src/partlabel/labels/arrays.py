"""The flat arrays of a label table, and what is looked up and counted in them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from partlabel.core.errors import UserError
from partlabel.labels.checks import check_names, check_pairs, class_numbers
from partlabel.labels.names import buffers, string_array
from partlabel.labels.pairs import ORIGINS, Pairs, by_class, pointers, ranges

Rows = ArrayLike | slice | None
CHUNK = 1_000_000  # pairs of present labels counted at once


@dataclass(frozen=True, eq=False, repr=False)
class LabelArrays:
    """The known labels of N images and C classes as flat arrays that never change, and all that is read from them.

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
        self._check_structure()
        self._freeze()

    def _check_structure(self) -> None:
        """Refuse arrays that are not the CSR arrays of the table's images and classes."""
        size = len(self.indices)
        expected = {"indptr": (np.int64, len(self.images) + 1), "indices": (np.int32, size), "values": (np.int8, size)}
        expected |= {"origin": (np.uint8, size), "score": (np.float32, size), "round": (np.int16, size)}
        for name, (dtype, length) in expected.items():
            array = getattr(self, name)
            if array is not None and (array.dtype != dtype or array.shape != (length,)):
                raise UserError(f"{name} is {array.dtype}{array.shape}, expected {np.dtype(dtype)}({length},)")
        if self.indptr[0] != 0 or self.indptr[-1] != size or (np.diff(self.indptr) < 0).any():
            raise UserError(f"indptr does not rise from 0 to the {size} known labels")
        if size == 0:
            return
        if self.indices.min() < 0 or self.indices.max() >= len(self.classes) or (np.abs(self.values) != 1).any():
            check_pairs(self.images, self.classes, self.pair_images(), self.indices, self.values)
        rising = self.indices[1:] > self.indices[:-1]
        # from one image to the next, numbers may fall
        inner = self.indptr[1:-1]
        rising[inner[(inner > 0) & (inner < size)] - 1] = True
        if not rising.all():
            images = np.unique(self.pair_images()[1:][~rising])
            offenders = [str(self.images[int(image)]) for image in images]
            raise UserError("class numbers do not rise strictly inside each image", offenders)
        if self.origin.max() >= len(ORIGINS):
            wrong = np.flatnonzero(self.origin >= len(ORIGINS))
            image = self.pair_images()
            offenders = [
                f"{self.images[int(image[i])]}, {self.classes[self.indices[i]]}: {self.origin[i]}" for i in wrong
            ]
            raise UserError(f"{len(wrong)} labels have an unknown origin", offenders)

    def _freeze(self) -> None:
        for name in ("indptr", "indices", "values", "origin", "score", "round"):
            array = getattr(self, name)
            if array is not None and array.flags.writeable:
                view = array.view()
                view.flags.writeable = False
                object.__setattr__(self, name, view)

    def derive(self, operation: str, details: Mapping[str, Any], **changes: Any) -> Self:
        """Return a copy with some fields changed and a record in the history; unchecked, so they must be right."""
        table = object.__new__(type(self))
        changes["history"] = (*self.history, {"operation": operation, **details})
        for field in fields(self):
            object.__setattr__(table, field.name, changes.get(field.name, getattr(self, field.name)))
        table._freeze()
        return table

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name}({self.num_images} images, {self.num_classes} classes, {self.num_known} known labels)"

    def _repr_html_(self) -> str:
        """Show counts of each class, and the first images, in a notebook."""
        from partlabel.labels.notebook import shown

        return shown(self)

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

    def dense(self, rows: Rows = None) -> NDArray[np.int8]:
        """Return the labels of some images as int8 (len(rows), C): +1 present, -1 absent, 0 unknown.

        Args:
            rows: image numbers in any order, a mask (N,), a slice, or None for all (mind the memory: N x C bytes).

        Raises:
            IndexError: a row that does not exist.
        """
        row = self.row_numbers(rows)
        result = np.zeros((len(row), self.num_classes), np.int8)
        start = self.indptr[row]
        count = self.indptr[row + 1] - start
        at = ranges(start, count)
        target = np.repeat(np.arange(len(row)) * self.num_classes, count)
        target += self.indices[at]
        result.reshape(-1)[target] = self.values[at]
        return result

    def row_numbers(self, rows: Rows) -> NDArray[np.int64]:
        """Return image numbers, int64, of rows given as numbers, a mask (N,), a slice or None for all."""
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

    def images_at(self, positions: NDArray[Any] | slice) -> NDArray[np.int32]:
        """Return the image number of the known labels at some positions (numbers, a mask or a slice), int32."""
        images = np.repeat(np.arange(self.num_images, dtype=np.int32), np.diff(self.indptr))
        return images[positions]

    def image_index(self, names: Sequence[str] | pa.Array) -> NDArray[np.int64]:
        """Return the numbers of the named images, int64 (len(names),), -1 for a name that is not in the table."""
        found = pc.index_in(string_array(names), value_set=self.images)  # pyrefly: ignore[missing-attribute]
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

    def by_class(self) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
        """Return the known labels class after class: their positions (K,), and where each class starts, int64 (C + 1,).

        Within a class they lie by image, as ``pair_images()[positions]`` does.
        """
        return by_class(self.indices, self.num_classes)

    def cooccurrence(self) -> NDArray[np.int64]:
        """Return in how many images both classes are known present, int64 (C, C); the diagonal counts one class."""
        size = self.num_classes
        result = np.zeros(size * size, np.int64)
        present, _ = self.image_counts()
        index = self.indices[self.values > 0].astype(np.int64)
        start, work = pointers(present), pointers(present**2)
        cuts = np.searchsorted(work, np.arange(0, work[-1], CHUNK), side="left")
        for low, high in pairwise(np.unique([*cuts, self.num_images])):
            count = present[low:high]
            partners = np.repeat(count, count)
            first = np.repeat(index[start[low] : start[high]] * size, partners)
            second = index[ranges(np.repeat(start[low:high], count), partners)]
            np.add.at(result, first + second, 1)
        return result.reshape(size, size)

    def content_hash(self) -> str:
        """Return 32 hexadecimal digits that change with the images, groups, classes or labels (values and origin).

        Scores, rounds, class ids, coding and history do not count: they do not change what is trained.
        """
        digest = hashlib.blake2b(digest_size=16)
        for names in (self.images, pa.array(self.classes, pa.string()), self.groups):
            if names is not None:
                offsets, data = buffers(names)
                digest.update(np.diff(offsets).data)
                digest.update(data[offsets[0] : offsets[-1]].data)
        for array in (self.indptr, self.indices, self.values, self.origin):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def pairs(self) -> Pairs:
        """Return the known labels with the key ``image * C + class`` of each."""
        key = self.pair_images() * self.num_classes
        key += self.indices
        return Pairs(key, self.values, self.origin, self.score, self.round)

    def taken(self, index: NDArray[Any]) -> dict[str, Any]:
        """Return the arrays of the known labels at ``index`` (positions or a mask)."""
        names = ("indices", "values", "origin", "score", "round")
        return {name: None if (array := getattr(self, name)) is None else array[index] for name in names}
