"""Runs side by side: on the same images and labels only, with a test of each difference; and what labels brought."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from partlabel.app.report.intervals import Numbers, compare, interval
from partlabel.app.report.measured import Measured
from partlabel.core.errors import UserError
from partlabel.labels.pairs import MODEL
from partlabel.labels.table import ORIGINS, LabelTable
from partlabel.training.run import Run

_REMEDY = "give --labels and --images to measure all of them on one table"


def alike(runs: Sequence[Run], measured: Sequence[Measured | None]) -> list[Measured]:
    """All runs on the images that each of them held out, with the labels that any of them knows, so that they compare.

    The images are in the order of the first run. A label that two runs know differently is left out.

    Raises:
        UserError: runs without a validation part; other classes; no image, or no label, that all of them held out.
    """
    missing = [run.name for run, on in zip(runs, measured, strict=True) if on is None]
    if missing:
        raise UserError(f"runs without a validation part cannot be compared; {_REMEDY}", missing)
    there = [on for on in measured if on is not None]
    for run, on in zip(runs[1:], there[1:], strict=True):
        _same_classes((runs[0].name, run.name), there[0].classes, on.classes)
    shared = set.intersection(*(set(on.images.to_pylist()) for on in there))
    if not shared:
        counts = [f"{run.name}: {len(on.images)} images" for run, on in zip(runs, there, strict=True)]
        raise UserError(f"no image was held out by all of these runs; {_REMEDY}", counts)
    names = [name for name in there[0].images.to_pylist() if name in shared]
    found = [_reordered(names, there[0], on) for on in there]
    known = np.stack([on.labels for on in found])
    present, absent = (known > 0).any(0), (known < 0).any(0)
    labels = np.where(present == absent, 0, np.where(present, 1, -1)).astype(np.int8)
    if not labels.any():
        raise UserError(f"the images that all of these runs held out have no known label; {_REMEDY}")
    return [replace(on, labels=labels) for on in found]


def _same_classes(names: tuple[str, str], first: Sequence[str], second: Sequence[str]) -> None:
    one, other = set(first), set(second)
    offenders = [f"only in {names[0]}: {name}" for name in first if name not in other]
    offenders += [f"only in {names[1]}: {name}" for name in second if name not in one]
    if offenders:
        raise UserError(f"{names[0]} and {names[1]} are measured on different classes", offenders)


def _reordered(names: Sequence[str], first: Measured, on: Measured) -> Measured:
    """The images of these names, and the classes in the order of ``first``."""
    place = {name: i for i, name in enumerate(on.images.to_pylist())}
    column = {name: c for c, name in enumerate(on.classes)}
    rows = np.array([place[name] for name in names], np.int64)
    columns = np.array([column[name] for name in first.classes], np.int64)
    calibration = on.calibration
    if calibration is not None:
        slope, offset = (tuple(np.array(v)[columns].tolist()) for v in (calibration.slope, calibration.offset))
        calibration = replace(calibration, slope=slope, offset=offset)
    own = {name: i for i, name in enumerate(first.images.to_pylist())}
    units = first.units[[own[name] for name in names]]
    return Measured(
        source=on.source,
        images=pa.array(list(names), pa.string()),
        classes=first.classes,
        scores=on.scores[rows][:, columns],
        labels=on.labels[rows][:, columns],
        thresholds=on.thresholds[columns],
        sources=tuple(on.sources[c] for c in columns),
        calibration=calibration,
        units=np.unique(units, return_inverse=True)[1],
        left_out=on.left_out,
    )


def comparison_section(runs: Sequence[Run], numbers: Sequence[Numbers]) -> dict[str, Any]:
    """Each run against the first: every metric, and the average precision of each class."""
    first = numbers[0]
    return {
        "first": runs[0].name,
        "images": first.metrics.images_known,
        "known": int(first.metrics.present.sum() + first.metrics.absent.sum()),
        "others": [
            {"run": run.name, "metrics": compare(first, found), "classes": _class_differences(first, found)}
            for run, found in zip(runs[1:], numbers[1:], strict=True)
        ],
    }


def _class_differences(first: Numbers, second: Numbers) -> list[dict[str, Any]]:
    """The classes whose average precision changed, largest change first."""
    one, other = first.metrics.average_precision, second.metrics.average_precision
    change = other - one
    order = np.argsort(-np.abs(change), kind="stable")  # undefined ones last
    rows = []
    for c in order:
        if np.isnan(change[c]):
            continue
        rows.append(
            {
                "class": first.metrics.class_names[c],
                "present": int(first.metrics.present[c]),
                "first": float(one[c]),
                "second": float(other[c]),
                "difference": float(change[c]),
            }
        )
    return rows


def labels_spent(run: Run, found: Numbers | None) -> dict[str, Any]:
    """How many labels of people a run was trained on, how they were asked for, and the mAP that they brought."""
    people = run.labels.hide(run.labels.origin != MODEL)
    counts = np.bincount(people.origin, minlength=len(ORIGINS))
    value = None if found is None or np.isnan(found.metrics.mean_ap) else float(found.metrics.mean_ap)
    bounds = None if found is None or value is None else interval(value, found.resampled.metrics["mean_ap"])
    low, high = bounds or (None, None)
    return {
        "labels": people.num_known,
        "share": people.num_known / max(people.num_images * people.num_classes, 1),
        "by_origin": {name: int(count) for name, count in zip(ORIGINS, counts, strict=True) if count},
        "kind": _kind(people),
        "mean_ap": value,
        "low": low,
        "high": high,
    }


def _kind(people: LabelTable) -> str:
    """How labels were spent: ``all labels``, ``asked``, ``whole pictures`` or ``single labels``."""
    if people.num_known == people.num_images * people.num_classes:
        return "all labels"
    if (people.origin == ORIGINS.index("asked")).any():
        return "asked"
    known = np.diff(people.indptr)
    return "whole images" if known.any() and (known[known > 0] == people.num_classes).all() else "single labels"
