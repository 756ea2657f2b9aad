"""What the machine or a library said, kept in a file for those who help; people read one sentence."""

from __future__ import annotations

import errno
import os
import re
import secrets
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from partlabel.core.errors import UserError

#: files that are kept, and bytes of one
_KEPT, _LONGEST = 20, 200_000
_MEMORY = re.compile(
    r"can't allocate memory|out of memory|std::bad_alloc|bad allocation|Cannot allocate memory|"
    r"Unable to allocate|failed to allocate|memory allocation failed|failed to map segment|not enough memory|"
    r"Caught MemoryError|could not create a (primitive(?! descriptor)|memory\b)",  # the latter are words of oneDNN
    re.IGNORECASE,
)
_THREADS = re.compile(r"can't start new thread|Resource temporarily unavailable|thread constructor failed")


def led_to(error: BaseException) -> Iterator[BaseException]:
    """The error, and all errors that it was raised from, or while they were handled; also those of groups."""
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        one = left.pop(0)
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        left += [one.__cause__, one.__context__, *(one.exceptions if isinstance(one, BaseExceptionGroup) else ())]


def short_of_memory(error: BaseException) -> bool:
    """Whether memory was short, which the error itself says or one that led to it."""
    return any(
        isinstance(one, MemoryError)
        or getattr(one, "errno", None) == errno.ENOMEM
        or (not isinstance(one, UserError) and _MEMORY.search(f"{type(one).__name__}: {one}") is not None)
        for one in led_to(error)
    )


def library_error(error: UserError) -> BaseException | None:
    """What a library raised that a sentence was made of; None where nothing did, or the sentence says it all."""
    cause = error.__cause__
    while isinstance(cause, UserError):
        cause = cause.__cause__
    return None if getattr(cause, "errno", None) is not None else cause


def machine_says(error: BaseException) -> str | None:
    """What the machine lacks, in words; None where an error is of another kind.

    Args:
        error: what a library raised. Memory and threads may also have been short where an error that led to it says so.
    """
    if short_of_memory(error):
        return (
            "there is not enough memory; end other programs, or take smaller images, smaller batches "
            "(optim.batch_size) or fewer workers"
        )
    causes = [one for one in led_to(error) if one is error or not isinstance(one, OSError)]
    if any(_THREADS.search(str(one)) for one in causes) or getattr(error, "errno", None) == errno.EAGAIN:
        return "the system allows no more threads or processes; end other programs, or take fewer workers"
    if getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE):
        return "the system allows no more open files; raise the limit (ulimit -n), or take fewer workers"
    if isinstance(error, OSError) and error.errno is not None:
        name = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        return f"{name}{os.strerror(error.errno)}"
    if isinstance(error, ImportError) and error.__cause__ is not None:  # a part that could not be loaded says why
        return machine_says(error.__cause__)
    return None


def keep(error: BaseException, words: list[str]) -> Path | None:
    """Write an error with all that led to it into a file of its own, and remove the oldest of many.

    Args:
        error: what was raised.
        words: what was asked for, such as the words of a command.

    Returns:
        The file; None where it cannot be written.
    """
    from partlabel.core.files import cache_folder  # with numpy, which a mistyped path does not wait for

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
