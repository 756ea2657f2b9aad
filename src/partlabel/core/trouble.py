"""What the machine or a library said, kept in a file for those who help; people read one sentence."""

from __future__ import annotations

import errno
import os
import re
import secrets
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

from partlabel.core.files import cache_folder

#: files that are kept, and bytes of one
_KEPT, _LONGEST = 20, 200_000
_MEMORY = re.compile(
    r"can't allocate memory|out of memory|std::bad_alloc|bad allocation|Cannot allocate memory|"
    r"Unable to allocate|failed to map segment|not enough memory",
    re.IGNORECASE,
)
_THREADS = re.compile(r"can't start new thread|Resource temporarily unavailable|thread constructor failed")


def machine_says(error: BaseException) -> str | None:
    """What the machine lacks, in words; None where an error is of another kind.

    Args:
        error: what a library raised.
    """
    if isinstance(error, ImportError) and error.__cause__ is not None:  # a part that could not be loaded says why
        return machine_says(error.__cause__)
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, MemoryError) or _MEMORY.search(text) or getattr(error, "errno", None) == errno.ENOMEM:
        return (
            "there is not enough memory; end other programs, or take smaller images, smaller batches "
            "(optim.batch_size) or fewer workers"
        )
    if _THREADS.search(text) or getattr(error, "errno", None) == errno.EAGAIN:
        return "the system allows no more threads or processes; end other programs, or take fewer workers"
    if getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE):
        return "the system allows no more open files; raise the limit (ulimit -n), or take fewer workers"
    if isinstance(error, OSError) and error.errno is not None:
        name = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        return f"{name}{os.strerror(error.errno)}"
    return None


def keep(error: BaseException, words: list[str]) -> Path | None:
    """Write an error with all that led to it into a file of its own, and remove the oldest of many.

    Args:
        error: what was raised.
        words: what was asked for, such as the words of a command.

    Returns:
        The file; None where it cannot be written.
    """
    text = "".join(traceback.format_exception(error))[-_LONGEST:]
    about = f"{time.strftime('%Y-%m-%d %H:%M:%S %z')}  python {sys.version.split()[0]} on {sys.platform}\n{words}\n\n"
    with suppress(OSError):
        folder = cache_folder() / "errors"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{time.strftime('%Y-%m-%d-%H%M%S')}-{secrets.token_hex(3)}.txt"
        path.write_text(about + text, encoding="utf-8", errors="backslashreplace")
        for old in sorted(folder.glob("*-*.txt"))[:-_KEPT]:
            old.unlink(missing_ok=True)
        return path
    return None
