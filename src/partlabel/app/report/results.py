"""What a report says about how good a run is: metrics, classes, curves, calibration, mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from partlabel.app.report.intervals import FEW, Numbers, class_intervals, metric_rows
from partlabel.app.report.measured import Measured
from partlabel.metrics import Metrics
from partlabel.metrics.calibration import Reliability, reliability, sigmoid
from partlabel.metrics.thresholds import cross_validate
from partlabel.training.run import Run

#: points of a precision-recall curve
_POINTS = 60
#: images listed for each kind of mistake
_MISTAKES = 12


def results_section(run: Run, on: Measured, found: Numbers) -> dict[str, Any]:
    """All numbers of one run on the labels that it is measured on."""
    crossed, reliable = _decided_by_others(run, on)
    return {
        "measured_on": on.source,
        "images": found.metrics.images_known,
        "known_present": int(found.metrics.present.sum()),
        "known_absent": int(found.metrics.absent.sum()),
        "left_out": on.left_out,
        "threshold_goal": run.description()["threshold_goal"],
        "metrics": metric_rows(found),
        "cross_validated": None if crossed is None else _decisions(crossed),
        "classes": _classes(run, on, found),
        "curves": _curves(on),
        "calibration": _calibration(on, reliable),
        "mistakes": _mistakes(on),
    }


def _decided_by_others(run: Run, on: Measured) -> tuple[Metrics | None, Reliability | None]:
    """On the validation part: decisions and probabilities chosen on other images of it (cross-validation)."""
    if not on.on_validation or not run.thresholds:
        return None, None
    goal, wanted = run.thresholds["goal"], run.thresholds["wanted"]
    return cross_validate(on.scores, on.labels, on.classes, goal, wanted)


def _decisions(metrics: Metrics) -> dict[str, float | None]:
    names = ("macro_f1", "micro_f1", "pc_precision", "pc_recall", "ov_precision", "ov_recall", "zero_one")
    return {name: number(getattr(metrics, name)) for name in names}


def _classes(run: Run, on: Measured, found: Numbers) -> list[dict[str, Any]]:
    """One row for each class: what was known in training, what is known here, the numbers, and why some are missing."""
    metrics, bounds = found.metrics, class_intervals(found)
    present, absent = run.labels.class_counts()
    number_of = {name: c for c, name in enumerate(run.labels.classes)}
    rows = []
    for c, name in enumerate(on.classes):
        t = number_of[name]
        low, high = bounds[c] or (None, None)
        rows.append(
            {
                "class": name,
                "trained_present": int(present[t]),
                "trained_absent": int(absent[t]),
                "present": int(metrics.present[c]),
                "absent": int(metrics.absent[c]),
                "average_precision": number(metrics.average_precision[c]),
                "roc_auc": number(metrics.roc_auc[c]),
                "low": low,
                "high": high,
                "precision": number(metrics.precision[c]),
                "recall": number(metrics.recall[c]),
                "f1": number(metrics.f1[c]),
                "threshold": float(on.thresholds[c]),
                "threshold_from": on.sources[c],
                "reasons": _reasons(metrics, c),
            }
        )
    return rows


def _reasons(metrics: Metrics, c: int) -> dict[str, str]:
    """Why numbers of a class are undefined or without an interval, by the name of the number."""
    present = int(metrics.present[c])
    predicted = int(metrics.true_positive[c] + metrics.false_positive[c])
    reasons = {}
    if not present:
        reasons |= dict.fromkeys(("average_precision", "roc_auc", "recall"), "no known present label")
    elif present < FEW:
        reasons["interval"] = f"fewer than {FEW} known present labels"
    if not predicted:
        reasons["precision"] = "no known label is predicted present"
    if not present and not predicted:
        reasons["f1"] = "no label is known or predicted present"
    if present and not metrics.absent[c]:
        undefined = ("average_precision", "roc_auc", "precision", "f1")
        reasons |= dict.fromkeys(undefined, "no known absent label, so nothing can be wrongly called present")
    return reasons


def _curves(on: Measured) -> list[dict[str, Any] | None]:
    """Precision and recall at falling thresholds, known labels only; None without known labels of both signs."""
    return [_curve(on.scores[:, c], on.labels[:, c]) for c in range(len(on.classes))]


def _curve(scores: NDArray[np.float32], labels: NDArray[np.int8]) -> dict[str, list[float]] | None:
    known = labels != 0
    x, present = scores[known], labels[known] > 0
    if present.all() or not present.any():
        return None
    order = np.argsort(-x, kind="stable")
    last = np.flatnonzero(np.append(x[order][1:] != x[order][:-1], True))
    right = np.cumsum(present[order])[last]
    gained = np.flatnonzero(np.diff(right, prepend=0))  # other thresholds have the same recall and a lower precision
    if len(gained) > _POINTS:
        gained = gained[np.unique(np.linspace(0, len(gained) - 1, _POINTS).astype(int))]
    precision, recall = right[gained] / (last[gained] + 1), right[gained] / present.sum()
    return {"recall": np.round(recall, 4).tolist(), "precision": np.round(precision, 4).tolist()}


def _calibration(on: Measured, crossed: Reliability | None) -> dict[str, Any]:
    """Probabilities against the share that is present: the plain sigmoid, and the model's calibration."""
    known = on.labels != 0
    present = on.labels[known] > 0
    if on.on_validation:
        after, how = crossed, "fitted on four fifths of these images, measured on the fifth"
    elif on.calibration is None:
        after, how = None, ""
    else:
        after, how = reliability(on.probabilities()[known], present), "as stored in the model"
    why = "the model has no calibration: too few held-out labels, or all of one sign"
    return {
        "before": _bins(reliability(sigmoid(on.scores[known].astype(np.float64)), present)),
        "after": None if after is None else _bins(after),
        "how": how if after is not None else None,
        "reason": why if after is None else None,
    }


def _bins(found: Reliability) -> dict[str, Any]:
    return {
        "error": number(found.error),
        "brier": number(found.brier),
        "count": found.count.tolist(),
        "probability": [number(value) for value in found.probability],
        "observed": [number(value) for value in found.observed],
    }


def _mistakes(on: Measured) -> dict[str, list[dict[str, Any]]]:
    """Known labels that the model contradicts most surely: each image once in each list."""
    probability = on.probabilities()
    said = on.scores >= on.thresholds.astype(np.float32)
    found = {}
    for name, wrong, sure in (
        ("said_present", said & (on.labels < 0), probability),
        ("said_absent", ~said & (on.labels > 0), 1 - probability),
    ):
        image, cls = np.nonzero(wrong)
        order = np.argsort(-sure[image, cls], kind="stable")
        _, first = np.unique(image[order], return_index=True)
        chosen = order[np.sort(first)][:_MISTAKES]
        found[name] = [
            {
                "image": on.images[int(image[k])].as_py(),
                "class": on.classes[cls[k]],
                "probability": float(probability[image[k], cls[k]]),
            }
            for k in chosen
        ]
    return found


def number(value: float) -> float | None:
    """A number for JSON: None where it is undefined."""
    return None if np.isnan(value) else float(value)
