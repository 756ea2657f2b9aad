"""What training images go through, each epoch anew: crops, colours, torchvision's policies, or a function of one's own.

Everything random is a pure function of (seed, epoch, image number), so that neither the number of loader workers or
processes nor a training that was killed and resumed changes what an image looks like.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional

from partlabel.core.errors import UserError
from partlabel.images.decoding import MAX_PIXELS, decode
from partlabel.images.loading import ImageDataset

#: an image, RGB uint8 (3, H, W), to the same of any size
Augment = Callable[[Tensor], Tensor]
_MASK = 0xFFFFFFFFFFFFFFFF


def augmentation(size: int, *, crop: float = 1.0, colour: float = 0.0, policy: str = "none") -> Augment:
    """Build the augmentation of a training from torchvision's transforms.

    Args:
        size: side in pixels of the square that comes out.
        crop: smallest share of the area that a random crop keeps; 1 does not crop. The crop is taken of the image
            resized to a square, its own ratio of sides between 3/4 and 4/3.
        colour: strength of random changes of brightness, contrast and saturation, in [0, 1].
        policy: "none", "trivial" (Müller and Hutter 2021, TrivialAugment) or "rand" (Cubuk et al. 2020, RandAugment).

    Returns:
        A function of uint8 (3, H, W) to uint8 (3, size, size) that draws from torch's global random state.
    """
    steps: list[Any] = [v2.Resize([size, size], antialias=True)]
    if crop < 1:
        larger = enlarged(size, crop)
        steps = [
            v2.Resize([larger, larger], antialias=True),
            v2.RandomResizedCrop([size, size], scale=(crop, 1.0), antialias=True),
        ]
    if policy != "none":
        steps.append({"trivial": v2.TrivialAugmentWide, "rand": v2.RandAugment}[policy]())
    if colour:
        steps.append(v2.ColorJitter(brightness=colour, contrast=colour, saturation=colour))
    return v2.Compose(steps)


def enlarged(size: int, crop: float) -> int:
    """Side in pixels of a square of which the smallest crop, a share of the area, still has ``size`` pixels."""
    return math.ceil(size / math.sqrt(crop))


class OwnTransform:
    """A function of a user's, from an RGB ``PIL.Image`` to an image, as an :data:`Augment`."""

    def __init__(self, transform: Callable[[Image.Image], Any]) -> None:
        self.transform = transform

    def __call__(self, pixels: Tensor) -> Tensor:
        """Give what the function makes of an image.

        Raises:
            UserError: it is no image.
        """
        return as_pixels(self.transform(functional.to_pil_image(pixels)), "the transform")


def as_pixels(made: Any, maker: str) -> Tensor:
    """Take what somebody's code made as an image: uint8 (3, H, W), RGB.

    Args:
        made: a ``PIL.Image`` of any mode, a uint8 tensor (3, H, W) or (1, H, W), or a uint8 array (H, W, 3) or (H, W).
        maker: who made it, for the message.

    Raises:
        UserError: it is something else; floating point is refused, since 0..1 and 0..255 look alike and mean and
            deviation are the model's matter.
    """
    if isinstance(made, Image.Image):
        made = np.array(made.convert("RGB"))
    if isinstance(made, np.ndarray):
        made = torch.from_numpy(np.ascontiguousarray(made))
        made = made[None] if made.ndim == 2 else made.permute(2, 0, 1) if made.ndim == 3 else made
    if not isinstance(made, Tensor) or made.ndim != 3 or made.shape[0] not in (1, 3) or made.dtype != torch.uint8:
        what = f"{made.dtype} {tuple(made.shape)}" if isinstance(made, Tensor) else f"{type(made).__name__}"
        raise UserError(
            f"{maker} has to give images: a PIL.Image, a uint8 tensor (3, H, W) or a uint8 array (H, W, 3), "
            f"values 0 to 255, not {what}; mean and deviation are subtracted by the model"
        )
    return made.expand(3, -1, -1)


def fitted(pixels: Tensor, size: int) -> Tensor:
    """Resize uint8 (3, H, W) to the square that the model takes, as :func:`partlabel.images.load` does."""
    if pixels.shape[1:] == (size, size):
        return pixels.contiguous()
    return functional.resize(pixels, [size, size], antialias=True).contiguous()


class AugmentedImages(ImageDataset):
    """Images by number as one epoch sees them; item i is (uint8 tensor (3, size, size), i).

    Args:
        paths: the image files.
        size: side in pixels.
        augment: what each goes through.
        seed: any integer.
        epoch: number of the epoch, from 0.
        decoded: side in pixels that is wanted of a decoded image, a hint; None decodes it in full.
        max_pixels: largest image that is decoded.
    """

    def __init__(
        self,
        paths: Iterable[str | os.PathLike[str]],
        size: int,
        augment: Augment,
        *,
        seed: int,
        epoch: int,
        decoded: int | None = None,
        max_pixels: int = MAX_PIXELS,
    ) -> None:
        super().__init__(paths, size, max_pixels=max_pixels)
        self.augment = augment
        self.seed, self.epoch, self.decoded = seed, epoch, decoded

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        pixels = torch.from_numpy(decode(self.path(index), self.decoded, max_pixels=self.max_pixels)).permute(2, 0, 1)
        with drawing(self.seed, self.epoch, index):
            return fitted(self.augment(pixels), self.size), index


@contextmanager
def drawing(*numbers: int) -> Generator[None]:
    """Let torch, NumPy and Python draw from a state made of several numbers, and put their own states back."""
    first, *others = numbers
    state = np.random.SeedSequence([first & _MASK, *others]).generate_state(2, np.uint64)
    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002 (people's transforms use it)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(state[0] >> 1))
        random.seed(int(state[1]))
        np.random.seed(int(state[1] & 0xFFFFFFFF))  # noqa: NPY002
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(legacy)  # noqa: NPY002
