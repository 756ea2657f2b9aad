"""What the columns of a data set hold: the names behind class numbers, pictures, and columns inside columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from partlabel.core.errors import UserError

#: usual names of columns with image names, and of columns with class names as text, lower case
IMAGE_COLUMNS = ("file_name", "filename", "image", "image_id", "image_path", "path", "file")
TEXT_COLUMNS = ("labels", "label", "tags", "classes", "class", "categories", "category")


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
        raise UserError(f"{path}: the metadata of the columns cannot be read ({error})") from None
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
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
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
    if pa.types.is_struct(type) and not is_picture(type):
        for field in type:
            yield from _leaves(f"{name}.{field.name}", field.type)
    else:
        yield name, type


def is_list(type: pa.DataType) -> bool:
    """Tell whether a column holds lists."""
    return pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_fixed_size_list(type)


def is_picture(type: pa.DataType) -> bool:
    """Tell whether a column holds pictures as ``datasets`` stores them: the bytes, and the path of the file."""
    return pa.types.is_struct(type) and {field.name for field in type} == {"bytes", "path"}


def is_text(type: pa.DataType) -> bool:
    """Tell whether a column holds text."""
    return pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type)


def class_columns(path: str, schema: pa.Schema, features: Mapping[str, Any]) -> list[str]:
    """Return the columns with class labels; if there is none, columns of text with a usual name."""
    columns = list(leaves(schema))
    found = [name for name, _ in columns if class_names(path, features, name) is not None]
    return found or [name for name, type in columns if name.casefold() in TEXT_COLUMNS and is_text(type)]


def describe(schema: pa.Schema) -> list[str]:
    """Return each column with its type, for an error."""
    return [f"{name}: {'picture' if is_picture(type) else type}" for name, type in leaves(schema)]
