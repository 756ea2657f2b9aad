"""Metrics of the model in training on labels that it does not learn from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from partlabel.labels.table import LabelTable
from partlabel.metrics import Accumulator, Metrics
from partlabel.training.batches import Source
from partlabel.training.engine import gather


def ranks(table: LabelTable) -> bool:
    """Whether mAP says anything on these labels: with known labels of one sign only it is 1 for every model."""
    present, absent = table.class_counts()
    return bool(((present > 0) & (absent > 0)).any())


def validate(
    score: Callable[[Tensor], Tensor],
    source: Source,
    table: LabelTable,
    rows: NDArray[np.int64],
    *,
    batch_size: int,
    rank: int,
    world: int,
) -> tuple[Metrics, NDArray[np.float32]]:
    """Measure on the known labels of some images, each scored by one of the processes.

    Args:
        score: a batch of ``source`` -> scores (B, C), of a model in evaluation mode.
        source: the images of the table.
        table: their labels.
        rows: the images to measure on.
        batch_size: images scored at once.
        rank: of this process.
        world: number of processes.

    Returns:
        The metrics, and the scores (len(rows), C), the same in all processes.
    """
    own = np.array_split(rows, world)[rank]
    batches = [own[a : a + batch_size] for a in range(0, len(own), batch_size)]
    found = Accumulator(table.num_classes, table.classes)
    scores: list[NDArray[np.float32]] = []
    with torch.inference_mode():
        for batch, pictures in zip(batches, source.batches(batches, None), strict=True):
            scores.append(score(pictures).float().cpu().numpy())
            found.update(scores[-1], table.dense(batch), rows=batch)
    if world > 1:
        found = Accumulator.from_states(gather(found.state(), world))
        scores = [part for parts in gather(scores, world) for part in parts]
    return found.compute(), np.concatenate(scores)
