"""Files that may be packed: gzip, bzip2, xz, Zstandard, or one table in a zip; told by their first bytes."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from partlabel.core.errors import UserError
from partlabel.core.special import refuse_special

_TEXTS = (".csv", ".tsv", ".txt", ".tab")
_BROKEN = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, RuntimeError, NotImplementedError)


@dataclass
class Content:
    """A file that is being read: ``file`` gives its unpacked bytes, ``raw`` stands where the packed ones are."""

    file: Any
    raw: BinaryIO
    size: int


@contextmanager
def opened(path: str) -> Generator[Content]:
    """Open a file for reading, unpacked.

    Raises:
        UserError: it is no plain file, cannot be read or unpacked, or a zip holds another number of tables than one.
    """
    refuse_special(path)
    try:
        with open(path, "rb", buffering=0) as raw:
            size = os.fstat(raw.fileno()).st_size
            start = raw.read(6)
            raw.seek(0)
            with _unpacked(path, raw, start) as file:
                yield Content(file, raw, size)
    except _BROKEN as error:
        raise UserError(f"{path}: the packed file is damaged") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error


def _unpacked(path: str, raw: BinaryIO, start: bytes) -> Any:
    if start.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=raw)
    if start.startswith(b"BZh"):
        return bz2.BZ2File(raw)
    if start.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMAFile(raw)
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        return pa.CompressedInputStream(pa.PythonFile(raw), "zstd")
    if not start.startswith(b"PK\x03\x04"):
        return open(os.dup(raw.fileno()), "rb")
    archive = zipfile.ZipFile(raw)
    tables = [name for name in archive.namelist() if name.casefold().endswith(_TEXTS)]
    if len(tables) != 1:
        raise UserError(f"{path}: the zip holds {len(tables)} tables, not one; unpack it first", tables)
    return archive.open(tables[0])
