"""Which columns of a data set are read, what they hold, and the entries of a column in a batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.formats.huggingface.files import DataFile
from partlabel.formats.record_options import choose_signs

#: usual names of columns with image names, and of columns with classes, lower case
IMAGE_COLUMNS = ("file_name", "filename", "image", "image_id", "image_path", "path", "file")
LABEL_COLUMNS = ("labels", "label", "tags", "classes", "class", "categories", "category")


@dataclass(frozen=True)
class Columns:
    """The columns that are read.

    Attributes:
        labels: column -> +1 where it lists present classes, -1 where it lists absent ones.
        image: column with the image names; with images, the image.
        is_image: whether the image column holds images, with their file names.
    """

    labels: Mapping[str, int]
    image: str
    is_image: bool

    @property
    def names(self) -> str:
        """The column that holds the image names themselves."""
        return f"{self.image}.path" if self.is_image else self.image


def choose(file: DataFile, features: Mapping[str, Any], options: Any) -> Columns:
    """Choose the columns by the options, and by what the columns hold.

    Args:
        file: the first file.
        features: as ``read_features`` gives them.
        options: of the format.

    Raises:
        UserError: a column that does not exist, none to read, or several to choose from.
    """
    types = dict(leaves(file.schema))
    given = (options.column, options.negative_column, options.image_column)
    if unknown := [name for name in given if name is not None and name not in types]:
        raise UserError(f"{file.path}: no column {' or '.join(unknown)}; there are", describe(file.schema))
    image = options.image_column or _image_column(file, types, extract=options.extract is not None)
    if options.extract is not None and not is_image(types[image]):
        raise UserError(f"{file.path}: extract needs a column of images, and {image} holds {types[image]}")
    found = [name for name in types if class_names(file.path, features, name) is not None]
    usual = [name for name in types if name.casefold() in LABEL_COLUMNS]
    found = found or [name for name in usual if is_text(types[name]) or holds_lists_of_numbers(file.schema, name)]
    there = [line for line in describe(file.schema) if not found or line.split(":")[0] in found]
    signs = choose_signs(file.path, found, list(types), (options.column, options.negative_column), there, "column")
    return Columns(signs, image, is_image(types[image]))


def _image_column(file: DataFile, types: Mapping[str, pa.DataType], *, extract: bool) -> str:
    images = [name for name, type in types.items() if is_image(type)]
    found = images or ([] if extract else [name for name in types if name.casefold() in IMAGE_COLUMNS])
    if len(found) > 1 and not images and "file_name" in found:
        found = ["file_name"]  # beside metadata.jsonl it is the name of the image, whatever else there is
    if len(found) != 1:
        problem = f"{len(found)} columns" if found else "no column"
        raise UserError(
            f"{file.path}: {problem} with image names; name it with image_column=NAME", describe(file.schema)
        )
    return found[0]


class _Info(msgspec.Struct):
    features: dict[str, Any] | None = None


class _Metadata(msgspec.Struct):
    info: _Info | None = None


def read_features(path: str, schema: pa.Schema) -> dict[str, Any]:
    """Return the ``features`` that the ``datasets`` library wrote into the schema of a file; empty where it did not.

    Raises:
        UserError: the metadata is there and cannot be read.
    """
    content = (schema.metadata or {}).get(b"huggingface")
    if content is None:
        return {}
    try:
        metadata = msgspec.json.decode(content, type=_Metadata)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: the metadata of the columns cannot be read") from error
    return (metadata.info and metadata.info.features) or {}


def class_names(path: str, features: Mapping[str, Any], column: str) -> list[str] | None:
    """Return the names behind the class numbers of a column; None where the data set does not say.

    Raises:
        UserError: names that are no text.
    """
    node: Any = features
    for name in column.split("."):
        node = _item(node)
        node = node.get(name) if isinstance(node, Mapping) else None
    node = _item(node)
    names = node.get("names") if isinstance(node, Mapping) and node.get("_type") == "ClassLabel" else None
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise UserError(f"{path}: the class names of {column} are no list of texts", [repr(names)[:200]])
    return names


def _item(node: Any) -> Any:
    """Return the feature inside a list of any kind: ``List``, ``LargeList``, ``Sequence``, or ``[feature]``."""
    while True:
        if isinstance(node, list) and len(node) == 1:
            node = node[0]
        elif isinstance(node, Mapping) and node.get("_type") in ("List", "LargeList", "Sequence") and "feature" in node:
            node = node["feature"]
        else:
            return node


def leaves(schema: pa.Schema) -> Iterator[tuple[str, pa.DataType]]:
    """Yield each column that is no list or struct, named as in ``objects.category``, with the type of its items."""
    for field in schema:
        yield from _leaves(field.name, field.type)


def _leaves(name: str, type: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    while is_list(type):
        type = type.value_type
    if pa.types.is_struct(type) and not is_image(type):
        for field in type:
            yield from _leaves(f"{name}.{field.name}", field.type)
    else:
        yield name, type


def is_list(type: pa.DataType) -> bool:
    """Tell whether a column holds lists."""
    return pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_fixed_size_list(type)


def is_image(type: pa.DataType) -> bool:
    """Tell whether a column holds images as ``datasets`` stores them: the bytes, and the path of the file."""
    return pa.types.is_struct(type) and {field.name for field in type} == {"bytes", "path"}


def is_text(type: pa.DataType) -> bool:
    """Tell whether a column holds text."""
    return pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type)


def describe(schema: pa.Schema) -> list[str]:
    """Return each column with its type, for an error."""
    return [f"{name}: {'image' if is_image(type) else type}" for name, type in leaves(schema)]


def holds_lists_of_numbers(schema: pa.Schema, column: str) -> bool:
    """Tell whether a column, which is in no other, holds lists of numbers."""
    type = schema.field(column).type if column in schema.names else pa.null()
    if not is_list(type):
        return False
    item = type.value_type
    return pa.types.is_integer(item) or pa.types.is_floating(item) or pa.types.is_boolean(item)


@dataclass
class Cells:
    """The entries of one column in a batch of R rows.

    Attributes:
        valid: bool (R,), False where a row holds null instead of an entry or a list.
        row: int64 (M,) row of each entry, ascending.
        values: (M,) the entries, null where a list holds null.
    """

    valid: NDArray[np.bool_]
    row: NDArray[np.int64]
    values: pa.Array


def cells(batch: pa.RecordBatch, column: str) -> Cells:
    """Return the entries of a column, taken out of all lists that they are in."""
    names = [column] if column in batch.schema.names else column.split(".")
    array = batch.column(names[0])
    row, valid, in_list = np.arange(len(array)), np.ones(len(array), bool), False
    for name in [*names[1:], None]:
        while True:
            if array.null_count and not in_list:  # null among the entries of a list says nothing about the row
                valid &= array.is_valid().to_numpy(zero_copy_only=False)
            if not is_list(array.type):
                break
            count = pc.call_function("list_value_length", [array]).fill_null(0).to_numpy(zero_copy_only=False)
            row, array, in_list = np.repeat(row, count), pc.call_function("list_flatten", [array]), True
        if name is not None:
            array = pc.call_function("struct_field", [array], pc.StructFieldOptions([name]))
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return Cells(valid, row, array.cast(pa.string()) if is_text(array.type) else array)
