"""One epoch of training: every batch of its images once, forward, backward, step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from partlabel.core.errors import UserError
from partlabel.images import flip_draw
from partlabel.images.mixing import draw_mixing
from partlabel.training.batches import sent
from partlabel.training.optimizer import (
    Loss,
    batch_of_one,
    freezes_batch_norm,
    frozen_stages,
    keep_fixed,
    set_learning_rate,
)
from partlabel.training.schedule import derived_seed, epoch_batches, learning_rate_factor, split
from partlabel.training.state import Batches, Job, State


def train_epoch(job: Job, state: State, batches: Batches, epoch: int) -> dict[str, Any]:
    """Train one epoch, counted from 0, and give its row of ``metrics.jsonl`` without the validation.

    Raises:
        UserError: the loss, or a weight, is not finite any more.
    """
    config, engine, source = job.config, job.engine, batches.seen_in(epoch)
    train_rows = state.labels.train_rows
    order = epoch_batches(len(train_rows), config.optim.batch_size, config.seed, epoch)
    rows = [train_rows[batch] for batch in order]
    steps = list(_parts(job, rows))
    read = [own for _, own, _, _ in steps]
    flips = [flip_draw(config.seed, epoch, own) for own in read] if config.images.flip else None
    torch.manual_seed(derived_seed(config.seed, epoch, engine.rank))
    state.net.train()
    keep_fixed(state.model, frozen_stages(config.freeze, state.model), freezes_batch_norm(config, engine.world))
    total = torch.zeros((), device=engine.device)
    skipped, began = 0, time.perf_counter()
    with job.report.bar(f"epoch {epoch + 1}") as bar:
        for (i, own, idle, last), images in zip(steps, source.batches(read, flips), strict=True):
            time_now = epoch + (i + 0.5) / len(rows)
            set_learning_rate(state.optimizer, learning_rate_factor(config.optim, time_now))
            part = Part(images, own, len(rows[i]), idle, last)
            total += step(job, state, source.stage, part) * len(rows[i])
            if last:
                skipped += not update(job, state)
                bar(i + 1, len(rows))
    engine.average(total)
    seconds = time.perf_counter() - began
    _share_buffers(job, state)
    if not torch.stack([torch.isfinite(each).all() for each in (total, *state.model.parameters())]).all():
        raise UserError(f"the loss is not finite in epoch {epoch + 1}; choose a lower learning rate")
    return {
        "epoch": epoch + 1,
        "loss": float(total) / len(train_rows),
        "learning_rate": state.optimizer.param_groups[0]["lr"],
        "seconds": round(seconds, 3),
        "images_per_second": round(len(train_rows) / seconds, 1),
        "skipped_steps": skipped,
    }


@dataclass(frozen=True)
class Part:
    """What a process works on at once: its share of a batch, or a part of that.

    Attributes:
        images: what the network takes.
        own: rows of the table that they are.
        batch_size: images of the whole batch, over all processes.
        idle: the process has no row in the batch, and runs an image whose labels have weight 0, as it must take part.
        last: of the parts of the share; after it, the processes share their gradients.
    """

    images: Tensor
    own: NDArray[np.int64]
    batch_size: int
    idle: bool
    last: bool


def _parts(job: Job, batches: list[NDArray[np.int64]]) -> Iterator[tuple[int, NDArray[np.int64], bool, bool]]:
    """Cut each batch among processes and into parts: its number, the rows, whether they are idle, and are the last."""
    engine, pairs = job.engine, job.config.augment.mix != "none"
    for i, batch in enumerate(batches):
        own = split(batch, engine.world, pairs)[engine.rank]
        idle = not len(own)
        own = batch[:1] if idle else own
        parts = [part for part in split(own, job.config.optim.accumulate, pairs) if len(part)]
        yield from ((i, part, idle, part is parts[-1]) for part in parts)


def step(job: Job, state: State, stage: int, part: Part) -> Tensor:
    """Forward and backward of this process's share of a batch, or of a part of it.

    The losses of all parts and processes add up to the mean over the whole batch. Distributed processes average their
    gradients, so the sum over the own rows is multiplied by their number.

    Args:
        job: the training.
        state: gives the network, the labels and the epoch.
        stage: of the backbone, that the images go into.
        part: the images.

    Returns:
        The loss of the part.
    """
    engine, own = job.engine, part.own
    images, mixed = to_device(job, part.images), None
    augment = job.config.augment
    if augment.mix != "none":
        drawn = draw_mixing(augment.mix, augment.mix_alpha, job.config.seed, state.epoch, own)
        images, partner, share = drawn.images(images, sent)
        mixed = partner, share
    labels, weight = state.labels.labels(own)
    if part.idle:
        weight = torch.zeros(labels.shape)
    known = sent(torch.from_numpy(labels), images.device)  # before the network runs, so that they are there
    weight = None if weight is None else sent(weight, images.device)
    with engine.sharing(state.net, part.last):
        with batch_of_one(state.model, len(own) == 1):
            scores = state.net(images, stage)
        heads = scores.unbind() if scores.ndim == 3 else (scores,)
        losses = [loss_of(job.loss, head, known, weight, epoch=state.epoch + 1, mixed=mixed) for head in heads]
        value = torch.stack(losses).sum() / part.batch_size
        engine.backward(value * engine.world)
    return value.detach() * (engine.world / len(heads))


def loss_of(
    loss: Loss,
    scores: Tensor,
    labels: Tensor,
    weight: Tensor | None,
    *,
    epoch: int,
    mixed: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """Sum of the loss over the rows of a batch, of which images may be mixed in pairs.

    Args:
        loss: what is minimised.
        scores: (B, C).
        labels: int8 (B, C) of the images as they were.
        weight: (B, C) of their labels, or None for 1.
        epoch: number of the epoch, from 1.
        mixed: the partner (B,) of each image and the share (B,) of itself; the loss is then its share of the loss with
            its own labels and, with the rest, with those of its partner; what is unknown in a part is not asked there.
    """
    if mixed is None:
        return loss(scores, labels, weight=weight, epoch=epoch)
    partner, share = mixed
    whole = torch.ones_like(scores, dtype=torch.float32) if weight is None else weight
    own = loss(scores, labels, weight=whole * share[:, None], epoch=epoch)
    return own + loss(scores, labels[partner], weight=whole[partner] * (1 - share)[:, None], epoch=epoch)


def update(job: Job, state: State) -> bool:
    """Apply the gradient; False where half precision overflowed and the step was left out."""
    applied = job.engine.update(state.net, state.optimizer, job.config.optim.clip_norm)
    state.labels.after_step()
    if state.mean is not None:
        state.mean.update()
    return applied


def to_device(job: Job, images: Tensor) -> Tensor:
    """A batch on the device, in the memory format of the network."""
    x = images.to(job.engine.device, non_blocking=True)
    return x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 and x.shape[-1] > 1 else x


def _share_buffers(job: Job, state: State) -> None:
    """Average the statistics of batch normalisation over the processes, so that all validate and save one model."""
    means = [] if state.mean is None else state.mean.mean_statistics
    for buffer in [*state.model.buffers(), *means]:
        if buffer.is_floating_point():
            job.engine.average(buffer)
