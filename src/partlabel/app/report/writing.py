"""From run folders to the two files of a report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from partlabel.app.report.comparison import alike, comparison_section, labels_spent
from partlabel.app.report.data import data_section, random_check
from partlabel.app.report.gallery import gallery
from partlabel.app.report.intervals import CONFIDENCE, Numbers, measure
from partlabel.app.report.measured import Measured, on_table, on_validation
from partlabel.app.report.results import results_section
from partlabel.core.errors import UserError
from partlabel.core.files import as_json, replacing_together
from partlabel.labels.table import LabelTable
from partlabel.metrics.headline import headline
from partlabel.training.evidence import evidence, judge
from partlabel.training.run import Run, read_runs

#: of the form of the JSON; a field that goes away or changes its meaning raises it
VERSION = 1
RESAMPLES = 1000

_Paths = Sequence[str | os.PathLike[str]]


def write_report(
    runs: _Paths,
    output: str | os.PathLike[str],
    *,
    labels: str | os.PathLike[str] | None = None,
    images: str | os.PathLike[str] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """Write a report: ``output``, an HTML file that needs nothing else, and its numbers as ``.json`` beside it.

    Args:
        runs: run folders; the first one is what the others are compared with.
        output: file to be written, ``.html``.
        labels: label table to measure on; without it, each run's validation part.
        images: folder that the image names start from. Needed with ``labels``; otherwise it is only for the images
            shown.
        resamples: how often the images are drawn anew for the intervals.
        seed: of these draws.

    Returns:
        What the JSON holds, see :func:`collect`.

    Raises:
        UserError: see :func:`collect`; another ending, or a place that cannot be written to.
    """
    target = Path(output)
    if target.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"{target}: a report is written as .html")
    if not target.parent.is_dir():
        raise UserError(f"{target}: the folder {target.parent} does not exist")
    numbers = collect(runs, labels=labels, images=images, resamples=resamples, seed=seed)
    from partlabel.app.report.page import render  # the template engine, only where a page is made

    page = render(numbers, images)
    with replacing_together(target, target.with_suffix(".json")) as (new_page, new_numbers):
        new_page.write_text(page, encoding="utf-8")
        new_numbers.write_text(as_json(numbers), encoding="utf-8")
    return numbers


def collect(
    runs: _Paths,
    *,
    labels: str | os.PathLike[str] | None = None,
    images: str | os.PathLike[str] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """All numbers of a report, as values that JSON can hold.

    Args:
        runs: run folders.
        labels: label table to measure on.
        images: folder of its images.
        resamples: see :func:`write_report`.
        seed: see there.

    Returns:
        ``version``, ``bootstrap`` (how the intervals came about), ``runs`` and ``comparison`` (None for one run).
        Shares are in [0, 1]; what is undefined is None, and a ``reason`` says why.

    Raises:
        UserError: no run is there, files are damaged, the runs are not measured on the same images and labels, or
            they cannot be measured on the table.
    """
    if not runs:
        raise UserError("a report needs at least one run")
    if labels is not None and images is None:
        raise UserError("--labels needs --images, the folder of its images")
    if resamples < 1:
        raise UserError(f"there must be at least 1 resample, not {resamples}")
    found = _with_an_epoch(_with_earlier(runs))
    on = _measured_on(found, labels, images)
    several = len(found) > 1
    measured: list[Measured | None] = list(alike(found, on)) if several else on
    numbers = [None if one is None else measure(one, resamples, seed) for one in measured]
    rows = [_run_section(*each, images, seed) for each in zip(found, measured, numbers, strict=True)]
    for row, earlier in zip(rows[1:], rows, strict=False):
        if row["gallery"] == earlier["gallery"]:  # runs on the same images show them once
            row["gallery"] = None
    grouped = any(one is not None and one.units.max(initial=-1) + 1 < len(one.units) for one in measured)
    return {
        "version": VERSION,
        "measured_on": "validation" if labels is None else os.fspath(labels),
        "bootstrap": {
            "resamples": resamples,
            "seed": seed,
            "confidence": CONFIDENCE,
            "drawn": "groups" if grouped else "images",
        },
        "runs": rows,
        "comparison": comparison_section(found, [n for n in numbers if n is not None]) if several else None,
    }


def _with_earlier(folders: _Paths) -> _Paths:
    """One run that was trained after another: that one comes first, so that they are compared, where it can be."""
    if len(folders) != 1:
        return folders
    run = Run(folders[0])
    earlier = run.after
    if earlier is None or not earlier.epochs or not (earlier.is_validated and run.is_validated):
        return folders
    return [earlier.folder, run.folder] if earlier.labels.classes == run.labels.classes else folders


def _with_an_epoch(folders: Sequence[str | os.PathLike[str]]) -> list[Run]:
    runs = read_runs(folders)
    empty = [str(run.folder) for run in runs if not run.epochs]
    if empty:
        raise UserError("no epoch of these trainings is finished, so there is nothing to report yet", empty)
    return runs


def _measured_on(
    runs: list[Run], labels: str | os.PathLike[str] | None, images: str | os.PathLike[str] | None
) -> list[Measured | None]:
    if labels is None or images is None:
        return [on_validation(run) for run in runs]
    table, name = LabelTable.read_parquet(labels), Path(labels).name
    return [on_table(run, table, name, images) for run in runs]


def _headline(run: Run, on: Measured | None) -> dict[str, Any] | None:
    """What all labels would say: as the training found it, or on the table that was given."""
    if on is None or on.on_validation:
        return run.headline or judge(run)
    found = headline(on.scores, on.labels, on.classes, on.thresholds, units=on.units)
    about = {"measured_on": on.source, "meaning": "the labels of this table, scored by the best model"}
    return {**about, "images": len(on.labels), "known_labels": int((on.labels != 0).sum()), **found.to_dict()}


def _run_section(
    run: Run, on: Measured | None, found: Numbers | None, images: str | os.PathLike[str] | None, seed: int
) -> dict[str, Any]:
    planned = run.config.epochs
    scored = [row for row in run.epochs if row["validation"] and row["validation"]["mean_ap"] is not None]
    best = max(scored, key=lambda row: row["validation"]["mean_ap"]) if scored else run.epochs[-1]
    return {
        "name": run.name,
        "folder": str(run.folder),
        "finished": run.is_finished,
        "classes": len(run.labels.classes),
        "settings": run.config.to_dict(),
        "data": data_section(run),
        "random_check": random_check(run) if evidence(run) is not None else None,
        "training": {"epochs_planned": planned, "best_epoch": best["epoch"], "epochs": run.epochs},
        "rounds": run.rounds,
        "headline": _headline(run, on),
        "results": None if on is None or found is None else results_section(run, on, found),
        "labels_spent": labels_spent(run, found),
        "gallery": None if images is None else gallery(run.all_labels, images, seed),
    }
