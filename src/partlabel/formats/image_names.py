"""Image names out of file paths."""

from __future__ import annotations

import os


def name_below(path: str, folder: str | None) -> str:
    """Return a file path relative to the folder with the pictures; one that is relative or elsewhere stays as it is."""
    if folder is None or not os.path.isabs(path):
        return path
    root = os.path.join(os.path.abspath(folder), "")
    return os.path.normpath(path).removeprefix(root) if os.path.normpath(path).startswith(root) else path
