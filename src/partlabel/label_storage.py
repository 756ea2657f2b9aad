"""The label table as a Parquet file whose list columns are the CSR arrays."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from partlabel.errors import UserError
from partlabel.label_names import one_chunk
from partlabel.storage import replacing

if TYPE_CHECKING:
    from partlabel.labels import LabelTable

VERSION = 1
KEY = b"partlabel"
#: column of the file -> field of the table and type of its values
LISTS = {
    "classes": ("indices", pa.int32()),
    "labels": ("values", pa.int8()),
    "origin": ("origin", pa.uint8()),
    "score": ("score", pa.float32()),
    "round": ("round", pa.int16()),
}
REQUIRED = ("image", "classes", "labels", "origin")


def write(table: LabelTable, path: str | os.PathLike[str]) -> None:
    """Write the table, whole or not at all."""
    columns: dict[str, pa.Array] = {"image": table.images}
    offsets = pa.array(table.indptr)
    for column, (field, kind) in LISTS.items():
        values = getattr(table, field)
        if values is not None:
            columns[column] = pa.LargeListArray.from_arrays(offsets, pa.array(values, kind))
    if table.groups is not None:
        columns["group"] = table.groups
    about = {
        "version": VERSION,
        "classes": table.classes,
        "class_ids": table.class_ids,
        "coding": table.coding,
        "history": table.history,
    }
    content = pa.table(columns).replace_schema_metadata({KEY: json.dumps(about, ensure_ascii=False)})
    with replacing(path) as temporary:
        pq.write_table(content, temporary, compression="zstd", row_group_size=max(table.num_images, 1))


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the fields of the table that ``write`` wrote; little more than the table itself is in memory."""
    try:
        with pq.ParquetFile(path, memory_map=True) as file:
            about = _about(file, path)
            columns = set(file.schema_arrow.names)
            fields: dict[str, Any] = {}
            for column, (field, kind) in LISTS.items():
                if column in columns:
                    indptr, fields[field] = _list_column(file, column, kind, path)
                    if not np.array_equal(fields.setdefault("indptr", indptr), indptr):
                        raise UserError(f"{path}: the lists of the columns classes and {column} differ in length")
            fields["images"] = one_chunk(file.read(["image"]).column(0))
            fields["groups"] = one_chunk(file.read(["group"]).column(0)) if "group" in columns else None
        return {**fields, **about}
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path}: not a readable Parquet file; it may be cut or of another kind") from error


def _about(file: pq.ParquetFile, path: Any) -> dict[str, Any]:
    """Return classes, ids, coding and history."""
    schema = file.schema_arrow
    text = (schema.metadata or {}).get(KEY)
    if text is None or any(name not in schema.names for name in REQUIRED):
        raise UserError(f"{path}: a Parquet file, but not a label table that partlabel wrote")
    try:
        about = json.loads(text)
        version, classes, ids = about["version"], about["classes"], about["class_ids"]
        result = {"coding": about["coding"], "history": tuple(about["history"])}
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: the description of the label table inside the file is damaged") from error
    if version != VERSION:
        raise UserError(f"{path}: written by a newer partlabel (table version {version}, known: {VERSION})")
    return {"classes": tuple(classes), "class_ids": None if ids is None else tuple(ids), **result}


def _list_column(file: pq.ParquetFile, name: str, kind: pa.DataType, path: Any) -> tuple[NDArray[np.int64], NDArray]:
    """Return the row pointers and the values of a list column, without a copy where the file has one row group."""
    lists = one_chunk(file.read([name]).column(0))
    if not isinstance(lists, pa.LargeListArray | pa.ListArray) or lists.type.value_type != kind or lists.null_count:
        raise UserError(f"{path}: the column {name} is {lists.type}, expected a list of {kind} in each row")
    values = lists.flatten()
    if values.null_count:
        raise UserError(f"{path}: the column {name} has lists with missing values")
    offsets = lists.offsets.to_numpy().astype(np.int64, copy=False)
    return offsets - offsets[0] if offsets[0] else offsets, values.to_numpy()
