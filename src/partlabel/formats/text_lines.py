"""Plain text files with one entry a line, as old data sets have them."""

from __future__ import annotations

from pathlib import Path

from partlabel.core.errors import UserError
from partlabel.formats.table.delimited import find_encoding


def text_lines(path: str) -> list[str]:
    """Return the lines without outer blanks; item i is line i + 1. Blank lines at the end are left out.

    Lines end with LF, CRLF or CR. The text is UTF-8, or what its byte-order mark says.

    Raises:
        UserError: the file cannot be read or holds no text, or lines are in another encoding (all are listed).
    """
    encoding = find_encoding(path)
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})", [path]) from error
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        wrong = _undecodable(path, content) if encoding.startswith("utf-8") else [path]
        raise UserError(f"{path}: the text is not {encoding}", wrong) from error
    lines = [line.strip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise UserError(f"{path}: the file holds only blank lines")
    return lines


def _undecodable(path: str, content: bytes) -> list[str]:
    wrong = []
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError:
            wrong.append(f"{path}:{number} {line.strip()!r} is not UTF-8")
    return wrong
