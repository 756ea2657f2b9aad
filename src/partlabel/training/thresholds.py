"""The thresholds and the calibration of a run, chosen on its held-out known labels."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partlabel.core.records import write_record
from partlabel.labels.holdout import random_sample
from partlabel.labels.table import LabelTable
from partlabel.metrics import Metrics
from partlabel.metrics.calibration import Calibration, Reliability, reliability_of, sigmoid
from partlabel.metrics.thresholds import (
    DEFAULT,
    MIN_KNOWN,
    NEVER,
    SOURCES,
    Goal,
    Thresholds,
    check_goal,
    crossed,
    goal_words,
    thresholds_of,
)
from partlabel.models.description import write_decision
from partlabel.models.scores import Scores
from partlabel.training.by_class import by_class
from partlabel.training.data import unlearned
from partlabel.training.evidence import evidence
from partlabel.training.run import THRESHOLDS, Run


@dataclass(frozen=True, eq=False)
class Fitted:
    """What :func:`fit_run` found and wrote.

    Attributes:
        thresholds: the thresholds, and what they give on the held-out known labels.
        calibration: slope and offset of each class, or None where the held-out labels are all of one sign.
        before: (C,) float32 thresholds that the model had before.
        left_out: held-out labels that did not count, as they are no random sample.
        crossed: metrics at thresholds of cross-validation, see :func:`partlabel.metrics.thresholds.crossed`.
        plain: reliability of the plain sigmoid on the held-out known labels.
        calibrated: that of calibrated probabilities, by cross-validation; None without a calibration.
    """

    thresholds: Thresholds
    calibration: Calibration | None
    before: NDArray[np.float32]
    left_out: int
    crossed: Metrics
    plain: Reliability
    calibrated: Reliability | None


def fit_run(
    run: Run | str | os.PathLike[str], goal: Goal = "f1", wanted: float | None = None, scores: Scores | None = None
) -> Fitted:
    """Choose thresholds and calibration for the best model of a run and write them into it.

    They are chosen on labels that have not been seen: all known ones, where out-of-fold scores are made like those of
    the model, else those of the validation part. Only labels that are a random sample count. ``best/model.toml`` gets
    thresholds, their sources and the calibration; ``thresholds.json`` in the run folder says how each came about and
    what it gives.

    Args:
        run: a training with a validation part, or its folder.
        goal: ``f1``, ``precision`` or ``recall``.
        wanted: the precision or recall, above 0 and at most 1; None for F1.
        scores: (N, C) of the best model for the images of the validation part, which are chosen on then; read some
            classes at a time. None takes those in the run, all at once.

    Raises:
        UserError: a wrong goal, no run, no validation part, or the model cannot be written.
    """
    check_goal(goal, wanted)
    run = run if isinstance(run, Run) else Run(run)
    held, own = _judged(run) if scores is None else (run.held_out_labels, scores)
    before = np.asarray(run.description()["thresholds"], np.float32)
    if not (run.folder / THRESHOLDS).is_file():  # nothing was chosen yet, whatever a killed process wrote
        before = np.full_like(before, DEFAULT)
    table, classes = random_sample(held), held.classes
    on = by_class(own, table)
    calibration = on.calibration()
    chosen = thresholds_of(on, classes, goal, wanted, calibration, _unlearned(run))
    across, calibrated = crossed(on, classes, goal, wanted)
    plain = reliability_of(lambda some: sigmoid(on.score[some].astype(np.float64)), on.label > 0)
    fitted = Fitted(chosen, calibration, before, held.num_known - table.num_known, across, plain, calibrated)
    write_decision(run.folder / "best", chosen.values.tolist(), goal_words(goal, wanted), chosen.sources, calibration)
    write_record(run.folder / THRESHOLDS, to_dict(fitted))  # last: with it, the choice is made
    return fitted


def has_labels_to_choose_on(run: Run) -> bool:
    """Whether there are labels that the model has not seen, with scores like its own."""
    found = evidence(run)
    return run.is_validated or (found is not None and found.same_scale)


def _judged(run: Run) -> tuple[LabelTable, Scores]:
    """The labels to choose on: all known ones with out-of-fold scores like the model's own, else the validation part.

    A class without such scores has no labels here, unless there are none of any class.
    """
    found = evidence(run)
    if found is None or not found.same_scale:
        return run.held_out_labels, run.held_out_scores
    if run.is_validated and not found.scored.any():
        return run.held_out_labels, run.held_out_scores
    return found.finite()


def silence(run: Run) -> None:
    """Give classes without a known label in training a threshold that no score reaches, in both models of the run."""
    nothing = _unlearned(run)
    for which in ("best", "last"):
        if not nothing.any() or not (run.folder / which).is_dir():
            continue
        about = run.description(which)
        values = np.where(nothing, NEVER, np.asarray(about["thresholds"], np.float64))
        pairs = zip(nothing, about["threshold_sources"], strict=True)
        sources = ["never" if none else source for none, source in pairs]
        stored = about.get("calibration")
        calibration = None if stored is None else Calibration(tuple(stored["slope"]), tuple(stored["offset"]))
        write_decision(run.folder / which, values.tolist(), about["threshold_goal"], sources, calibration)


def _unlearned(run: Run) -> NDArray[np.bool_]:
    """(C,) classes about which nothing was learned; where unknown labels are trained as absent, there is none."""
    if run.config.unknown_as_absent:
        return np.zeros(len(run.labels.classes), bool)
    return unlearned(run.labels)


def to_dict(fitted: Fitted) -> dict[str, Any]:
    """Everything as values that JSON can hold; ratios in [0, 1], None where undefined."""
    chosen, calibration = fitted.thresholds, fitted.calibration
    classes = []
    for c, name in enumerate(chosen.after.class_names):
        classes.append(
            {
                "class": name,
                "threshold": float(chosen.values[c]),
                "before": float(fitted.before[c]),
                "source": chosen.sources[c],
                "reached": bool(chosen.reached[c]),
                "known_present": int(chosen.after.present[c]),
                "known_absent": int(chosen.after.absent[c]),
                "f1_at_default": _number(chosen.at_default.f1[c]),
                "f1": _number(chosen.after.f1[c]),
                "precision": _number(chosen.after.precision[c]),
                "recall": _number(chosen.after.recall[c]),
                "slope": None if calibration is None else calibration.slope[c],
                "offset": None if calibration is None else calibration.offset[c],
            }
        )
    return {
        "goal": chosen.goal,
        "wanted": chosen.wanted,
        "decision": "present where score >= threshold, in single precision",
        "default": DEFAULT,
        "sources": SOURCES,
        "min_known_of_each_sign": MIN_KNOWN,
        "labels_left_out": fitted.left_out,
        "at_default": _headline(chosen.at_default),
        "chosen_and_measured_on_the_same_labels": _headline(chosen.after),
        "cross_validated": _headline(fitted.crossed),
        "calibration_error_sigmoid": _number(fitted.plain.error),
        "brier_sigmoid": _number(fitted.plain.brier),
        "calibration_error_cross_validated": None if fitted.calibrated is None else fitted.calibrated.error,
        "brier_cross_validated": None if fitted.calibrated is None else fitted.calibrated.brier,
        "classes": classes,
    }


def _headline(metrics: Metrics) -> dict[str, float | None]:
    names = ("macro_f1", "micro_f1", "pc_precision", "pc_recall", "ov_precision", "ov_recall")
    return {name: _number(getattr(metrics, name)) for name in names}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
