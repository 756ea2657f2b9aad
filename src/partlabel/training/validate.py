"""Metrics of the model in training on labels that it does not learn from."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from partlabel.core.compute import BATCH
from partlabel.metrics import Accumulator
from partlabel.training.data import Data
from partlabel.training.epoch import to_device
from partlabel.training.state import Batches, Job, State
from partlabel.training.summary import headline


def validate(
    job: Job, state: State, data: Data, batches: Batches
) -> tuple[dict[str, float | None] | None, NDArray[np.float32] | None]:
    """Measure on the known labels of the validation part, each image scored by one of the processes.

    Returns:
        The metrics as in ``metrics.jsonl``, the same in all processes, and the scores (images of the validation part,
        C), which the first process alone has; None where there is no validation part.
    """
    table, rows, engine = data.measured, data.held_out, job.engine
    if not len(rows):
        return None, None
    state.net.eval()
    size = max(job.config.optim.batch_size, BATCH)
    own = np.array_split(rows, engine.world)[engine.rank]
    parts = [own[a : a + size] for a in range(0, len(own), size)]
    found = Accumulator(table.num_classes, table.classes)
    scores: list[NDArray[np.float32]] = []
    with state.as_saved(), torch.inference_mode():
        for part, images in zip(parts, batches.validation.batches(parts, None), strict=True):
            scores.append(state.net(to_device(job, images), batches.validation.stage).float().cpu().numpy())
            found.update(scores[-1], table.dense(part), rows=part)
    if engine.world > 1:
        found = Accumulator.from_states(engine.gather(found.state()))
        scores = [part for parts in engine.to_first(scores) for part in parts]
    return headline(found.compute()), np.concatenate(scores) if engine.first else None
