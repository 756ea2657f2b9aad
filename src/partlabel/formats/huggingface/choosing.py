"""Which columns are read: those with the present and absent classes, and the one with the image names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from partlabel.core.errors import UserError
from partlabel.formats.huggingface import features
from partlabel.formats.huggingface.options import HuggingFaceOptions
from partlabel.formats.huggingface.reading import DataFile

_POSITIVE, _NEGATIVE = "positive_labels", "negative_labels"


@dataclass(frozen=True)
class Columns:
    """The columns that are read.

    Attributes:
        labels: column -> +1 where it lists present classes, -1 where it lists absent ones.
        image: column with the image names; with pictures, the picture.
        picture: whether the image column holds pictures, with their file names.
    """

    labels: Mapping[str, int]
    image: str
    picture: bool

    @property
    def names(self) -> str:
        """The column that holds the image names themselves."""
        return f"{self.image}.path" if self.picture else self.image


def choose(file: DataFile, described: Mapping[str, Any], options: HuggingFaceOptions) -> Columns:
    """Choose the columns by the options, and by what the columns hold.

    Args:
        file: the first file.
        described: its features, as ``datasets`` describes them.
        options: of the format.

    Raises:
        UserError: a column that does not exist, none to read, or several to choose from.
    """
    types = dict(features.leaves(file.schema))
    given = (options.column, options.negative_column, options.image_column)
    if unknown := [name for name in given if name is not None and name not in types]:
        raise UserError(f"{file.path}: no column {' or '.join(unknown)}; there are", features.describe(file.schema))
    image = options.image_column or _image_column(file, types, extract=options.extract is not None)
    picture = features.is_picture(types[image])
    if options.extract is not None and not picture:
        raise UserError(f"{file.path}: extract needs a column of pictures, and {image} holds {types[image]}")
    return Columns(_label_columns(file, described, options), image, picture)


def _image_column(file: DataFile, types: Mapping[str, pa.DataType], *, extract: bool) -> str:
    pictures = [name for name, type in types.items() if features.is_picture(type)]
    usual = [name for name in types if name.casefold() in features.IMAGE_COLUMNS and name not in pictures]
    found = pictures or ([] if extract else usual)
    if len(found) > 1 and not pictures and "file_name" in found:
        found = ["file_name"]  # beside metadata.jsonl it is the name of the picture, whatever else there is
    if len(found) != 1:
        problem = f"{len(found)} columns" if found else "no column"
        raise UserError(
            f"{file.path}: {problem} with image names; name it with image_column=NAME", features.describe(file.schema)
        )
    return found[0]


def _label_columns(file: DataFile, described: Mapping[str, Any], options: HuggingFaceOptions) -> dict[str, int]:
    found = features.class_columns(file.path, file.schema, described)
    types = dict(features.leaves(file.schema))
    positive, negative = options.column, options.negative_column
    if positive is None and negative is None:
        if _POSITIVE in types:
            positive = _POSITIVE
        elif len(found) == 1:
            (positive,) = found
        else:
            problem = "more than one column has class labels" if found else "no column has class labels"
            there = [line for line in features.describe(file.schema) if not found or line.split(":")[0] in found]
            raise UserError(f"{file.path}: {problem}; name it with column=NAME", there)
    if negative is None and positive == _POSITIVE and _NEGATIVE in types:
        negative = _NEGATIVE
    if positive == negative:
        raise UserError(f"{file.path}: column and negative_column are both {positive}")
    return {name: value for name, value in ((positive, 1), (negative, -1)) if name is not None}
