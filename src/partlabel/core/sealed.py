"""Arrays in one file that notices its own damage: written whole or not at all, mapped into memory when read."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from partlabel.core.files import replacing
from partlabel.core.special import special

#: bytes of the checksum (CRC-32, as a number) at the end
_SEAL = 4
_BLOCK = 2**22


class _Summing:
    """A file that sums up what is written into it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.sum = file, 0

    def write(self, data: bytes) -> int:
        self.sum = zlib.crc32(data, self.sum)
        return self.file.write(data)


def write_sealed(path: Path, arrays: Sequence[NDArray[Any]]) -> None:
    """Write arrays as ``.npy`` files one after the other, and a checksum of all.

    Raises:
        UserError: the disk is full or refuses.
    """
    with replacing(path) as temporary, open(temporary, "wb") as file:
        summing: Any = _Summing(file)
        for array in arrays:
            np.lib.format.write_array(summing, np.ascontiguousarray(array), allow_pickle=False)
        file.write(summing.sum.to_bytes(_SEAL, "little"))


def open_sealed(path: Path, *, check: bool = True, count: int | None = None) -> list[NDArray[Any]]:
    """Map the arrays of a file into memory, to be read only.

    Args:
        path: a file of :func:`write_sealed`.
        check: read all of it and compare the checksum.
        count: open only the first arrays; None opens all.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged, or of another kind.
    """
    arrays: list[NDArray[Any]] = []
    if (word := special(path)) is not None:
        raise ValueError(f"{path}: is {word}")
    with open(path, "rb") as file:
        end = os.fstat(file.fileno()).st_size - _SEAL
        if check and _sum(file, end) != int.from_bytes(file.read(_SEAL), "little"):
            raise ValueError(f"{path}: is damaged")
        place = 0
        while place < end and (count is None or len(arrays) < count):
            file.seek(place)
            shape, kind = _header(file, path)
            start = file.tell()
            place = start + int(np.prod(shape, dtype=np.int64)) * kind.itemsize
            if place > end:
                raise ValueError(f"{path}: is cut off")
            arrays.append(np.memmap(file, kind, "r", start, shape) if place > start else np.empty(shape, kind))
    return arrays


def _header(file: IO[bytes], path: Path) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and kind of the array that begins here."""
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, kind = read(file)
    except OSError:
        raise
    except Exception:  # NumPy lets the errors of Python's tokenizer through, among others
        raise ValueError(f"{path}: is damaged") from None
    return shape, kind


def _sum(file: IO[bytes], end: int) -> int:
    found, left = 0, end
    while left > 0 and (data := file.read(min(_BLOCK, left))):
        found = zlib.crc32(data, found)
        left -= len(data)
    return found if left == 0 else -1
