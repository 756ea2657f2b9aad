"""What a training is made of while it runs: where it runs, what it reads, and what a checkpoint keeps of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from partlabel.core.compute import loader_workers
from partlabel.core.progress import Reporter
from partlabel.labels.table import LabelTable
from partlabel.models.model import Model, copy_model
from partlabel.training.batches import Source, Stored, open_source, statistics
from partlabel.training.checkpoints import Checkpoints
from partlabel.training.config import Config
from partlabel.training.data import Data
from partlabel.training.engine import Engine
from partlabel.training.folder import write_history, write_scores
from partlabel.training.labels import TrainingLabels
from partlabel.training.optimizer import Loss, build_optimizer, frozen_stages
from partlabel.training.run import THRESHOLDS


@dataclass(frozen=True)
class Job:
    """What stays the same while a training runs.

    Attributes:
        config: all settings.
        engine: device and processes.
        out: the run folder.
        loss: what is minimised.
        report: shows the progress, in the first process.
    """

    config: Config
    engine: Engine
    out: Path
    loss: Loss
    report: Reporter

    @property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints of the run folder."""
        return Checkpoints(self.out / "checkpoints")


@dataclass(frozen=True)
class Batches:
    """What steps read: images, or what the frozen stages make of them; ``train.stage`` says which."""

    train: Source
    validation: Source


@dataclass
class State:
    """What changes while a training runs; a checkpoint keeps it.

    Attributes:
        model: the network.
        net: the same as the processes share it, which is what is called in a step.
        optimizer: as the engine has set it up.
        labels: the labels now, which grow in rounds of relabelling.
        epoch: epochs done.
        best: mAP of the best epoch on the validation part; None where there is none yet.
        history: the rows of ``metrics.jsonl``.
    """

    model: Model
    net: Any
    optimizer: Any
    labels: TrainingLabels
    epoch: int
    best: float | None
    history: list[dict[str, Any]]


def build_model(job: Job, labels: LabelTable) -> Model:
    """The network at its start, on the device, with its first stages frozen; the seed decides the new weights."""
    config = job.config
    torch.manual_seed(config.seed)
    model = Model(config.model, labels.classes, config.images.size, labels.class_ids)
    if model.start_note:
        job.report.line(model.start_note)
    model.precision = config.precision
    model.freeze(frozen_stages(config.freeze, model))
    model.to(job.engine.device)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def open_batches(job: Job, data: Data, model: Model, *, new: bool) -> Batches:
    """Open what the steps read, which runs the frozen stages over all images once.

    Args:
        job: the training.
        data: its images.
        model: at its start, or as a checkpoint left it.
        new: nothing is resumed, so that a head on stored features starts with their mean and deviation.
    """
    config, device = job.config, job.engine.device
    stage = frozen_stages(config.freeze, model)
    what = "decoding images" if stage == 0 else "computing image features"

    def source(paths: list[Path], names: NDArray[np.bytes_] | None, flip: bool, what: str) -> Source:
        with job.report.bar(what) as bar:
            return open_source(
                model,
                stage,
                paths,
                flip=flip,
                workers=loader_workers(device.type, config.workers),
                max_pixels=config.images.max_pixels,
                device=device,
                progress=bar,
                names=names,
                crew=job.engine.crew(),
            )

    train = source(data.paths, data.contents, config.images.flip, what)
    own = data.validation_paths
    validation = train if own is None else source(own, data.validation_contents, False, f"{what} (validation)")
    untouched = new and model.started_from is None and config.optim.name != "closed-form"
    if untouched and stage == model.backbone.num_stages and isinstance(train, Stored):
        model.head.standardise(*statistics(train, data.labels(config).train_rows, model, device))
    return Batches(train, validation)


def begin(job: Job, data: Data, model: Model, checkpoint: dict[str, Any] | None) -> State:
    """Set up the optimizer and the labels, from a checkpoint where there is one."""
    optimizer = build_optimizer(model, job.config.optim)
    if checkpoint is not None:
        optimizer.load_state_dict(checkpoint["optimizer"])
    net, shared = job.engine.set_up(model, optimizer)
    labels = data.labels(job.config)
    labels.follow(model)
    state = State(model, net, shared, labels, epoch=0, best=None, history=[])
    if checkpoint is not None:
        labels.restore(checkpoint["labels"])
        job.engine.restore_precision(checkpoint["precision"])
        state.epoch, state.best, state.history = (checkpoint[name] for name in ("epoch", "best", "history"))
        if job.engine.first:
            write_history(job.out, state.history)
        job.report.line(f"going on after epoch {state.epoch}")
    return state


def save(job: Job, state: State, held_out: NDArray[np.float32] | None) -> None:
    """Write a checkpoint, the last model, and the best one where this epoch is the best so far.

    Args:
        job: the training.
        state: after an epoch, the row of which is the last of its history.
        held_out: scores of the validation part, or None.
    """
    row = state.history[-1]
    score = row["validation"]["mean_ap"] if row["validation"] else None
    improved = score is not None and (state.best is None or score > state.best)
    state.epoch, state.best = row["epoch"], score if improved else state.best
    if job.engine.first:
        state.model.save(job.out / "last")
        if improved or state.best is None:  # an epoch without a number never takes the place of one that has one
            (job.out / THRESHOLDS).unlink(missing_ok=True)  # they were chosen for the model that goes
            copy_model(job.out / "last", job.out / "best")
            if held_out is not None:
                write_scores(job.out, state.model.classes, held_out)
        kept = {
            "epoch": state.epoch,
            "model": state.model.state_dict(),
            "optimizer": state.optimizer.optimizer.state_dict(),
            "precision": job.engine.precision_state(),
            "best": state.best,
            "history": state.history,
            "labels": state.labels.state(),
        }
        job.checkpoints.save(state.epoch, kept)
        write_history(job.out, state.history)
    job.engine.wait()
