"""Packages that only some things need, imported when these are asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from partlabel.core.errors import UserError


def load(*names: str) -> Any:
    """Import packages and return the first.

    Args:
        names: names under which they are imported; on the package index they are called the same.

    Raises:
        UserError: some are not installed; the message gives the command that installs them.
    """
    missing = [name for name in names if not _there(name)]
    if missing:
        raise UserError(f"this needs {' and '.join(missing)}: pip install {' '.join(missing)}")
    return import_module(names[0])


def _there(name: str) -> bool:
    try:
        import_module(name)
    except ImportError:
        return False
    return True
