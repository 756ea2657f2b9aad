"""Options of the format ``coco``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from partlabel.formats import options as read_as
from partlabel.formats.assemble import CONFLICTS
from partlabel.formats.options import option


def _classes(name: str, value: Any) -> list[str] | dict[str, str]:
    """Read class names, or ids with names (``1=person,3=car``)."""
    if isinstance(value, Mapping):
        return {str(number): str(label) for number, label in value.items()}
    entries = read_as.names(name, value)
    if entries and all("=" in entry for entry in entries):
        return {number.strip(): label.strip() for number, _, label in (entry.partition("=") for entry in entries)}
    return entries


_NOT_LISTED = option(
    "what a class counts as that has no annotation in an image: absent, or unknown. The default is absent (boxes are "
    "exhaustive); for files with neg_category_ids (LVIS, or written by partlabel) it is unknown",
    read_as.choice("absent", "unknown"),
)
_CROWD = option(
    "what a class with crowd annotations only counts as: present, or unknown",
    read_as.choice("present", "unknown"),
)
_CONFLICTS = option(f"one pair stated present and absent: {', '.join(CONFLICTS)}", read_as.choice(*CONFLICTS))
_CLASSES = option(
    "the classes that are wanted, in this order: names between commas, or a file with one name a line; "
    "for a file without categories with their ids, as in 1=person,3=car",
    _classes,
)
_RENAME = option("other class names: old=new,old=new, or a CSV file with the header from,to", read_as.rename)
_IMAGES = option("folder with the pictures, to find images without a file", read_as.text)
_MISSING = option("images without a file: error, or skip to leave them out", read_as.choice("error", "skip"))


@dataclass(frozen=True)
class CocoOptions:
    """Options of the format ``coco``; the help of each is in its metadata."""

    not_listed: str | None = field(default=None, metadata=_NOT_LISTED)
    crowd: str = field(default="present", metadata=_CROWD)
    conflicts: str = field(default="error", metadata=_CONFLICTS)
    classes: list[str] | dict[str, str] | None = field(default=None, metadata=_CLASSES)
    rename: dict[str, str] | None = field(default=None, metadata=_RENAME)
    images: str | None = field(default=None, metadata=_IMAGES)
    missing: str = field(default="error", metadata=_MISSING)
