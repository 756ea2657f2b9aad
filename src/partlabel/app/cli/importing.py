"""The command ``import``: one subcommand for each annotation format, with the options that the format declares.

A format that joins ``partlabel.formats`` has its command at once: every field of its options becomes a flag.
"""

from __future__ import annotations

import re
from inspect import Parameter as Argument
from inspect import Signature
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from partlabel import formats
from partlabel.app.cli.output import Json, reporting
from partlabel.core.errors import UserError
from partlabel.core.progress import Reporter
from partlabel.formats.options import option_fields
from partlabel.formats.reading import watched
from partlabel.formats.report import check_place, report_paths, store

group = App(name="import", help_format="markdown")

SOURCE = Annotated[Path, Parameter(help="The annotation file, or the folder of annotation files.")]
MORE = "More files, read as one table with the first; a pattern in quotes, such as 'parts/*.csv', names several."
OUTPUT = Annotated[
    Path,
    Parameter(
        alias="-o",
        help="Where the label table is written, a .parquet file; the report of the import is written beside it.",
    ),
]


def _command(format: formats.Format) -> Any:
    """Make the command of one format: its flags are the fields of the format's options."""

    def run(source: Path, /, *more: Path, output: Path, json: bool = False, **options: str | None) -> None:
        with reporting(json) as report:
            check_place(output)
            try:
                with Reporter().bar(f"reading {source}", "MB") as bar, watched(bar):
                    table, found = formats.read(format.name, [source, *more], **options)
            except UserError as error:
                raise UserError(_as_flags(error.message, format), error.offenders) from error
            store(table, found, output)
            as_json, as_text = report_paths(output)
            report(
                {**found.to_dict(), "output": str(output), "report": str(as_json)},
                f"{_as_flags(found.text(), format)}\n\n"
                f"Written to {output}, this report to {as_text} and {as_json.name}",
            )

    arguments = [
        Argument("source", Argument.POSITIONAL_ONLY, annotation=SOURCE),
        Argument(
            "more", Argument.VAR_POSITIONAL, annotation=Annotated[Path, Parameter(help=MORE, show=format.several)]
        ),
        Argument("output", Argument.KEYWORD_ONLY, annotation=OUTPUT),
        *(
            Argument(
                field.name,
                Argument.KEYWORD_ONLY,
                default=field.default,
                annotation=Annotated[str | None, Parameter(help=_sentence(field.metadata["help"]))],
            )
            for field in option_fields(format.options)
        ),
        Argument("json", Argument.KEYWORD_ONLY, default=False, annotation=Json),
    ]
    run.__signature__ = Signature(arguments)  # type: ignore[attr-defined]
    run.__annotations__ = {argument.name: argument.annotation for argument in arguments}
    return run


def _as_flags(text: str, format: formats.Format) -> str:
    """Spell options as they are typed here: ``tag_separator=pipe`` becomes ``--tag-separator pipe``."""
    names = "|".join(field.name for field in option_fields(format.options))
    return re.sub(rf"(?<![\w./-])({names})=(?=\S)", lambda match: f"--{match[1].replace('_', '-')} ", text)


def _sentence(text: str) -> str:
    """Make a sentence of an option's help: a capital, unless it starts with a value that is typed as it is."""
    first = text.split(maxsplit=1)[0]
    return (text if first.endswith(":") else text[0].upper() + text[1:]) + "."


for _format in formats.FORMATS.values():
    group.command(_command(_format), name=_format.name, help=f"Read {_format.summary}.", help_format="markdown")
