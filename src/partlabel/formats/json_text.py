"""JSON files decoded into typed structs; each mistake is named with its file and line."""

from __future__ import annotations

import codecs
import json
import re
from pathlib import Path
from typing import TypeVar

import msgspec

from partlabel.core.errors import UserError

Content = TypeVar("Content")


def load_json(path: str, kind: type[Content], what: str) -> Content:
    """Decode a JSON file. NaN and Infinity, which Python writes although JSON has none, are read as null.

    Args:
        path: the file; a byte-order mark is skipped.
        kind: what msgspec is to decode.
        what: the file in words, for the error, such as ``a COCO file``.

    Raises:
        UserError: the file cannot be read, is not JSON (the line is named), or is not ``kind``.
    """
    try:
        content = Path(path).read_bytes().removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    try:
        try:
            return msgspec.json.decode(content, type=kind)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            if b"NaN" not in content and b"Infinity" not in content:
                raise
            plain = json.loads(content, parse_constant=lambda constant: None)
            return msgspec.json.decode(msgspec.json.encode(plain), type=kind)
    except msgspec.ValidationError as error:
        raise UserError(f"{path}: not {what}: {error}") from None
    except (msgspec.DecodeError, ValueError) as error:
        at = re.search(r"byte (\d+)", str(error))
        before = content[: int(at[1])] if at else content[: getattr(error, "pos", len(content))]
        line = before.count(b"\n") + 1
        raise UserError(f"{path}: not valid JSON", [f"{path}:{line} {error}"]) from None
    except RecursionError:
        raise UserError(f"{path}: not {what}: lists or objects inside each other without end") from None
