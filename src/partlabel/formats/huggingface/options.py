"""Options of the format ``huggingface``."""

from __future__ import annotations

from dataclasses import dataclass, field

from partlabel.formats import options as read_as
from partlabel.formats.assemble import CONFLICTS
from partlabel.formats.options import option

_COLUMN = option(
    "column with the present classes (inside another column: objects.category); otherwise positive_labels, or the "
    "only column with class labels",
    read_as.text,
)
_NEGATIVE_COLUMN = option(
    "column with the absent classes; otherwise negative_labels beside positive_labels", read_as.text
)
_IMAGE_COLUMN = option(
    "column with the image names; otherwise the file names in the only column of pictures, or a usual name such as "
    "file_name",
    read_as.text,
)
_SPLIT = option("the splits that are read, where there are several: names between commas", read_as.names)
_EXTRACT = option(
    "new folder to which the pictures inside the data set are written; the images are named by their files in it",
    read_as.text,
)
_NOT_LISTED = option(
    "what a class counts as that a labelled image does not list: unknown or absent; an image without label (null, -1) "
    "stays unknown",
    read_as.choice("unknown", "absent"),
)
_CONFLICTS = option(f"one pair stated present and absent: {', '.join(CONFLICTS)}", read_as.choice(*CONFLICTS))
_CLASSES = option(
    "the classes that are wanted, in this order: names between commas, or a file with one name a line; "
    "class numbers of a column without class names are positions in it",
    read_as.names,
)
_RENAME = option("other class names: old=new,old=new, or a CSV file with the header from,to", read_as.rename)
_IMAGES = option(
    "folder with the pictures, to find images without a file; file paths below it become relative to it", read_as.text
)
_MISSING = option("images without a file: error, or skip to leave them out", read_as.choice("error", "skip"))


@dataclass(frozen=True)
class HuggingFaceOptions:
    """Options of the format ``huggingface``; the help of each is in its metadata."""

    column: str | None = field(default=None, metadata=_COLUMN)
    negative_column: str | None = field(default=None, metadata=_NEGATIVE_COLUMN)
    image_column: str | None = field(default=None, metadata=_IMAGE_COLUMN)
    split: list[str] | None = field(default=None, metadata=_SPLIT)
    extract: str | None = field(default=None, metadata=_EXTRACT)
    not_listed: str = field(default="unknown", metadata=_NOT_LISTED)
    conflicts: str = field(default="error", metadata=_CONFLICTS)
    classes: list[str] | None = field(default=None, metadata=_CLASSES)
    rename: dict[str, str] | None = field(default=None, metadata=_RENAME)
    images: str | None = field(default=None, metadata=_IMAGES)
    missing: str = field(default="error", metadata=_MISSING)
