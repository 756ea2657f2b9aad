"""Checks of names and arrays of a label table; each error lists every offender."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from partlabel.errors import UserError

if TYPE_CHECKING:
    from partlabel.labels import LabelTable


def string_array(
    names: Sequence[str | None] | pa.Array | pa.ChunkedArray, *, empty_is_null: bool = False
) -> pa.StringArray:
    """Return names as one Arrow string array.

    Raises:
        UserError: something that is not text.
    """
    try:
        array = names if isinstance(names, pa.Array | pa.ChunkedArray) else pa.array(list(names), pa.string())
        array = array.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise UserError(f"names must be text: {error}") from error
    if isinstance(array, pa.ChunkedArray):
        array = (
            array.chunk(0) if array.num_chunks == 1 else pa.concat_arrays(array.chunks or [pa.array([], pa.string())])
        )
    if empty_is_null:
        array = pc.if_else(pc.equal(array, ""), pa.scalar(None, pa.string()), array)
    return array


def check_names(
    images: pa.StringArray, classes: tuple[str, ...], class_ids: tuple[str, ...] | None, groups: pa.StringArray | None
) -> None:
    """Refuse repeated or missing names, and lists of another length."""
    if images.null_count:
        rows = np.flatnonzero(images.is_null().to_numpy(zero_copy_only=False))
        raise UserError(f"{len(rows)} images have no name", [f"image number {row}" for row in rows])
    if pc.count_distinct(images).as_py() != len(images):
        counts = pc.value_counts(images)
        repeated = counts.filter(pc.greater(counts.field("counts"), 1))
        offenders = [f"{item['values']}: {item['counts']} times" for item in repeated.to_pylist()]
        raise UserError(f"{len(offenders)} images are listed more than once", offenders)
    for what, names in (("classes", classes), ("class ids", class_ids or ())):
        repeated = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
        if repeated:
            raise UserError(f"{len(repeated)} {what} are listed more than once", repeated)
    if class_ids is not None and len(class_ids) != len(classes):
        raise UserError(f"{len(class_ids)} class ids for {len(classes)} classes")
    if groups is not None and len(groups) != len(images):
        raise UserError(f"{len(groups)} groups for {len(images)} images")


def check_pairs(
    images: pa.StringArray, classes: Sequence[str], row: NDArray[np.int64], column: NDArray[np.int64], values: NDArray
) -> None:
    """Refuse pairs (K,) whose image or class number does not exist or whose value is not +1 or -1."""
    if not (row.shape == column.shape == values.shape and row.ndim == 1):
        raise UserError(
            f"image numbers {row.shape}, class numbers {column.shape} and values {values.shape} must be parallel"
        )
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


def check_structure(table: LabelTable, origins: int) -> None:
    """Refuse arrays that are not the CSR arrays of the table's images and classes."""
    size = len(table.indices)
    expected = {"indptr": (np.int64, len(table.images) + 1), "indices": (np.int32, size), "values": (np.int8, size)}
    expected |= {"origin": (np.uint8, size), "score": (np.float32, size), "round": (np.int16, size)}
    for name, (dtype, length) in expected.items():
        array = getattr(table, name)
        if array is not None and (array.dtype != dtype or array.shape != (length,)):
            raise UserError(f"{name} is {array.dtype}{array.shape}, expected {np.dtype(dtype)}({length},)")
    if table.indptr[0] != 0 or table.indptr[-1] != size or (np.diff(table.indptr) < 0).any():
        raise UserError(f"indptr does not rise from 0 to the {size} known labels")
    if size == 0:
        return
    if table.indices.min() < 0 or table.indices.max() >= len(table.classes) or (table.values**2 != 1).any():
        check_pairs(table.images, table.classes, table.pair_images(), table.indices, table.values)
    rising = table.indices[1:] > table.indices[:-1]
    inner = table.indptr[1:-1]
    rising[inner[(inner > 0) & (inner < size)] - 1] = True
    if not rising.all():
        images = np.unique(table.pair_images()[1:][~rising])
        offenders = [str(table.images[int(image)]) for image in images]
        raise UserError("class numbers do not rise strictly inside each image", offenders)
    if table.origin.max() >= origins:
        wrong = np.flatnonzero(table.origin >= origins)
        image = table.pair_images()
        offenders = [
            f"{table.images[int(image[i])]}, {table.classes[table.indices[i]]}: {table.origin[i]}" for i in wrong
        ]
        raise UserError(f"{len(wrong)} labels have an unknown origin", offenders)


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
