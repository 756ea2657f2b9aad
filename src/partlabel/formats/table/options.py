"""Options of the format ``csv``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from partlabel.formats import coding as codings
from partlabel.formats import options as read_as
from partlabel.formats.coding import Coding
from partlabel.formats.spine import CommonOptions, choice, option

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


@dataclass(frozen=True, kw_only=True)
class TableOptions(CommonOptions):
    """Options of the format ``csv``; the help of each is in its metadata."""

    layout: str = choice(
        "auto",
        *("auto", "wide", "long", "tags", "list"),
        help="wide: a column for each class; long: a row for each label; tags: a column with all tags of an image; "
        "list: path and one value for each class, without header. auto tells wide and long by the header",
    )
    coding: Coding | None = option(
        None,
        lambda name, value: codings.parse(value),
        "what the values mean: native, zero-absent, zero-unknown, chexpert, words, or as in "
        "1=present,0=absent,-1=uncertain,blank=unknown. Needed where the values can be read in more than one way",
    )
    not_listed: str = choice(
        "unknown",
        *("unknown", "absent"),
        help="what pairs count as about which the table says nothing (no row, no tag, a cell for unknown): unknown or "
        "absent",
    )
    ignore: list[str] | None = option(
        None, read_as.names, "columns that are not classes: names, or #1 for the first column"
    )
    group: str | None = option(None, read_as.text, "column whose images a split keeps together, such as the patient")
    image_column: str | None = option(
        None, read_as.text, f"column with the image names; otherwise one of {', '.join(IMAGE_COLUMNS)}"
    )
    class_column: str | None = option(
        None, read_as.text, f"column with the class of a long table; otherwise one of {', '.join(CLASS_COLUMNS)}"
    )
    value_column: str | None = option(
        None, read_as.text, f"column with the value of a long table; otherwise one of {', '.join(VALUE_COLUMNS)}"
    )
    tags_column: str | None = option(
        None, read_as.text, f"column with the tags; otherwise one of {', '.join(TAG_COLUMNS)}"
    )
    tag_separator: str | None = option(None, read_as.separator, "character between tags")
    separator: str | None = option(
        None, read_as.separator, "character between columns; told by the header where it can be"
    )
    encoding: str | None = option(None, read_as.text, "encoding; otherwise by the byte-order mark, or UTF-8")

    def given(self) -> dict[str, Any]:
        """Return the options that are not at their default, JSON-able."""
        own = super().given()
        return own if self.coding is None else {**own, "coding": self.coding.words()}
