"""Options of the format ``labelstudio``, and which control and which key of an export are meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from partlabel.core.errors import UserError
from partlabel.formats import options as read_as
from partlabel.formats.addresses import IMAGE_NAMES
from partlabel.formats.record_options import RecordOptions
from partlabel.formats.report import plural
from partlabel.formats.spine import choice, option
from partlabel.formats.table.options import IMAGE_COLUMNS
from partlabel.images.locate import PICTURES

#: the controls that partlabel writes; read as such where nothing else is said
PRESENT, ABSENT = "present", "absent"


@dataclass(frozen=True, kw_only=True)
class LabelStudioOptions(RecordOptions):
    """Options of the format ``labelstudio``."""

    answers: str = choice(
        "annotations",
        "predictions",
        help="whose choices are read: annotations, those of people, or predictions, those of models",
    )
    control: str | None = option(
        None,
        read_as.text,
        "name of the Choices control whose choices are classes; needed where there are several of them",
    )
    absent_control: str | None = option(
        None, read_as.text, "name of a second Choices control, whose choices are absent classes"
    )
    absent_choices: dict[str, str] | None = option(
        None,
        read_as.rename,
        "choices that say that a class is absent, as in no cat=cat; nothing=* says that every class is absent",
    )
    image_column: str | None = option(
        None, read_as.text, "key of the task data (column of the CSV export) with the image"
    )
    image_names: str = option("path", read_as.text, IMAGE_NAMES)
    separator: str | None = option(None, read_as.separator, "character between the columns of a CSV export")
    encoding: str | None = option(
        None, read_as.text, "encoding of a CSV export; otherwise by the byte-order mark, or UTF-8"
    )


def likely_controls(columns: Mapping[str, Sequence[Any]], options: LabelStudioOptions) -> dict[str, int]:
    """Return the keys that may be controls (with objects, or else with text) and how often each is filled."""
    answers = {
        key: sum(bool(value.strip()) if isinstance(value, str) else value is not None for value in values)
        for key, values in columns.items()
    }
    if options.control is not None or options.absent_control is not None:
        return answers
    if PRESENT in columns and ABSENT in columns:
        return {PRESENT: answers[PRESENT], ABSENT: answers[ABSENT]}
    found = [key for key, values in columns.items() if any(map(_is_object, values))]
    found = found or [key for key, values in columns.items() if any(map(is_filled, values))]
    return {key: answers[key] for key in found}


def _is_object(value: Any) -> bool:
    if isinstance(value, str):
        return value.lstrip(" [").startswith(('{"choices"', "{'choices'"))
    if isinstance(value, list):
        return any(map(_is_object, value))
    return isinstance(value, dict) and "choices" in value


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
    """Return the key with the address of the image: as named, as usual, or the only one with addresses of images.

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
        found = [key for key, values in columns.items() if any(map(_is_image, values))]
    if len(found) == 1:
        return found[0]
    problem = "several keys look like" if found else "no key looks like"
    raise UserError(f"{path}: {problem} the address of an image; name it with image_column=KEY", found or list(columns))


def _is_image(value: Any) -> bool:
    try:
        parts = urlsplit(value.strip()) if isinstance(value, str) else None
    except ValueError:
        return False
    return parts is not None and any(part.casefold().endswith(PICTURES) for part in (parts.path, parts.query))


def is_filled(value: Any) -> bool:
    """Tell whether a value is text that is not blank."""
    return isinstance(value, str) and bool(value.strip())
