"""Batches of some columns of a data file, without the rest: the bytes of pictures are not loaded."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.formats.huggingface.features import is_list, is_text, leaves
from partlabel.formats.report import plural

_ROWS = 8192
#: what Parquet puts between a list and its items in the path of a column
_LIST_STEPS = re.compile(r"\.(list|bag)\.(element|item|array_element)")
_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"


@dataclass
class DataFile:
    """A Parquet or Arrow file, or one of JSON lines.

    Attributes:
        path: of the file.
        kind: in words.
        schema: its columns.
        read: columns -> batches that hold at least these; ``a.b`` is the column b inside a.
    """

    path: str
    kind: str
    schema: pa.Schema
    read: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches with the named columns.

        Raises:
            UserError: the file is cut or damaged.
        """
        with _named(self.path):
            for batch in self.read(columns):
                batch.validate(full=True)  # wrong offsets would end the process later on
                yield batch

    def place(self, row: int) -> str:
        """Return where a row is, for people."""
        return f"{self.path}: row {row + 1}"


@contextmanager
def _named(path: str) -> Generator[None]:
    """Turn the errors of pyarrow into errors that name the file."""
    try:
        yield
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        if isinstance(error, UserError):
            raise
        reason = str(error).split("\n")[0] or type(error).__name__
        raise UserError(f"{path}: cannot be read, or is cut or damaged ({reason})") from error


def open_file(path: str) -> DataFile:
    """Open a file; what it is is told by its first bytes.

    Raises:
        UserError: it cannot be read or is of another kind.
    """
    with _named(path):
        with open(path, "rb") as file:
            start = file.read(8)
            size = file.seek(0, 2)
            file.seek(max(size - len(_END_OF_STREAM), 0))
            end = file.read()
        if start.startswith(b"\xff\xff\xff\xff") and end != _END_OF_STREAM:
            raise UserError(f"{path}: the file is cut: its end mark is missing")
        opened = _open(path, start)
        list(leaves(opened.schema))  # names of columns that are not UTF-8 show only now
    return opened


def _open(path: str, start: bytes) -> DataFile:
    if start.startswith(b"PAR1"):
        return _open_parquet(path)
    if start == b"ARROW1\0\0":
        return _open_arrow(path, lambda source, options: pa.ipc.open_file(source, options=options))
    if start.startswith(b"\xff\xff\xff\xff"):
        return _open_arrow(path, lambda source, options: pa.ipc.open_stream(source, options=options))
    if path.endswith((".jsonl", ".json", ".ndjson")):
        return _open_json_lines(path)
    raise UserError(f"{path}: neither a Parquet or Arrow file nor JSON lines (metadata.jsonl)")


def _open_parquet(path: str) -> DataFile:
    file = pq.ParquetFile(path, memory_map=True)

    paths = [file.schema.column(i).path for i in range(len(file.schema))]
    plain = [_LIST_STEPS.sub("", leaf) for leaf in paths]

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        below = tuple(f"{column}." for column in columns)
        wanted = [leaf for leaf, name in zip(paths, plain, strict=True) if name in columns or name.startswith(below)]
        yield from file.iter_batches(_ROWS, columns=wanted)

    return DataFile(path, "Parquet", file.schema_arrow, read)


def _open_arrow(path: str, opened: Callable[[pa.NativeFile, pa.ipc.IpcReadOptions], object]) -> DataFile:
    schema = opened(pa.memory_map(path), pa.ipc.IpcReadOptions()).schema  # type: ignore[attr-defined]

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = {column if column in schema.names else column.split(".")[0] for column in columns}
        fields = [i for i, name in enumerate(schema.names) if name in wanted]
        reader = opened(pa.memory_map(path), pa.ipc.IpcReadOptions(included_fields=fields))
        if isinstance(reader, pa.RecordBatchFileReader):
            yield from (reader.get_batch(i) for i in range(reader.num_record_batches))
        else:
            yield from reader  # type: ignore[misc]

    return DataFile(path, "Arrow", schema, read)


def _open_json_lines(path: str) -> DataFile:
    _check_lines(path)
    table = pj.read_json(path)
    plain = pa.schema([pa.field(field.name, _without_times(field.type)) for field in table.schema])
    if plain != table.schema:  # a text that looks like a time stays a text
        table = pj.read_json(path, parse_options=pj.ParseOptions(explicit_schema=plain))

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from table.to_batches(_ROWS)

    return DataFile(path, "JSON lines", table.schema, read)


def _check_lines(path: str) -> None:
    """Refuse lines that are no JSON object; pyarrow names no line, and crashes at a line such as ``null``."""
    decoder = msgspec.json.Decoder(dict[str, Any])
    wrong = []
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            content = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            try:
                if content.strip():
                    decoder.decode(content)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                wrong.append(f"{path}:{number} {error}")
    if wrong:
        raise UserError(f"{path}: {plural(len(wrong), 'line')} without a JSON object", wrong)


def _without_times(type: pa.DataType) -> pa.DataType:
    if is_list(type):
        return pa.list_(_without_times(type.value_type))
    if pa.types.is_struct(type):
        return pa.struct([pa.field(field.name, _without_times(field.type)) for field in type])
    return pa.string() if pa.types.is_timestamp(type) else type


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
