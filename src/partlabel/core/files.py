"""Files written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from partlabel.core.errors import UserError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside ``path``; when the block ends well, move it into place, otherwise remove it.

    The file is synced to disk before the move, so a crash leaves either the old file or the new one, never half of one.

    Raises:
        UserError: the folder does not exist or cannot be written.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise UserError(f"{target}: the folder {target.parent} does not exist")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except PermissionError as error:
        raise UserError(f"{target}: cannot be written ({error.strerror})") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` as UTF-8, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write ``value`` as indented JSON, whole or not at all; NaN and infinity are refused (use None)."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def to_toml(document: dict[str, Any]) -> str:
    """TOML text of nested dictionaries, without the entries that are None."""

    def known(value: Any) -> Any:
        return {k: known(v) for k, v in value.items() if v is not None} if isinstance(value, dict) else value

    return msgspec.toml.encode(known(document)).decode()
