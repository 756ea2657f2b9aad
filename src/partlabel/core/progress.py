"""What long work shows: a bar on a terminal, a plain line every half minute elsewhere, always on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

#: seconds between two plain lines of the same piece of work
_INTERVAL = 30.0


def duration(seconds: float) -> str:
    """A length of time in words for people, to two figures or so.

    >>> duration(42.4), duration(125), duration(4000)
    ('42 s', '2 min', '1 h 7 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


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
    def bar(self, description: str, unit: str = "images") -> Generator[Bar, None, None]:
        """Show the progress of one piece of work while the block runs.

        Args:
            description: what is done, in words for people, such as ``computing image features``.
            unit: what is counted.
        """
        if self.quiet or not self._console.is_terminal:
            lines = _Lines(description, unit, self.quiet)
            yield lines
            lines.close()
            return
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[said]}"))
        with Progress(*columns, console=self._console, transient=True) as progress:
            yield _Terminal(progress, description, unit)


class Bar:
    """Shows one piece of work; called with (done, in all).

    Args:
        unit: what is counted.
    """

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._start = time.monotonic()
        self._at_first: int | None = None  # what an earlier process did already is no part of the rate

    def __call__(self, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` are done."""
        raise NotImplementedError

    def said(self, done: int, total: int) -> str:
        """How far it is, how fast, and how long it will take."""
        if self._at_first is None:
            self._at_first = 0 if time.monotonic() - self._start > 1 else done
        text = f"{done:,} of {total:,} {self._unit}"
        rate = (done - self._at_first) / max(time.monotonic() - self._start, 1e-9)
        if rate <= 0 or done >= total:
            return text
        shown = f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"
        return f"{text}, {shown} a second, {duration((total - done) / rate)} left"


class _Terminal(Bar):
    def __init__(self, progress: Progress, description: str, unit: str) -> None:
        super().__init__(unit)
        self._progress = progress
        self._task = progress.add_task(description, total=None, said="")

    def __call__(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=total, said=self.said(done, total))


class _Lines(Bar):
    def __init__(self, description: str, unit: str, quiet: bool) -> None:
        super().__init__(unit)
        self._description = description
        self._quiet = quiet
        self._last, self._total = self._start, 0

    def __call__(self, done: int, total: int) -> None:
        now, self._total = time.monotonic(), total
        said = self.said(done, total)
        if now - self._last >= _INTERVAL:
            self._last = now
            self._print(said)

    def close(self) -> None:
        """Say that it is done, where it was long enough to be spoken of."""
        taken = time.monotonic() - self._start
        if taken >= _INTERVAL:
            self._print(f"{self._total:,} {self._unit} done in {duration(taken)}")

    def _print(self, text: str) -> None:
        if not self._quiet:
            print(f"{self._description}: {text}", file=sys.stderr, flush=True)
