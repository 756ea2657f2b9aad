"""Which files of a data set are read: Parquet, Arrow or ``metadata.jsonl``, and its splits."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from partlabel.core.errors import UserError
from partlabel.formats.reading import load_json
from partlabel.formats.report import plural

_PART = re.compile(r"(?P<split>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?:-[0-9a-f]+)?")
_ENDINGS = (".parquet", ".arrow", ".jsonl")


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
        where = "" if parent == folder else os.path.relpath(parent, folder)
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
    splits = {os.path.join(*key).rstrip("/"): files for key, files in found.items()}
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
