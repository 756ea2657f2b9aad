"""Picture files by name and by content: find those of a table, compare bytes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from partlabel.errors import UserError
from partlabel.formats.files import locate
from partlabel.images.decoding import ImageError


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


def find(names: Iterable[str] | pa.StringArray, folder: str | os.PathLike[str]) -> list[Path | None]:
    """Find the file of each image of a table, by the rule of `partlabel.formats.files.locate`, which import uses too.

    Args:
        names: (N,) names as in the table: file names or paths in ``folder``, with or without ending, in any case.
        folder: the folder with the pictures.

    Returns:
        (N,) paths, in the order of ``names``; None where there is no file.

    Raises:
        UserError: ``folder`` is none, or some names fit more than one file; all of them are listed.
    """

    found = locate(names.to_pylist() if isinstance(names, pa.Array) else names, folder)
    if found.ambiguous:
        raise UserError(f"{len(found.ambiguous)} images fit more than one file in {folder}", found.ambiguous)
    return [None if file is None else Path(folder, file) for file in found.files]


def resolve(names: Iterable[str] | pa.StringArray, folder: str | os.PathLike[str]) -> list[Path]:
    """Find the file of every image of a table; see `find` for the arguments and the rule.

    Returns:
        (N,) paths, in the order of ``names``.

    Raises:
        UserError: as `find`; or some names have no file, all of which are listed.
    """
    listed = names.to_pylist() if isinstance(names, pa.Array) else list(names)
    paths = find(listed, folder)
    missing = [name for name, path in zip(listed, paths, strict=True) if path is None]
    if missing:
        raise UserError(f"{len(missing)} of {len(listed)} images missing in {folder}", missing)
    return [path for path in paths if path is not None]
