"""Options of the format ``chexpert``."""

from __future__ import annotations

from dataclasses import dataclass, field

from partlabel.formats import options as read_as
from partlabel.formats.assemble import CONFLICTS
from partlabel.formats.options import option

_UNCERTAIN = option(
    "what -1 (uncertain) counts as: unknown, present or absent", read_as.choice("unknown", "present", "absent")
)
_NOT_LISTED = option(
    "what a blank cell (finding not mentioned) counts as: unknown or absent", read_as.choice("unknown", "absent")
)
_VIEW = option("the pictures that are wanted: all, frontal or lateral", read_as.choice("all", "frontal", "lateral"))
_METADATA = option(
    "for a table of studies (MIMIC-CXR): the table that lists the pictures with dicom_id, subject_id and study_id",
    read_as.text,
)
_CONFLICTS = option(f"one pair stated present and absent: {', '.join(CONFLICTS)}", read_as.choice(*CONFLICTS))
_CLASSES = option(
    "the columns that are wanted, in this order: names between commas, or a file with one name a line; otherwise those "
    "of the 14 findings that are there",
    read_as.names,
)
_RENAME = option("other class names: old=new,old=new, or a CSV file with the header from,to", read_as.rename)
_IMAGES = option("folder with the pictures, to find images without a file", read_as.text)
_MISSING = option("images without a file: error, or skip to leave them out", read_as.choice("error", "skip"))


@dataclass(frozen=True)
class ChexpertOptions:
    """Options of the format ``chexpert``; the help of each is in its metadata."""

    uncertain: str = field(default="unknown", metadata=_UNCERTAIN)
    not_listed: str = field(default="unknown", metadata=_NOT_LISTED)
    view: str = field(default="all", metadata=_VIEW)
    metadata: str | None = field(default=None, metadata=_METADATA)
    conflicts: str = field(default="error", metadata=_CONFLICTS)
    classes: list[str] | None = field(default=None, metadata=_CLASSES)
    rename: dict[str, str] | None = field(default=None, metadata=_RENAME)
    images: str | None = field(default=None, metadata=_IMAGES)
    missing: str = field(default="error", metadata=_MISSING)
