"""The parts of a COCO file that say which class is in which image, decoded without the rest."""

from __future__ import annotations

import codecs
import mmap
import re

import msgspec

from partlabel.core.errors import UserError

Id = int | float | str


class Image(msgspec.Struct, gc=False):
    """An image; ``neg_category_ids`` are classes that somebody looked for and did not find (as in LVIS)."""

    id: Id
    file_name: str
    neg_category_ids: list[Id] | None = None


class Annotation(msgspec.Struct, gc=False):
    """One object or one image label; boxes and outlines are not read."""

    image_id: Id
    category_id: Id
    id: Id | None = None
    iscrowd: bool | float | None = 0


class Category(msgspec.Struct, gc=False):
    """A class."""

    id: Id
    name: str


class Layout(msgspec.Struct):
    """A COCO file."""

    images: list[Image]
    annotations: list[Annotation] = []
    categories: list[Category] | None = None


def load(path: str) -> Layout:
    """Decode a COCO file.

    Raises:
        UserError: the file cannot be read, is not JSON (the line is named), or lacks something that COCO files have.
    """
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            start = len(codecs.BOM_UTF8) if content[:3] == codecs.BOM_UTF8 else 0
            with memoryview(content) as view, view[start:] as text:
                return _decode(path, text, content, start)
    except (OSError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error


def _decode(path: str, text: memoryview, content: mmap.mmap, start: int) -> Layout:
    try:
        return msgspec.json.decode(text, type=Layout)
    except msgspec.ValidationError as error:
        raise UserError(f"{path}: not a COCO file: {error}") from None
    except msgspec.DecodeError as error:
        at = re.search(r"byte (\d+)", str(error))
        byte = start + int(at[1]) if at else len(content)
        line = content[:byte].count(b"\n") + 1
        raise UserError(f"{path}: not valid JSON", [f"{path}:{line} {error}"]) from None


def plain(number: Id) -> int | str:
    """Return an id in the form in which ids are compared: ``"1"`` and ``1.0`` are 1; other text stays text."""
    text = str(number)
    if isinstance(number, float):
        return int(number) if number == int(number) else text
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and str(int(text)) == text else text
