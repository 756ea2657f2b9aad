"""Validation images that the training sees too: by name, by content, and whether a label is on both sides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.labels.holdout import shared_pairs
from partlabel.labels.table import LabelTable


@dataclass(frozen=True)
class Shared:
    """Validation images that are trained on.

    ``by_name``; ``by_content``: those under another name; ``by_looks``: those of other bytes that are near-copies of an
    image that is trained on.
    """

    by_name: int = 0
    by_content: int = 0
    by_looks: int = 0


def check_leaks(
    table: LabelTable,
    contents: NDArray[np.bytes_],
    validation: LabelTable,
    validation_contents: NDArray[np.bytes_],
) -> Shared:
    """Refuse validation labels that are trained on, and count validation images that are.

    An image is the same by its name in the tables, or by the bytes of its file.

    Args:
        table: labels to train on.
        contents: the hash of each row's file, see :func:`partlabel.images.content_hash`.
        validation: labels to validate on, of the same classes.
        validation_contents: the hash of each row's file.

    Raises:
        UserError: labels of an image and a class are in both tables; all are named.
    """
    name_row = table.image_index(validation.images)
    row = _same_content(contents, validation_contents, name_row)
    names = validation.images.to_pylist()
    seen = shared_pairs(table, validation)
    image, cls = validation.pair_images(), validation.indices.astype(np.int64)
    known = table.pair_images().astype(np.int64) * table.num_classes + table.indices
    seen |= (row[image] >= 0) & np.isin(row[image] * table.num_classes + cls, known)
    if seen.any():
        offenders = [f"{names[i]}: {validation.classes[c]}" for i, c in zip(image[seen], cls[seen], strict=True)]
        raise UserError(
            f"{int(seen.sum())} of the {validation.num_known} validation labels are trained on too, so they prove "
            "nothing; give other labels, or --validation with a share, or put labels aside with partlabel labels "
            "hold-out",
            offenders,
        )
    return Shared(int((name_row >= 0).sum()), int(((row >= 0) & (name_row < 0)).sum()))


def _same_content(
    contents: NDArray[np.bytes_], validation_contents: NDArray[np.bytes_], name_row: NDArray[np.int64]
) -> NDArray[np.int64]:
    """For each validation image the row of the training image of the same name, else of the same bytes, else -1."""
    known, first = np.unique(contents, return_index=True)
    at = np.minimum(np.searchsorted(known, validation_contents), len(known) - 1)
    same = np.where(known[at] == validation_contents, first[at], -1)
    return np.where(name_row < 0, same, name_row)
