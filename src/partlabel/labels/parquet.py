"""The label table as a Parquet file whose list columns are the CSR arrays, one row for each image."""

from __future__ import annotations

import json
import os
import zlib
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.core.files import replacing
from partlabel.core.special import refuse_special
from partlabel.core.text import not_imported
from partlabel.labels.arrays import LabelArrays
from partlabel.labels.names import buffers, one_chunk

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
ROWS = 65_536  # images in a row group: what the decoder holds beside the table while reading
_FIELDS = ("indptr", *(field for field, _ in LISTS.values()))
REQUIRED = ("image", "classes", "labels", "origin")


def write(table: LabelArrays, path: str | os.PathLike[str]) -> None:
    """Write the table, whole or not at all."""
    fields, columns = [pa.field("image", pa.string(), nullable=False)], [table.images]
    for column, (field, kind) in LISTS.items():
        values = getattr(table, field)
        if values is not None:
            lists = pa.large_list(pa.field("element", kind, nullable=False))
            columns.append(pa.LargeListArray.from_arrays(pa.array(table.indptr), pa.array(values, kind), type=lists))
            fields.append(pa.field(column, lists, nullable=False))
    if table.groups is not None:
        columns.append(table.groups)
        fields.append(pa.field("group", pa.string()))
    about = {
        "version": VERSION,
        "classes": table.classes,
        "class_ids": table.class_ids,
        "coding": table.coding,
        "history": table.history,
    }
    about["checksum"] = _checksum(table.images, table.groups, {f: getattr(table, f) for f in _FIELDS}, about)
    content = pa.Table.from_arrays(columns, schema=pa.schema(fields, {KEY: json.dumps(about, ensure_ascii=False)}))
    coded = [f"{column}.list.element" for column in LISTS if column != "score"] + ["group"]  # few values: a dictionary
    with replacing(path) as temporary:
        pq.write_table(content, temporary, compression="zstd", row_group_size=ROWS, use_dictionary=coded)


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the fields of the table that ``write`` wrote.

    The row groups are decoded one after the other, and names before labels, so that at no moment much more than the
    table itself is in memory.

    Raises:
        UserError: no such file, cut or foreign file, lists that are not parallel.
    """
    refuse_special(path)
    try:
        with pq.ParquetFile(path) as file:
            about = _about(file, path)
            names = file.schema_arrow.names
            images = _texts(file, "image")
            groups = _texts(file, "group") if "group" in names else None
            arrays = _Arrays(file, [column for column in LISTS if column in names], path)
            for group in range(file.num_row_groups):
                arrays.append(group)
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except UserError:
        raise
    except (pa.ArrowException, OSError, ValueError, LookupError, OverflowError, MemoryError) as error:
        raise UserError(f"{path}: {_instead(str(path))}") from error
    fields, stored = arrays.fields(), about.pop("checksum")
    if stored is not None and stored != _checksum(images, groups, fields, about):
        raise UserError(f"{path}: its content does not fit its check sum: damaged, or changed by another program")
    pa.default_memory_pool().release_unused()
    return {"images": images, "groups": groups, **fields, **about}


def _checksum(
    images: pa.StringArray, groups: pa.StringArray | None, fields: dict[str, Any], about: dict[str, Any]
) -> int:
    """CRC-32 of all that a table holds, so that a bit that flipped on disk is not read as another label.

    Args:
        images: (N,) names.
        groups: (N,), or None.
        fields: arrays by the names of the table's fields; those that are None or missing are left out.
        about: classes, ids, coding and history.
    """
    described = [about["classes"], about["class_ids"], about["coding"], about["history"]]
    found = zlib.crc32(json.dumps(described, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    for names in (images, groups):
        if names is not None:
            offsets, text = buffers(names.fill_null(""))
            lengths = np.diff(offsets).astype(np.int64)
            if names.null_count:
                lengths[names.is_null().to_numpy(zero_copy_only=False)] = -1
            found = zlib.crc32(text[offsets[0] : offsets[-1]].data, zlib.crc32(lengths.data, found))
    for name in _FIELDS:
        if fields.get(name) is not None:
            kind = np.int64 if name == "indptr" else dict(LISTS.values())[name].to_pandas_dtype()
            found = zlib.crc32(np.ascontiguousarray(fields[name], kind).data, zlib.crc32(name.encode(), found))
    return found


def _instead(path: str) -> str:
    """What to do with a file that is no Parquet file."""
    return not_imported(path) or "not a readable Parquet file; it may be cut, damaged or of another kind"


def _about(file: pq.ParquetFile, path: Any) -> dict[str, Any]:
    """Return classes, ids, coding and history."""
    schema = file.schema_arrow
    text = (schema.metadata or {}).get(KEY)
    if text is None or any(name not in schema.names for name in REQUIRED):
        raise UserError(f"{path}: a Parquet file, but not a label table that partlabel wrote")
    try:
        # by Python's reader, which takes surrogates in names
        about = json.loads(text)
        version = about["version"]
        if version != VERSION and isinstance(version, int):
            raise UserError(f"{path}: written by a newer partlabel (table version {version}, known: {VERSION})")
        return msgspec.structs.asdict(msgspec.convert(about, _About))
    except UserError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError, msgspec.ValidationError) as error:
        raise UserError(f"{path}: the description of the label table inside the file is damaged") from error


class _About(msgspec.Struct):
    """What the description of a table holds."""

    classes: tuple[str, ...]
    class_ids: tuple[str, ...] | None
    coding: str
    history: tuple[dict[str, Any], ...]
    checksum: int | None = None


def _texts(file: pq.ParquetFile, name: str) -> pa.StringArray:
    groups = [one_chunk(file.read_row_group(group, [name]).column(0)) for group in range(file.num_row_groups)]
    return pa.concat_arrays(groups).cast(pa.string()) if groups else pa.array([], pa.string())


class _Arrays:
    """The CSR arrays, gathered from one row group after the other.

    How many labels there are is not asked of the metadata of the columns: where those are damaged, pyarrow ends the
    process.
    """

    def __init__(self, file: pq.ParquetFile, columns: list[str], path: Any) -> None:
        self.file, self.columns, self.path = file, columns, path
        for column in columns:
            kind = file.schema_arrow.field(column).type
            if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or kind.value_type != LISTS[column][1]:
                raise UserError(f"{path}: the column {column} is {kind}, expected a list of {LISTS[column][1]}")
        self.parts: dict[str, list[NDArray[Any]]] = {column: [] for column in columns}
        self.indptr = [np.zeros(1, np.int64)]
        self.known = 0

    def append(self, group: int) -> None:
        """Add the labels of a row group."""
        rows = self.file.read_row_group(group, self.columns, use_threads=False)
        pointer = None
        for column in self.columns:
            lists = one_chunk(rows.column(column))
            values = lists.flatten()
            if lists.null_count or values.null_count:
                raise UserError(f"{self.path}: the column {column} has missing values")
            offsets = lists.offsets.to_numpy().astype(np.int64) - lists.offsets[0].as_py()
            if pointer is not None and not np.array_equal(pointer, offsets):
                raise UserError(f"{self.path}: the lists of the columns classes and {column} differ in length")
            pointer = offsets
            self.parts[column].append(np.array(values.to_numpy()))
        if pointer is not None:
            self.indptr.append(pointer[1:] + self.known)
            self.known += int(pointer[-1])

    def fields(self) -> dict[str, NDArray[Any]]:
        """Return the arrays under the names of the table's fields."""
        found = {"indptr": np.concatenate(self.indptr)}
        while self.parts:  # one column after the other, so that only one is there twice at any moment
            column, parts = self.parts.popitem()
            field, kind = LISTS[column]
            found[field] = np.concatenate([np.empty(0, kind.to_pandas_dtype()), *parts])
        return found
