"""One epoch of training: every batch of its images once, forward, backward, step."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from partlabel.core.errors import UserError
from partlabel.images import flip_draw
from partlabel.training.optimizer import batch_of_one, keep_fixed, set_learning_rate
from partlabel.training.schedule import derived_seed, epoch_batches, learning_rate_factor, share
from partlabel.training.state import Batches, Job, State


def train_epoch(job: Job, state: State, batches: Batches, epoch: int) -> dict[str, Any]:
    """Train one epoch, counted from 0, and give its row of ``metrics.jsonl`` without the validation.

    Raises:
        UserError: the loss, or a weight, is not finite any more.
    """
    config, engine, source = job.config, job.engine, batches.train
    train_rows = state.labels.train_rows
    order = epoch_batches(len(train_rows), config.optim.batch_size, config.seed, epoch)
    rows = [train_rows[batch] for batch in order]
    mine = [share(batch, engine.world, engine.rank) for batch in rows]
    parts = [np.array_split(own, min(config.optim.accumulate, len(own))) for own in mine]
    steps = [(i, part, part is own[-1]) for i, own in enumerate(parts) for part in own]
    read = [part for _, part, _ in steps]
    flips = [flip_draw(config.seed, epoch, part) for part in read] if config.images.flip else None
    torch.manual_seed(derived_seed(config.seed, epoch, engine.rank))
    state.net.train()
    keep_fixed(state.model, source.stage, config.freeze_batch_norm)
    total = torch.zeros((), device=engine.device)
    skipped, began = 0, time.perf_counter()
    with job.report.bar(f"epoch {epoch + 1}") as bar:
        for (i, part, last), images in zip(steps, source.batches(read, flips), strict=True):
            time_now = epoch + (i + 0.5) / len(rows)
            set_learning_rate(state.optimizer, learning_rate_factor(config.optim, time_now))
            total += step(job, state, source.stage, images, part, len(rows[i]), last=last) * len(rows[i])
            if last:
                skipped += not update(job, state)
                bar(i + 1, len(rows))
    engine.average(total)
    seconds = time.perf_counter() - began
    _share_buffers(job, state)
    if not torch.isfinite(total) or not all(torch.isfinite(p).all() for p in state.model.parameters()):
        raise UserError(f"the loss is not finite in epoch {epoch + 1}; choose a lower learning rate")
    return {
        "epoch": epoch + 1,
        "loss": float(total) / len(train_rows),
        "learning_rate": state.optimizer.param_groups[0]["lr"],
        "seconds": round(seconds, 3),
        "images_per_second": round(len(train_rows) / seconds, 1),
        "skipped_steps": skipped,
    }


def step(
    job: Job, state: State, stage: int, images: Tensor, own: NDArray[np.int64], batch_size: int, *, last: bool = True
) -> Tensor:
    """Forward and backward of this process's share of a batch, or of a part of it.

    The losses of all parts and processes add up to the mean over the whole batch.

    Distributed processes average their gradients, so the sum over the own rows is multiplied by their number. A
    process without a row in a small batch runs one image whose labels have weight 0, as it must take part.

    Args:
        job: the training.
        state: gives the network, the labels and the epoch.
        stage: of the backbone, that ``images`` go into.
        images: this process's share of the batch, or a part of it.
        own: rows of the table that they are.
        batch_size: images of the whole batch, over all processes.
        last: of the parts of the share; after it, the processes share their gradients.
    """
    engine = job.engine
    labels, weight = state.labels.labels(own)
    if engine.rank >= batch_size:
        weight = torch.zeros(labels.shape)
    with batch_of_one(state.model, len(own) == 1):
        scores = state.net(to_device(job, images), stage)
    known = torch.from_numpy(labels).to(scores.device)
    weight = None if weight is None else weight.to(scores.device)
    heads = scores.unbind() if scores.ndim == 3 else (scores,)
    now = state.epoch + 1
    value = torch.stack([job.loss(head, known, weight=weight, epoch=now) for head in heads]).sum() / batch_size
    engine.backward(state.net, value * engine.world, share=last)
    return value.detach() * (engine.world / len(heads))


def update(job: Job, state: State) -> bool:
    """Apply the gradient; False where half precision overflowed and the step was left out."""
    applied = job.engine.update(state.net, state.optimizer, job.config.optim.clip_norm)
    state.labels.after_step()
    return applied


def to_device(job: Job, images: Tensor) -> Tensor:
    """A batch on the device, in the memory format of the network."""
    x = images.to(job.engine.device, non_blocking=True)
    return x.contiguous(memory_format=torch.channels_last) if job.config.channels_last and x.shape[-1] > 1 else x


def _share_buffers(job: Job, state: State) -> None:
    """Average the statistics of batch normalisation over the processes, so that all validate and save one model."""
    for buffer in state.model.buffers():
        if buffer.is_floating_point():
            job.engine.average(buffer)
