"""Picture files by name and by content: find those of a table, compare bytes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from partlabel.images.decoding import ImageError

#: endings (lower case) that a name without ending may be completed with, best first
ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif", ".jp2", ".ppm", ".pgm", ".ico")


def content_hash(path: str | os.PathLike[str]) -> str:
    """Hash the bytes of a file: BLAKE2b, 32 hexadecimal digits.

    Raises:
        ImageError: the file cannot be read.
    """
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        raise ImageError(path, f"cannot be read ({error.strerror})") from None


def identical(paths: Iterable[str | os.PathLike[str]]) -> list[list[Path]]:
    """Find files with equal bytes, for a check that the same picture is not in two parts under two names.

    Args:
        paths: files; only those that share their length with another are read.

    Returns:
        Groups of two or more equal files, in the order of the first of each group.

    Raises:
        ImageError: a file cannot be read.
    """
    by_length: dict[int, list[Path]] = {}
    for path in map(Path, paths):
        try:
            by_length.setdefault(path.stat().st_size, []).append(path)
        except OSError as error:
            raise ImageError(path, f"cannot be read ({error.strerror})") from None
    by_content: dict[tuple[int, str], list[Path]] = {}
    for length, group in by_length.items():
        if len(group) > 1:
            for path in group:
                by_content.setdefault((length, content_hash(path)), []).append(path)
    return [group for group in by_content.values() if len(group) > 1]


def resolve(names: Iterable[str], folder: str | os.PathLike[str]) -> list[Path]:
    """Find the file of each image of a table.

    Raises:
        ImageError: names without a file.
    """
    return [Path(folder) / n for n in names]
