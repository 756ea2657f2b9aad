"""Model labels added to a table class by class, so many that they should be in memory once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from partlabel.labels.arrays import LabelArrays
from partlabel.labels.pairs import MODEL, pointers

Table = TypeVar("Table", bound=LabelArrays)
#: new labels of one class: its number, their images (M,), each once, their values +1 or -1 (M,), and scores (M,)
Column = tuple[int, NDArray[np.integer], NDArray[np.int8], NDArray[np.float32]]


def add_by_class(table: Table, columns: Callable[[], Iterator[Column]], round: int) -> Table:
    """Return a table with more labels of origin ``model``, as ``LabelTable.with_labels`` does, without a copy of them.

    Args:
        table: N images, C classes.
        columns: gives the new labels of every class that gets some, classes rising, the same whenever it is called: the
            first time they are counted, the second time put where they belong. They are of unknown pairs.
        round: their round.

    Returns:
        The table itself where there is no new label.
    """
    count = np.diff(table.indptr)
    for _, image, _, _ in columns():
        count[image] += 1
    indptr = pointers(count)
    added = int(indptr[-1]) - table.num_known
    if not added:
        return table
    made = _Placed(table, indptr)
    for number, image, value, score in columns():
        made.put_known(number)
        made.put(number, image, {"values": value, "origin": MODEL, "score": score, "round": round})
    made.put_known(table.num_classes - 1)
    details = {"origin": "model", "added": added, "round": round}
    return table.derive("with_labels", details, indptr=indptr, **made.arrays)


class _Placed:
    """The arrays of a table that is put together class by class."""

    def __init__(self, table: LabelArrays, indptr: NDArray[np.int64]) -> None:
        size = int(indptr[-1])
        kinds = {"indices": np.int32, "values": np.int8, "origin": np.uint8, "score": np.float32, "round": np.int16}
        self.arrays: dict[str, NDArray[Any]] = {name: np.empty(size, kind) for name, kind in kinds.items()}
        self._table, self._next = table, indptr[:-1].copy()
        self._order, self._start = table.by_class()
        self._image, self._done = table.images_at(self._order), 0

    def put(self, number: int, image: NDArray[np.integer], fields: dict[str, Any]) -> None:
        """Put labels of a class behind those that their images have."""
        at = self._next[image]
        self.arrays["indices"][at] = number
        for name, values in fields.items():
            self.arrays[name][at] = values
        self._next[image] = at + 1

    def put_known(self, last: int) -> None:
        """Put the labels that were known of the classes up to ``last``."""
        missing = {"score": np.nan, "round": -1}
        for number in range(self._done, last + 1):
            own = slice(self._start[number], self._start[number + 1])
            at = self._order[own]
            taken = {name: getattr(self._table, name) for name in ("values", "origin", "score", "round")}
            fields = {name: missing[name] if array is None else array[at] for name, array in taken.items()}
            self.put(number, self._image[own], fields)
        self._done = last + 1
