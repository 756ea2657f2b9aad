"""The files of a data set: which are read, of which splits, and batches of some columns of each.

The bytes of images are not loaded unless their column is asked for.
"""

from __future__ import annotations

import codecs
import os
import re
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq

from partlabel.core.errors import UserError
from partlabel.core.trouble import plainly
from partlabel.formats.reading import load_json
from partlabel.formats.report import plural

_PART = re.compile(r"(?P<split>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?:-[0-9a-f]+)?")
_ENDINGS = (".parquet", ".arrow", ".jsonl")
_ROWS = 8192
#: what Parquet puts between a list and its items in the path of a column
_LIST_STEPS = re.compile(r"\.(list|bag)\.(element|item|array_element)")
_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
#: what Prodigy writes as the answer to a question
_ANSWERS = {"accept", "reject", "ignore"}


class _DataFile(msgspec.Struct):
    filename: str


class State(msgspec.Struct):
    """The ``state.json`` of ``Dataset.save_to_disk``."""

    data_files: list[_DataFile] = msgspec.field(name="_data_files")


class Splits(msgspec.Struct):
    """The ``dataset_dict.json`` of ``DatasetDict.save_to_disk``."""

    splits: list[str]


def find_files(path: str, wanted: Sequence[str] | None) -> list[str]:
    """Return the files of a data set, in order.

    Args:
        path: a file, or a folder: of ``save_to_disk``, with Parquet files, or with ``metadata.jsonl``.
        wanted: names of splits.

    Raises:
        UserError: a folder without such files, with several splits while ``wanted`` is not given, without a wanted
            split, or where parts of a split are missing.
    """
    if not os.path.isdir(path):
        if path.endswith(".csv"):
            raise UserError(f"{path}: a CSV file is read with the format csv, and image_column=file_name")
        return [path]
    if os.path.isfile(os.path.join(path, "state.json")):
        return _saved(path)
    table = os.path.join(path, "dataset_dict.json")
    if os.path.isfile(table):
        names = load_json(table, Splits, "a dataset_dict.json").splits
        folders = {name: [_inside(path, name, table)] for name in names}
        return [file for folder in _choose(path, folders, wanted) for file in _saved(folder)]
    splits = _by_split(path)
    if not splits:
        tables = [name for name in sorted(os.listdir(path)) if name == "metadata.csv"]
        hint = "; metadata.csv is read with the format csv, and image_column=file_name" if tables else ""
        raise UserError(f"{path}: the folder has no state.json, no Parquet or Arrow file and no metadata.jsonl{hint}")
    return _choose(path, splits, wanted)


def _saved(folder: str) -> list[str]:
    """Return the Arrow files of a folder of ``save_to_disk``."""
    state = os.path.join(folder, "state.json")
    content = load_json(state, State, "a state.json of a saved data set")
    files = [_inside(folder, entry.filename, state) for entry in content.data_files]
    if lost := [file for file in files if not os.path.isfile(file)]:
        raise UserError(f"{folder}: {plural(len(lost), 'file')} of the data set missing", lost)
    return files


def _inside(folder: str, name: str, source: str) -> str:
    """Return the path of a file or folder that a data set names; it lies directly in its folder."""
    if name in ("", ".", "..") or os.path.basename(name) != name or "\0" in name:
        raise UserError(f"{source}: names a file outside its folder", [name])
    return os.path.join(folder, name)


def _by_split(folder: str) -> dict[str, list[str]]:
    """Return the data files below a folder, by split: the name before ``-00000-of-00002``, or that of their folder."""
    found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    counts: dict[tuple[str, str], int] = {}
    for parent, folders, names in os.walk(folder):
        folders.sort()
        where = "" if parent == folder else os.path.relpath(parent, folder).replace(os.sep, "/")
        for name in sorted(names):
            stem, ending = os.path.splitext(name)
            if ending not in _ENDINGS or (ending == ".jsonl" and stem != "metadata"):
                continue
            if part := _PART.fullmatch(stem):
                key = (where, part["split"])
                counts[key] = int(part["count"])
            else:
                key = (where, "") if stem.isdigit() or stem == "metadata" else (where, stem)
            found[key].append(os.path.join(parent, name))
    splits = {"/".join(filter(None, key)): files for key, files in found.items()}
    lost = [
        f"{os.path.join(*key)}: {len(found[key])} of {count} files"
        for key, count in counts.items()
        if len(found[key]) != count
    ]
    if lost:
        raise UserError(f"{folder}: files of the data set are missing, or there are files of another version", lost)
    places = {where for where, split in found if split}
    if len(places) == 1 and len(found) == len({split for _, split in found}):
        return {split: files for (_, split), files in found.items()}
    return splits


def _choose(folder: str, splits: Mapping[str, list[Any]], wanted: Sequence[str] | None) -> list[str]:
    there = [name or "(no name)" for name in splits]
    if wanted is None:
        if len(splits) != 1:
            raise UserError(f"{folder}: {plural(len(splits), 'split')} to choose from, as in split=NAME", there)
        wanted = list(splits)
    if unknown := [name for name in wanted if name not in splits]:
        raise UserError(f"{folder}: no split {' or '.join(unknown)}; there are", there)
    return [file for name in wanted for file in splits[name]]


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
        row = re.search(r" in row \d+", str(error))  # of JSON, counted from 0
        raise UserError(f"{path}: cannot be read, or is cut or damaged{row[0] if row else ''}") from error


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
        _names(opened.schema)  # names that are not UTF-8 show only now
    return opened


def _names(fields: Any) -> list[Any]:
    """Read the names of all columns, and of those inside them."""
    return [(field.name, _names(field.type.field(i) for i in range(field.type.num_fields))) for field in fields]


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

    if "answer" in table.column_names and set(table["answer"].unique().to_pylist()) <= _ANSWERS:
        raise UserError(f"{path}: answers of Prodigy (accept, reject, ignore); read them with the format manifest")

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
                wrong.append(f"{path}:{number} {plainly(error)}")
    if wrong:
        raise UserError(f"{path}: {plural(len(wrong), 'line')} without a JSON object", wrong)


def _without_times(type: pa.DataType) -> pa.DataType:
    if pa.types.is_list(type):
        return pa.list_(_without_times(type.value_type))
    if pa.types.is_struct(type):
        return pa.struct([pa.field(field.name, _without_times(field.type)) for field in type])
    return pa.string() if pa.types.is_timestamp(type) else type
