"""Files of our own that carry a checksum, so that a bit that flipped on disk is noticed and never believed.

Files of earlier versions carry none; they are read as they are.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from traceback import clear_frames
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from partlabel.core.errors import UserError
from partlabel.core.files import new_array, replacing, write_json
from partlabel.core.special import refuse_special

#: the entry of a record that holds the checksum of all others
CHECKSUM = "checksum"
WRONG = "does not fit its checksum: it is damaged, or was changed by another program"


def checksum(value: Any) -> str:
    """CRC-32 of a plain value as 8 hexadecimal digits; the order of the entries of an object does not matter."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return f"{zlib.crc32(text.encode('utf-8', 'surrogatepass')):08x}"


def checksum_of_arrays(arrays: Mapping[str, NDArray[Any]], *about: Any) -> str:
    """The same of arrays by name: their names, types, shapes and values; and of plain values beside them."""
    found = 0
    for name in sorted(arrays):
        array = arrays[name]
        found = zlib.crc32(f"{name} {array.dtype.str} {array.shape}".encode("utf-8", "surrogatepass"), found)
        found = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, found)
    return checksum([f"{found:08x}", *about])


def checksum_of_rows(name: str, shape: tuple[int, ...], parts: Iterable[NDArray[np.float32]], *about: Any) -> str:
    """The checksum by :func:`checksum_of_arrays` of one float32 array whose rows come some at a time."""
    found = zlib.crc32(f"{name} {np.dtype(np.float32).str} {shape}".encode())
    for rows in parts:
        found = zlib.crc32(np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data, found)
    return checksum([f"{found:08x}", *about])


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record with its checksum, as plain values of JSON."""
    plain = json.loads(json.dumps(record))
    return {**plain, CHECKSUM: checksum(plain)}


def opened(record: Any, path: str | os.PathLike[str]) -> dict[str, Any]:
    """A record without its checksum, which has to fit if there is one.

    Raises:
        UserError: it does not fit, or this is no object.
    """
    if not isinstance(record, dict):
        raise UserError(f"{path}: is damaged (an object is expected)")
    rest = {key: value for key, value in record.items() if key != CHECKSUM}
    if CHECKSUM in record and record[CHECKSUM] != checksum(rest):
        raise UserError(f"{path}: {WRONG}")
    return rest


def write_record(path: str | os.PathLike[str], record: Mapping[str, Any]) -> None:
    """Write a record as JSON with its checksum, whole or not at all."""
    write_json(path, sealed(record))


def from_json(text: str) -> Any:
    """Values of JSON; numbers that are none, which partlabel writes nowhere, are refused.

    Raises:
        ValueError: this is no JSON.
    """

    def number(digits: str) -> float:
        if not math.isfinite(value := float(digits)):
            raise ValueError("a number is not finite")
        return value

    return json.loads(text, parse_float=number, parse_constant=number)


def read_record(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what :func:`write_record` wrote, or JSON without a checksum.

    Raises:
        UserError: the file is missing or damaged.
    """
    refuse_special(path)
    try:
        found = from_json(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: is damaged, perhaps by a full disk") from error
    return opened(found, path)


def write_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array as ``.npy``, whole or not at all, with its checksum behind it, where other readers do not look."""
    with replacing(path) as temporary:
        with open(temporary, "wb") as file:
            np.save(file, array)
        append_checksum(temporary, array)


def fill_array(path: Path, shape: tuple[int, ...], kind: DTypeLike, fill: Callable[[np.memmap], None]) -> None:
    """Make an array on disk, which has its name once it is filled and nothing maps it: Windows moves no mapped file."""
    with replacing(path) as temporary:
        array = new_array(temporary, shape, kind)
        try:
            fill(array)
            array.flush()
            append_checksum(temporary, array)
        except BaseException as error:
            clear_frames(error.__traceback__)  # which hold the array, and Windows removes no mapped file either
            raise
        finally:
            del array


def append_checksum(path: Path, array: NDArray[Any]) -> None:
    """Write the checksum of an array behind it in its file."""
    with open(path, "ab") as file:
        file.write(checksum_of_arrays({"": array}).encode())


def read_array(path: Path, shape: tuple[int, ...] | None, kind: DTypeLike) -> NDArray[Any] | None:
    """Map a stored array into memory; None where it is missing, damaged, or of another shape (if given) or type."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        said = checksum_of_arrays({"": array}).encode()
        with open(path, "rb") as file:
            file.seek(-len(said), os.SEEK_END)
            if file.read() != said:
                return None
    except Exception:  # of damaged headers, numpy's parser raises what it meets
        return None
    return array if array.dtype == np.dtype(kind) and shape in (None, array.shape) else None
