"""From image files to batches: decode, resize, flips, loader."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.queues import Queue
from multiprocessing.util import Finalize, get_temp_dir
from tempfile import gettempdir
from typing import Any, cast

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset, get_worker_info
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as transforms

from partlabel.core.compute import UNGUARDED, has_gpu, refuse_in_loader
from partlabel.core.errors import UserError
from partlabel.core.trouble import short_of_memory
from partlabel.images.decoding import MAX_PIXELS, ImageError, decode, decode_bytes

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 0xFFFFFFFFFFFFFFFF


def load(path: str | os.PathLike[str], size: int, *, max_pixels: int = MAX_PIXELS) -> torch.Tensor:
    """Load an image as the model sees it: the one preprocessing of training, prediction and export.

    `decode`, then resize to a square without keeping the aspect ratio (the paper resizes to 448 x 448), bilinear with
    antialiasing, in uint8. Mean and standard deviation are applied on the device, by the model.

    Returns:
        uint8 tensor (3, size, size), RGB.

    Raises:
        ImageError: the file is not a whole, readable image.
    """
    return _square(decode(path, size, max_pixels=max_pixels), size)


def load_bytes(data: bytes, name: str, size: int) -> torch.Tensor:
    """Load the content of an image file as :func:`load` does; ``name`` is what an error calls it."""
    return _square(decode_bytes(data, name, size), size)


def _square(image: NDArray[np.uint8], size: int) -> torch.Tensor:
    pixels = torch.from_numpy(image).permute(2, 0, 1)
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
    """Images by number; item i is (uint8 tensor (3, size, size), i).

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
        """Path of image ``index``."""
        return os.fsdecode(self._paths[index].as_py())

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return load(self.path(index), self.size, max_pixels=self.max_pixels), index


class _Batches(Dataset[Any]):
    """Whole batches of an ImageDataset: (pixels, row numbers), or what went wrong.

    Errors come back as a value, because a loader rewrites what a worker raises. Row numbers are a NumPy array: each
    tensor that a worker sends costs a file descriptor.
    """

    def __init__(self, images: ImageDataset) -> None:
        self.images = images

    def __getitems__(self, indices: Sequence[int]) -> tuple[torch.Tensor, NDArray[np.int64]] | Exception:
        numbers = np.asarray(indices, dtype=np.int64)
        pixels = torch.empty((len(numbers), 3, self.images.size, self.images.size), dtype=torch.uint8)
        if get_worker_info() is not None:
            try:
                pixels.share_memory_()  # here rather than when it is sent, where a failure would lose the batch
            except (OSError, RuntimeError) as error:
                return RuntimeError(str(error))
        bad: list[ImageError] = []
        for row, index in enumerate(numbers.tolist()):
            try:
                pixels[row] = self.images[index][0]
            except ImageError as error:
                bad.append(error)
        if bad:
            return bad[0] if len(bad) == 1 else UserError("images cannot be read", [str(error) for error in bad])
        return pixels, numbers


def _quiet_worker(_: int) -> None:
    warnings.filterwarnings("ignore", module=r"PIL\.")
    # a batch that cannot be sent would be waited for without end
    Queue._on_queue_feeder_error = staticmethod(_give_up)  # type: ignore[attr-defined]
    # first of all at its end, when only temporary files are left to be removed: where that fails, the result is good
    Finalize(None, _hush, exitpriority=1000)


def _hush() -> None:
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _give_up(*_: Any) -> None:
    if hasattr(signal, "SIGUSR1"):
        signal.raise_signal(signal.SIGUSR1)
    os._exit(1)


def _same(batch: Any) -> Any:
    return batch


_NOT_SENT = "loader processes need room for temporary files, or use 0 workers"
_NO_MEMORY = "the image loader ran out of memory: use fewer loader workers or smaller batches"
#: parts of the messages that torch and the system give, and what they mean for the user
_FAILURES = {
    ("Too many open files", "ancdata"): (
        "the image loader ran out of open files: raise the limit (ulimit -n 4096) or use fewer loader workers"
    ),
    ("No space left on device", "unable to resize file", "Bus error", "shared memory"): (
        "the image loader ran out of shared memory (/dev/shm): use fewer loader workers (0 needs none) or smaller"
        " batches, or give the container more (docker run --shm-size=1g)"
    ),
    ("killed by signal: User defined signal 1",): (
        "a loader process could not hand images over: the folder of temporary files or /dev/shm is full, cannot be "
        f"written, or the system allows no more open files; {_NOT_SENT}"
    ),
    ("exited unexpectedly",): f"a loader process ended at once; {UNGUARDED}",
    ("killed by signal: Killed",): _NO_MEMORY,
    ("killed by signal: Segmentation fault", "killed by signal: Aborted"): (
        "a library ended a loader process, as some do where memory is short: use fewer loader workers (0 needs none) or"
        " smaller batches; with 0 and memory enough, the image that it happens at is the cause"
    ),
}


def _explained(error: Exception) -> Exception:
    """The known failures of a loader as one sentence with its remedy; any other error as it is."""
    text = f"{error} {error.__cause__ or ''}"
    for signs, sentence in _FAILURES.items():
        if any(sign in text for sign in signs):
            return UserError(sentence)
    return UserError(_NO_MEMORY) if short_of_memory(error) else error


class Loader:
    """Batches of images, in order; made by `make_loader`."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader = loader

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        batches: Iterator[Any] | None = None
        while True:
            try:
                batches = iter(self._loader) if batches is None else batches
                batch = next(batches)
            except StopIteration:
                return
            except (OSError, RuntimeError, MemoryError) as error:
                raise _explained(error) from error.__cause__
            if isinstance(batch, UserError):
                raise batch
            if isinstance(batch, Exception):
                raise _explained(batch)
            pixels, numbers = batch
            yield pixels, torch.from_numpy(numbers)


def make_loader(dataset: ImageDataset, batches: Iterable[Sequence[int]], workers: int = 0) -> Loader:
    """Load batches of images, in worker processes where asked.

    Neither the global random state of torch nor the number of workers has an influence on the batches, and the first is
    left as it is. Worker processes use one torch thread each, so that the cores are left to the model.

    Args:
        dataset: the images.
        batches: row numbers of each batch; iterated anew for every epoch (a list, or an object whose ``__iter__`` gives
            the batches of the epoch).
        workers: loader processes, kept from epoch to epoch; 0 loads in this process.

    Returns:
        An iterable of (uint8 (B, 3, size, size), int64 (B,) row numbers), in the order of ``batches``; the pixels are
        in pinned memory where there is a CUDA device.

    Raises:
        UserError: (while iterating) images cannot be read, or the machine ran out of shared memory, memory or open
            files.
    """
    if workers:
        refuse_in_loader()
        try:
            get_temp_dir()  # of this process, which its loaders share: where it cannot be made, they say it to nobody
        except OSError as error:
            raise UserError(f"{gettempdir()}: cannot be written ({error.strerror}); {_NOT_SENT}") from error
    loader = DataLoader(
        _Batches(dataset),
        batch_sampler=cast(Any, batches),
        num_workers=workers,
        collate_fn=_same,
        worker_init_fn=_quiet_worker,
        persistent_workers=workers > 0,
        pin_memory=has_gpu(),
        generator=torch.Generator(),
    )
    return Loader(loader)
