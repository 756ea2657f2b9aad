"""Where each label came from: a person, or a model with its score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from partlabel.labels.pairs import MODEL
from partlabel.labels.table import LabelTable


@dataclass
class Origins:
    """Labels as they were read, all arrays (S,).

    Attributes:
        images: the names that ``image`` numbers.
        image, cls: the pair; ``cls`` is -1 where the class is not wanted.
        value: +1 or -1.
        origin: codes of ``ORIGINS``.
        score, round: of labels of a model; NaN and -1 elsewhere.
    """

    images: pa.StringArray
    image: NDArray[np.int32]
    cls: NDArray[np.int32]
    value: NDArray[np.int8]
    origin: NDArray[np.uint8]
    score: NDArray[np.float32]
    round: NDArray[np.int16]

    def mark(self, table: LabelTable) -> LabelTable:
        """Return the table with the origin that people's labels were read with; others stay ``given``."""
        image, kept = self._images_in(table)
        mine = kept & (self.origin != MODEL)
        if not (self.origin[mine] > MODEL).any():
            return table
        key = _key(image[mine], self.cls[mine], self.value[mine], table.num_classes)
        wanted = _key(table.pair_images(), table.indices, table.values, table.num_classes)
        known, first = np.unique(key, return_index=True)
        at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        found = known[at] == wanted
        origin = np.where(found, self.origin[mine][first[at]], 0).astype(np.uint8)
        return table.derive("origins", {"of": "the source"}, origin=origin)

    def add_weak(self, table: LabelTable, conflicts: str) -> LabelTable:
        """Return the table with the labels of a model added where nothing is known.

        Args:
            table: labels of people.
            conflicts: what becomes of a pair that a model stated present and absent, as in ``assemble``.

        Raises:
            UserError: contradictions among the labels of a model, under ``error``.
        """
        image, kept = self._images_in(table)
        mine = kept & (self.origin == MODEL)
        if not mine.any():
            return table
        weak = LabelTable.from_pairs(
            table.images,
            table.classes,
            image[mine],
            self.cls[mine],
            self.value[mine],
            origin="model",
            score=self.score[mine],
            round=self.round[mine],
            duplicates={"error": "same", "majority": "unknown"}.get(conflicts, conflicts),
        )
        return table.merge(weak, "first")

    def _images_in(self, table: LabelTable) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return each label's image number in the table, and which labels are about its images and classes."""
        number = pc.call_function("index_in", [self.images], pc.SetLookupOptions(table.images))
        of_image = number.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        image = of_image[self.image]
        return image, (image >= 0) & (self.cls >= 0)


def _key(image: NDArray[np.int64], cls: NDArray[np.int32], value: NDArray[np.int8], size: int) -> NDArray[np.int64]:
    return (image * size + cls) * 2 + (value > 0)
