"""What the machine or a library said, kept in a file for those who help; people read one sentence."""

from __future__ import annotations

import csv
import errno
import json
import os
import re
import secrets
import sys
import time
import tomllib
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from partlabel.core.errors import UserError, heard

#: files that are kept, and bytes of one
_KEPT, _LONGEST = 20, 200_000
_MEMORY = re.compile(
    r"can't allocate memory|out of memory|std::bad_alloc|bad allocation|Cannot allocate memory|"
    r"Unable to allocate|failed to allocate|memory allocation failed|failed to map segment|not enough memory|"
    r"Caught MemoryError|could not create a (primitive(?! descriptor)|memory\b)",  # the latter are words of oneDNN
    re.IGNORECASE,
)
_THREADS = re.compile(r"can't start new thread|Resource temporarily unavailable|thread constructor failed")


_PLACE = re.compile(r"byte \d+|line \d+,? column \d+|end of document(?=\))")
_OF_PYTHON = re.compile(r"Exceeds the limit|invalid literal|could not convert|embedded null")
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "nothing",
}


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


def library_said_more(error: UserError) -> bool:
    """Whether a sentence was made of what a library raised, and does not say it all."""
    cause = error.__cause__
    while isinstance(cause, UserError):
        cause = cause.__cause__
    return bool(heard) if cause is None else getattr(cause, "errno", None) is None


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


def plainly(error: BaseException) -> str:
    """What a parser found wrong, in words of partlabel's; its own words go along with the next error that is kept."""
    text = str(error)
    if isinstance(error, UserError) or (type(error) is ValueError and _OF_PYTHON.match(text) is None):
        return text  # raised here, in words for people
    heard.append(f"{type(error).__name__}: {text}")
    if isinstance(error, msgspec.ValidationError):
        return _of_another_kind(text)
    if isinstance(error, UnicodeError):
        return "is not UTF-8 text"
    if isinstance(error, RecursionError):
        return "lists or objects lie inside each other without end"
    if isinstance(error, SyntaxError):  # as lxml's are
        deep = "depth" in text
        return "elements lie inside each other without end" if deep else "is empty" if "empty" in text else "is no XML"
    place = _PLACE.search(text)
    if isinstance(error, msgspec.DecodeError | json.JSONDecodeError):
        return "is no JSON" + (f" from {place[0]} on" if place else ", or is cut off")
    if isinstance(error, tomllib.TOMLDecodeError):
        return "is no TOML" + (f" at {place[0]}" if place else "")
    if isinstance(error, csv.Error):
        return "quotes, line ends or NUL characters stand where a table has none"
    return "a number has too many digits" if "integer string conversion" in text else "is damaged"


def _of_another_kind(text: str) -> str:
    found = re.fullmatch(r"Expected (.+?)(?:, got (.+?))?(?: - at `(.+)`)?", text)
    missing = re.fullmatch(r"Object (?:missing required|contains unknown) field (`.+?`)(?: - at `(.+)`)?", text)
    if missing:
        name = ".".join(filter(None, [_name(missing[2]), missing[1].strip("`")]))
        return f"{name} is missing" if "missing" in text else f"{name} is not known"
    if found:
        name = _name(found[3])
        got = f", not {_kinds(found[2])}" if found[2] else ""
        return f"{name + ': ' if name else ''}{_kinds(found[1])} is expected{got}"
    value = re.fullmatch(r"(?:Invalid enum value|Invalid value) (.+?)(?: - at `(.+)`)?", text)
    if value:
        return f"{_name(value[2])}: {value[1]} is none of its values"
    return "holds a value of another kind than expected"


def _name(path: str | None) -> str:
    return "" if path is None else path.removeprefix("$").removeprefix(".")


def _kinds(types: str) -> str:
    return re.sub(r"[a-z]+", lambda word: _KINDS.get(word[0], word[0]), types.replace("`", "").replace(" | ", " or "))


def keep(error: BaseException, words: list[str]) -> Path | None:
    """Write an error with all that led to it into a file of its own, and remove the oldest of many.

    Args:
        error: what was raised.
        words: what was asked for, such as the words of a command.

    Returns:
        The file; None where it cannot be written.
    """
    from partlabel.core.files import cache_folder  # with numpy, which a mistyped path does not wait for

    parsers = "".join(f"{one}\n" for one in heard)
    heard.clear()
    text = ("".join(traceback.format_exception(error)) + parsers)[-_LONGEST:]
    about = f"{time.strftime('%Y-%m-%d %H:%M:%S %z')}  python {sys.version.split()[0]} on {sys.platform}\n{words}\n\n"
    with suppress(OSError):
        folder = cache_folder() / "errors"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{time.strftime('%Y-%m-%d-%H%M%S')}-{secrets.token_hex(3)}.txt"
        path.write_text(about + text, encoding="utf-8", errors="backslashreplace")
        others = sorted(set(folder.glob("*-*.txt")) - {path})  # which may seem newer, where the clock went back
        for old in others[: max(len(others) + 1 - _KEPT, 0)]:
            old.unlink(missing_ok=True)
        return path
    return None
