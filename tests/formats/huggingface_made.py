"""Files as the library of Hugging Face writes them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from partlabel import formats
from partlabel.core.errors import UserError
from tests.formats.cases import rows

FILES = Path(__file__).with_name("huggingface_files")
NAMES = ["cat", "dog", "car"]


def refuse(path, **options) -> UserError:
    with pytest.raises(UserError) as caught:
        formats.read("huggingface", path, **options)
    return caught.value


def labels_of(path, **options) -> dict[str, list[int]]:
    return rows(formats.read("huggingface", path, **options)[0])


def picture(shade: int = 0, kind: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (3, 2), (shade, 0, 0)).save(buffer, kind)
    return buffer.getvalue()


def pictures(*entries: tuple[bytes | None, str | None]) -> pa.Array:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    return pa.array([{"bytes": content, "path": path} for content, path in entries], kind)


def class_label(*names: str) -> dict:
    return {"names": list(names), "_type": "ClassLabel"}


def described(columns: dict, features: dict | None) -> pa.Table:
    table = pa.table(columns)
    if features is None:
        return table
    return table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})


def save(path: Path, columns: dict, features: dict | None = None) -> Path:
    pq.write_table(described(columns, features), path)
    return path


def save_arrow(path: Path, table: pa.Table, rows: int = 2) -> Path:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return path
