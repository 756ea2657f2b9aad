"""The cache: what saves time and can be made anew. Where it lies, how large it grows, and what leaves it first."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from partlabel.core.errors import UserError

LIMIT = "PARTLABEL_CACHE_LIMIT"
#: what stores of this version and of earlier ones are called; nothing else in the folder is ever removed
_OWN = re.compile(
    r"(features|files)-[0-9]+/[0-9a-f]+/[0-9a-f]+\.(shard|records)"
    r"|[0-9a-f]{32}\.npy|checked/[0-9a-f]{32}\.json"
)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def stored_files(folder: Path) -> list[tuple[Path, int, int]]:
    """(file, bytes, time of the last use in nanoseconds) of all that the cache holds, the longest unused first."""
    found = []
    for path in _walk(folder, 3):
        if _OWN.fullmatch(path.relative_to(folder).as_posix()):
            with suppress(OSError):
                about = path.stat()
                found.append((path, about.st_size, about.st_mtime_ns))
    return sorted(found, key=lambda each: each[2])


def cache_limit(folder: Path, used: int) -> int:
    """How many bytes the cache may hold.

    ``$PARTLABEL_CACHE_LIMIT`` (such as ``200GB`` or ``1.5TiB``), else half of what it uses and what is free beside it.

    Args:
        folder: of the cache.
        used: bytes that it holds.

    Raises:
        UserError: the variable is not a number of bytes.
    """
    text = os.environ.get(LIMIT, "").strip()
    if not text:
        with suppress(OSError):
            return (used + shutil.disk_usage(folder).free) // 2
        return used
    match = re.fullmatch(r"([0-9.]+)\s*([kmgt]?i?)b?", text.casefold())
    try:
        return int(float(match[1]) * _UNITS[match[2]]) if match else _refuse(text)
    except (ValueError, KeyError):
        return _refuse(text)


def make_room(folder: Path, needed: int, keep: Collection[Path] = ()) -> None:
    """Remove what has not been used for longest, until ``needed`` bytes more fit under the limit.

    Args:
        folder: of the cache.
        needed: bytes that will be stored.
        keep: files that are in use; they stay, also where the limit is exceeded by them and by what is needed.
    """
    files = stored_files(folder)
    used = sum(size for _, size, _ in files)
    limit = cache_limit(folder, used)
    for path, size, _ in files:
        if used + needed <= limit:
            return
        if path not in keep:
            with suppress(OSError):  # another process may have been faster
                path.unlink()
            used -= size


def _refuse(text: str) -> int:
    raise UserError(f"{LIMIT} is {text!r}; it is a number of bytes, such as 200GB or 1.5TiB")


def _walk(folder: Path, depth: int) -> Iterator[Path]:
    """Give the files of a folder and of those below it, down to a depth."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                yield Path(entry.path)
            elif depth > 1:
                yield from _walk(Path(entry.path), depth - 1)
