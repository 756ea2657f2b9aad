"""The command ``import``: one subcommand for each annotation format, with the options that the format declares.

A format that joins ``partlabel.formats`` has its command at once: every field of its options becomes a flag.
"""

from __future__ import annotations

import dataclasses
from inspect import Parameter as Argument
from inspect import Signature
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from partlabel import formats
from partlabel.cli.output import Json, reporting

group = App(name="import", help_format="plaintext")

SOURCE = Annotated[Path, Parameter(help="The annotation file, or the folder of annotation files.")]
OUTPUT = Annotated[Path, Parameter(alias="-o", help="Where the label table is written, a .parquet file.")]


def _command(name: str) -> Any:
    """Make the command of one format."""
    format = formats.FORMATS[name]

    def run(source: Path, /, *, output: Path, json: bool = False, **options: str | None) -> None:
        with reporting(json) as report:
            table, found = formats.read(name, source, **options)
            table.write_parquet(output)
            report({**found.to_dict(), "output": str(output)}, f"{found.text()}\n\nWritten to {output}")

    fields = [
        Argument(
            field.name,
            Argument.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[str | None, Parameter(help=field.metadata["help"])],
        )
        for field in dataclasses.fields(format.options)
    ]
    run.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            Argument("source", Argument.POSITIONAL_ONLY, annotation=SOURCE),
            Argument("output", Argument.KEYWORD_ONLY, annotation=OUTPUT),
            *fields,
            Argument("json", Argument.KEYWORD_ONLY, default=False, annotation=Json),
        ]
    )
    run.__doc__ = format.read.__doc__
    return run


for _name in formats.FORMATS:
    group.command(_command(_name), name=_name)
