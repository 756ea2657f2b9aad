"""Images that nobody has labelled yet, in formats that tell them from images in which nothing was found."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partlabel.formats.assemble import Statements

#: above this number of pairs a table with every absent label is refused when it is assembled
_MOST = 2_000_000_000


def keep_unknown(said: Statements, unlabelled: NDArray[np.bool_]) -> None:
    """State that every pair of some images is uncertain, so that ``not_listed=absent`` leaves them unknown.

    Args:
        said: statements are added in place.
        unlabelled: (N,) where an image has no statement at all.
    """
    rows, size = np.flatnonzero(unlabelled).astype(np.int32), len(said.classes)
    if len(rows) * size > _MOST:
        return
    said.image = np.concatenate([said.image, np.repeat(rows, size)])
    said.cls = np.concatenate([said.cls, np.tile(np.arange(size, dtype=np.int32), len(rows))])
    added = len(rows) * size
    said.value = np.concatenate([said.value, np.zeros(added, np.int8)])
    said.row = np.concatenate([said.row, np.zeros(added, np.int64)])
