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


def open_run(run: Path, identity: dict[str, Any], resume: bool, first: bool) -> bool:
    """Make the run folder, or check that a run to resume is the same run; True where there is one."""
    marker = run / "run.json"
    if marker.is_file():
        if not resume:
            raise UserError(f"{run}: holds a run already; resume it or choose another folder")
        stored = json.loads(marker.read_text(encoding="utf-8"))
        changed = [name for name in identity if stored.get(name) != identity[name]]
        if changed:
            raise UserError(f"{run}: cannot be resumed, as other things than then are given", changed)
        return True
    if run.is_dir() and any(run.iterdir()):
        raise UserError(f"{run}: is not empty and holds no run")
    if first:
        run.mkdir(parents=True, exist_ok=True)
        Config.from_dict(identity["config"]).write(run / "config.toml")
        write_json(marker, identity)
    return False


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
