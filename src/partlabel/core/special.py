"""What is no plain file where one is expected: pipes, sockets and devices, and links that lead out of a folder.

A pipe would be waited for, a device read without end; through a link, what is written into a folder of a stranger would
go where the link leads.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from partlabel.core.errors import UserError

_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def special(path: str | os.PathLike[str]) -> str | None:
    """What lies there instead of a file or a folder, such as ``a pipe``; None for those, and where nothing lies."""
    with suppress(OSError, ValueError):
        mode = os.stat(path).st_mode
        return next((word for is_kind, word in _KINDS if is_kind(mode)), None)
    return None


def refuse_special(path: str | os.PathLike[str]) -> None:
    """Refuse what would be waited for, or read without end.

    Raises:
        UserError: a pipe, a socket or a device lies there, or a link leads to one.
    """
    if (word := special(path)) is not None:
        raise UserError(f"{path}: is {word}, not a file")


def check_folder(folder: Path, *, written: bool = False) -> None:
    """Refuse a folder with special files in it.

    Args:
        folder: with all folders below it; links to folders are not followed.
        written: something is to be written into it, so that links that lead out of it are refused, too.

    Raises:
        UserError: all of them are listed.
    """
    wrong, top = [], os.path.realpath(folder)
    for entry in _walk(folder):
        if entry.is_file(follow_symlinks=False):
            continue
        if (word := special(entry.path)) is not None:
            wrong.append(f"{entry.path}: is {word}, not a file")
        elif written and entry.is_symlink() and not os.path.realpath(entry.path).startswith(top + os.sep):
            wrong.append(f"{entry.path}: is a link that leads out of the folder; put there what it leads to")
    if wrong:
        raise UserError(f"{folder}: holds what is no file", sorted(wrong)) if len(wrong) > 1 else UserError(wrong[0])


def _walk(folder: str | os.PathLike[str]) -> Iterator[os.DirEntry[str]]:
    """Give all entries that are no folders, of a folder and those below it."""
    with suppress(OSError, ValueError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path)
            else:
                yield entry
