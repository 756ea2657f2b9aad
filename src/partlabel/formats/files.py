"""Which file of a folder belongs to which image name; the one rule for names without ending or in another case."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property

from partlabel.errors import UserError

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


def name_below(path: str, folder: str | None) -> str:
    """Return a file path relative to the folder with the pictures; one that is relative or elsewhere stays as it is."""
    if folder is None or not os.path.isabs(path):
        return path
    root = os.path.join(os.path.abspath(folder), "")
    return os.path.normpath(path).removeprefix(root) if os.path.normpath(path).startswith(root) else path
