"""Options of the format ``nuswide``."""

from __future__ import annotations

from dataclasses import dataclass, field

from partlabel.formats import options as read_as
from partlabel.formats.assemble import CONFLICTS
from partlabel.formats.options import option

_SET = option(
    "the lists to read: all (Labels_sky.txt), train (Labels_sky_Train.txt) or test; needed where several are there and "
    "all is not",
    read_as.choice("all", "train", "test"),
)
_IMAGE_LIST = option(
    "file that names the image of each line; otherwise Imagelist.txt, TrainImagelist.txt or TestImagelist.txt in or "
    "below the folder",
    read_as.text,
)
_ZERO = option("what 0 means: absent or unknown", read_as.choice("absent", "unknown"))
_CONFLICTS = option(
    f"an image that is listed twice, present and absent: {', '.join(CONFLICTS)}", read_as.choice(*CONFLICTS)
)
_CLASSES = option(
    "the classes that are wanted, in this order: names between commas, or a file with one name a line. For a file with "
    "a column for each class the names of all columns, such as Concepts81.txt",
    read_as.names,
)
_RENAME = option("other class names: old=new,old=new, or a CSV file with the header from,to", read_as.rename)
_IMAGES = option("folder with the pictures, to find images without a file", read_as.text)
_MISSING = option("images without a file: error, or skip to leave them out", read_as.choice("error", "skip"))


@dataclass(frozen=True)
class NusWideOptions:
    """Options of the format ``nuswide``; the help of each is in its metadata."""

    set: str | None = field(default=None, metadata=_SET)
    image_list: str | None = field(default=None, metadata=_IMAGE_LIST)
    zero: str = field(default="absent", metadata=_ZERO)
    conflicts: str = field(default="error", metadata=_CONFLICTS)
    classes: list[str] | None = field(default=None, metadata=_CLASSES)
    rename: dict[str, str] | None = field(default=None, metadata=_RENAME)
    images: str | None = field(default=None, metadata=_IMAGES)
    missing: str = field(default="error", metadata=_MISSING)
