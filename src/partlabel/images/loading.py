"""From picture files to batches: decode, resize, flips, loader."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as transforms

from partlabel.errors import UserError
from partlabel.images.decoding import MAX_PIXELS, ImageError, decode

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 0xFFFFFFFFFFFFFFFF


def load(path: str | os.PathLike[str], size: int, *, max_pixels: int = MAX_PIXELS) -> torch.Tensor:
    """Load a picture as the model sees it: the one preprocessing of training, prediction and export.

    `decode`, then resize to a square without keeping the aspect ratio (the paper resizes to 448 x 448), bilinear with
    antialiasing, in uint8. Mean and standard deviation are applied on the device, by the model.

    Returns:
        uint8 tensor (3, size, size), RGB.

    Raises:
        ImageError: the file is not a whole, readable picture.
    """
    pixels = torch.from_numpy(decode(path, size, max_pixels=max_pixels)).permute(2, 0, 1)
    resized = transforms.resize(pixels, [size, size], interpolation=InterpolationMode.BILINEAR, antialias=True)
    return resized.contiguous()


def flip_draw(seed: int, epoch: int, image_indices: NDArray[np.integer[Any]] | Sequence[int]) -> NDArray[np.bool_]:
    """Decide which images are mirrored left to right, half of them on average.

    A pure function of seed, epoch and image number (SplitMix64; Steele, Lea and Flood 2014): the same for any number of
    workers and any order of the images, and other flips in each epoch.

    Args:
        seed: any integer.
        epoch: number of the epoch, at least 0.
        image_indices: (N,) row numbers of the images in their table.

    Returns:
        (N,) bool.
    """
    key = _mix(np.array([(seed & _MASK)], dtype=np.uint64))
    key = _mix(key ^ np.array([(epoch * _GOLDEN) & _MASK], dtype=np.uint64))
    counter = np.asarray(image_indices).astype(np.uint64) * np.uint64(_GOLDEN)
    return (_mix(key + counter) >> np.uint64(63)).astype(bool)


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One step of SplitMix64: add the golden gamma, then mix."""
    z = z + np.uint64(_GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class ImageDataset(Dataset[tuple[torch.Tensor, int]]):
    """Pictures by number; item i is (uint8 tensor (3, size, size), i).

    Paths are kept in one flat array, so that loader workers share its memory instead of copying Python objects page by
    page.
    """

    def __init__(self, paths: Iterable[str | os.PathLike[str]], size: int, *, max_pixels: int = MAX_PIXELS) -> None:
        self._paths = pa.array([os.fsencode(path) for path in paths], pa.large_binary())
        self.size = size
        self.max_pixels = max_pixels

    def __len__(self) -> int:
        return len(self._paths)

    def path(self, index: int) -> str:
        """Path of picture ``index``."""
        return os.fsdecode(self._paths[index].as_py())

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return load(self.path(index), self.size, max_pixels=self.max_pixels), index


class _Batches(Dataset[Any]):
    """Whole batches of an ImageDataset; bad pictures come back as a value: a loader rewrites what a worker raises."""

    def __init__(self, images: ImageDataset) -> None:
        self.images = images

    def __getitems__(self, indices: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor] | UserError:
        numbers = torch.as_tensor(np.asarray(indices, dtype=np.int64))
        pixels = torch.empty((len(numbers), 3, self.images.size, self.images.size), dtype=torch.uint8)
        bad: list[ImageError] = []
        for row, index in enumerate(numbers.tolist()):
            try:
                pixels[row] = self.images[index][0]
            except ImageError as error:
                bad.append(error)
        if bad:
            return UserError("pictures cannot be read", [str(error) for error in bad])
        return pixels, numbers


def _start_worker(_: int) -> None:
    torch.set_num_threads(1)  # the cores belong to the model and to the other workers
    warnings.filterwarnings("ignore", module=r"PIL\.")


def _same(batch: Any) -> Any:
    return batch


class Loader:
    """Batches of pictures, in order; made by `make_loader`."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader = loader

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for batch in self._loader:
            if isinstance(batch, UserError):
                raise batch
            yield batch


def make_loader(dataset: ImageDataset, batches: Iterable[Sequence[int]], workers: int = 0) -> Loader:
    """Load batches of pictures, in worker processes where asked.

    Args:
        dataset: the pictures.
        batches: row numbers of each batch; iterated anew for every epoch (a list, or an object whose ``__iter__`` gives
            the batches of the epoch).
        workers: loader processes, each with one torch thread; 0 loads in this process.

    Returns:
        An iterable of (uint8 (B, 3, size, size), int64 (B,) row numbers), in the order of ``batches`` for any number of
        workers.

    Raises:
        UserError: (while iterating) a picture cannot be read.
    """
    loader = DataLoader(
        _Batches(dataset),
        batch_sampler=cast(Any, batches),
        num_workers=workers,
        collate_fn=_same,
        worker_init_fn=_start_worker,
        persistent_workers=workers > 0,
    )
    return Loader(loader)
