"""What a training says of itself: the rows of its metrics, its summary, lines for people."""

from __future__ import annotations

from typing import Any

import numpy as np

from partlabel.metrics import Metrics


def headline(metrics: Metrics) -> dict[str, float | None]:
    """The metrics of the paper's tables; None where undefined."""
    names = (
        "mean_ap",
        "mean_roc_auc",
        "zero_one",
        "macro_f1",
        "micro_f1",
        "pc_precision",
        "pc_recall",
        "ov_precision",
        "ov_recall",
    )
    values = {name: float(getattr(metrics, name)) for name in names}
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


def has_converged(history: list[dict[str, Any]], patience: int | None) -> bool:
    """Whether none of the last ``patience`` epochs was better on the validation part than those before them.

    Args:
        history: the rows of ``metrics.jsonl``; epochs that could not be measured are passed over.
        patience: number of epochs; None is never.
    """
    measured = [row["validation"]["mean_ap"] for row in history if "epoch" in row and row["validation"]]
    scores = [score for score in measured if score is not None]
    return patience is not None and len(scores) > patience and max(scores[-patience:]) <= max(scores[:-patience])


def round_line(row: dict[str, Any]) -> str:
    """One round of relabelling for people, with its warnings."""
    text = (
        f"round {row['round']} before epoch {row['before_epoch']}: {row['added_present']:,} present and "
        f"{row['added_absent']:,} absent labels added; {row['label_proportion']:.1%} of the labels are known now"
    )
    return "\n".join([text, *(f"warning: {warning}" for warning in row["warnings"])])


def epoch_line(row: dict[str, Any], epochs: int) -> str:
    """One epoch for people."""
    text = f"epoch {row['epoch']}/{epochs}  loss {row['loss']:.4f}  {row['images_per_second']:.0f} images/s"
    validation = row["validation"]
    if validation and validation["mean_ap"] is not None:
        text += f"  mAP {100 * validation['mean_ap']:.2f} on known validation labels"
    return text
