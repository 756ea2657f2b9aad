"""One fault."""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """``old`` stands exactly once in ``file``, a path below src/partlabel; ``tests`` are paths below tests/."""

    file: str
    what: str
    old: str
    new: str
    selection: str

    @property
    def tests(self) -> tuple[str, ...]:
        """What pytest is asked to run."""
        return tuple(f"tests/{path}" for path in self.selection.split())
