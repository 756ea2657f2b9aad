"""Files of scores: written some images at a time, read some images and some classes at a time.

A file is Parquet: a row for each image with its name in ``image``; its scores in ``score``, a list in the order of the
classes, or above 64 classes in ``score_0``, ``score_64`` ..., so that a class is read without the others.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.core.records import CHECKSUM
from partlabel.core.special import refuse_special

Floats: TypeAlias = NDArray[np.float32]

#: classes in one column of a file
BLOCK = 64
#: numbers in a group of rows of a file
GROUP = 2**22
#: numbers that are read at once where groups are smaller, as with few classes
_AT_ONCE = 2**20
#: open files of which it is remembered where everything lies: at 10,000 classes some MB each
_REMEMBERED = 16
_CHECKSUM = CHECKSUM.encode()


class ScoreFile:
    """One file of scores.

    Attributes:
        path: the file.
        num_images: its rows.
        classes: C names; those of files that follow each other are the same object.
        about: what else was written of the model, as plain values.
        checksum: of the scores, where there is one, else empty.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read what the file is.

        Raises:
            UserError: it is missing, cut, or no file of scores.
        """
        self.path = Path(path)
        refuse_special(path)
        try:
            found = self._footer()
            schema = found.schema.to_arrow_schema()
            self.num_images = found.num_rows
            self._groups = [found.row_group(i).num_rows for i in range(found.num_row_groups)]
            self.about: dict[str, Any] = {
                key.decode(): json.loads(value)
                for key, value in (found.metadata or {}).items()
                if key not in (b"ARROW:schema", b"pandas", b"classes", _CHECKSUM)
            }
            self.checksum = (found.metadata or {}).get(_CHECKSUM, b"").decode("ascii", "replace")
            self.classes = _classes((found.metadata or {})[b"classes"])
            named = [name for name in schema.names if name == "score" or name.startswith("score_")]
            kinds = [schema.field(name).type for name in named]
            widths = [-1 if pa.types.is_list(kind) else kind.list_size for kind in kinds]
        except (OSError, pa.ArrowInvalid, KeyError, ValueError, TypeError, AttributeError) as error:
            raise UserError(f"{path}: is no whole file of scores of all classes") from error
        if -1 in widths:
            raise UserError(
                f"{path}: holds the scores of some classes of each image; all are needed, which partlabel predict "
                "--dense writes"
            )
        self._start = np.concatenate([[0], np.cumsum(self._groups)]).astype(np.int64)
        self._columns = dict(zip(np.cumsum([0, *widths])[:-1].tolist(), zip(named, widths, strict=True), strict=True))
        if sum(widths) != len(self.classes):
            raise UserError(f"{path}: holds {sum(widths)} scores of each image for {len(self.classes)} classes")

    def _footer(self) -> pq.FileMetaData:
        """Where everything lies in the file; reading that takes longer than reading a column."""
        about = os.stat(self.path)
        facts = (about.st_ino, about.st_mtime_ns, about.st_size)
        held = _footers.get(self)
        if held is not None and held[0] == facts:
            return held[1]
        found = pq.read_metadata(self.path)
        if held is not None or len(_footers) < _REMEMBERED:  # the first ones: all are read in turn, again and again
            _footers[self] = facts, found
        return found

    def column(self, name: str) -> pa.Array:
        """Return a column of the file, such as ``image``."""
        return pq.read_table(self.path, columns=[name])[name].combine_chunks()

    def read(self, rows: NDArray[np.int64], low: int, high: int) -> Iterator[tuple[NDArray[np.int64], Floats]]:
        """Give some rows (sorted; they may repeat), some at a time: positions in ``rows``, and scores of classes."""
        wanted = {
            first: (name, width)
            for first, (name, width) in self._columns.items()
            if first < high and low < first + width
        }
        names = [name for name, _ in wanted.values()]
        if not names:
            yield np.arange(len(rows)), np.empty((len(rows), 0), np.float32)
            return
        begin, width = min(wanted), sum(width for _, width in wanted.values())
        with pq.ParquetFile(self.path, metadata=self._footer()) as file:
            for groups, first, last in self._together(rows, width):
                table = file.read_row_groups(groups, columns=names, use_threads=len(names) > 1)
                if len(wanted) == 1:
                    values = _floats(table[names[0]], width)
                else:
                    values = np.empty((len(table), width), np.float32)
                    for at, (name, own) in wanted.items():
                        values[:, at - begin : at - begin + own] = _floats(table[name], own)
                del table
                inside = as_slice(rows[first:last] - self._start[groups[0]])
                yield np.arange(first, last), values[inside, low - begin : high - begin]

    def _together(self, rows: NDArray[np.int64], width: int) -> Iterator[tuple[list[int], int, int]]:
        """Groups that follow each other and are read at once, and which of the rows (sorted) lie in them."""
        edges = np.searchsorted(rows, self._start)
        groups: list[int] = []
        for group in np.flatnonzero(np.diff(edges)).tolist():
            if groups and (
                group > groups[-1] + 1 or (self._start[group + 1] - self._start[groups[0]]) * width > _AT_ONCE
            ):
                yield groups, int(edges[groups[0]]), int(edges[groups[-1] + 1])
                groups = []
            groups.append(group)
        if groups:
            yield groups, int(edges[groups[0]]), int(edges[groups[-1] + 1])


#: while a file is in use: its inode, time and size, and where everything lies in it
_footers: WeakKeyDictionary[ScoreFile, tuple[tuple[int, ...], pq.FileMetaData]] = WeakKeyDictionary()


@lru_cache(maxsize=1)
def _classes(text: bytes) -> tuple[str, ...]:
    return tuple(json.loads(text))


def as_slice(rows: NDArray[np.int64]) -> slice | NDArray[np.int64]:
    """Numbers that rise by one as a slice, which is read and written without a copy; others as they are."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


def _floats(column: pa.ChunkedArray, width: int) -> Floats:
    flat = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in column.chunks]
    return np.concatenate(flat).astype(np.float32, copy=False).reshape(-1, width)  # a copy, as Arrow's is read-only


class ScoreWriter:
    """Writes one file of scores, some images at a time; use it inside :func:`partlabel.core.files.replacing`.

    Args:
        path: the file.
        classes: C names.
        about: more to say of it, as plain values.
        columns: names and types of further columns.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        classes: Sequence[str],
        about: Mapping[str, Any] | None = None,
        columns: Mapping[str, pa.DataType] | None = None,
    ) -> None:
        count = len(classes)
        firsts = range(0, max(count, 1), BLOCK)
        self._blocks = {
            ("score" if count <= BLOCK else f"score_{low}"): (low, min(low + BLOCK, count)) for low in firsts
        }
        lists = [(name, pa.list_(pa.float32(), high - low)) for name, (low, high) in self._blocks.items()]
        notes = {"classes": list(classes), **(about or {})}
        self._schema = pa.schema([("image", pa.string()), *(columns or {}).items(), *lists]).with_metadata(
            {key: json.dumps(value, ensure_ascii=False) for key, value in notes.items()}
        )
        self._file = pq.ParquetWriter(
            path, self._schema, compression="none", use_dictionary=False, write_statistics=False
        )
        self._rows = max(1, GROUP // max(count, 1))
        self._waiting: list[tuple[dict[str, pa.Array], Floats]] = []
        self._count = 0

    def add(self, images: Sequence[str] | pa.Array, scores: NDArray[np.floating], **columns: pa.Array) -> None:
        """Add images (n,) with their scores (n, C) and what else is said of each."""
        names = images if isinstance(images, pa.Array) else pa.array(list(images), pa.string())
        self._waiting.append(({"image": names, **columns}, np.asarray(scores, np.float32)))
        self._count += len(scores)
        if self._count >= self._rows:
            self._write()

    def _write(self) -> None:
        if not self._count:  # a batch may hold no image
            return
        scores = np.concatenate([values for _, values in self._waiting])
        made = {
            field: pa.concat_arrays([columns[field] for columns, _ in self._waiting]) for field in self._waiting[0][0]
        }
        for name, (low, high) in self._blocks.items():
            flat = pa.array(np.ascontiguousarray(scores[:, low:high]).reshape(-1))
            made[name] = pa.FixedSizeListArray.from_arrays(flat, high - low)
        rows = -(-len(scores) // max(1, len(scores) // self._rows))  # even groups: no small ones in between
        self._file.write_table(pa.table(made, schema=self._schema), row_group_size=rows)
        self._waiting, self._count = [], 0

    def seal(self, checksum: str) -> None:
        """Say the checksum of all scores, once they were added."""
        self._file.add_key_value_metadata({_CHECKSUM: checksum.encode()})

    def __enter__(self) -> ScoreWriter:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self._write()
            self._file.close()
        else:
            self.close()

    def close(self) -> None:
        """Close the file, whatever is in it, and whatever went wrong before, which is what is said."""
        with suppress(Exception):
            self._file.close()
