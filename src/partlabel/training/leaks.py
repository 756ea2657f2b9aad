"""Validation images that the training sees too: by name, by content, and whether a label is on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.images import identical
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
    table: LabelTable, paths: Sequence[Path], validation: LabelTable, validation_paths: Sequence[Path]
) -> Shared:
    """Refuse validation labels that are trained on, and count validation images that are.

    An image is the same by its name in the tables, or by the bytes of its file.

    Args:
        table: labels to train on.
        paths: the image of each row.
        validation: labels to validate on, of the same classes.
        validation_paths: the image of each row.

    Raises:
        UserError: labels of an image and a class are in both tables; all are named.
    """
    name_row = table.image_index(validation.images)
    row = _same_content(paths, validation_paths, name_row)
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
    paths: Sequence[Path], validation_paths: Sequence[Path], name_row: NDArray[np.int64]
) -> NDArray[np.int64]:
    """For each validation image the row of the training image of the same name, else of the same bytes, else -1."""
    row = np.array(name_row, np.int64)
    trained = {path: i for i, path in reversed(list(enumerate(paths)))}
    for i in np.flatnonzero(row < 0).tolist():
        row[i] = trained.get(validation_paths[i], -1)
    open_ = [validation_paths[i] for i in np.flatnonzero(row < 0).tolist()]
    group_of: dict[Path, int] = {}
    for group in identical([*trained, *open_]):
        first = next((trained[path] for path in group if path in trained), -1)
        group_of |= dict.fromkeys(group, first)
    for i in np.flatnonzero(row < 0).tolist():
        row[i] = group_of.get(validation_paths[i], -1)
    return row
