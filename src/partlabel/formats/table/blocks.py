"""A delimited file without quotes, read in blocks of whole lines by several threads."""

from __future__ import annotations

import mmap
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa
from pyarrow import csv as arrow_csv

from partlabel.formats.reading import advance

BLOCK_BYTES = 8 << 20
#: what bounds the memory on a machine with many cores
_MOST_THREADS = 8
TEXT = pa.dictionary(pa.int32(), pa.string())


def read_blocks(
    path: str, names: Sequence[str], wanted: Sequence[str], separator: str
) -> Iterator[list[pa.DictionaryArray]]:
    """Yield the wanted columns of each block, dictionary-encoded text, in the order of the file.

    pyarrow's own streaming reader uses one thread. At most one block more than there are threads is held.

    Args:
        path: UTF-8 text in which no cell holds a line break; its first line is the header and is skipped.
        names: a name for each column.
        wanted: some of ``names``.
        separator: one character.

    Raises:
        pyarrow.ArrowInvalid: rows with another number of cells, bytes that are not UTF-8.
    """
    threads = min(os.cpu_count() or 1, _MOST_THREADS)
    parse = arrow_csv.ParseOptions(delimiter=separator)
    read = arrow_csv.ReadOptions(column_names=list(names), use_threads=False, block_size=2 * BLOCK_BYTES)
    convert = arrow_csv.ConvertOptions(
        column_types=dict.fromkeys(wanted, TEXT), include_columns=list(wanted), strings_can_be_null=False
    )

    def columns(low: int, high: int) -> list[list[pa.DictionaryArray]]:
        text = content[low:high]
        if not text.strip():
            return []
        table = arrow_csv.read_csv(pa.BufferReader(text), read, parse, convert)
        return [batch.columns for batch in table.to_batches()]

    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ThreadPoolExecutor(threads) as pool,
    ):
        waiting: deque[tuple[int, Future[list[list[pa.DictionaryArray]]]]] = deque()
        for low, high in _bounds(content):
            waiting.append((high, pool.submit(columns, low, high)))
            if len(waiting) > threads:
                yield from _finished(*waiting.popleft(), len(content))
        while waiting:
            yield from _finished(*waiting.popleft(), len(content))


def _finished(
    end: int, block: Future[list[list[pa.DictionaryArray]]], total: int
) -> Iterator[list[pa.DictionaryArray]]:
    yield from block.result()
    advance(end, total)


def _bounds(content: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Yield where blocks of whole lines start and end, from the second line on."""
    low = content.find(b"\n") + 1
    while 0 < low < len(content):
        high = content.find(b"\n", min(low + BLOCK_BYTES, len(content)))
        high = len(content) if high < 0 else high + 1
        yield low, high
        low = high
