"""The run folder: everything that one training made."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from partlabel.core.errors import UserError
from partlabel.core.files import write_json, write_text
from partlabel.metrics import Metrics
from partlabel.training.config import Config

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


def headline(metrics: Metrics, ranked: bool = True) -> dict[str, float | None]:
    """The metrics of the paper's tables; None where undefined, and mAP where the labels rank nothing."""
    names = ("mean_ap", "zero_one", "macro_f1", "micro_f1", "pc_precision", "pc_recall", "ov_precision", "ov_recall")
    values = {name: float(getattr(metrics, name)) for name in names}
    values["mean_ap"] = values["mean_ap"] if ranked else np.nan
    return {name: None if np.isnan(value) else value for name, value in values.items()}


def summary(history: list[dict[str, Any]], **about: Any) -> dict[str, Any]:
    """What a finished training came to.

    Args:
        history: the rows of ``metrics.jsonl``.
        about: what else to say, first.
    """
    epochs = [row for row in history if "epoch" in row]
    rounds = [row for row in history if "round" in row]
    scored = [row for row in epochs if row["validation"] and row["validation"]["mean_ap"] is not None]
    best = max(scored, key=lambda row: row["validation"]["mean_ap"]) if scored else epochs[-1]
    return {
        **about,
        "skipped_steps": sum(row["skipped_steps"] for row in epochs),
        "seconds": round(sum(row["seconds"] for row in epochs), 1),
        "labels_added": sum(row["added_present"] + row["added_absent"] for row in rounds),
        "rounds": rounds,
        "best_epoch": best["epoch"],
        "best": best,
        "last": epochs[-1],
    }


def round_line(row: dict[str, Any]) -> str:
    """One round of relabelling for people, with its warnings."""
    text = (
        f"round {row['round']} before epoch {row['before_epoch']}: {row['added_present']:,} present and "
        f"{row['added_absent']:,} absent labels added; {row['label_proportion']:.1%} of the labels are known now"
    )
    return "\n".join([text, *(f"warning: {warning}" for warning in row["warnings"])])


def write_round(run: Path, row: dict[str, Any]) -> None:
    """Write the whole record of a round, ``rounds/round-1.json``."""
    folder = run / "rounds"
    folder.mkdir(exist_ok=True)
    write_json(folder / f"round-{row['round']}.json", row)


def epoch_line(row: dict[str, Any], epochs: int) -> str:
    """One epoch for people."""
    text = f"epoch {row['epoch']}/{epochs}  loss {row['loss']:.4f}  {row['images_per_second']:.0f} images/s"
    validation = row["validation"]
    if validation and validation["mean_ap"] is not None:
        text += f"  validation mAP {100 * validation['mean_ap']:.2f}"
    return text


def write_history(run: Path, history: Iterable[dict[str, Any]]) -> None:
    """Write ``metrics.jsonl``, a row per epoch and per round of relabelling, in order of time."""
    write_text(run / "metrics.jsonl", "".join(json.dumps(row, allow_nan=False) + "\n" for row in history))
