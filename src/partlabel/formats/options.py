"""Options of the formats: declared once as dataclass fields, given as Python values or as text."""

from __future__ import annotations

import csv
import dataclasses
import difflib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from partlabel.core.errors import UserError
from partlabel.core.trouble import plainly

Options = TypeVar("Options")


#: endings of files with names; a value that ends so is never one name
_LISTS = (".txt", ".csv", ".tsv", ".names")


def option_fields(kind: type[Any]) -> list[dataclasses.Field[Any]]:
    """Return the options of a format, its own before those that it shares; a field outside ``init`` is none."""
    fields = [field for field in dataclasses.fields(kind) if field.init]
    own = list(kind.__annotations__)
    return sorted(fields, key=lambda field: own.index(field.name) if field.name in own else len(own))


def build(kind: type[Options], format_name: str, given: Mapping[str, Any]) -> Options:
    """Read the options that a user gave.

    Args:
        kind: dataclass with a field for each option.
        format_name: named in errors.
        given: option -> Python value or text; None means not given.

    Raises:
        UserError: an option that the format does not have (all are listed), or a value that cannot be read.
    """
    fields = {field.name: field for field in option_fields(kind)}
    unknown = []
    for name in given:
        if name not in fields:
            close = difflib.get_close_matches(name, fields, 1)
            unknown.append(name + (f" (did you mean {close[0]}?)" if close else ""))
    if unknown:
        raise UserError(f"the format {format_name} has no such option; it has: {', '.join(fields)}", unknown)
    values = {n: fields[n].metadata["parse"](n, value) for n, value in given.items() if value is not None}
    return kind(**values)


def text(name: str, value: Any) -> str:
    """Any text."""
    if not isinstance(value, str | os.PathLike):
        raise UserError(f"{name} is text, not {value!r}")
    return os.fspath(value)


def separator(name: str, value: Any) -> str:
    r"""One character; ``tab`` and ``\t`` mean the tab, ``space`` the blank."""
    character = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "pipe": "|"}.get(value, value)
    if not isinstance(character, str) or len(character) != 1:
        raise UserError(f"{name} is one character, or tab, space, comma, semicolon, pipe; not {value!r}")
    return character


def choice(*allowed: str) -> Callable[[str, Any], str]:
    """One of some words."""

    def parse(name: str, value: Any) -> str:
        if value not in allowed:
            raise UserError(f"{name} is one of {', '.join(allowed)}; not {value!r}")
        return value

    return parse


def _why(error: Exception) -> str:
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else plainly(error)


def read_lines(path: str | os.PathLike[str]) -> list[str]:
    """Read a file with one name a line; outer blanks are trimmed, blank lines skipped, repeats refused."""
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read as a list of names ({_why(error)})") from error
    first: dict[str, int] = {}
    repeated = []
    for number, line in enumerate(lines, 1):
        if (entry := line.strip()) and first.setdefault(entry, number) != number:
            repeated.append(f"{path}:{number} {entry} (first on line {first[entry]})")
    if repeated:
        raise UserError(f"{path}: names are repeated", repeated)
    return list(first)


def names(name: str, value: Any) -> list[str]:
    """A list of names; as text the path of a file with one name a line, or names between commas."""
    if isinstance(value, str | os.PathLike):
        if os.path.isfile(value):
            return read_lines(value)
        if os.path.splitext(value)[1].casefold() in _LISTS and "," not in os.fspath(value):
            raise UserError(f"{name}: there is no file {os.fspath(value)}")
        return [part.strip() for part in os.fspath(value).split(",") if part.strip()]
    result = list(value)
    wrong = [repr(entry) for entry in result if not isinstance(entry, str)]
    if wrong:
        raise UserError(f"{name} is a list of names", wrong)
    return result


def rename(name: str, value: Any) -> dict[str, str]:
    """A mapping of old to new names; as text ``old=new,old=new`` or a CSV file with the header ``from,to``."""
    if isinstance(value, Mapping):
        return {str(old): str(new) for old, new in value.items()}
    if os.path.isfile(value):
        return _rename_file(value)
    pairs = [part.partition("=") for part in os.fspath(value).split(",")]
    wrong = ["".join(pair) for pair in pairs if not pair[1] or not pair[2].strip()]
    if wrong:
        raise UserError(
            f"{name} is a CSV file with the header from,to, or old=new,old=new; not a file and not old=new", wrong
        )
    return {old.strip(): new.strip() for old, _, new in pairs}


def _rename_file(path: str | os.PathLike[str]) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: cannot be read as a rename table ({_why(error)})") from error
    if not rows or rows[0][1] != ["from", "to"]:
        raise UserError(f"{path}: a rename table starts with the header line from,to")
    wrong, table = [], {}
    for line, row in rows[1:]:
        if len(row) != 2 or not all(row):
            wrong.append(f"{path}:{line} {','.join(row)}: two names are needed")
        elif table.setdefault(row[0], row[1]) != row[1]:
            wrong.append(f"{path}:{line} {row[0]}: renamed to {table[row[0]]} and to {row[1]}")
    if wrong:
        raise UserError(f"{path}: the rename table has mistakes", wrong)
    return table
