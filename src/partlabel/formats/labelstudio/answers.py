"""What the people (or models) chose, in one form for every kind of export; which control and which key hold it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from partlabel.core.errors import UserError
from partlabel.formats.labelstudio.options import LabelStudioOptions
from partlabel.formats.report import plural
from partlabel.formats.table.options import IMAGE_COLUMNS
from partlabel.images.locate import PICTURES

#: the controls that partlabel writes; read as such where nothing else is said
PRESENT, ABSENT = "present", "absent"


@dataclass
class Answers:
    """One row for each annotation, and one for each task without any.

    Attributes:
        place: rows -> where they are; called only to explain.
        controls: names of the controls for present and for absent classes, empty where there is none.
        addresses: where the picture of each row lies.
        present, absent: the choices that name present and absent classes.
        answered: whether somebody looked at the picture.
    """

    place: Callable[[Sequence[int]], list[str]]
    controls: tuple[str, str]
    addresses: list[str] = field(default_factory=list)
    present: list[Sequence[str]] = field(default_factory=list)
    absent: list[Sequence[str]] = field(default_factory=list)
    answered: list[bool] = field(default_factory=list)

    def add(self, address: str, present: Sequence[str], absent: Sequence[str], answered: bool) -> None:
        """Add a row."""
        self.addresses.append(address)
        self.present.append(present)
        self.absent.append(absent)
        self.answered.append(answered)


def choose_controls(path: str, found: Mapping[str, int], options: LabelStudioOptions, why: str) -> tuple[str, str]:
    """Return the names of the controls for present and for absent classes; empty where there is none.

    Args:
        path: for errors.
        found: Choices controls of the file, and how often each was answered.
        options: may name the controls.
        why: what to say where there is no control at all.

    Raises:
        UserError: no control, several, or not the one that was named.
    """
    if not found and options.classes is None:
        raise UserError(f"{path}: no choices {why}")
    missing = [name for name in (options.control, options.absent_control) if name is not None and name not in found]
    listed = [f"{name}: {plural(count, 'answer')}" for name, count in found.items()]
    if missing and found:
        raise UserError(f"{path}: no Choices control has the name {' or '.join(map(repr, missing))}", listed)
    absent = options.absent_control or ""
    if not absent and options.control != ABSENT and ABSENT in found and set(found) <= {PRESENT, ABSENT}:
        absent = ABSENT
    if options.control is not None:
        return options.control, absent
    rest = [name for name in found if name != absent]
    if len(rest) > 1:
        raise UserError(
            f"{path}: several Choices controls; name the one with the classes, as in control={rest[0]}", listed
        )
    return rest[0] if rest else "", absent


def choose_image(path: str, columns: Mapping[str, Sequence[Any]], options: LabelStudioOptions) -> str:
    """Return the key with the address of the picture.

    Args:
        path: for errors.
        columns: key -> some of its values.
        options: may name the key.

    Raises:
        UserError: no key, or several, that may be meant.
    """
    if options.image_column is not None:
        if options.image_column in columns:
            return options.image_column
        raise UserError(f"{path}: no task has the key {options.image_column!r}; there are: {', '.join(columns)}")
    if "image" in columns:
        return "image"
    found = [key for key in columns if key.strip().casefold() in IMAGE_COLUMNS]
    if len(found) != 1:
        found = [key for key, values in columns.items() if any(map(_is_picture, values))]
    if len(found) == 1:
        return found[0]
    problem = "several keys look like" if found else "no key looks like"
    raise UserError(
        f"{path}: {problem} the address of the picture; name it with image_column=KEY", found or list(columns)
    )


def _is_picture(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        parts = urlsplit(value.strip())
    except ValueError:
        return False
    return parts.path.casefold().endswith(PICTURES) or parts.query.casefold().endswith(PICTURES)
