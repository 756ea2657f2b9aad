"""What a command prints: text for people, or one JSON object for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stdout
from typing import Annotated, Any

from cyclopts import Parameter

from partlabel.app.cli.steps import next_step
from partlabel.core.text import shown

Json = Annotated[
    bool,
    Parameter(
        name="--json",
        show_default=False,
        help="Print the result as one JSON object on standard output, and everything else on standard error.",
    ),
]


@contextmanager
def reporting(as_json: bool) -> Generator[Callable[[dict[str, Any], str], None]]:
    """Give a function ``report(result, text)`` that prints the result of a command in the form that was asked for.

    The last line is the command that usually follows. A result that names it, as ``next``, has said it already.

    With ``as_json``, whatever else is printed inside the block, by any library, goes to standard error.
    """
    out = sys.stdout

    def report(result: dict[str, Any], text: str) -> None:
        step = "" if "next" in result else next_step.get()()
        if as_json:
            result = {**result, "next": step} if step else result
            # in ASCII, so that neither a terminal nor the encoding of a pipe changes it
            text = json.dumps(result, allow_nan=False).replace("\x7f", r"\u007f")
        print(text if as_json else shown(text), file=out, flush=True)
        if step and not as_json:
            print(f"Next: {shown(step, lines=False)}", file=out, flush=True)

    if not as_json:
        yield report
        return
    with redirect_stdout(sys.stderr):
        yield report
