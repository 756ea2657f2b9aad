"""The closed-form head inside a training: solved on the stored features, in place of an epoch."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from partlabel.core.compute import loader_workers
from partlabel.core.errors import UserError
from partlabel.core.text import plural
from partlabel.labels.holdout import at_random
from partlabel.models.model import Model
from partlabel.training.batches import Source, open_source
from partlabel.training.class_shares import expected_interval
from partlabel.training.columns import Columns
from partlabel.training.config import SelfTrainingConfig
from partlabel.training.data import Data
from partlabel.training.discriminant import NOTHING, LinearHead, Round, fit
from partlabel.training.labels import TrainingLabels
from partlabel.training.state import Batches, Job, State

#: images whose features are made ready at once, and scores that are computed at once
_ROWS, _SCORES = 1024, 2**23


def solve_head(job: Job, state: State, batches: Batches, epoch: int) -> dict[str, Any]:
    """Solve the head on the features of all images of the training part, and give its row of ``metrics.jsonl``.

    Args:
        job: the training; ``self_training`` of its config is the round.
        state: gives the labels, and the model, which gets the head.
        batches: the stored output of the whole backbone.
        epoch: number of the epoch, from 0; there is one.

    Raises:
        UserError: fewer images than folds, or features that are not finite.
    """
    began = time.perf_counter()
    rows = state.labels.rows
    known = _known(state.labels)

    def solve() -> tuple[LinearHead, float]:
        features = head_features(state.model, batches.train, rows)
        solved = _solve(job, known, features)
        return solved, _loss(solved, features, known)

    found, loss = job.engine.from_first(solve)  # one process has all the cores, and all get the same
    put_into(state.model, found)
    seconds = time.perf_counter() - began
    classes = state.model.classes
    intervals = expected_interval(len(rows), known.counts(), known.counts(known.sample))
    nothing = [classes[c] for c in np.flatnonzero(found.basis == NOTHING)]
    if nothing:
        job.report.line(
            f"no present label is known of {plural(len(nothing), 'class')}; their score is the same for all images"
        )
    return {
        "epoch": epoch + 1,
        "loss": loss,
        "learning_rate": 0.0,
        "seconds": round(seconds, 3),
        "images_per_second": round(len(rows) / seconds, 1),
        "skipped_steps": 0,
        "head": {
            "strength": found.strength,
            "expected_present": {
                name: round(float(share), 6)
                for name, share in zip(classes, found.expected, strict=True)
                if np.isfinite(share)
            },
            "expected_interval": {
                name: [round(float(end), 6) for end in ends]
                for name, share, ends in zip(classes, found.expected, intervals, strict=True)
                if np.isfinite(share)
            },
            "learned_nothing": nothing,
        },
    }


def start_head(job: Job, data: Data, model: Model, batches: Batches) -> None:
    """Solve the head of a model on the backbone as it is, for the steps to start from (Kumar et al. 2022, LP-FT).

    Args:
        job: the training; ``self_training`` of its config is the round.
        data: its images.
        model: at its start; it gets the head.
        batches: what the steps will read; where that is no output of the whole backbone, it is computed once.

    Raises:
        UserError: fewer images than folds, or features that are not finite.
    """
    stages, source = model.backbone.num_stages, batches.train
    if source.stage != stages:
        with job.report.bar("computing image features") as bar:
            source = open_source(
                model,
                stages,
                data.paths,
                flip=False,
                workers=loader_workers(job.engine.device.type, job.config.workers),
                max_pixels=job.config.images.max_pixels,
                device=job.engine.device,
                progress=bar,
                names=data.contents,
                crew=job.engine.crew(),
            )
    labels = data.labels(job.config)
    put_into(
        model, job.engine.from_first(lambda: _solve(job, _known(labels), head_features(model, source, labels.rows)))
    )


def _known(labels: TrainingLabels) -> Columns:
    """The labels to learn from; where unknown ones are absent, all of them are known."""
    table = labels.table.select(labels.rows)
    random = at_random(table)
    sample = None if random.all() or not random.any() else random
    if not labels.config.assume_absent:
        return Columns.of_table(table, sample)
    mask = None if sample is None else table.hide(sample).dense() != 0
    return Columns.of(labels.labels(labels.rows)[0], mask)


def _solve(job: Job, known: Columns, features: NDArray[np.float32]) -> LinearHead:
    try:
        return fit(features, known, rounds=as_round(job.config.self_training), seed=job.config.seed)
    except ValueError as error:
        raise UserError(f"the head cannot be solved: {error}") from None


def head_features(model: Model, source: Source, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """What the classifier of a model takes, before standardising: float32 (len(rows), D).

    Args:
        model: with average pooling.
        source: images of which the whole backbone has been run; of the two sides, the image as it is.
        rows: of the source.
    """
    parts = [rows[a : a + _ROWS] for a in range(0, len(rows), _ROWS)]
    with torch.inference_mode():
        made = [model.head.pooled(values).flatten(1).numpy() for values in source.batches(parts, None)]
    return np.concatenate(made)


def put_into(model: Model, head: LinearHead) -> None:
    """Give a model with one head the weights of a solved one."""
    own: Any = model.head
    with torch.no_grad():
        own.shift.zero_()
        own.scale.fill_(1)
        own.classifier.weight.copy_(torch.from_numpy(head.weight.T.copy())[:, :, None, None])
        own.classifier.bias.copy_(torch.from_numpy(head.bias))


def as_round(config: SelfTrainingConfig) -> Round | None:
    """The round of a config; None where it has none."""
    return Round(config.present, config.absent, config.weight) if config.present or config.absent else None


def _loss(head: LinearHead, features: NDArray[np.float32], known: Columns) -> float:
    """Mean binary cross-entropy of the known labels; scores of some images at a time."""
    found, step = np.empty(len(known.value), np.float32), max(1, _SCORES // max(known.shape[1], 1))
    for low in range(0, len(features), step):
        scores = head.scores(features[low : low + step])
        first, last = np.searchsorted(known.image, [low, low + step])
        found[first:last] = scores[known.image[first:last] - low, known.cls[first:last]]
    return float(np.logaddexp(0, -found.astype(np.float64) * known.value).mean())
