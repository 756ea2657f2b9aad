"""Two images of a step become one: mixup (Zhang et al. 2018) and CutMix (Yun et al. 2019), drawn by a seed.

The images of a step are taken in pairs, the first with the second, the third with the fourth. In a pair (a, b) with
share t, image a becomes ``t a + (1 - t) b`` and image b the other way round; one without a partner stays as it is. What
is then learned of it is ``t L(scores, labels of a) + (1 - t) L(scores, labels of b)``, with L the loss of one image: a
label that is unknown in a part takes no part in it (docs/equations.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_MASK = 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True)
class Mixing:
    """How the images of a step are mixed.

    Attributes:
        partner: int64 (B,), the position of each image's partner; its own without one.
        share: float32 (B,) of the image itself; of its partner, the rest.
        corner: (B, 2) row and column, in [0, 1), of the centre of the box that is pasted, or None for mixup.
    """

    partner: Tensor
    share: Tensor
    corner: Tensor | None

    def images(
        self, images: Tensor, send: Callable[[Tensor, torch.device], Tensor] = torch.Tensor.to
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Mix a batch.

        Args:
            images: (B, D, h, w), pixels or what stages of a backbone make of them.
            send: gives a tensor on a device, without waiting for it where it can.

        Returns:
            On the device of the images: the mixed batch, float for mixup; the partner (B,) of each image; and the share
            (B,) of each image itself, which for a box of whole pixels is what is left of it.
        """
        partner = send(self.partner, images.device)
        if self.corner is None:
            own = send(self.share, images.device)
            share = own[:, None, None, None]
            values = images.to(share.dtype) if not images.is_floating_point() else images
            return values * share + values[partner] * (1 - share), partner, own
        inside = boxes(self.share, self.corner, images.shape[2], images.shape[3])
        share = 1 - inside.float().mean((1, 2))
        chosen = send(inside[:, None], images.device)
        return torch.where(chosen, images[partner], images), partner, send(share, images.device)


def boxes(share: Tensor, centre: Tensor, height: int, width: int) -> Tensor:
    """CutMix's boxes (B, height, width), bool: of sides ``sqrt(1 - share)`` around the centre, cut at the edges.

    Args:
        share: (B,) that is left of the image where the box is not cut.
        centre: (B, 2) row and column in [0, 1).
        height: of the images.
        width: of the images.
    """
    side = (1 - share.double()).sqrt()

    def within(size: int, middle: Tensor) -> Tensor:
        half = (size * side / 2).round()
        place = (size * middle.double()).floor()
        numbers = torch.arange(size)
        return (numbers >= (place - half)[:, None]) & (numbers < (place + half)[:, None])

    rows, columns = within(height, centre[:, 0]), within(width, centre[:, 1])
    return rows[:, :, None] & columns[:, None, :]


def draw_mixing(kind: str, alpha: float, seed: int, epoch: int, images: NDArray[np.int64]) -> Mixing:
    """Draw how the images of a step are mixed, a pure function of seed, epoch and the first image of each pair.

    Args:
        kind: "mixup" or "cutmix".
        alpha: the share of an image is drawn from Beta(alpha, alpha).
        seed: any integer.
        epoch: number of the epoch, from 0.
        images: (B,) numbers of the images, in the order of the step; each pair whole.
    """
    count = len(images)
    partner = np.arange(count) ^ 1
    partner[partner >= count] = count - 1
    draws = np.empty((count, 3))
    for first in range(0, count, 2):
        random = np.random.default_rng([seed & _MASK, epoch, int(images[first]), 1])
        draws[first : first + 2] = [random.beta(alpha, alpha), *random.random(2)]
    share = np.where(partner == np.arange(count), 1.0, draws[:, 0])
    corner = torch.from_numpy(draws[:, 1:].copy()) if kind == "cutmix" else None
    return Mixing(torch.from_numpy(partner), torch.from_numpy(share.astype(np.float32)), corner)
