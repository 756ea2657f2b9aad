"""Co-occurrence of known present labels, and the fingerprint of a label table."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.label_names import buffers
from partlabel.label_pairs import pointers, ranges

if TYPE_CHECKING:
    from partlabel.label_arrays import LabelArrays

CHUNK = 1_000_000  # pairs of present labels counted at once


def cooccurrence(table: LabelArrays) -> NDArray[np.int64]:
    """Carry out ``LabelTable.cooccurrence``: each image with m present labels adds its m x m pairs."""
    size = table.num_classes
    result = np.zeros(size * size, np.int64)
    present, _ = table.image_counts()
    index = table.indices[table.values > 0].astype(np.int64)
    start, work = pointers(present), pointers(present**2)
    cuts = np.searchsorted(work, np.arange(0, work[-1], CHUNK), side="left")
    for low, high in pairwise(np.unique([*cuts, table.num_images])):
        count = present[low:high]
        partners = np.repeat(count, count)
        first = np.repeat(index[start[low] : start[high]] * size, partners)
        second = index[ranges(np.repeat(start[low:high], count), partners)]
        np.add.at(result, first + second, 1)
    return result.reshape(size, size)


def content_hash(table: LabelArrays) -> str:
    """Carry out ``LabelTable.content_hash``."""
    digest = hashlib.blake2b(digest_size=16)
    for names in (table.images, pa.array(table.classes, pa.string()), table.groups):
        if names is not None:
            offsets, data = buffers(names)
            digest.update(np.diff(offsets).data)
            digest.update(data[offsets[0] : offsets[-1]].data)
    for array in (table.indptr, table.indices, table.values, table.origin):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
