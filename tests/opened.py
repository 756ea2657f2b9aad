"""Which files of some folders are opened, by Python's own account."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_watching: list[tuple[tuple[str, ...], list[str]]] = []
_installed: list[bool] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _watching and isinstance(arguments[0], str | bytes | os.PathLike):
        path = os.path.abspath(os.fsdecode(arguments[0]))
        for folders, found in _watching:
            if path.startswith(folders):
                found.append(path)


@contextmanager
def opened(*folders: Path) -> Iterator[list[str]]:
    """Give a list that every file opened in the folders, by any thread of this process, is added to."""
    if not _installed:
        sys.addaudithook(_hook)  # it cannot be taken away again
        _installed.append(True)
    found: list[str] = []
    watch = (tuple(f"{os.path.abspath(folder)}{os.sep}" for folder in folders), found)
    _watching.append(watch)
    try:
        yield found
    finally:
        _watching.remove(watch)
