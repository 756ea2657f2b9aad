"""What long work shows: a bar on a terminal, plain lines elsewhere, always on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

#: seconds between two plain lines of the same piece of work
_INTERVAL = 30.0


class Reporter:
    """Shows progress to a person.

    Args:
        quiet: show nothing, as in all processes but the first.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)

    def line(self, text: str) -> None:
        """Print one line."""
        if not self.quiet:
            self._console.print(text, markup=False)

    @contextmanager
    def bar(self, description: str) -> Generator[Bar, None, None]:
        """Show the progress of one piece of work while the block runs."""
        if self.quiet or not self._console.is_terminal:
            yield _Lines(description, self.quiet)
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self._console, transient=True) as progress:
            yield _Terminal(progress, description)


class Bar:
    """Shows one piece of work; called with (done, in all)."""

    def __call__(self, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` are done."""
        raise NotImplementedError


class _Terminal(Bar):
    def __init__(self, progress: Progress, description: str) -> None:
        self._progress = progress
        self._task = progress.add_task(description, total=None)

    def __call__(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=total)


class _Lines(Bar):
    def __init__(self, description: str, quiet: bool) -> None:
        self._description = description
        self._quiet = quiet
        self._start = self._last = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if not self._quiet and now - self._last >= _INTERVAL:
            self._last = now
            rate = done / (now - self._start)
            left = f", {rate:,.1f} a second, {(total - done) / rate:,.0f} s left" if done else ""
            print(f"{self._description}: {done:,} of {total:,}{left}", file=sys.stderr, flush=True)
