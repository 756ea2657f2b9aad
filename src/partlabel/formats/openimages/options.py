"""Options of the format ``openimages``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from partlabel.core.errors import UserError
from partlabel.formats import options as read_as
from partlabel.formats.assemble import CONFLICTS
from partlabel.formats.openimages.descriptions import is_descriptions, read_descriptions
from partlabel.formats.options import option


def _threshold(name: str, value: Any) -> float:
    """Read a confidence above 0 and up to 1."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0.0
    if not 0 < number <= 1:
        raise UserError(f"{name} is a confidence above 0 and up to 1, such as 0.8; not {value!r}")
    return number


def _descriptions(name: str, value: Any) -> dict[str, str]:
    """Read names of label ids: a mapping, or the path of a file."""
    if isinstance(value, Mapping):
        return {str(label): str(text) for label, text in value.items()}
    return read_descriptions(read_as.text(name, value))


def _classes(name: str, value: Any) -> list[str] | dict[str, str]:
    """Read a class list: names and ids, or the ids with their names that a description file or a mapping holds."""
    is_path = isinstance(value, str | os.PathLike) and os.path.isfile(value)
    if isinstance(value, Mapping) or (is_path and is_descriptions(os.fspath(value))):
        return _descriptions(name, value)
    return read_as.names(name, value)


_DESCRIPTIONS = option(
    "file with the names of the label ids, such as class-descriptions.csv; without it classes are called by their ids",
    _descriptions,
)
_UNDESCRIBED = option(
    "labels whose id has no description: error, or keep the class under its id", read_as.choice("error", "keep")
)
_MACHINE = option(
    "confidence from which on a machine's label counts as a weak present label (origin model); "
    "otherwise machine labels are left out. Below it a pair is unknown, never absent",
    _threshold,
)
_CLASSES = option(
    "the classes that are wanted, in this order: names or ids between commas, a file with one of them a line, or a "
    "description file such as class-descriptions-boxable.csv",
    _classes,
)
_RENAME = option("other class names: old=new,old=new, or a CSV file with the header from,to", read_as.rename)
_IMAGE_LIST = option(
    "file with the images of the table, in the column ImageID or the first one: others are left out, and images that "
    "no label is about are kept",
    read_as.text,
)
_NOT_LISTED = option(
    "what a pair counts as that no row is about, not even of a machine: unknown, or absent",
    read_as.choice("unknown", "absent"),
)
_CONFLICTS = option(
    f"one pair stated present and absent by persons: {', '.join(CONFLICTS)}", read_as.choice(*CONFLICTS)
)
_IMAGES = option("folder with the pictures, to find images without a file", read_as.text)
_MISSING = option("images without a file: error, or skip to leave them out", read_as.choice("error", "skip"))
_MISSING_LIST = option("file that the names of all images without a file are written to, one a line", read_as.text)


@dataclass(frozen=True)
class OpenImagesOptions:
    """Options of the format ``openimages``; the help of each is in its metadata."""

    descriptions: dict[str, str] | None = field(default=None, metadata=_DESCRIPTIONS)
    undescribed: str = field(default="error", metadata=_UNDESCRIBED)
    machine_threshold: float | None = field(default=None, metadata=_MACHINE)
    classes: list[str] | dict[str, str] | None = field(default=None, metadata=_CLASSES)
    rename: dict[str, str] | None = field(default=None, metadata=_RENAME)
    image_list: str | None = field(default=None, metadata=_IMAGE_LIST)
    not_listed: str = field(default="unknown", metadata=_NOT_LISTED)
    conflicts: str = field(default="error", metadata=_CONFLICTS)
    images: str | None = field(default=None, metadata=_IMAGES)
    missing: str = field(default="error", metadata=_MISSING)
    missing_list: str | None = field(default=None, metadata=_MISSING_LIST)
