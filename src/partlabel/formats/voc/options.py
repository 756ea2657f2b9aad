"""Options of the format ``voc``."""

from __future__ import annotations

from dataclasses import dataclass, field

from partlabel.formats import options as read_as
from partlabel.formats.assemble import CONFLICTS
from partlabel.formats.options import option

_SET = option(
    "the image set, such as trainval: of the XML files only those that ImageSets/Main/trainval.txt lists, or the class "
    "lists that end with _trainval.txt",
    read_as.text,
)
_LAYOUT = option(
    "xml: a file for each image in Annotations; lists: a file for each class in ImageSets/Main. auto takes the XML "
    "files where there are any",
    read_as.choice("auto", "xml", "lists"),
)
_IMAGE_NAME = option(
    "what names the picture of an XML file: tag (its filename), or file (the name of the XML file itself, where "
    "pictures were renamed with their XML files)",
    read_as.choice("tag", "file"),
)
_DIFFICULT = option(
    "what a class counts as of which an image shows nothing but difficult objects (0 in the lists): unknown, present "
    "or absent",
    read_as.choice("unknown", "present", "absent"),
)
_NOT_LISTED = option(
    "what a class counts as that has no object in the XML file of an image, or whose list lacks the image: absent, or "
    "unknown. The default is absent for XML files (objects are exhaustive) and unknown for lists",
    read_as.choice("absent", "unknown"),
)
_CONFLICTS = option(
    f"an image that a list names twice, present and absent: {', '.join(CONFLICTS)}", read_as.choice(*CONFLICTS)
)
_CLASSES = option(
    "the classes that are wanted, in this order: names between commas, or a file with one name a line", read_as.names
)
_OTHER_CLASSES = option(
    "labels of classes that are not in the class list: error, or skip to leave them out",
    read_as.choice("error", "skip"),
)
_RENAME = option("other class names: old=new,old=new, or a CSV file with the header from,to", read_as.rename)
_BAD_FILES = option(
    "XML files that cannot be read or that are not there: error, or skip to leave them out",
    read_as.choice("error", "skip"),
)
_IMAGES = option("folder with the pictures, to find images without a file", read_as.text)
_MISSING = option("images without a file: error, or skip to leave them out", read_as.choice("error", "skip"))


@dataclass(frozen=True)
class VocOptions:
    """Options of the format ``voc``; the help of each is in its metadata."""

    set: str | None = field(default=None, metadata=_SET)
    layout: str = field(default="auto", metadata=_LAYOUT)
    image_name: str = field(default="tag", metadata=_IMAGE_NAME)
    difficult: str = field(default="unknown", metadata=_DIFFICULT)
    not_listed: str | None = field(default=None, metadata=_NOT_LISTED)
    conflicts: str = field(default="error", metadata=_CONFLICTS)
    classes: list[str] | None = field(default=None, metadata=_CLASSES)
    other_classes: str = field(default="error", metadata=_OTHER_CLASSES)
    rename: dict[str, str] | None = field(default=None, metadata=_RENAME)
    bad_files: str = field(default="error", metadata=_BAD_FILES)
    images: str | None = field(default=None, metadata=_IMAGES)
    missing: str = field(default="error", metadata=_MISSING)
