"""How a file of a run is changed by somebody who means harm, or by accident."""

from __future__ import annotations

import json
import shutil
import struct
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from partlabel.core.files import to_toml
from partlabel.core.records import CHECKSUM, sealed

Rng = np.random.Generator
#: what stands in hostile texts for a folder that nobody may look into
TRAP = "{trap}"
TEXTS = (
    f"{TRAP}/secret",
    f"{TRAP}",
    "../../trap/secret",
    "../../../../../../etc/passwd",
    f"hf_hub:{TRAP}/model",
    f"local-dir:{TRAP}",
    f"own:{TRAP}",
    "own:os.system",
    "",
    "\x00",
    "\ud800",
    "\u202e\x1b[2J",
    "<script>",
    "=1+1",
    "x" * 100_000,
    "resnet152",
    "nan",
)
NUMBERS = (0, -1, 1, 2, 2**31, 2**63, -(2**63), 10**400, 1e308, -1e308, 1e-320, float("nan"), float("inf"), 0.5, 10**7)
DEEP = 100_000


def hostile(rng: Rng) -> Any:
    """A value that is not what is expected."""
    kind = int(rng.integers(9))
    if kind < 3:
        return TEXTS[int(rng.integers(len(TEXTS)))]
    if kind < 6:
        return NUMBERS[int(rng.integers(len(NUMBERS)))]
    return ({}, [], True, False, None, [[1]], {"a": {"b": 1}}, ["x"] * 1000)[int(rng.integers(8))]


def changed(value: Any, rng: Rng, trap: str) -> tuple[Any, str]:
    """A copy of plain nested values of which one is another, is gone, or is there many times; and where that is."""
    value = json.loads(json.dumps(value))
    places = list(_places(value, ()))
    path = places[int(rng.integers(len(places)))]
    parent = value
    for part in path[:-1]:
        parent = parent[part]
    name, kind = path[-1], int(rng.integers(8))
    if kind == 0:
        del parent[name]
    elif kind == 1 and isinstance(parent, list):
        parent *= int(rng.choice([0, 2, 1000]))
    elif kind == 2 and isinstance(parent, dict):
        parent[str(hostile(rng))[:50]] = parent.pop(name)
    elif kind == 3 and isinstance(parent[name], int | float) and not isinstance(parent[name], bool):
        parent[name] = parent[name] * int(rng.choice([-1, 2, 100, 10**6])) + int(rng.choice([0, 1]))
    else:
        new = hostile(rng)
        parent[name] = new.replace(TRAP, trap) if isinstance(new, str) else new
    return value, ".".join(map(str, path))


def _places(value: Any, path: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """The way to each value, of long lists to a few only."""
    found = []
    entries = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    for name, each in entries:
        if name != CHECKSUM:  # it is made anew
            found += [(*path, name), *_places(each, (*path, name))]
    return found


def _json(path: Path, rng: Rng, trap: str) -> str:
    record, about = changed(json.loads(path.read_text(encoding="utf-8")), rng, trap)
    if rng.random() < 0.1:
        path.write_text('{"config": ' + "[" * DEEP + "]" * DEEP + "}", encoding="utf-8")
        return "very deep"
    path.write_text(
        json.dumps(sealed(record) if rng.random() < 0.9 else record), encoding="utf-8", errors="surrogatepass"
    )
    return about


def _jsonl(path: Path, rng: Rng, trap: str) -> str:
    from partlabel.core.records import checksum

    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows[0].pop(CHECKSUM, None)
    rows, about = changed(rows, rng, trap)
    if rows and isinstance(rows[0], dict):
        plain = json.loads(json.dumps(rows))
        rows[0] = {**rows[0], CHECKSUM: checksum(plain)}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8", errors="surrogatepass")
    return about


def _toml(path: Path, rng: Rng, trap: str) -> str:
    document, about = changed(tomllib.loads(path.read_text(encoding="utf-8")), rng, trap)
    if rng.random() < 0.1:
        path.write_text("version = 1\nclasses = " + "[" * DEEP + "]" * DEEP + "\n", encoding="utf-8")
        return "very deep"
    was_sealed = document.pop(CHECKSUM, None) is not None
    try:
        plain = tomllib.loads(to_toml(document))
        path.write_text(to_toml(sealed(plain) if was_sealed else plain), encoding="utf-8")
    except (ValueError, TypeError, OverflowError, RecursionError, UnicodeError):
        path.write_text(f"version = 1\nclasses = {10**5000 if rng.random() < 0.5 else 'nan'}\n", encoding="utf-8")
        return "odd numbers"
    return about


def _parquet(path: Path, rng: Rng, trap: str) -> str:
    """Other values in the description, other names, or columns that are gone, turned or of another kind."""
    table = pq.read_table(path)
    about = {key: value for key, value in (table.schema.metadata or {}).items() if key != b"ARROW:schema"}
    kind = int(rng.integers(4)) if "image" in table.column_names else 2
    if kind == 0 and about:
        key = list(about)[int(rng.integers(len(about)))]
        try:
            value, where = changed([json.loads(about[key])], rng, trap)
            about[key] = json.dumps(value[0] if value else None).encode()
        except ValueError:
            where, about[key] = "checksum", b"00000000"
        table, said = table.replace_schema_metadata(about), f"{key.decode()}: {where}"
    elif kind == 1:
        names = [f"{trap}/secret" if rng.random() < 0.3 else "../../trap/secret" for _ in range(table.num_rows)]
        names = names if rng.random() < 0.5 else [f"../../trap/{i}" for i in range(table.num_rows)]
        import pyarrow as pa

        table, said = table.set_column(table.schema.get_field_index("image"), "image", pa.array(names)), "names"
    elif kind == 2:
        column = int(rng.integers(table.num_columns))
        table, said = table.remove_column(column), f"without column {column}"
    else:
        table, said = table.slice(0, int(rng.integers(table.num_rows))), "fewer rows"
    if b"partlabel" in about and rng.random() < 0.7:
        note = json.loads((table.schema.metadata or {}).get(b"partlabel", b"{}"))
        if isinstance(note, dict):
            note["checksum"] = None  # as of an earlier version
            table = table.replace_schema_metadata({**(table.schema.metadata or {}), b"partlabel": json.dumps(note)})
    elif rng.random() < 0.7:
        rest = {key: value for key, value in (table.schema.metadata or {}).items() if key != b"checksum"}
        table = table.replace_schema_metadata(rest)
    pq.write_table(table, path)
    return said


def _safetensors(path: Path, rng: Rng, trap: str) -> str:
    """A header that lies: of its own length, of offsets, shapes and types; or numbers that are none."""
    whole = path.read_bytes()
    length = struct.unpack("<Q", whole[:8])[0]
    header, data = json.loads(whole[8 : 8 + length]), bytearray(whole[8 + length :])
    names = [name for name in header if name != "__metadata__"]
    name = names[int(rng.integers(len(names)))]
    kind, end = int(rng.integers(9)), None
    if kind == 0:
        end = int(rng.choice([0, 1, length - 1, length + 1, 2**31, 2**40, 2**62]))
    elif kind == 1:
        header[name]["data_offsets"] = [int(n) for n in rng.integers(0, len(data) + 1, 2)]
    elif kind == 2:
        header[name]["data_offsets"] = header[names[int(rng.integers(len(names)))]]["data_offsets"]
    elif kind == 3:
        header[name]["dtype"] = str(rng.choice(["F64", "F16", "I64", "BOOL", "F8_E4M3", "U8", "X99", ""]))
    elif kind == 4:
        header[name]["shape"] = [[2**40], [-1], [0], [2**32, 2**32], ["a"], [1] * 1000, []][int(rng.integers(7))]
    elif kind == 5:
        header[str(hostile(rng))[:1000].encode("utf-8", "replace").decode()] = header.pop(name)
    elif kind == 6:
        header["__metadata__"] = hostile(rng)
    elif kind == 7:
        header = changed(header, rng, trap)[0]
    if kind in (5, 7, 8):
        first, last = header.get(name, {"data_offsets": [0, 64]}).get("data_offsets", [0, 64])[:2]
        odd = np.float32(rng.choice([np.nan, np.inf, -np.inf, 3e38, 1e-40])).tobytes()
        if isinstance(first, int) and isinstance(last, int) and 0 <= first <= last <= len(data):
            data[first:last] = (odd * ((last - first) // 4 + 1))[: last - first]
    if rng.random() < 0.8 and isinstance(header, dict):
        header.pop("__metadata__", None)  # as of an earlier version, so that no checksum stands in the way
    text = json.dumps(header).encode("utf-8", "replace")
    path.write_bytes(struct.pack("<Q", len(text) if end is None else end) + text + bytes(data))
    return f"header, kind {kind}"


def _pt(path: Path, rng: Rng, trap: str) -> str:
    """A checkpoint of which one value is another."""
    import torch

    state = torch.load(path, "cpu", weights_only=True)
    path_of = [(key,) for key in state]
    path_of += [(key, inner) for key, value in state.items() if isinstance(value, dict) for inner in value]
    place = path_of[int(rng.integers(len(path_of)))]
    parent = state if len(place) == 1 else state[place[0]]
    new = hostile(rng)
    if isinstance(parent[place[-1]], torch.Tensor) and rng.random() < 0.5:
        tensor = parent[place[-1]]
        odd = float("nan")
        new = torch.full((int(rng.integers(5)),), odd) if rng.random() < 0.5 else tensor.double() * odd
    parent[place[-1]] = new
    if rng.random() < 0.2:
        del parent[place[-1]]
    torch.save(state, path)
    return ".".join(map(str, place))


def _bytes(path: Path, rng: Rng) -> str:
    """Bits, pieces, ends."""
    data = bytearray(path.read_bytes())
    kind, at = int(rng.integers(6)), int(rng.integers(max(len(data), 1)))
    if kind == 0 and data:
        data[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        data[at : at + 4096] = bytes(len(data[at : at + 4096]))
    elif kind == 2:
        del data[at:]
    elif kind == 3:
        data[at:at] = rng.bytes(int(rng.integers(1, 100)))
    elif kind == 4:
        data[at : at + 8] = b"\xff" * 8
    else:
        data = bytearray(rng.bytes(int(rng.integers(2000))))
    path.write_bytes(data)
    return f"bytes, kind {kind} at {at}"


def _whole(path: Path, rng: Rng) -> str:
    """The file is gone, empty, a folder, a loop of links, or another file of the run."""
    kind = str(rng.choice(["gone", "empty", "folder", "loop", "other"]))
    files = [one for one in sorted(path.parent.rglob("*")) if one.is_file() and one != path]
    path.unlink()
    if kind == "empty":
        path.write_bytes(b"")
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "other" and files:
        shutil.copyfile(files[int(rng.integers(len(files)))], path)
    return kind


INSIDE: dict[str, Callable[[Path, Rng, str], str]] = {
    ".json": _json,
    ".jsonl": _jsonl,
    ".toml": _toml,
    ".parquet": _parquet,
    ".safetensors": _safetensors,
    ".pt": _pt,
}


def spoil(path: Path, rng: Rng, trap: str) -> str:
    """Change one file, most often so that it is still one of its kind; what was done, in words."""
    inside, kind = INSIDE.get(path.suffix), rng.random()
    if inside is not None and kind < 0.7:
        return inside(path, rng, trap)
    return _bytes(path, rng) if kind < 0.9 else _whole(path, rng)
