"""Which options a user gave, as the history of a label table keeps them."""

from __future__ import annotations

import dataclasses
from typing import Any


def given(options: Any) -> dict[str, Any]:
    """Return the options of a format (a dataclass) that are not at their default."""
    return {
        field.name: getattr(options, field.name)
        for field in dataclasses.fields(options)
        if getattr(options, field.name) != field.default
    }
