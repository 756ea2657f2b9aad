"""Real-world cases: their files, what they must give, and how a table is compared with that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CASES = Path(__file__).resolve().parents[1] / "cases"


def case(name: str) -> tuple[Path, dict[str, Any]]:
    """Return the folder of a case and its expected values."""
    folder = CASES / name
    return folder, json.loads((folder / "expected.json").read_text(encoding="utf-8"))


def rows(table: Any) -> dict[str, list[int]]:
    """Return the table as the cases write it: image -> labels."""
    return dict(zip(table.images.to_pylist(), table.dense().tolist(), strict=True))
