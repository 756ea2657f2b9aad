"""Image files by name (one rule for names without ending or in another case) and by content."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from partlabel.core.errors import UserError
from partlabel.images.decoding import ImageError

#: endings that complete a name without one
PICTURES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff")


@dataclass
class Located:
    """The file of each name, and how often the name was not the file's own.

    Attributes:
        files: for each name its file relative to the folder, or None.
        completed: names without ending that exactly one picture fits.
        other_case: names that differ from their file in upper and lower case only.
        ambiguous: ``name: file, file`` where several files fit; their entry in ``files`` is None.
    """

    files: list[str | None] = field(default_factory=list)
    completed: int = 0
    other_case: int = 0
    ambiguous: list[str] = field(default_factory=list)


class _Folder:
    """The file names of one folder, found as they are, in any case, and without ending."""

    def __init__(self, path: str) -> None:
        try:
            with os.scandir(path) as entries:
                self.names = {entry.name for entry in entries if not entry.is_dir()}
        except (FileNotFoundError, NotADirectoryError):
            self.names = set()

    @cached_property
    def folded(self) -> dict[str, list[str]]:
        return _grouped(self.names, str.casefold)

    @cached_property
    def stems(self) -> dict[str, list[str]]:
        pictures = [name for name in self.names if os.path.splitext(name)[1].casefold() in PICTURES]
        return _grouped(pictures, lambda name: os.path.splitext(name)[0].casefold())


def _grouped(names: Iterable[str], key: Callable[[str], str]) -> dict[str, list[str]]:
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        groups[key(name)].append(name)
    return groups


def locate(names: Iterable[str], folder: str | os.PathLike[str]) -> Located:
    """Look for each image: the name as it is, then in another case, then with the ending of a picture added.

    Names may hold folders (``a/b.jpg``); each folder is listed once.

    Raises:
        UserError: ``folder`` is not a folder.
    """
    if not os.path.isdir(folder):
        raise UserError(f"{folder}: not a folder with images")
    listed: dict[str, _Folder] = {}
    result = Located()
    for name in names:
        parent, slash, base = name.rpartition("/")
        if parent not in listed:
            listed[parent] = _Folder(os.path.join(folder, parent))
        here = listed[parent]
        if base in here.names:
            result.files.append(name)
            continue
        fitting = here.folded.get(base.casefold(), [])
        result.other_case += len(fitting) == 1
        if not fitting:
            fitting = here.stems.get(base.casefold(), [])
            result.completed += len(fitting) == 1
        if len(fitting) > 1:
            result.ambiguous.append(f"{name}: {', '.join(fitting)}")
        result.files.append(parent + slash + fitting[0] if len(fitting) == 1 else None)
    return result


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
    """Find the file of each image of a table, by the rule of `locate`, which import uses too.

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
