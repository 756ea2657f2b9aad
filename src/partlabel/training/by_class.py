"""Stored scores and the labels of a table, some classes at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from partlabel.labels.table import LabelTable
from partlabel.metrics.by_class import Block, ByClass
from partlabel.models.scores import Scores


def by_class(scores: Scores, table: LabelTable) -> ByClass:
    """Scores (N, C) and the labels of a table, some classes at a time."""
    order = np.argsort(table.indices, kind="stable")
    image, value = table.pair_images()[order], table.values[order]
    start = np.concatenate([[0], np.cumsum(np.bincount(table.indices, minlength=table.num_classes))])

    def blocks() -> Iterator[Block]:
        for low, block in scores.blocks():
            labels = np.zeros(block.shape, np.int8)
            own = slice(start[low], start[low + len(block)])
            labels[np.repeat(np.arange(len(block)), np.diff(start[low : low + len(block) + 1])), image[own]] = value[
                own
            ]
            yield low, block, labels

    cls = table.indices.astype(np.int64)
    score = scores.pairs(table.pair_images(), cls)
    return ByClass(table.num_images, table.num_classes, blocks, table.pair_images(), cls, score, table.values)
