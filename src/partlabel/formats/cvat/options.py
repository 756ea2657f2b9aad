"""Options of the format ``cvat``."""

from __future__ import annotations

from dataclasses import dataclass, field

from partlabel.formats import options as read_as
from partlabel.formats.options import option

_NOT_LISTED = option(
    "what a class counts as that is not in an image: unknown, or absent if somebody looked for every class",
    read_as.choice("unknown", "absent"),
)
_SHAPES = option(
    "what boxes, polygons and other shapes say of their class: present, or unknown to read nothing but tags",
    read_as.choice("present", "unknown"),
)
_CLASSES = option(
    "the classes that are wanted, in this order: names between commas, or a file with one name a line", read_as.names
)
_RENAME = option("other class names: old=new,old=new, or a CSV file with the header from,to", read_as.rename)
_IMAGES = option("folder with the pictures, to find images without a file", read_as.text)
_MISSING = option("images without a file: error, or skip to leave them out", read_as.choice("error", "skip"))


@dataclass(frozen=True)
class CvatOptions:
    """Options of the format ``cvat``; the help of each is in its metadata."""

    not_listed: str = field(default="unknown", metadata=_NOT_LISTED)
    shapes: str = field(default="present", metadata=_SHAPES)
    classes: list[str] | None = field(default=None, metadata=_CLASSES)
    rename: dict[str, str] | None = field(default=None, metadata=_RENAME)
    images: str | None = field(default=None, metadata=_IMAGES)
    missing: str = field(default="error", metadata=_MISSING)
