"""What image files hold, as hashes: computed once, and again only where the facts of a file have changed."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from partlabel.core.compute import cores
from partlabel.core.errors import UserError
from partlabel.core.records import read_array, write_array
from partlabel.images.decoding import ImageError

#: one row for each file: its facts (bytes, time of content, time of any change, number on disk), and the hash
ROW = np.dtype([("facts", np.int64, 4), ("hash", "S32")])
_BLOCK = 256
#: nanoseconds after a change in which another one may leave the facts of a file as they are, as clocks tick
TICK = 50_000_000


def facts_of(found: os.stat_result) -> tuple[int, int, int, int]:
    """What changes with the content of a file: length, both times in nanoseconds, and number on disk."""
    number = found.st_ino & (2**63 - 1)  # unsigned on some systems
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, number


def is_settled(facts: tuple[int, int, int, int], read: int) -> bool:
    """Whether every change since a file was read shows in its facts.

    Args:
        facts: of the file, the same before and after it was read.
        read: when reading it began, in nanoseconds since 1970.
    """
    _, modified, changed, _ = facts
    return read - (modified if os.name == "nt" else changed) > TICK  # Windows gives the time of creation for the other


def read_hash(path: str | os.PathLike[str]) -> tuple[tuple[int, int, int, int], str]:
    """Hash a file while its facts stay the same.

    Returns:
        Its facts; and BLAKE2b of its bytes, 32 hexadecimal digits, as :func:`partlabel.images.content_hash`.

    Raises:
        ImageError: it cannot be read, or is no regular file.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would be waited for
            raise ImageError(path, "is not a regular file")
        while True:
            with open(path, "rb") as file:
                before = facts_of(os.fstat(file.fileno()))
                found = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
                if facts_of(os.fstat(file.fileno())) == before:
                    return before, found
    except OSError as error:
        raise ImageError(path, f"cannot be read ({error.strerror})") from None


def known_contents(
    paths: Sequence[Path], store: Path, progress: Callable[[int, int], None] | None = None
) -> NDArray[np.void]:
    """Hash files, those only whose facts differ from what is stored.

    A file that was exchanged is noticed even where name, length and time of its content are the same, because the time
    of the change and the number on disk are not. Nothing is stored of a file that was changed a moment before it was
    read.

    Args:
        paths: N files.
        store: where facts and hashes are kept; it belongs to these files in this order. Where it cannot be written, the
            files are read again the next time.
        progress: called with (files done, files in all).

    Returns:
        ``ROW`` (N,).

    Raises:
        ImageError: a file cannot be read.
    """
    rows = _stored(store, len(paths))
    changed, kept = [], rows.copy()
    for place, path in enumerate(paths):
        try:
            same = facts_of(os.stat(path)) == tuple(rows[place]["facts"].tolist())
        except OSError as error:
            raise ImageError(path, f"cannot be read ({error.strerror})") from None
        if not same or not rows[place]["hash"]:
            changed.append(place)
    with ThreadPoolExecutor(cores()) as pool:
        for low in range(0, len(changed), _BLOCK):
            block, now = changed[low : low + _BLOCK], time.time_ns()
            for place, (facts, found) in zip(block, pool.map(read_hash, [paths[i] for i in block]), strict=True):
                rows[place] = (facts, found)
                kept[place] = (facts, found if is_settled(facts, now) else "")
            if progress:
                progress(low + len(block), len(changed))
    if changed:
        with suppress(UserError):
            write_array(store, kept)
    return rows


def _stored(store: Path, count: int) -> NDArray[np.void]:
    """What is kept, or empty rows where there is nothing, or something damaged."""
    rows = read_array(store, (count,), ROW)
    return np.zeros(count, ROW) if rows is None else np.array(rows)
