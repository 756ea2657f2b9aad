"""Options of the format ``csv``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from partlabel.core.errors import UserError
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
    "filepath",
    "fname",
    "path",
)
#: names that say the same, and may be classes: they count where there is none of the others
OTHER_IMAGE_COLUMNS = (
    *("photo", "photo_id", "photo_name", "picture", "picture_name", "pic", "image_file", "image_filename", "image_url"),
    *("url", "foto", "bild", "imagen", "imagem", "immagine", "afbeelding"),
)
CLASS_COLUMNS = ("label", "label_name", "labelname", "class", "class_name", "classname", "category")
VALUE_COLUMNS = ("value", "confidence", "present", "state")
TAG_COLUMNS = ("tags", "labels", "classes", "categories")


def _conditions(name: str, value: Any) -> dict[str, list[str]]:
    """Read conditions on rows: a mapping of columns to a value or several, or text as in ``split=val,split=test``."""
    if isinstance(value, Mapping):
        pairs = [(str(column), own) for column, owned in value.items() for own in _several(owned)]
    else:
        parts = [part.partition("=") for part in read_as.text(name, value).split(",") if part.strip()]
        if wrong := [part[0] for part in parts if not part[1] or not part[0].strip()]:
            raise UserError(f"{name} is COLUMN=VALUE, several of them between commas", wrong)
        pairs = [(column.strip(), own) for column, _, own in parts]
    conditions: dict[str, list[str]] = {}
    for column, own in pairs:
        conditions.setdefault(column, []).append(codings.canonical(str(own)))
    return conditions


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple | set) else [value]


@dataclass(frozen=True, kw_only=True)
class TableOptions(CommonOptions):
    """Options of the format ``csv``; the help of each is in its metadata."""

    layout: str = choice(
        "auto",
        *("auto", "wide", "long", "tags", "list"),
        help="wide: a column for each class; long: a row for each label; tags: a column with all tags of an image; "
        "list: path and one value for each class, without header. auto tells them by the header and by cells that hold "
        "lists",
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
        None,
        read_as.text,
        f"column with the image names; otherwise one of {', '.join(IMAGE_COLUMNS)}; where there is none of those, "
        f"{', '.join(OTHER_IMAGE_COLUMNS)}",
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
    tag_separator: str | None = option(
        None, read_as.separator, "character between tags, or between the entries behind the path in a list file"
    )
    entries: str | None = choice(
        None,
        *("names", "numbers", "values"),
        help="what the entries of a tag cell, or those behind the path in a list file, are: names of present classes "
        "(usual for tags), numbers of present classes counted from 0, or values, one for each class (usual for lists)",
    )
    nothing: list[str] | None = option(
        None,
        read_as.names,
        "classes or tags that say that nothing is there, such as No Finding: every other class is absent in the image",
    )
    where: dict[str, list[str]] | None = option(
        None,
        _conditions,
        "rows that are read: COLUMN=VALUE, such as split=val; several between commas (of one column: any of the "
        "values; of several columns: all must hold)",
    )
    sheet: str | None = option(None, read_as.text, "sheet of a workbook; needed where several hold cells")
    separator: str | None = option(
        None, read_as.separator, "character between columns; told by the header where it can be"
    )
    encoding: str | None = option(None, read_as.text, "encoding; otherwise by the byte-order mark, or UTF-8")

    def given(self) -> dict[str, Any]:
        """Return the options that are not at their default, JSON-able."""
        own = super().given()
        return own if self.coding is None else {**own, "coding": self.coding.words()}
