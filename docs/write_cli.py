"""Write docs/cli.md, what each command prints for --help; run as `python docs/write_cli.py`."""

from __future__ import annotations

import io
from pathlib import Path

WIDTH = 100
TARGET = Path(__file__).with_name("cli.md")
HEAD = """\
# Commands

What `partlabel COMMAND --help` prints. This file is written by `python docs/write_cli.py`.
"""


def commands() -> list[tuple[str, ...]]:
    """List the commands in their order: (), ("import",), ("import", "csv"), ..."""
    from partlabel import formats
    from partlabel.app.cli import app

    names = sorted((name for name in app if not name.startswith("-")), key=lambda name: app[name].sort_key)
    listed: list[tuple[str, ...]] = [()]
    for name in names:
        listed.append((name,))
        if name == "import":
            listed += [(name, format) for format in formats.FORMATS]
        if name == "labels":
            listed += [(name, "diff"), (name, "undo"), (name, "answers")]
    return listed


def help_text(command: tuple[str, ...]) -> str:
    """Give the help of one command, as a terminal of fixed width without colours shows it."""
    from rich.console import Console

    from partlabel.app.cli import app

    printed = io.StringIO()
    app.help_print(list(command), console=Console(file=printed, width=WIDTH, color_system=None, force_terminal=False))
    return "\n".join(line.rstrip() for line in printed.getvalue().strip().splitlines())


def reference() -> str:
    """Give the whole page."""
    parts = [HEAD]
    for command in commands():
        title = " ".join(("partlabel", *command))
        parts.append(f"{'##' if len(command) < 2 else '###'} {title}\n\n```\n{help_text(command)}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
