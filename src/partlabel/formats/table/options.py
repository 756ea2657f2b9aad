"""Options of the format ``csv``."""

from __future__ import annotations

from dataclasses import dataclass, field

from partlabel.formats import coding as codings
from partlabel.formats import options as read_as
from partlabel.formats.assemble import CONFLICTS
from partlabel.formats.coding import Coding
from partlabel.formats.options import option

#: usual column names, lower case
IMAGE_COLUMNS = (
    "image",
    "image_id",
    "imageid",
    "image_name",
    "image_path",
    "img",
    "file",
    "file_name",
    "filename",
    "path",
)
CLASS_COLUMNS = ("label", "label_name", "labelname", "class", "class_name", "classname", "category")
VALUE_COLUMNS = ("value", "confidence", "present", "state")
TAG_COLUMNS = ("tags", "labels", "classes", "categories")

_LAYOUT = option(
    "wide: a column for each class; long: a row for each label; tags: a column with all tags of an image; "
    "list: path and one value for each class, without header. auto tells wide and long by the header",
    read_as.choice("auto", "wide", "long", "tags", "list"),
)
_CODING = option(
    "what the values mean: native, zero-absent, zero-unknown, chexpert, words, or as in "
    "1=present,0=absent,-1=uncertain,blank=unknown. Needed where the values can be read in more than one way",
    lambda name, value: codings.parse(value),
)
_NOT_LISTED = option(
    "what pairs count as about which the table says nothing (no row, no tag, a cell for unknown): unknown or absent",
    read_as.choice("unknown", "absent"),
)
_CONFLICTS = option(f"one pair stated present and absent: {', '.join(CONFLICTS)}", read_as.choice(*CONFLICTS))
_CLASSES = option(
    "the classes that are wanted, in this order: names between commas, or a file with one name a line", read_as.names
)
_IGNORE = option("columns that are not classes: names, or #1 for the first column", read_as.names)
_RENAME = option("other class names: old=new,old=new, or a CSV file with the header from,to", read_as.rename)
_GROUP = option("column whose images a split keeps together, such as the patient", read_as.text)
_IMAGE_COLUMN = option(f"column with the image names; otherwise one of {', '.join(IMAGE_COLUMNS)}", read_as.text)
_CLASS_COLUMN = option(
    f"column with the class of a long table; otherwise one of {', '.join(CLASS_COLUMNS)}", read_as.text
)
_VALUE_COLUMN = option(
    f"column with the value of a long table; otherwise one of {', '.join(VALUE_COLUMNS)}", read_as.text
)
_TAGS_COLUMN = option(f"column with the tags; otherwise one of {', '.join(TAG_COLUMNS)}", read_as.text)
_TAG_SEPARATOR = option("character between tags", read_as.separator)
_SEPARATOR = option("character between columns; told by the header where it can be", read_as.separator)
_ENCODING = option("encoding; otherwise by the byte-order mark, or UTF-8", read_as.text)
_IMAGES = option("folder with the pictures, to find images without a file", read_as.text)
_MISSING = option("images without a file: error, or skip to leave them out", read_as.choice("error", "skip"))


@dataclass(frozen=True)
class TableOptions:
    """Options of the format ``csv``; the help of each is in its metadata."""

    layout: str = field(default="auto", metadata=_LAYOUT)
    coding: Coding | None = field(default=None, metadata=_CODING)
    not_listed: str = field(default="unknown", metadata=_NOT_LISTED)
    conflicts: str = field(default="error", metadata=_CONFLICTS)
    classes: list[str] | None = field(default=None, metadata=_CLASSES)
    ignore: list[str] | None = field(default=None, metadata=_IGNORE)
    rename: dict[str, str] | None = field(default=None, metadata=_RENAME)
    group: str | None = field(default=None, metadata=_GROUP)
    image_column: str | None = field(default=None, metadata=_IMAGE_COLUMN)
    class_column: str | None = field(default=None, metadata=_CLASS_COLUMN)
    value_column: str | None = field(default=None, metadata=_VALUE_COLUMN)
    tags_column: str | None = field(default=None, metadata=_TAGS_COLUMN)
    tag_separator: str | None = field(default=None, metadata=_TAG_SEPARATOR)
    separator: str | None = field(default=None, metadata=_SEPARATOR)
    encoding: str | None = field(default=None, metadata=_ENCODING)
    images: str | None = field(default=None, metadata=_IMAGES)
    missing: str = field(default="error", metadata=_MISSING)
