"""What a training step reads: images, or the stored output of the part of the network that is not trained.

The part that does not change runs once over the images. Its output lies on disk as one memory-mapped array, under a
name made of everything it depends on: weights, preprocessing and the bytes of the files.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray
from torch import Tensor

from partlabel.core.compute import BATCH, inference_batch, is_first_process
from partlabel.core.errors import UserError
from partlabel.core.files import cache_folder, write_text
from partlabel.core.progress import Reporter
from partlabel.images import ImageDataset, content_hash, make_loader
from partlabel.models.compiled import Features, fast_features, is_averaged, plain_features
from partlabel.models.model import Model

Progress = Callable[[int, int], None]
#: images are stored decoded up to this size; above it they are decoded anew in each epoch
PIXEL_CACHE_LIMIT = 8 * 2**30
#: images averaged at once
_POOLED = 256
#: after so many images it is noted how far the work has come
_NOTED = 1024


class Source:
    """Batches of a fixed list of images, as the model's input from some stage on.

    Attributes:
        stage: the stage of the backbone that the batches go into; 0 are images.
    """

    stage: int

    def batches(self, rows: Sequence[NDArray[np.int64]], flips: Sequence[NDArray[np.bool_]] | None) -> Iterator[Tensor]:
        """Give one tensor for each array of row numbers, mirrored where ``flips`` says so, in order."""
        raise NotImplementedError


class Stored(Source):
    """Batches from a memory-mapped array: pixels (N, 3, H, W) uint8, or features (N, T, D, h, w).

    Features that are averages are float32, maps float16. T is 2 with those of the mirrored image, else 1.
    """

    def __init__(self, array: NDArray[Any], stage: int) -> None:
        self.array = array
        self.stage = stage

    def batches(self, rows: Sequence[NDArray[np.int64]], flips: Sequence[NDArray[np.bool_]] | None) -> Iterator[Tensor]:
        """See :meth:`Source.batches`; features come as float32."""
        for i, batch in enumerate(rows):
            flip = np.zeros(len(batch), bool) if flips is None else flips[i]
            if self.stage:
                yield torch.from_numpy(self.array[batch, flip.astype(np.int64)]).float()
            else:
                yield mirrored(torch.from_numpy(self.array[batch]), flip)


def pooled(source: Stored, square_root: bool = False) -> NDArray[np.float32]:
    """Features (N, D) of stored maps, averaged over the regions, and over both sides where those are stored.

    Args:
        source: output of a backbone.
        square_root: of each average, its sign kept, as in :attr:`ModelConfig.square_root`.
    """
    total = np.zeros((len(source.array), source.array.shape[2]), np.float32)
    for start in range(0, len(total), _POOLED):
        rows = slice(start, start + _POOLED)
        total[rows] = np.asarray(source.array[rows], np.float32).mean((1, 3, 4))
    return np.sign(total) * np.sqrt(np.maximum(np.abs(total), 1e-6)) if square_root else total


class Files(Source):
    """Batches decoded from the files, by loader processes."""

    stage = 0

    def __init__(self, images: ImageDataset, workers: int) -> None:
        self.images = images
        self.workers = workers

    def batches(self, rows: Sequence[NDArray[np.int64]], flips: Sequence[NDArray[np.bool_]] | None) -> Iterator[Tensor]:
        """See :meth:`Source.batches`."""
        for i, (pixels, _) in enumerate(make_loader(self.images, [batch.tolist() for batch in rows], self.workers)):
            yield pixels if flips is None else mirrored(pixels, flips[i])


def mirrored(pixels: Tensor, flip: NDArray[np.bool_]) -> Tensor:
    """Mirror the chosen images of a batch (B, 3, H, W) left to right."""
    if flip.any():
        chosen = torch.from_numpy(flip)
        pixels[chosen] = pixels[chosen].flip(3)
    return pixels


def open_source(
    model: Model,
    stage: int,
    paths: Sequence[Path],
    *,
    flip: bool,
    workers: int,
    max_pixels: int,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
    store: bool = True,
) -> Source:
    """The cheapest source for a model whose first ``stage`` stages do not change.

    Args:
        model: the model; its first stages must be as they will be used.
        stage: number of stages that are not trained; 0 stores decoded images where they fit.
        paths: the image of each row.
        flip: store the features of the mirrored images too.
        workers: loader processes.
        max_pixels: largest image that is decoded.
        device: where the stages run.
        progress: called with (images done, images in all).
        store: False reads the files each time, where ``stage`` is 0.

    Raises:
        UserError: an image cannot be read, or the features do not fit on the disk.
    """
    size = model.preprocessing.size
    images = ImageDataset(paths, size, max_pixels=max_pixels)
    if stage == 0 and (not store or len(paths) * 3 * size * size > PIXEL_CACHE_LIMIT):
        return Files(images, workers)
    key = _key(model, stage, paths, flip)
    target = cache_folder() / f"{key}.npy"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_suffix(".lock")):  # others that want the same wait, then find it
            if not target.is_file():
                _fill(target, model, stage, images, flip, workers, device, progress)
    except OSError as error:
        if stage == 0:  # storing pixels only saves time
            return Files(images, workers)
        raise UserError(
            f"the features of the frozen part cannot be stored in {target.parent} ({error.strerror}); "
            "set PARTLABEL_CACHE to a folder with room, or freeze fewer stages"
        ) from error
    return Stored(np.load(target, mmap_mode="r"), stage)


def _key(model: Model, stage: int, paths: Sequence[Path], flip: bool) -> str:
    digest = hashlib.blake2b(digest_size=16)
    preprocessing = model.describe()["preprocessing"]
    digest.update(json.dumps(["v1", preprocessing, stage, flip and stage > 0, is_averaged(model, stage)]).encode())
    if stage:
        digest.update(model.config.backbone.encode())
        for module in model.backbone.stage_modules(stage):
            for name, value in module.state_dict().items():
                digest.update(name.encode())
                digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    for path in paths:
        digest.update(content_hash(path).encode())
    return digest.hexdigest()


def _fill(
    target: Path,
    model: Model,
    stage: int,
    images: ImageDataset,
    flip: bool,
    workers: int,
    device: torch.device | str,
    progress: Progress | None,
) -> None:
    """Compute the array; a killed run goes on where it stopped, and the name appears only when all is there."""
    unfinished, done_file = target.with_suffix(".partial"), target.with_suffix(".done")
    kind = _kind(model, stage)
    run: Features | None = None
    was_training = model.training
    model.eval()
    shape = (len(images), *_row_shape(model, stage, flip))
    done = int(done_file.read_text()) if done_file.is_file() and unfinished.is_file() else 0
    needed = int(np.prod(shape, dtype=np.int64)) * np.dtype(kind).itemsize
    if not done and needed > shutil.disk_usage(target.parent).free:
        raise OSError(errno.ENOSPC, f"{needed / 2**30:.1f} GiB are needed")
    if not done:
        done_file.unlink(missing_ok=True)
    array = np.lib.format.open_memmap(
        unfinished, "r+" if done else "w+", None if done else kind, None if done else shape
    )
    size = inference_batch(torch.device(device).type) if stage else BATCH
    rows = [np.arange(a, min(a + size, len(images))) for a in range(done, len(images), size)]
    with torch.inference_mode():
        loader = make_loader(images, [batch.tolist() for batch in rows], workers)
        for batch, (pixels, _) in zip(rows, loader, strict=True):
            if stage and run is None:
                say = Reporter(quiet=not is_first_process()).line
                run = fast_features(model, stage, pixels, len(images) - done, cache_folder() / "engines", say)
            array[batch] = _row_values(model, stage, pixels.to(device), flip, run) if stage else pixels.numpy()
            if progress:
                progress(int(batch[-1]) + 1, len(images))
            if (batch[-1] + 1) % _NOTED == 0:
                array.flush()
                write_text(done_file, str(int(batch[-1]) + 1))
    model.train(was_training)
    array.flush()
    done_file.unlink(missing_ok=True)
    os.replace(unfinished, target)


def _kind(model: Model, stage: int) -> type[np.generic]:
    """What rows are made of: averages are small and stay exact, maps are rounded."""
    if not stage:
        return np.uint8
    return np.float32 if is_averaged(model, stage) else np.float16


def _row_shape(model: Model, stage: int, flip: bool) -> tuple[int, ...]:
    size = model.preprocessing.size
    if not stage:
        return (3, size, size)
    device = model.pixel_scale.device
    with torch.inference_mode():
        out = model.features(torch.zeros(1, 3, size, size, device=device), stage)
    return (2 if flip else 1, *out.shape[1:])


def _row_values(
    model: Model, stage: int, pixels: Tensor, flip: bool, run: Features | None
) -> NDArray[np.floating[Any]]:
    run = run or partial(plain_features, model, stage)
    values = torch.stack([run(p) for p in ((pixels, pixels.flip(3)) if flip else (pixels,))], dim=1)
    if is_averaged(model, stage):
        return values.float().cpu().numpy()
    if values.abs().max() > torch.finfo(torch.float16).max:
        raise UserError(
            "the frozen part gives values above 65504, which half precision cannot hold; freeze fewer stages"
        )
    return values.half().cpu().numpy()


def statistics(source: Stored, rows: NDArray[np.int64], model: Model, device: torch.device) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each channel that the head takes, over the training images and regions."""
    batches = [rows[a : a + 64] for a in range(0, len(rows), 64)]
    count, total, square = 0, torch.zeros(()), torch.zeros(())
    for features in source.batches(batches, None):
        values = model.head.pooled(features.to(device)).double()
        total = total.to(device) + values.sum((0, 2, 3))
        square = square.to(device) + values.square().sum((0, 2, 3))
        count += values.numel() // values.shape[1]
    mean = total / count
    return mean.float(), (square / count - mean.square()).clamp_min(0).sqrt().float()
