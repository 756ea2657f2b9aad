"""Options of the format ``labelstudio``."""

from __future__ import annotations

from dataclasses import dataclass, field

from partlabel.formats import options as read_as
from partlabel.formats.assemble import CONFLICTS
from partlabel.formats.options import option

_ANSWERS = option(
    "whose choices are read: annotations, those of people, or predictions, those of models",
    read_as.choice("annotations", "predictions"),
)
_CONTROL = option(
    "name of the Choices control whose choices are classes; needed where there are several of them", read_as.text
)
_ABSENT_CONTROL = option("name of a second Choices control, whose choices are absent classes", read_as.text)
_ABSENT_CHOICES = option(
    "choices that say that a class is absent, as in no cat=cat; nothing=* says that every class is absent",
    read_as.rename,
)
_NOT_LISTED = option(
    "what a class counts as that was not chosen: unknown, or absent. Images that nobody annotated stay unknown",
    read_as.choice("unknown", "absent"),
)
_CONFLICTS = option(
    f"a class that annotators do not agree on: {', '.join(CONFLICTS)}",
    read_as.choice(*CONFLICTS),
)
_IMAGE_COLUMN = option("key of the task data (column of the CSV export) with the picture", read_as.text)
_IMAGE_NAMES = option(
    "how images are called: path, the path in the storage, of uploads the name before the upload; file, the last part "
    "of the address; url, the address as it stands",
    read_as.choice("path", "file", "url"),
)
_CLASSES = option(
    "the classes that are wanted, in this order: names between commas, or a file with one name a line", read_as.names
)
_RENAME = option("other class names: old=new,old=new, or a CSV file with the header from,to", read_as.rename)
_SEPARATOR = option("character between the columns of a CSV export", read_as.separator)
_ENCODING = option("encoding of a CSV export; otherwise by the byte-order mark, or UTF-8", read_as.text)
_IMAGES = option("folder with the pictures, to find images without a file", read_as.text)
_MISSING = option("images without a file: error, or skip to leave them out", read_as.choice("error", "skip"))


@dataclass(frozen=True)
class LabelStudioOptions:
    """Options of the format ``labelstudio``; the help of each is in its metadata."""

    answers: str = field(default="annotations", metadata=_ANSWERS)
    control: str | None = field(default=None, metadata=_CONTROL)
    absent_control: str | None = field(default=None, metadata=_ABSENT_CONTROL)
    absent_choices: dict[str, str] | None = field(default=None, metadata=_ABSENT_CHOICES)
    not_listed: str = field(default="unknown", metadata=_NOT_LISTED)
    conflicts: str = field(default="error", metadata=_CONFLICTS)
    image_column: str | None = field(default=None, metadata=_IMAGE_COLUMN)
    image_names: str = field(default="path", metadata=_IMAGE_NAMES)
    classes: list[str] | None = field(default=None, metadata=_CLASSES)
    rename: dict[str, str] | None = field(default=None, metadata=_RENAME)
    separator: str | None = field(default=None, metadata=_SEPARATOR)
    encoding: str | None = field(default=None, metadata=_ENCODING)
    images: str | None = field(default=None, metadata=_IMAGES)
    missing: str = field(default="error", metadata=_MISSING)
