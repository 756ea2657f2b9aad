"""Before a command runs: are its paths there? Nothing heavy is imported to find out."""

from __future__ import annotations

import difflib
import inspect
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from partlabel.core.errors import UserError
from partlabel.core.special import refuse_special, special
from partlabel.core.text import not_imported

#: arguments that name a folder; others name a file, or a run, which is either
_FOLDERS = ("images", "validation_images", "after", "scores")
_READ = (*_FOLDERS, "run", "labels", "truth", "config", "answered", "first", "second", "also", "runs", "pictures")
_TABLES = ("labels", "truth", "first", "second", "validation")
_WRITTEN = ("output", "held_out", "label_studio", "png", "html")
#: commands whose output is a folder that they make
_MAKE_FOLDERS = ("train", "demo", "download")
#: an address of a bucket, which as a path lost a slash
_ADDRESS = re.compile(r"[a-z][a-z0-9]+:/")
#: a directory with more entries is not searched for a name like the mistyped one
_MANY = 20_000


def is_address(path: Path) -> bool:
    """Whether it is the address of a bucket."""
    return bool(_ADDRESS.match(str(path)))


def check_paths(command: str, given: inspect.BoundArguments) -> None:
    """Refuse paths that are not there, or that cannot be written, before anything heavy is imported.

    Args:
        command: what was typed after ``partlabel``: ``train``, ``labels merge`` ...
        given: the arguments of the command.

    Raises:
        UserError: one or more are wrong; all of them are listed, each with the name that was perhaps meant.
    """
    wrong = []
    for name, path in _paths(command, given):
        keyword = given.signature.parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
        spelled = f"--{name.replace('_', '-')}" if keyword else name
        if name in _WRITTEN:
            shards = command == "predict" and name == "output" and not path.suffix
            reason = _unwritable(path, folder=command in _MAKE_FOLDERS or shards)
        elif name in _FOLDERS:
            there = f"{path} is a file, where a folder is wanted" if path.is_file() else ""
            reason = "" if path.is_dir() else there or f"not a folder: {path}{_meant(path)}"
        else:
            reason = "" if path.exists() else f"there is no {path}{_meant(path)}"
            if word := special(path):
                reason = f"{path} is {word}, not a file"
            if name in _TABLES and path.is_file() and (instead := not_imported(str(path))):
                reason = f"{path} {instead}"
            elif name in _TABLES and path.is_dir():
                reason = f"{path} is a folder, where a label table is wanted"
        if reason:
            wrong.append(f"{spelled}: {reason}")
    if len(wrong) == 1:
        raise UserError(wrong[0])
    if wrong:
        raise UserError("some paths are wrong", wrong)


def check_sources(words: Sequence[str]) -> None:
    """Refuse mistyped files of ``import FORMAT FILE ...`` before the formats are loaded.

    Args:
        words: what was typed after ``partlabel``.

    Raises:
        UserError: files that are not there, and are no pattern.
    """
    if words[:1] != ["import"]:
        return
    named = itertools.takewhile(lambda word: not word.startswith("-"), words[2:])
    sources = [Path(word) for word in named if not _is_pattern(word)]
    if wrong := [f"there is no {path}{_meant(path)}" for path in sources if not path.exists()]:
        raise UserError(wrong[0]) if len(wrong) == 1 else UserError("some files are not there", wrong)
    for path in sources:
        refuse_special(path)


def _is_pattern(path: str) -> bool:
    return any(character in path for character in "*?[")


def _paths(command: str, given: inspect.BoundArguments) -> Iterator[tuple[str, Path]]:
    """Every path among the arguments, with the name of its argument."""
    for name, value in given.arguments.items():
        if name == "validation" and isinstance(value, str) and not _is_number(value):
            yield name, Path(value)
        several = value if isinstance(value, tuple) else (value,)
        for path in several:
            if not isinstance(path, Path) or is_address(path):
                continue
            if (
                (name in ("source", "more") and not _is_pattern(str(path))) or name in _READ or name in _WRITTEN
            ):  # a pattern is for the format to look up
                yield name, path


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _unwritable(path: Path, *, folder: bool) -> str:
    """Why a file, or a folder with what a command makes, cannot be written there; empty where it can."""
    if folder:
        return f"{path} is a file, where a folder is to be made" if path.is_file() else ""
    if path.is_dir():
        return f"{path} is a folder, where a file is to be written"
    return "" if path.parent.is_dir() else f"{path}: the folder {path.parent} does not exist"


def _meant(path: Path) -> str:
    """A name beside the mistyped one that looks like it, as a question."""
    if os.path.islink(path):
        return " (it is a link to nothing)"
    try:
        beside = [entry.name for _, entry in zip(range(_MANY), os.scandir(path.parent), strict=False)]
    except OSError:
        return "" if path.parent.exists() else f" (there is no folder {path.parent})"
    close = difflib.get_close_matches(path.name, beside, 1, 0.7)
    return f" (did you mean {path.parent / close[0]}?)" if close else ""
