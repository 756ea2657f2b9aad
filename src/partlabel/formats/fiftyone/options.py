"""Options of the format ``fiftyone``."""

from __future__ import annotations

import dataclasses

from partlabel.formats import options as read_as
from partlabel.formats.assemble import CONFLICTS
from partlabel.formats.options import option

_FIELD = option(
    "field of samples.json with the present classes; otherwise positive_labels, or the only field with labels",
    read_as.text,
)
_NEGATIVE_FIELD = option(
    "field of samples.json with the absent classes; otherwise negative_labels beside positive_labels", read_as.text
)
_NEGATIVE = option("second labels.json, or its folder, that lists the absent classes of the same images", read_as.text)
_WEAK = option(
    "labels of a model, with a confidence between 0 and 1: ignore, keep (as labels of a model, with their score), or "
    "given (as if a person had given them)",
    read_as.choice("ignore", "keep", "given"),
)
_NOT_LISTED = option(
    "what a class counts as that a labelled image does not list: unknown or absent; an unlabelled image (null) stays "
    "unknown",
    read_as.choice("unknown", "absent"),
)
_CONFLICTS = option(f"one pair stated present and absent: {', '.join(CONFLICTS)}", read_as.choice(*CONFLICTS))
_CLASSES = option(
    "the classes that are wanted, in this order: names between commas, or a file with one name a line; "
    "class numbers of a file without class list are positions in it",
    read_as.names,
)
_RENAME = option("other class names: old=new,old=new, or a CSV file with the header from,to", read_as.rename)
_IMAGES = option(
    "folder with the pictures, to find images without a file; file paths below it become relative to it", read_as.text
)
_MISSING = option("images without a file: error, or skip to leave them out", read_as.choice("error", "skip"))


@dataclasses.dataclass(frozen=True)
class FiftyOneOptions:
    """Options of the format ``fiftyone``; the help of each is in its metadata."""

    field: str | None = dataclasses.field(default=None, metadata=_FIELD)
    negative_field: str | None = dataclasses.field(default=None, metadata=_NEGATIVE_FIELD)
    negative: str | None = dataclasses.field(default=None, metadata=_NEGATIVE)
    weak: str = dataclasses.field(default="ignore", metadata=_WEAK)
    not_listed: str = dataclasses.field(default="unknown", metadata=_NOT_LISTED)
    conflicts: str = dataclasses.field(default="error", metadata=_CONFLICTS)
    classes: list[str] | None = dataclasses.field(default=None, metadata=_CLASSES)
    rename: dict[str, str] | None = dataclasses.field(default=None, metadata=_RENAME)
    images: str | None = dataclasses.field(default=None, metadata=_IMAGES)
    missing: str = dataclasses.field(default="error", metadata=_MISSING)
