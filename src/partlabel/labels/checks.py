"""Checks of names and arrays of a label table; each error lists every offender."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from partlabel.core.errors import UserError
from partlabel.labels.names import repeats
from partlabel.labels.pairs import ORIGINS, Pairs, origin_code


def describe(key: int, images: pa.StringArray, classes: Sequence[str]) -> str:
    """Name the pair with the key ``image * C + class`` for an error message."""
    return f"{images[key // len(classes)]}, {classes[key % len(classes)]}"


def check_names(
    images: pa.StringArray, classes: tuple[str, ...], class_ids: tuple[str, ...] | None, groups: pa.StringArray | None
) -> None:
    """Refuse repeated or missing names, and lists of another length."""
    if images.null_count:
        rows = np.flatnonzero(images.is_null().to_numpy(zero_copy_only=False))
        raise UserError(f"{len(rows)} images have no name", [f"image number {row}" for row in rows])
    repeated = repeats(images)
    if repeated:
        raise UserError(f"{len(repeated)} images are listed more than once", repeated)
    for what, names in (("classes", classes), ("class ids", class_ids or ())):
        repeated = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
        if repeated:
            raise UserError(f"{len(repeated)} {what} are listed more than once", repeated)
        if broken := [name for name in names if any("\ud800" <= letter <= "\udfff" for letter in name)]:
            raise UserError(f"{len(broken)} {what} hold halves of characters (surrogates)", broken)
    if class_ids is not None and len(class_ids) != len(classes):
        raise UserError(f"{len(class_ids)} class ids for {len(classes)} classes")
    if groups is not None and len(groups) != len(images):
        raise UserError(f"{len(groups)} groups for {len(images)} images")


def check_pairs(
    images: pa.StringArray, classes: Sequence[str], row: NDArray[Any], column: NDArray[Any], values: NDArray[Any]
) -> None:
    """Refuse pairs (K,) whose image or class number does not exist or whose value is not +1 or -1."""
    if not (row.shape == column.shape == values.shape and row.ndim == 1):
        raise UserError(
            f"image numbers {row.shape}, class numbers {column.shape} and values {values.shape} must be parallel"
        )
    if row.size and not (np.issubdtype(row.dtype, np.integer) and np.issubdtype(column.dtype, np.integer)):
        raise UserError(f"image and class numbers must be whole numbers, not {row.dtype} and {column.dtype}")
    wrong_row = (row < 0) | (row >= len(images))
    if wrong_row.any():
        offenders = [f"label {i}: image {row[i]}" for i in np.flatnonzero(wrong_row)]
        raise UserError(f"{len(offenders)} labels name an image outside 0 .. {len(images) - 1}", offenders)
    wrong_column = (column < 0) | (column >= len(classes))
    if wrong_column.any():
        offenders = [f"{images[int(row[i])]}: class {column[i]}" for i in np.flatnonzero(wrong_column)]
        raise UserError(f"{len(offenders)} labels name a class outside 0 .. {len(classes) - 1}", offenders)
    wrong = (values != 1) & (values != -1)
    if wrong.any():
        offenders = [f"{images[int(row[i])]}, {classes[column[i]]}: {values[i]}" for i in np.flatnonzero(wrong)]
        raise UserError(f"{len(offenders)} labels are neither 1 (present) nor -1 (absent)", offenders)


def checked_pairs(
    images: pa.StringArray,
    classes: Sequence[str],
    image_index: ArrayLike,
    class_index: ArrayLike,
    values: ArrayLike,
    *,
    origin: str | ArrayLike,
    score: ArrayLike | None,
    round: ArrayLike | None,
) -> Pairs:
    """Return pairs (K,) that a caller listed, sorted by key; repeats are still in.

    Raises:
        UserError: arrays that are not parallel, numbers out of range, other values, an unknown origin.
    """
    row, column, value = np.asarray(image_index), np.asarray(class_index), np.asarray(values)
    check_pairs(images, classes, row, column, value)
    origin = origin_code(origin) if isinstance(origin, str) else origin
    try:
        codes = np.broadcast_to(np.asarray(origin), row.shape)
        scores = None if score is None else np.broadcast_to(np.asarray(score, np.float32), row.shape)
        rounds = None if round is None else np.broadcast_to(np.asarray(round, np.int16), row.shape)
    except ValueError as error:
        raise UserError(f"origin, score and round must have one entry for each of the {len(row)} labels") from error
    if ((codes < 0) | (codes >= len(ORIGINS))).any():
        raise UserError(f"an origin code is outside 0 .. {len(ORIGINS) - 1}", sorted({str(code) for code in codes}))
    key = row.astype(np.int64) * len(classes) + column.astype(np.int64)
    return Pairs(key, value.astype(np.int8), codes.astype(np.uint8), scores, rounds).sorted()


def class_numbers(names: Sequence[str], classes: tuple[str, ...]) -> list[int]:
    """Return the numbers of the named classes; the error offers classes that are spelled alike."""
    number = {name: i for i, name in enumerate(classes)}
    unknown = [name for name in names if name not in number]
    if unknown:
        offenders = []
        for name in unknown:
            alike = difflib.get_close_matches(name, classes)
            offenders.append(f"{name} (did you mean {' or '.join(alike)}?)" if alike else name)
        raise UserError(f"{len(unknown)} class names are not in the table", offenders)
    return [number[name] for name in names]
