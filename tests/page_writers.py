"""The programs that write pages of the documentation, as modules: docs/ is no package."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any


def page_writer(name: str) -> Any:
    """Load ``docs/<name>.py``."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).resolve().parents[1] / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
