"""Stored scores and the labels of a table, some classes at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from partlabel.labels.table import LabelTable
from partlabel.metrics.by_class import Block, ByClass
from partlabel.models.scores import Scores


def by_class(scores: Scores, table: LabelTable) -> ByClass:
    """Scores (N, C) and the labels of a table, some classes at a time."""
    order, start = table.by_class()
    image, value = table.images_at(order), table.values[order]

    def blocks() -> Iterator[Block]:
        for low, block in scores.blocks():
            labels = np.zeros(block.shape, np.int8)
            own = slice(start[low], start[low + len(block)])
            labels[np.repeat(np.arange(len(block)), np.diff(start[low : low + len(block) + 1])), image[own]] = value[
                own
            ]
            yield low, block, labels
            del block, labels  # or they are held while the next ones are read

    images = table.images_at(slice(None))
    score = scores.pairs(images, table.indices)
    return ByClass(table.num_images, table.num_classes, blocks, images, table.indices, score, table.values)
