"""Run folders as a report reads them: what was trained on what, and how far it came."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from partlabel.core.errors import UserError
from partlabel.labels.table import LabelTable
from partlabel.models.model import read_description
from partlabel.training import held_out
from partlabel.training.config import Config
from partlabel.training.thresholds import FILE as THRESHOLDS_FILE


@dataclass(frozen=True, eq=False)
class Run:
    """One training.

    Attributes:
        name: what it is called in the report, unique there.
        folder: the run folder.
        config: its settings.
        table: the labels that it was trained on, before any relabelling.
        epochs: the rows of ``metrics.jsonl`` about epochs, at least one.
        rounds: the records of relabelling, with what was added to each class.
        finished: whether all epochs were run.
        description: ``model.toml`` of the best model.
        thresholds: ``thresholds.json``, empty where none were chosen.
        validated: whether it has a validation part.
    """

    name: str
    folder: Path
    config: Config
    table: LabelTable
    epochs: list[dict[str, Any]]
    rounds: list[dict[str, Any]]
    finished: bool
    description: dict[str, Any]
    thresholds: dict[str, Any]
    validated: bool


def read_runs(folders: Sequence[str | os.PathLike[str]]) -> list[Run]:
    """Read run folders; each is called by its folder's name, or by its path where names repeat.

    Raises:
        UserError: a folder that holds no run, a run without a finished epoch, damaged files.
    """
    paths = [Path(folder) for folder in folders]
    repeated = [str(path) for i, path in enumerate(paths) if path.resolve() in [p.resolve() for p in paths[:i]]]
    if repeated:
        raise UserError("runs are given more than once", repeated)
    names = [path.resolve().name for path in paths]
    unique = len(set(names)) == len(names)
    return [_read(path, name if unique else str(path)) for path, name in zip(paths, names, strict=True)]


def _read(folder: Path, name: str) -> Run:
    if not (folder / "run.json").is_file():
        raise UserError(f"{folder}: is not a run folder of partlabel train")
    rows = _lines(folder / "metrics.jsonl")
    epochs = [row for row in rows if "epoch" in row]
    if not epochs:
        raise UserError(f"{folder}: no epoch of this training is finished, so there is nothing to report yet")
    rounds = []
    for row in rows:
        if "round" in row:
            whole = folder / "rounds" / f"round-{row['round']}.json"
            rounds.append(_json(whole) if whole.is_file() else row)
    thresholds = folder / THRESHOLDS_FILE
    return Run(
        name=name,
        folder=folder,
        config=Config.read(folder / "config.toml"),
        table=LabelTable.read_parquet(folder / "labels.parquet"),
        epochs=epochs,
        rounds=rounds,
        finished=(folder / "summary.json").is_file(),
        description=read_description(folder / "best"),
        thresholds=_json(thresholds) if thresholds.is_file() else {},
        validated=(folder / held_out.LABELS_FILE).is_file(),
    )


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: is damaged ({error})") from None


def _lines(path: Path) -> list[dict[str, Any]]:
    """The rows of ``metrics.jsonl``; none where it is not there yet."""
    if not path.is_file():
        return []
    rows, bad = [], []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            bad.append(f"{path}:{number} {error}")
    if bad:
        raise UserError(f"{path}: is damaged", bad)
    return rows
