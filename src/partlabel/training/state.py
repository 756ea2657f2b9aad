"""What a training is made of while it runs: where it runs, what it reads, and what a checkpoint keeps of it."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from partlabel.core.compute import loader_workers
from partlabel.core.errors import PartlabelWarning, UserError
from partlabel.core.progress import Reporter
from partlabel.images.augment import Augment, AugmentedImages, OwnTransform, enlarged
from partlabel.labels.table import LabelTable
from partlabel.models.model import Model
from partlabel.models.stored import copy_model
from partlabel.training.batches import Files, Source, Stored, open_source, statistics
from partlabel.training.checkpoints import Checkpoints, fitting
from partlabel.training.config import Config
from partlabel.training.data import Data
from partlabel.training.engine import Engine
from partlabel.training.folder import write_history, write_scores
from partlabel.training.labels import TrainingLabels, with_rounds
from partlabel.training.optimizer import (
    Loss,
    WeightMean,
    build_optimizer,
    freezes_batch_norm,
    frozen_stages,
    images_at_once,
    synchronise,
    unused,
)
from partlabel.training.run import RELABELLED, THRESHOLDS


@dataclass(frozen=True)
class Job:
    """What stays the same while a training runs.

    Attributes:
        config: all settings.
        engine: device and processes.
        out: the run folder.
        loss: what is minimised.
        report: shows the progress, in the first process.
        augment: what training images go through besides flips; None leaves them as they are.
        network: a network of a user's, or None.
    """

    config: Config
    engine: Engine
    out: Path
    loss: Loss
    report: Reporter
    augment: Augment | None = None
    network: nn.Module | None = None

    @property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints of the run folder."""
        return Checkpoints(self.out / "checkpoints")


@dataclass(frozen=True)
class Batches:
    """What steps read: images, or what the frozen stages make of them; ``train.stage`` says which.

    ``views``: an epoch, from 0, to the images as it sees them; None where they are those of ``train``, mirrored.
    """

    train: Source
    validation: Source
    views: Callable[[int], Source] | None = None

    def seen_in(self, epoch: int) -> Source:
        """What the steps of an epoch, counted from 0, learn from."""
        return self.train if self.views is None else self.views(epoch)


@dataclass
class State:
    """What changes while a training runs; a checkpoint keeps it.

    Attributes:
        model: the network.
        net: the same as the processes share it, which is what is called in a step.
        optimizer: as the engine has set it up.
        labels: the labels now, which grow in rounds of relabelling.
        mean: the running mean of the weights that is validated and saved; None: the weights themselves are.
        epoch: epochs done.
        best: mAP of the best epoch on the validation part; None where there is none yet.
        history: the rows of ``metrics.jsonl``.
    """

    model: Model
    net: Any
    optimizer: Any
    labels: TrainingLabels
    mean: WeightMean | None
    epoch: int
    best: float | None
    history: list[dict[str, Any]]

    def as_saved(self) -> AbstractContextManager[None]:
        """Let the model have the weights that are validated and saved."""
        return nullcontext() if self.mean is None else self.mean.in_place()


def build_model(job: Job, labels: LabelTable) -> Model:
    """The network at its start, on the device, with its first stages frozen; the seed decides the new weights."""
    config = job.config
    torch.manual_seed(config.seed)
    own = copy.deepcopy(job.network)  # the user's stays as it is
    model = Model(config.model, labels.classes, config.images.size, labels.class_ids, network=own)
    if own is not None and config.freeze != "none" and not model.backbone.has_stages:
        raise UserError("a network of your own without `stages` and `head` cannot be frozen in part: freeze = 'none'")
    if model.start_note:
        job.report.line(model.start_note)
    model.precision = config.precision
    model.freeze(frozen_stages(config.freeze, model))
    if config.freeze_batch_norm is None and config.freeze != "all" and freezes_batch_norm(config, job.engine.world):
        _tell_of_few(job)
    if config.sync_batch_norm:
        synchronise(model, job.engine.device, job.engine.world)
    model.to(job.engine.device)
    if own is None:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def _tell_of_few(job: Job) -> None:
    """Say that batch normalisation keeps its statistics because a step has few images for it, and what would help."""
    world, count = job.engine.world, images_at_once(job.config, job.engine.world)
    if world == 1 or job.config.sync_batch_norm:
        job.report.line("batch normalisation keeps its mean and variance, as few images go through the network at once")
        return
    warnings.warn(
        f"each of the {world} processes has {count} images of a batch of {job.config.optim.batch_size} at once, too "
        "few for batch normalisation, which keeps the mean and variance of the pretrained weights; on GPUs, "
        "sync_batch_norm = true takes those of all processes together",
        PartlabelWarning,
        stacklevel=2,
    )


def open_batches(job: Job, data: Data, model: Model, *, new: bool) -> Batches:
    """Open what the steps read, which runs the frozen stages over all images once.

    Args:
        job: the training.
        data: its images.
        model: at its start, or as a checkpoint left it.
        new: nothing is resumed, so that a head on stored features starts with their mean and deviation.
    """
    config, device = job.config, job.engine.device
    # images that change in each epoch go through the frozen stages anew
    stage = frozen_stages(config.freeze, model) if job.augment is None else 0
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
                store=job.augment is None,
                names=names,
                crew=job.engine.crew(),
            )

    train = source(data.paths, data.contents, config.images.flip, what)
    own = data.validation_paths
    validation = train if own is None else source(own, data.validation_contents, False, f"{what} (validation)")
    untouched = new and model.started_from is None and config.optim.name != "closed-form"
    untouched = untouched and not config.model.is_own
    if untouched and stage == model.backbone.num_stages and isinstance(train, Stored):
        model.head.standardise(*statistics(train, data.labels(config).train_rows, model, device))
    return Batches(train, validation, None if job.augment is None else _views(job, data.paths, job.augment))


def _views(job: Job, paths: list[Path], augment: Augment) -> Callable[[int], Source]:
    """What each epoch sees of the images."""
    config, workers = job.config, loader_workers(job.engine.device.type, job.config.workers)
    facts: dict[str, Any] = {"seed": config.seed, "max_pixels": config.images.max_pixels}
    if not isinstance(augment, OwnTransform):  # one's own gets whole images
        facts["decoded"] = enlarged(config.images.size, config.augment.crop)
    return lambda epoch: Files(AugmentedImages(paths, config.images.size, augment, epoch=epoch, **facts), workers)


def newest(job: Job, data: Data) -> dict[str, Any] | None:
    """Read the newest checkpoint, with the labels of the rounds until then; None where there is none yet.

    Raises:
        UserError: there are checkpoints and none is whole, or the labels of the rounds are missing.
    """
    found = job.checkpoints.newest()
    if found is None:
        return None
    with fitting(job.checkpoints.folder, found):
        return {**found, "labels": with_rounds(found["labels"], data.table, job.out / RELABELLED)}


def begin(job: Job, data: Data, model: Model, checkpoint: dict[str, Any] | None) -> State:
    """Set up the optimizer and the labels, from a checkpoint where there is one."""
    optimizer = build_optimizer(model, job.config.optim)
    if checkpoint is not None:
        with fitting(job.checkpoints.folder):
            optimizer.load_state_dict(checkpoint["optimizer"])
    if job.engine.world > 1:  # a process would wait for their gradients for ever
        for parameter in unused(model):
            parameter.requires_grad_(False)
    net, shared = job.engine.set_up(model, optimizer)
    labels = data.labels(job.config)
    labels.follow(model)
    mean = WeightMean(model, job.config.optim.ema) if job.config.optim.ema else None
    state = State(model, net, shared, labels, mean, epoch=0, best=None, history=[])
    if checkpoint is not None:
        with fitting(job.checkpoints.folder):
            if mean is not None:
                mean.restore(checkpoint["mean"])
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
        with state.as_saved():
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
            "mean": None if state.mean is None else state.mean.state(),
            "precision": job.engine.precision_state(),
            "best": state.best,
            "history": state.history,
            "labels": state.labels.state(),
        }
        job.checkpoints.save(state.epoch, kept)
        write_history(job.out, state.history)
    job.engine.wait()
