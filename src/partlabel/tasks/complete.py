"""Completion of the labels of a training: its last model scores the images, its held-out labels test the scores."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.core.lock import holding
from partlabel.core.records import write_record
from partlabel.labels.match import match
from partlabel.labels.table import LabelTable
from partlabel.models.model import Model
from partlabel.models.scores import Scores
from partlabel.tasks.completion import complete
from partlabel.tasks.scoring import scores_of
from partlabel.training.config import Config
from partlabel.training.evidence import Evidence, evidence
from partlabel.training.folds import FOLDS
from partlabel.training.run import Run

REPORT = "completion.json"


def complete_run(
    run: Run | str | os.PathLike[str],
    images: str | os.PathLike[str] | None,
    table: LabelTable | None = None,
    *,
    precision: float = 0.95,
    confidence: float = 0.9,
    seed: int = 0,
    scores: str | os.PathLike[str] | None = None,
) -> tuple[LabelTable, dict[str, Any]]:
    """Fill in the unknown labels of a training, or of another table, see :func:`partlabel.tasks.completion.complete`.

    Without a table, and with a frozen backbone, every pair has a score of a head that has not seen its image; all known
    labels test these scores. Otherwise the last model gives the scores, because the best one was chosen by the held-out
    labels that judge it. The report is also written into the run folder, as ``completion.json``.

    Args:
        run: a training, or its folder.
        images: the folder that the image names start from.
        table: labels to complete; without it, the training and validation labels of the run. Classes that the model
            does not know stay as they are.
        precision: share of the labels filled in that must be right.
        confidence: probability with which it must be.
        seed: of the draw that mixes the pool.
        scores: instead of the images, a folder of scores of the last model that ``partlabel predict`` wrote in shards.

    Returns:
        The table with the new labels, and the report; beside what is said there ``held_out`` (``out-of-fold``;
        ``labels`` where the images were trained on with other labels, else ``pictures``) and ``pictures_left``
        (images whose labels stay unknown, because the model was trained on guesses for them).

    Raises:
        UserError: no run, or one without held-out labels; classes that the table lacks, images that are missing or
            cannot be read, nothing that could be filled in.
    """
    run = run if isinstance(run, Run) else Run(run)
    arguments: dict[str, Any] = {"precision": precision, "confidence": confidence, "seed": seed}
    found = evidence(run) if table is None else None
    if found is not None and found.kind == "out-of-fold":
        made, report = _by_folds(found, arguments)
        write_record(run.folder / REPORT, report)
        return made, report
    held, trained, config = run.held_out_labels, run.labels, run.config
    model = run.load_model("last")
    table = trained.merge(held) if table is None else table
    matched = match(table, model, every="model")
    own = matched.table
    _check_unseen(trained, held)
    by_label = bool((trained.image_index(held.images) >= 0).any())
    leave = None if by_label or not _guesses(config) else trained.image_index(own.images) >= 0
    if leave is not None and leave.all():
        raise UserError(
            "nothing can be promised: the model was trained on guesses for the unknown labels of these images, and "
            "the held-out images do not show what that did; hold out labels instead, with partlabel labels hold-out"
        )
    of_table, of_held = _scores(model, own, held, images, scores, run.elsewhere)
    made, report = complete(own, of_table, held, of_held, leave=leave, **arguments)
    if own is not table:
        made = _with_new(table, made, matched.of_table, report["round"])
    report |= {
        "held_out": "labels" if by_label else "pictures",
        "pictures_left": 0 if leave is None else int(leave.sum()),
    }
    if not by_label and _shared(config):
        report["warnings"].append(
            "whole images were held out, and the model has parts that all classes share: images that it was "
            "trained on, with other labels, may get surer scores than the held-out ones. The check of the scores sees "
            "large differences only; partlabel labels hold-out avoids them"
        )
    with holding(run.folder, "partlabel complete"):
        write_record(run.folder / REPORT, report)
    return made, report


def _by_folds(found: Evidence, arguments: dict[str, Any]) -> tuple[LabelTable, dict[str, Any]]:
    """Complete by scores of heads that have not seen the images: all known labels test them, alike with unknown ones.

    A class without such scores stays as it is.
    """
    table, scored = found.table, found.scored
    judged = [name for name, yes in zip(table.classes, scored, strict=True) if yes]
    if not judged:
        raise UserError(
            f"no class has {FOLDS} known labels of either sign, so nothing tells how often a label filled in is right"
        )
    own, scores = table.select_classes(judged), found.scores.select(np.flatnonzero(scored))
    made, report = complete(own, scores, own, scores, **arguments)
    left = [name for name in table.classes if name not in set(judged)]
    return _with_new(table, made, np.flatnonzero(scored), report["round"]), report | {
        "held_out": "out-of-fold",
        "pictures_left": 0,
        "classes_left": left,
    }


def _with_new(table: LabelTable, made: LabelTable, columns: NDArray[np.int64], round: int) -> LabelTable:
    """The labels of a round of ``made`` put into a table whose numbers of its classes are ``columns``."""
    if made.round is None or made.score is None or not (made.round == round).any():
        return table
    new = np.flatnonzero(made.round == round)
    image, cls, score = made.pair_images()[new], columns[made.indices[new]], made.score[new]
    return table.with_labels(image, cls, made.values[new], origin="model", score=score, round=round)


def _check_unseen(trained: LabelTable, held: LabelTable) -> None:
    image, cls = trained.image_index(held.images)[held.pair_images()], held.indices.astype(np.int64)
    seen = np.flatnonzero(np.isin(image * held.num_classes + cls, trained.pairs().key) & (image >= 0))
    if len(seen):
        names = held.images.take(pa.array(held.pair_images()[seen])).to_pylist()
        offenders = [f"{name}: {held.classes[c]}" for name, c in zip(names, cls[seen], strict=True)]
        raise UserError(
            f"{len(seen)} of the {held.num_known} validation labels were trained on too, so they prove nothing",
            offenders,
        )


def _guesses(config: Config) -> bool:
    """Whether unknown labels were trained on as if they were known."""
    return config.unknown_as_absent or bool(config.relabel.before)


def _shared(config: Config) -> bool:
    """Whether the labels of one class also train the scores of another."""
    return config.freeze != "all" or config.model.graph


def _scores(
    model: Model,
    table: LabelTable,
    held: LabelTable,
    folder: str | os.PathLike[str] | None,
    stored: str | os.PathLike[str] | None,
    elsewhere: tuple[str, Path] | None,
) -> tuple[Scores, Scores]:
    """Scores of the images of the table and of the held-out ones, each image scored once."""
    names = pc.unique(pa.concat_arrays([table.images, held.images]))  # pyrefly: ignore[missing-attribute]
    scores = scores_of(model, names, folder, stored, elsewhere)
    place = pc.index_in(held.images, value_set=names)  # pyrefly: ignore[missing-attribute]
    own = place.to_numpy(zero_copy_only=False).astype(np.int64)
    return scores.take(np.arange(table.num_images)), scores.take(own)
