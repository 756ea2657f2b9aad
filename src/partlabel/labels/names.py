"""Names of images and groups as Arrow strings: millions of them without a Python object for each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.core.errors import UserError

CHUNK = 1 << 17  # names hashed at once


def string_array(
    names: Sequence[str | None] | pa.Array | pa.ChunkedArray, *, empty_is_null: bool = False
) -> pa.StringArray:
    """Return names as one Arrow string array.

    Raises:
        UserError: something that is not text.
    """
    try:
        array = names if isinstance(names, pa.Array | pa.ChunkedArray) else pa.array(list(names), pa.string())
        array = array.cast(pa.string())
    except UnicodeEncodeError as error:
        raise UserError(f"names must be text, without halves of characters (surrogates): {error.object}") from None
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise UserError("names must be text") from error
    if isinstance(array, pa.ChunkedArray):
        array = one_chunk(array)
    if empty_is_null:
        empty = np.diff(buffers(array)[0]) == 0
        array = array.take(pa.array(np.arange(len(array)), mask=empty))
    return array


def one_chunk(array: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, without a copy where it is one already."""
    return array.chunk(0) if array.num_chunks == 1 else pa.concat_arrays(array.chunks or [pa.array([], array.type)])


def buffers(names: pa.StringArray) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return offsets int32 (N + 1,) into a buffer of UTF-8 bytes, and the buffer; no copies."""
    _, offsets, text = names.buffers()
    if not len(names) or offsets is None:
        return np.zeros(1, np.int32), np.zeros(0, np.uint8)
    data = np.zeros(0, np.uint8) if text is None else np.frombuffer(text, np.uint8)
    return np.frombuffer(offsets, np.int32, len(names) + 1, 4 * names.offset), data


def hashes(names: pa.StringArray) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each name, uint64 (N,).

    Equal names have equal hashes; different ones nearly always differ. Sorting the hashes of millions of names takes a
    tenth of the time and memory of a hash table of them.
    """
    offsets, data = buffers(names)
    result = np.empty(len(names), np.uint64)
    for low in range(0, len(names), CHUNK):
        bound = offsets[low : low + CHUNK + 1].astype(np.int64)
        padded = np.zeros(bound[-1] - bound[0] + 8, np.uint8)
        padded[:-8] = data[bound[0] : bound[-1]]
        words = np.ndarray(len(padded) - 7, "<u8", padded, strides=(1,))  # the 8 bytes from every position on
        start, left = bound[:-1] - bound[0], np.diff(bound)
        value = left.astype(np.uint64)
        rows: slice | NDArray[np.int64] = slice(None) if left.all() else np.flatnonzero(left)
        while (rest := left[rows]).size:
            unused = (np.maximum(8 - rest, 0) * 8).astype(np.uint64)
            mixed = (value[rows] ^ (words[start[rows]] << unused)) * np.uint64(0x9E3779B97F4A7C15)
            value[rows] = mixed ^ (mixed >> np.uint64(29))
            start[rows] += 8
            left[rows] -= 8
            rows = rows if (left[rows] > 0).all() else np.flatnonzero(left > 0)
        result[low : low + CHUNK] = value
    return result


def repeats(names: pa.StringArray) -> list[str]:
    """Return ``name: n times`` for each name that occurs more than once."""
    sorted_hashes = np.sort(hashes(names))
    if not (sorted_hashes[1:] == sorted_hashes[:-1]).any():
        return []
    counted = names.value_counts()  # exact, so that two names with one hash are not taken for a repeat
    times = counted.field("counts").to_numpy()
    return [f"{counted.field('values')[int(i)]}: {times[i]} times" for i in np.flatnonzero(times > 1)]
