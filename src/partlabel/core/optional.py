"""Packages that only some things need: refused in one sentence where they are not installed."""

from __future__ import annotations

import importlib.util
from importlib import import_module
from typing import Any

from partlabel.core.errors import UserError

#: packages that the package index knows by another name than Python does
_INDEX_NAMES = {"sklearn": "scikit-learn"}


def require(what: str, *names: str) -> None:
    """Refuse where packages are not installed.

    Args:
        what: what needs them, with its verb: ``"ONNX files need"``.
        names: names under which they are imported.

    Raises:
        UserError: some are missing; the message gives the command that installs them.
    """
    missing = [_INDEX_NAMES.get(name, name) for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(f"{what} {', '.join(missing)}: pip install {' '.join(missing)}")


def load(what: str, name: str) -> Any:
    """Import a package, see :func:`require`."""
    require(what, name)
    return import_module(name)
