"""Who is told how far a reading is; formats that read in parts call ``advance``."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

Watcher = Callable[[int, int], None]

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched(watcher: Watcher) -> Generator[None]:
    """Call ``watcher`` with (megabytes read, megabytes in all) of each file that is read inside the block."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def advance(done: int, total: int) -> None:
    """Tell that ``done`` of ``total`` bytes of a file are read."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher(done // 1_000_000, -(-total // 1_000_000))
