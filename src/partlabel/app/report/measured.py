"""The labels that runs are measured on, with the scores of their models."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.images import check, resolve
from partlabel.labels.holdout import at_random, random_sample
from partlabel.labels.match import match
from partlabel.labels.split import units
from partlabel.labels.table import ORIGINS, LabelTable
from partlabel.metrics.calibration import Calibration, sigmoid
from partlabel.tasks.predict import score
from partlabel.training.run import Run


@dataclass(frozen=True, eq=False)
class Measured:
    """What a run is measured on; only labels that are a random sample count, all others are unknown here.

    Attributes:
        source: ``validation``, or the label table that was given.
        images: N names.
        classes: C names.
        scores: float32 (N, C) of the best model, before the sigmoid.
        labels: int8 (N, C).
        thresholds: (C,) of the model.
        sources: C names of where each threshold came from.
        calibration: of these classes, as the model has it, or None.
        units: int64 (N,) numbers of what a resample draws as a whole: the groups of the table, or single images.
        left_out: labels of each origin that did not count.
    """

    source: str
    images: pa.StringArray
    classes: tuple[str, ...]
    scores: NDArray[np.float32]
    labels: NDArray[np.int8]
    thresholds: NDArray[np.float64]
    sources: tuple[str, ...]
    calibration: Calibration | None
    units: NDArray[np.int64]
    left_out: dict[str, int]

    @property
    def on_validation(self) -> bool:
        """The validation part of the run, on which its best epoch and thresholds were chosen too."""
        return self.source == "validation"

    def probabilities(self) -> NDArray[np.float64]:
        """(N, C) in [0, 1]: calibrated where the model is, else the sigmoid of the scores."""
        if self.calibration is None:
            return sigmoid(self.scores.astype(np.float64))
        return self.calibration.probabilities(self.scores)


def on_validation(run: Run) -> Measured | None:
    """The validation part of a run with the scores that its best model gave it; None where it has none.

    Raises:
        UserError: damaged files.
    """
    if not run.is_validated:
        return None
    held = run.held_out
    return _measured(run, "validation", held.table, held.scores)


def on_table(run: Run, table: LabelTable, source: str, folder: str | os.PathLike[str]) -> Measured:
    """Another table, whose images are scored now by the best model of the run.

    Args:
        run: the training.
        table: labels; its classes are among the model's, its image names are files in ``folder``.
        source: what the table is called in the report.
        folder: the folder of the images.

    Raises:
        UserError: the model lacks classes of the table, no label counts, or images are missing or cannot be read.
    """
    model = run.model
    try:
        matched = match(table, model, every="table")
    except UserError as error:
        raise UserError(f"{run.name}: {error.message}", error.offenders) from error
    table, columns = matched.table, matched.of_model
    counted = np.diff(random_sample(table).indptr) > 0
    if not counted.any():
        raise UserError(
            f"{source}: no label is known that is given or asked at random, so there is nothing to measure on"
        )
    table = table.select(counted)
    paths = resolve(table.images, folder)
    check(paths).raise_if_bad()
    return _measured(run, source, table, score(model, paths)[:, columns], columns)


def _measured(
    run: Run, source: str, table: LabelTable, scores: NDArray[np.float32], columns: NDArray[np.int64] | None = None
) -> Measured:
    """Put the labels that count beside the scores; ``columns``: the classes among those of the model, None for all."""
    about = run.description()
    chosen = np.arange(len(about["classes"])) if columns is None else columns
    counts = at_random(table)
    left_out = np.bincount(table.origin[~counts], minlength=len(ORIGINS))
    stored = about.get("calibration")
    calibration = None
    if stored is not None:
        slope, offset = np.array(stored["slope"])[chosen], np.array(stored["offset"])[chosen]
        calibration = Calibration(tuple(slope.tolist()), tuple(offset.tolist()))
    return Measured(
        source=source,
        images=table.images,
        classes=table.classes,
        scores=scores,
        labels=table.hide(counts).dense(),
        thresholds=np.array(about["thresholds"], np.float64)[chosen],
        sources=tuple(about["threshold_sources"][c] for c in chosen),
        calibration=calibration,
        units=units(table.num_images, table.groups)[0],
        left_out={name: int(count) for name, count in zip(ORIGINS, left_out, strict=True) if count},
    )
