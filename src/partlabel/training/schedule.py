"""What happens at which step: batches of an epoch, learning rate."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from partlabel.training.config import OptimConfig


def epoch_batches(num_images: int, batch_size: int, seed: int, epoch: int) -> list[NDArray[np.int64]]:
    """The batches of one epoch: every image once, in an order drawn from (seed, epoch).

    A last batch of a single image joins the one before, since batch normalisation cannot do with one.

    Args:
        num_images: N.
        batch_size: images of a batch.
        seed: any integer.
        epoch: number of the epoch, from 0.
    """
    order = np.random.default_rng([seed & 0xFFFFFFFFFFFFFFFF, epoch]).permutation(num_images)
    starts = list(range(0, num_images, batch_size))
    if len(starts) > 1 and num_images - starts[-1] == 1:
        starts.pop()
    return [order[a:b] for a, b in zip(starts, [*starts[1:], num_images], strict=True)]


def split(batch: NDArray[np.int64], parts: int, pairs: bool = False) -> list[NDArray[np.int64]]:
    """Cut a batch into parts of about equal length, some of which may be empty.

    Args:
        batch: rows.
        parts: their number.
        pairs: the first and the second row stay together, the third and the fourth, and so on.
    """
    if not pairs:
        return np.array_split(batch, parts)
    starts = np.array_split(np.arange(0, len(batch), 2), parts)
    return [batch[own[0] : own[-1] + 2] if len(own) else batch[:0] for own in starts]


def derived_seed(*numbers: int) -> int:
    """A seed of torch made of several numbers, the first of which may be any integer."""
    first, *others = numbers
    sequence = np.random.SeedSequence([first & 0xFFFFFFFFFFFFFFFF, *others])
    return int(sequence.generate_state(1, np.uint64)[0] >> 1)


def learning_rate_factor(config: OptimConfig, epoch: float) -> float:
    """Factor of the learning rate, a pure function of the time, so that nothing has to be restored on resume.

    Args:
        config: the schedule.
        epoch: epochs since the start, with the share of the running one; 10.0 is the start of the eleventh.
    """
    factor = 1.0
    if config.schedule == "step":
        factor = config.step_factor ** sum(epoch >= after for after in config.step_after)
    elif config.schedule == "cosine":
        done = max(0.0, epoch - config.warmup) / max(config.epochs - config.warmup, 1e-9)
        factor = 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
    if epoch < config.warmup:
        factor *= epoch / config.warmup
    return factor
