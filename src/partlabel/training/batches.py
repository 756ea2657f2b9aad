"""What a training step reads: images, or the stored output of the part of the network that is not trained.

The part that does not change runs once over each image. Its output is stored under a name made of everything it depends
on: weights and preprocessing, and the bytes of the file. Several processes share the work out, and each gets what the
others have made.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray
from torch import Tensor

from partlabel.core.cache import cache_limit, make_room, stored_files
from partlabel.core.compute import ALONE, BATCH, Crew, autocast, has_gpu, inference_batch, refuse_in_loader
from partlabel.core.errors import UserError
from partlabel.core.files import cache_folder, make_folder
from partlabel.images import ImageDataset, make_loader
from partlabel.images.looking import contents
from partlabel.models.compiled import Features, is_averaged
from partlabel.models.model import Model
from partlabel.training.rows import engine, row_kind, row_shape, row_values
from partlabel.training.shards import Held, Shards, packed, unpacked

Progress = Callable[[int, int], None]
T = TypeVar("T")
#: images are stored decoded up to this size; above it they are decoded anew in each epoch
PIXEL_CACHE_LIMIT = 8 * 2**30
#: images averaged at once
_POOLED = 256
#: batches that are read before they are asked for
_AHEAD = 2


class Source:
    """Batches of a fixed list of images, as the model's input from some stage on.

    Attributes:
        stage: the stage of the backbone that the batches go into; 0 are images.
    """

    stage: int

    def batches(self, rows: Sequence[NDArray[np.int64]], flips: Sequence[NDArray[np.bool_]] | None) -> Iterator[Tensor]:
        """Give one tensor for each array of row numbers, mirrored where ``flips`` says so, in order.

        They are read ahead, and lie in pinned memory where there is a GPU.
        """
        raise NotImplementedError


class Stored(Source):
    """Batches from stored rows: pixels (3, H, W) uint8, or features (T, D, h, w).

    Features that are averages are float32, maps float16. T is 2 with those of the mirrored image, else 1.
    """

    def __init__(self, shards: Shards | Held, stage: int) -> None:
        self.shards = shards
        self.stage = stage

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.shards)

    @property
    def array(self) -> NDArray[Any]:
        """All rows in memory: pixels (N, 3, H, W) or features (N, T, D, h, w)."""
        return self.shards.take(np.arange(len(self)))

    def batches(self, rows: Sequence[NDArray[np.int64]], flips: Sequence[NDArray[np.bool_]] | None) -> Iterator[Tensor]:
        """See :meth:`Source.batches`; features come as float32."""
        mirror = [np.zeros(len(batch), bool) for batch in rows] if flips is None else flips
        return ahead(partial(self._batch, *each) for each in zip(rows, mirror, strict=True))

    def _batch(self, rows: NDArray[np.int64], flip: NDArray[np.bool_]) -> Tensor:
        if self.stage:
            return pinned(torch.from_numpy(self.shards.take(rows, (flip.astype(np.int64),))).float())
        return pinned(mirrored(torch.from_numpy(self.shards.take(rows)), flip))


def ahead(made: Iterable[Callable[[], T]]) -> Iterator[T]:
    """Give what functions return, in order; the next ones are called meanwhile, in a thread."""
    with ThreadPoolExecutor(1) as pool:
        waiting = deque()
        for make in made:
            waiting.append(pool.submit(make))
            if len(waiting) > _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def pinned(tensor: Tensor) -> Tensor:
    """The tensor in memory that a GPU reads without waiting, where there is one."""
    return tensor.pin_memory() if has_gpu() else tensor


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of the CPU on a device, by way of pinned memory, so that nobody waits for the copy."""
    return pinned(tensor).to(device, non_blocking=True)


def pooled(source: Stored, square_root: bool = False) -> NDArray[np.float32]:
    """Features (N, D) of stored maps, averaged over the regions, and over both sides where those are stored.

    Args:
        source: output of a backbone.
        square_root: of each average, its sign kept, as in :attr:`ModelConfig.square_root`.
    """
    total = np.zeros((len(source), source.shards.shape[1]), np.float32)
    for start in range(0, len(total), _POOLED):
        rows = np.arange(start, min(start + _POOLED, len(total)))
        total[rows] = source.shards.take(rows).astype(np.float32).mean((1, 3, 4))
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
    names: NDArray[np.bytes_] | None = None,
    crew: Crew = ALONE,
) -> Source:
    """The cheapest source for a model whose first ``stage`` stages do not change.

    Args:
        model: the model; its first stages must be as they will be used, and run in its precision.
        stage: number of stages that are not trained; 0 stores decoded images where they fit.
        paths: the image of each row.
        flip: store the features of the mirrored images too.
        workers: loader processes.
        max_pixels: largest image that is decoded.
        device: where the stages run.
        progress: called with (images done, images in all).
        store: False reads the files each time, where ``stage`` is 0.
        names: the hash of each file, where it is known, see :func:`partlabel.images.looking.contents`.
        crew: the processes that share the work out; all of them call this.

    Raises:
        UserError: an image cannot be read, or the features fit neither on the disk nor into the memory.
    """
    size = model.preprocessing.size
    images = ImageDataset(paths, size, max_pixels=max_pixels)
    if stage == 0 and (not store or len(paths) * 3 * size * size > PIXEL_CACHE_LIMIT):
        return Files(images, workers)
    folder = cache_folder() / "features-2" / _key(model, stage, flip)
    if names is None:
        ends = [round(i * len(paths) / crew.world) for i in range(crew.world + 1)]
        own = paths[ends[crew.rank] : ends[crew.rank + 1]]
        names = np.concatenate(crew.collect(lambda: contents(own)))
    shards = Shards(folder, names, row_shape(model, stage, flip), row_kind(model, stage), needed=stage > 0)
    shards.find()
    run: list[Features] = []

    def compute(pixels: Tensor) -> NDArray[Any]:
        if not stage:
            return pixels.numpy()
        with autocast(torch.device(device), model.precision):
            if not run:
                run.append(engine(model, stage, pixels, int(shards.lacking.sum()) // crew.world))
            return row_values(model, stage, pixels.to(device), flip, run[0])

    was_training = model.training
    model.eval()
    at_once = inference_batch(torch.device(device).type) if stage else BATCH
    try:
        with torch.inference_mode():
            whole = _fill(shards, images, compute, at_once, workers, progress, crew)
    finally:
        model.train(was_training)
    return Stored(shards, stage) if whole else Files(images, workers)


def _key(model: Model, stage: int, flip: bool) -> str:
    """Everything that a row depends on but the image."""
    digest = hashlib.blake2b(digest_size=16)
    preprocessing = model.describe()["preprocessing"]
    made = ["v2", preprocessing, stage, flip and stage > 0, is_averaged(model, stage)]
    made.append(model.precision if stage else "pixels")
    digest.update(json.dumps(made).encode())
    if stage:
        digest.update(model.config.backbone.encode())
        for module in model.backbone.stage_modules(stage):
            for name, value in module.state_dict().items():
                digest.update(name.encode())
                digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _fill(
    shards: Shards,
    images: ImageDataset,
    compute: Callable[[Tensor], NDArray[Any]],
    at_once: int,
    workers: int,
    progress: Progress | None,
    crew: Crew,
) -> bool:
    """Compute the rows that nobody has, each process some shards, and get those that others have.

    A killed process loses no more than a shard.

    Returns:
        Whether all rows are there; False only where they are not needed and one of the processes has no room.
    """
    lacking = _lacking(shards, crew)
    if not lacking.any():
        return True
    lock = FileLock(shards.folder / "lock")
    try:
        # others that want the same wait, then find it
        room = all(crew.collect(lambda: (crew.rank or _locked(lock)) and _has_room(shards)))
        if not room and not shards.needed:
            return False
        shards.find()
        nowhere: NDArray[np.bool_] = np.logical_and.reduce(_lacking(shards, crew))
        todo = shards.blocks(nowhere, at_once, crew.world)[crew.rank :: crew.world]
        crew.collect(lambda: _compute(shards, todo, images, compute, at_once, workers, progress))
        return _exchange(shards, crew)
    finally:
        with suppress(OSError):
            lock.release()


def _lacking(shards: Shards, crew: Crew) -> NDArray[np.bool_]:
    """(processes, U) which rows each of them lacks."""
    return unpacked(crew.collect(lambda: packed(shards.lacking)), len(shards.names))


def _locked(lock: FileLock) -> bool:
    """Wait for the lock; a file system that has none is used without it."""
    refuse_in_loader()
    with suppress(OSError, NotImplementedError, UserError):
        make_folder(Path(lock.lock_file).parent)
        lock.acquire()
    return True


def _has_room(shards: Shards) -> bool:
    """Make room in the cache for what is lacking; whether the disk, and for pixels the limit, has it."""
    cache, needed = cache_folder(), int(shards.lacking.sum()) * shards.row_bytes
    limit = cache_limit(cache, sum(size for _, size, _ in stored_files(cache)))
    try:
        make_folder(shards.folder)
        make_room(cache, needed, shards.files)
        free = shutil.disk_usage(shards.folder).free
    except (OSError, UserError) as error:
        shards.refused = str(error)
        return False
    if needed > free:
        shards.refused = f"{needed / 2**30:.1f} GiB are needed, {free / 2**30:.1f} GiB are free"
        return False
    return shards.needed or needed <= limit


def _compute(
    shards: Shards,
    blocks: Sequence[NDArray[np.int64]],
    images: ImageDataset,
    compute: Callable[[Tensor], NDArray[Any]],
    at_once: int,
    workers: int,
    progress: Progress | None,
) -> None:
    """Compute and store some shards, given by the places of their images among the names."""
    image_of = np.zeros(len(shards.names), np.int64)
    image_of[shards.index] = np.arange(len(images))
    cut = [[block[a : a + at_once] for a in range(0, len(block), at_once)] for block in blocks]
    todo = sum(map(len, blocks))
    done = in_all = int((~shards.lacking).sum())
    in_all += todo
    loaded = iter(make_loader(images, [image_of[part].tolist() for block in cut for part in block], workers))
    for block, parts in zip(blocks, cut, strict=True):
        if shards.is_full:
            return
        rows = np.empty((len(block), *shards.shape), shards.kind)
        start = 0
        for part in parts:
            rows[start : start + len(part)] = compute(next(loaded)[0])
            start += len(part)
            done += len(part)
            if progress:
                progress(done, in_all)
        shards.add(shards.names[block], rows)


def _exchange(shards: Shards, crew: Crew) -> bool:
    """Find what other processes have stored, and get what they have in other folders; whether all is there."""
    if crew.world > 1:
        shards.find()
    lacking = _lacking(shards, crew)
    owner = np.argmin(lacking, 0)
    for rank in range(crew.world):
        sent: NDArray[np.bool_] = np.logical_and.reduce((lacking.any(0), ~lacking.all(0), owner == rank))
        for block in shards.blocks(sent):
            rows = crew.send(rank, partial(shards.of_names, block))
            if shards.lacking[block].any():
                shards.add(shards.names[block], rows)
    return not _lacking(shards, crew).any()


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
