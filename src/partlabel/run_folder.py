"""The run folder: everything that one training made."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from partlabel.config import Config
from partlabel.errors import UserError
from partlabel.metrics import Metrics
from partlabel.storage import write_json, write_text

_MARKER = "run.json"


def is_started(run: Path, identity: dict[str, Any], resume: bool) -> bool:
    """Whether the folder holds this run already.

    Args:
        run: the run folder.
        identity: what makes two runs the same, as plain values.
        resume: the user wants to go on with it.

    Raises:
        UserError: it holds a run that is not to be resumed or another one, or other files.
    """
    marker = run / _MARKER
    if marker.is_file():
        if not resume:
            raise UserError(f"{run}: holds a run already; resume it or choose another folder")
        changed = _differences(json.loads(marker.read_text(encoding="utf-8")), identity)
        if changed:
            raise UserError(f"{run}: cannot be resumed, as it was started with other settings or labels", changed)
        return True
    if run.exists() and (not run.is_dir() or any(run.iterdir())):
        raise UserError(f"{run}: is not an empty folder and holds no run")
    return False


def create_run(run: Path, identity: dict[str, Any]) -> None:
    """Make the folder and write what the run is: ``run.json`` and ``config.toml``."""
    try:
        run.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{run}: cannot be made ({error.strerror})") from None
    write_json(run / _MARKER, identity)
    Config.from_dict(identity["config"]).write(run / "config.toml")


def _differences(stored: dict[str, Any], given: dict[str, Any], prefix: str = "") -> list[str]:
    """Every value that differs, as ``name: then -> now``."""
    found = []
    for name, value in given.items():
        then = stored.get(name)
        if isinstance(value, dict) and isinstance(then, dict):
            found += _differences(then, value, f"{prefix}{name}.".removeprefix("config."))
        elif then != value:
            found.append(f"{prefix}{name}: {then} -> {value}")
    return found


def headline(metrics: Metrics) -> dict[str, Any]:
    """The metrics of the paper's tables; None where undefined."""
    names = ("mean_ap", "zero_one", "macro_f1", "micro_f1", "pc_precision", "pc_recall", "ov_precision", "ov_recall")
    values = {name: float(getattr(metrics, name)) for name in names}
    return {name: None if np.isnan(value) else value for name, value in values.items()}


def epoch_line(row: dict[str, Any], epochs: int) -> str:
    """One epoch for people."""
    text = f"epoch {row['epoch']}/{epochs}  loss {row['loss']:.4f}  {row['images_per_second']:.0f} images/s"
    validation = row["validation"]
    if validation and validation["mean_ap"] is not None:
        text += f"  validation mAP {100 * validation['mean_ap']:.2f}"
    return text


def write_history(run: Path, history: Iterable[dict[str, Any]]) -> None:
    """Write ``metrics.jsonl``, a row per epoch."""
    write_text(run / "metrics.jsonl", "".join(json.dumps(row, allow_nan=False) + "\n" for row in history))
