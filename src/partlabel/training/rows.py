"""What is stored of each image: decoded pixels, or what the first stages of a network make of it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from partlabel.core.compute import is_first_process
from partlabel.core.errors import UserError
from partlabel.core.files import cache_folder
from partlabel.core.progress import Reporter
from partlabel.models.compiled import Features, fast_features, is_averaged, plain_features
from partlabel.models.model import Model


def engine(model: Model, stage: int, sample: Tensor, images: int) -> Features:
    """What runs the stages: the one function that decides it."""
    if model.precision != "32":
        return partial(plain_features, model, stage)
    say = Reporter(quiet=not is_first_process()).line
    return fast_features(model, stage, sample, images, cache_folder() / "engines", say)


def row_kind(model: Model, stage: int) -> type[np.generic]:
    """What rows are made of: averages are small and stay exact, maps are rounded."""
    if not stage:
        return np.uint8
    return np.float32 if is_averaged(model, stage) else np.float16


def row_shape(model: Model, stage: int, flip: bool) -> tuple[int, ...]:
    """The shape of a row: pixels (3, size, size) for stage 0, else (T, D, h, w)."""
    size = model.preprocessing.size
    if not stage:
        return (3, size, size)
    device = model.pixel_scale.device
    was_training = model.training
    model.eval()
    with torch.inference_mode():
        out = model.features(torch.zeros(1, 3, size, size, device=device), stage)
    model.train(was_training)
    return (2 if flip else 1, *out.shape[1:])


def row_values(
    model: Model, stage: int, pixels: Tensor, flip: bool, run: Features | None = None
) -> NDArray[np.floating[Any]]:
    """Features of a batch of images, (B, T, D, h, w): what is stored of them.

    Args:
        model: in evaluation mode.
        stage: stages of its backbone to run.
        pixels: uint8 (B, 3, H, W), on the device of the model.
        flip: give the features of the mirrored images too, T = 2.
        run: what runs the stages; None is PyTorch.

    Raises:
        UserError: maps with values that half precision cannot hold.
    """
    run = run or partial(plain_features, model, stage)
    values = torch.stack([run(p) for p in ((pixels, pixels.flip(3)) if flip else (pixels,))], dim=1)
    if is_averaged(model, stage):
        return values.float().cpu().numpy()
    if values.abs().max() > torch.finfo(torch.float16).max:
        raise UserError(
            "the frozen part gives values above 65504, which half precision cannot hold; freeze fewer stages"
        )
    return values.half().cpu().numpy()
