"""Names from strangers in what people read: terminals, and spreadsheets that take some texts for formulas."""

from __future__ import annotations

import codecs
import io
import os
import re
import shlex
import unicodedata
from collections.abc import Sequence
from typing import Any

#: what a spreadsheet takes for the beginning of a formula
#: (https://owasp.org/www-community/attacks/CSV_Injection)
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
#: a cell that :func:`as_cell` made, and what it was made of, as a regular expression
CELL = f"\\A'('*[{re.escape(''.join(_FORMULA))}])"
#: control characters, surrogates, line separators, and marks that turn the direction of what follows
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
#: what Markdown, its tables and its HTML give a meaning; ``_`` does within a word none
_MARKUP = re.compile(r"[\\`*\[\]<>|~&$]|(?<!\w)_|_(?!\w)")

#: a word that no shell of Windows reads as something else
_BARE = re.compile(r"[\w./\\:=-]+")

#: what stands for the signs that partlabel draws with where an encoding lacks them
_PLAIN = str.maketrans({**dict.fromkeys("█▉▊▋▌▍▎▏", "#"), "░": ".", "─": "-", "−": "-", "…": "..."})


def speak_any_sign(*streams: Any) -> None:
    r"""Let streams write what their encoding lacks, as that of a Western Windows does most signs, in signs that it has.

    What partlabel draws with becomes plain signs, any other letter its number, such as ``\u732b``. A stream that
    somebody has told what to do is left as it is.
    """
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "backslashreplace"):
            stream.reconfigure(errors="partlabel")


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end].translate(_PLAIN)
    return signs.encode("ascii", "backslashreplace").decode(), error.end


codecs.register_error("partlabel", _replaced)

#: endings of files that an import reads, and the format that is tried first
_IMPORTED = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".xlsx": "csv",
    ".ods": "csv",
    ".json": "coco",
    ".xml": "cvat",
}


def shown(text: str, lines: bool = True) -> str:
    r"""Text with what would act on a terminal, instead of being read, written as ``\x1b`` or ``\u202e``.

    Args:
        text: what is to be printed.
        lines: leave the ends of lines and tabs as they are.
    """
    text = _HIDDEN.sub(lambda found: _escape(found[0]), text)
    return text if lines else text.replace("\n", r"\n").replace("\t", r"\t")


def _escape(character: str) -> str:
    if unicodedata.category(character) == "Cs" and 0xDC80 <= ord(character) <= 0xDCFF:  # a byte that is not UTF-8
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape", "surrogatepass").decode()


def in_markdown(text: str) -> str:
    """A text as part of a line of Markdown that shows it as it is: nothing in it is markup, HTML or a cell's border."""
    return _MARKUP.sub(r"\\\g<0>", shown(text, lines=False))


def as_cell(text: str) -> str:
    """A text as a cell of a spreadsheet, where it would be taken for a formula with ``'`` before it.

    :func:`from_cell` gives it back.
    """
    return f"'{text}" if text.lstrip("'").startswith(_FORMULA) else text


def from_cell(text: str) -> str:
    """The text that :func:`as_cell` made a cell of."""
    return text[1:] if text.startswith("'") and text.lstrip("'").startswith(_FORMULA) else text


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 image``, ``1,000 images``, ``2 classes``."""
    ending = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{count:,} {noun}{ending}"


def some(names: Sequence[str], most: int = 10) -> str:
    """Return the first names in a row, and how many more there are: ``cat, dog and 70 more``."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def as_typed(*words: object) -> str:
    r"""A command as people type it: for the shells of POSIX; on Windows for cmd.exe and PowerShell alike.

    There a word stands between ``"`` if it holds anything but letters, digits and ``_-./\:=``; PowerShell alone would
    make two words of one with a comma. What ``%`` and ``$`` mean cannot be taken away in both.
    """
    text = [str(word) for word in words]
    if os.name != "nt":
        return shlex.join(text)
    return " ".join(word if _BARE.fullmatch(word) else _between_quotes(word) for word in text)


def _between_quotes(word: str) -> str:
    """As the C library of Windows reads it: a backslash counts as one, but before a quote."""
    inside = re.sub(r'(\\*)"', r'\1\1\\"', word)
    at_the_end = len(inside) - len(inside.rstrip("\\"))
    return '"' + inside + "\\" * at_the_end + '"'


def not_imported(path: str) -> str:
    """Say what makes a label table of a file of annotations; empty where its ending is not that of one."""
    stem, ending = os.path.splitext(path)
    if ending.lower() not in _IMPORTED:
        return ""
    command = as_typed("partlabel", "import", _IMPORTED[ending.lower()], path, "-o", f"{stem}.parquet")
    return f"is not a label table yet; make one first: {command}"
