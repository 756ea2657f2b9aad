"""What a network makes of images, or their pixels, stored by the hash of each image in shards of up to 1,024.

An image that is stored is never computed again, whatever table, order or folder it comes in. A shard is a file that is
written whole and never changed, named after its images: processes of any number and version read and add shards side by
side. A shard that is damaged is left out, and made anew.
"""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partlabel.core.compute import cores, memory
from partlabel.core.errors import PartlabelWarning, UserError
from partlabel.core.files import make_folder
from partlabel.core.sealed import open_sealed, write_sealed

#: images of a shard at most, and bytes of one, about
IMAGES, _BYTES = 1024, 2**26
#: share of the machine's memory that may hold what the disk does not take
_MEMORY = 0.25
#: seconds after which a use is noted again
_USED = 3600.0


class Held:
    """Rows that are an array (N, ...) in memory, to be read as :class:`Shards` are."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.rows, self.shape = array, array.shape[1:]

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, images: NDArray[np.integer[Any]], pick: tuple[Any, ...] = ()) -> NDArray[Any]:
        """See :meth:`Shards.take`."""
        return self.rows[(images, *pick)]


class Shards:
    """One row for each of some images.

    Args:
        folder: of the shards of one kind of rows; it is made.
        names: (N,) S32, hash of each image; images may be there twice.
        shape: of a row.
        kind: of its numbers.
        needed: where the disk refuses, keep rows in memory; otherwise they are dropped, as they only save time.

    Attributes:
        names: (U,) the hashes, each once, sorted.
        index: (N,) place of each image in ``names``.
        order: (U,) places in ``names`` in the order of the images.
        refused: why nothing more is written, in words; None where it is.
        is_full: whether rows were dropped.
    """

    def __init__(
        self, folder: Path, names: NDArray[np.bytes_], shape: tuple[int, ...], kind: type[np.generic], *, needed: bool
    ) -> None:
        self.folder, self.shape, self.kind, self.needed = folder, shape, np.dtype(kind), needed
        self.names, first, self.index = np.unique(names, return_index=True, return_inverse=True)
        self.order = np.argsort(first)
        self.parts: list[NDArray[Any]] = []
        self.files: set[Path] = set()
        self.part = np.full(len(self.names), -1, np.int32)
        self.row = np.zeros(len(self.names), np.int32)
        self.refused: str | None = None
        self.is_full = False
        self._in_memory = 0

    def __len__(self) -> int:
        return len(self.index)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.kind.itemsize

    @property
    def memory_left(self) -> int:
        """Bytes of rows that may stay in memory."""
        return int(memory() * _MEMORY) - self._in_memory

    @property
    def per_shard(self) -> int:
        """Rows of a full shard."""
        return max(1, min(IMAGES, _BYTES // max(self.row_bytes, 1)))

    @property
    def lacking(self) -> NDArray[np.bool_]:
        """(U,) images without a row."""
        return self.part < 0

    def find(self) -> None:
        """Open the shards that are in the folder and hold rows that are lacking; damaged ones are removed."""
        found = []
        for path in sorted(self.folder.glob("*.shard")):
            if path not in self.files:
                with suppress(OSError):
                    helps = self._helps(path)
                    if helps is None:  # nothing has it open any more, which Windows would not remove
                        path.unlink()
                    elif helps:
                        found.append(path)
        with ThreadPoolExecutor(cores()) as pool:  # the checksum is made outside Python's lock
            for path, arrays in zip(found, pool.map(_checked, found), strict=True):
                if arrays is None:
                    with suppress(OSError):
                        path.unlink()
                elif arrays[1].shape[1:] == self.shape and arrays[1].dtype == self.kind:
                    self._take_in(np.asarray(arrays[0]), arrays[1])
                    self.files.add(path)
                    _note_use(path)

    def _helps(self, path: Path) -> bool | None:
        """Whether a shard holds rows that are lacking; None where it is damaged."""
        try:
            (stored,) = open_sealed(path, check=False, count=1)
            at = self._places(np.asarray(stored))
        except (ValueError, TypeError, OverflowError):
            return None
        return bool(self.lacking[at[at >= 0]].any())

    def add(self, names: NDArray[np.bytes_], rows: NDArray[Any]) -> None:
        """Store rows as a shard.

        Raises:
            UserError: the disk refuses them, and they are needed and too many for the memory.
        """
        path = self.folder / f"{hashlib.blake2b(names.tobytes(), digest_size=16).hexdigest()}.shard"
        if self.refused is None:
            try:
                make_folder(self.folder)
                write_sealed(path, [names, rows])
                rows = open_sealed(path, check=False)[1]
                self.files.add(path)
            except (OSError, ValueError) as error:
                self.refused = str(error)
        if self.refused is not None:
            self._hold(rows)
        if not self.is_full:
            self._take_in(names, rows)

    def _hold(self, rows: NDArray[Any]) -> None:
        """Count rows that stay in memory, as the disk refuses them."""
        if not self.needed:
            self.is_full = True
            return
        self._in_memory += rows.nbytes
        if self.memory_left < 0:
            raise UserError(
                f"the features of the frozen part cannot be stored ({self.refused}), and are too many for the memory; "
                "set PARTLABEL_CACHE to a folder with room, or freeze fewer stages"
            )
        if self._in_memory == rows.nbytes:
            warnings.warn(
                f"the features of the frozen part cannot be stored ({self.refused}); they stay in memory and are "
                "computed anew the next time; set PARTLABEL_CACHE to a folder with room",
                PartlabelWarning,
                stacklevel=2,
            )

    def take(self, images: NDArray[np.integer[Any]], pick: tuple[Any, ...] = ()) -> NDArray[Any]:
        """Rows of some images, by their number.

        Args:
            images: (B,) numbers.
            pick: index arrays (B,) into the first dimensions of each row.
        """
        unique = self.index[images]
        part, row = self.part[unique], self.row[unique]
        out = np.empty((len(images), *self.shape[len(pick) :]), self.kind)
        for number in np.unique(part):
            mine = part == number
            out[mine] = self.parts[number][(row[mine], *(axis[mine] for axis in pick))]
        return out

    def of_names(self, places: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Rows by their place in ``names``."""
        out = np.empty((len(places), *self.shape), self.kind)
        for number in np.unique(self.part[places]):
            mine = self.part[places] == number
            out[mine] = self.parts[number][self.row[places][mine]]
        return out

    def blocks(self, chosen: NDArray[np.bool_], multiple: int = 1, least: int = 1) -> list[NDArray[np.int64]]:
        """Places of the chosen (U,) images, in their order, as many for each shard as it holds.

        Args:
            chosen: which images.
            multiple: the number of rows of a shard, but the last, can be divided by this, if a shard holds as many.
            least: number of shards to make, so that several processes have something to do.
        """
        places = self.order[chosen[self.order]]
        size = min(self.per_shard, -(-len(places) // (least * multiple)) * multiple)
        size = max(size // multiple * multiple or size, 1)
        return [places[a : a + size] for a in range(0, len(places), size)]

    def _places(self, names: NDArray[Any]) -> NDArray[np.int64]:
        """Where names stand among ours, -1 where they do not."""
        if names.dtype != self.names.dtype or names.ndim != 1:
            raise ValueError("not the names of images")
        at = np.minimum(np.searchsorted(self.names, names), max(len(self.names) - 1, 0))
        return np.where(self.names[at] == names, at, -1) if len(self.names) else np.full(len(names), -1)

    def _take_in(self, names: NDArray[np.bytes_], rows: NDArray[Any]) -> None:
        at = self._places(names)
        new = np.flatnonzero((at >= 0) & self.lacking[at])
        self.part[at[new]], self.row[at[new]] = len(self.parts), new
        self.parts.append(rows)


def _checked(path: Path) -> list[NDArray[Any]] | None:
    """The names and rows of a shard; None where it is damaged."""
    try:
        arrays = open_sealed(path)
    except (OSError, ValueError):
        return None
    return arrays if len(arrays) == 2 and len(arrays[0]) == len(arrays[1]) else None


def _note_use(path: Path) -> None:
    """Note that a shard was used, for the one unused for longest leaves a full cache first."""
    with suppress(OSError):
        if time.time() - path.stat().st_mtime > _USED:
            os.utime(path)


def packed(mask: NDArray[np.bool_]) -> bytes:
    """A mask as bytes, to be sent."""
    return np.packbits(mask).tobytes()


def unpacked(parts: Sequence[bytes], count: int) -> NDArray[np.bool_]:
    """Masks (len(parts), count) of :func:`packed`."""
    return np.array([np.unpackbits(np.frombuffer(part, np.uint8), count=count) for part in parts], bool)
