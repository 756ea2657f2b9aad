"""Before a command: are the paths there? After it: the command that usually follows, ready to copy."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from partlabel.core.errors import UserError

#: the command to name after the one that runs; empty for none
next_step: ContextVar[str] = ContextVar("next_step", default="")

_FOLDERS = ("images", "validation_images", "after")
_FILES = ("run", "labels", "truth", "config", "answered", "first", "second")


def check_paths(given: Mapping[str, Any]) -> None:
    """Refuse paths that are not there, before anything heavy is imported.

    Args:
        given: the arguments of a command by name.

    Raises:
        UserError: one or more are missing; all of them are listed.
    """
    wrong = []
    for name, path in given.items():
        if not isinstance(path, Path):
            continue
        if name in _FOLDERS and not path.is_dir():
            wrong.append(f"{name.replace('_', '-')}: not a folder: {path}")
        elif name in _FILES and not path.exists():
            wrong.append(f"{name}: there is no {path}")
    if len(wrong) == 1:
        raise UserError(wrong[0])
    if wrong:
        raise UserError("some paths are not there", wrong)


def following(command: str, given: Mapping[str, Any]) -> str:
    """Return the command that usually follows, or nothing.

    Args:
        command: ``train``, ``labels answers`` ...: what was typed after ``partlabel``.
        given: its arguments by name.

    >>> following("train", {"labels": Path("t.parquet"), "images": Path("my photos"), "output": Path("run")})
    "partlabel report run --images 'my photos' -o report.html"
    """
    text = {name: shlex.quote(str(value)) for name, value in given.items() if isinstance(value, Path)}
    own, output, images = (text.get(name, name.upper()) for name in ("run", "output", "images"))
    if command.startswith("import "):
        return f"partlabel inspect {output}"
    run = given.get("run")
    if command == "predict" and not (isinstance(run, Path) and run.is_dir()):  # an exported file knows no labels
        return ""
    steps = {
        "inspect": f"partlabel train {text.get('labels', 'LABELS')} --images IMAGES -o run",
        "train": f"partlabel report {output} --images {images} -o report.html",
        "predict": f"partlabel next {own} --images IMAGES --budget 100 -o questions.csv",
        "suspects": f"partlabel review {own} --images {images}",
        "next": f"partlabel labels answers LABELS {output} -o grown.parquet",
        "labels answers": f"partlabel train {output} --images IMAGES --after RUN -o run2",
    }
    return steps.get(command, "")
