"""The training loop, from labels and images to a run folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from partlabel.core.errors import UserError
from partlabel.core.files import sweep_temporary
from partlabel.core.lock import holding
from partlabel.core.progress import Reporter
from partlabel.labels.table import LabelTable
from partlabel.training.agreement import agree, agree_on_data
from partlabel.training.callbacks import Callbacks
from partlabel.training.checkpoints import fitting
from partlabel.training.choosing import automatic
from partlabel.training.config import Config
from partlabel.training.data import Data, prepare_data
from partlabel.training.engine import before_start, start
from partlabel.training.epoch import train_epoch
from partlabel.training.finish import finish
from partlabel.training.folder import is_started, write_inputs, write_round
from partlabel.training.head import solve_head, start_head
from partlabel.training.optimizer import build_loss
from partlabel.training.own_parts import build_augmentation, chosen, keep, names_of
from partlabel.training.presets import AUTO
from partlabel.training.run import RELABELLED, Run
from partlabel.training.state import Batches, Job, State, begin, build_model, newest, open_batches, save
from partlabel.training.summary import epoch_line, has_converged, round_line
from partlabel.training.validate import validate

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import nn


def train(
    labels: LabelTable,
    images: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    config: Config | None = None,
    preset: str | None = None,
    validation: LabelTable | None = None,
    validation_images: str | os.PathLike[str] | None = None,
    truth: LabelTable | None = None,
    after: Run | str | os.PathLike[str] | None = None,
    model: nn.Module | None = None,
    transform: Callable[[Image], Any] | None = None,
    dataset: Any = None,
    callbacks: Sequence[Any] = (),
    resume: bool = False,
) -> Run:
    """Train a model and write a run folder.

    The folder holds ``config.toml``, ``labels.parquet`` and ``validation.parquet`` (what was trained and validated on),
    ``metrics.jsonl`` (a row per epoch and round of relabelling), ``summary.json``, the models ``best/`` and ``last/``
    with their cards, and ``checkpoints/``; with relabelling also ``rounds/`` and ``relabelled.parquet``. Where labels
    are held out, thresholds by F1 and a calibration are chosen on them, see
    :func:`partlabel.training.thresholds.fit_run`. Under ``torchrun``, all processes train one model;
    ``optim.batch_size`` counts the images of all of them.

    Args:
        labels: the labels; image names are files in ``images``.
        images: folder of the images.
        out: folder to write; it must be new, or an unfinished run to ``resume``.
        config: all settings; None takes those of the preset.
        preset: name of the settings, see :meth:`Config.preset`, or "auto", see :mod:`partlabel.training.choosing`; None
            is "small".
        validation: labels to validate on; None holds out ``config.validation`` of the table.
        validation_images: folder of their images; None: they lie in ``images`` too. In the run, these images are called
            ``folder/name``, as two folders may hold two images of one name.
        truth: true labels, for experiments; the labels that relabelling adds are compared with them, nothing else.
        after: an earlier run on a table that has grown since. Without config and preset its settings are taken; its
            images stay in the part where they were; and a report on this run compares the two.
        model: a network of one's own, of which a copy is trained: normalised float images (N, 3, size, size) to scores
            (N, C). If it has ``stages``, a sequence of modules, and ``head``, then ``config.freeze`` and
            ``optim.layer_decay`` count its stages. Only weights are stored: the run that comes back has the network,
            one that is opened later needs it, ``Run(folder, model=network)``. Without config and preset: "gpu".
        transform: an augmentation of one's own, from an RGB ``PIL.Image`` to an image (``PIL.Image``, uint8 tensor
            (3, H, W) or uint8 array (H, W, 3)); ``torch``, ``numpy.random`` and ``random`` are seeded for each call.
            Training images alone go through it, and are resized and, with ``images.flip``, mirrored afterwards.
        dataset: images of one's own behind the same labels, kept in the folder ``images``, which is made: has ``len``
            and gives the image of each row, or is iterable and gives (image, row), see
            :func:`partlabel.images.own_dataset.keep_images`. What the folder has already is not read again.
        callbacks: what is called as the training goes, see :class:`partlabel.Callback`, and loggers (of Lightning
            Fabric, :class:`partlabel.training.callbacks.WandB`, :class:`~partlabel.training.callbacks.MLflow`).
        resume: go on with the newest whole checkpoint. On a CPU the result equals that of a run that was never stopped,
            to the bit; the epoch that was running begins again.

    Returns:
        The run.

    Raises:
        UserError: a preset beside a config, ``validation_images`` without ``validation``, labels from which nothing can
            be learned, images that are missing or bad, a run folder in use, a resumed run with another table or
            configuration; a warning about a round under ``relabel.stop_on_warning``.

    >>> import partlabel as pl
    >>> labels = pl.read("csv", "labels.csv", coding="1=present,0=absent,blank=unknown")
    >>> config = pl.Config.read("run/config.toml").replace(optim__epochs=1)
    >>> run = pl.train(labels, images="photos", out="another", config=config)
    >>> run.labels.classes, run.is_finished
    (('red', 'green'), True)
    """
    with before_start():
        earlier = Run(after) if after is not None else None
        called = Callbacks(callbacks)
        if preset == AUTO and config is None:
            if model is not None or transform is not None or dataset is not None:
                raise UserError(f"the preset {AUTO} does not go with a network, a transform or a data set of your own")
            config, preset = automatic(labels, Path(images), Path(out), resume), None
        elsewhere = None
        if validation_images is not None:
            validation, elsewhere = _of_own_folder(validation, Path(validation_images), labels)
        config = chosen(config, preset, earlier, model)
    with start(config) as engine, ExitStack() as held:  # a mistake ends all processes, and is said once
        loss = build_loss(config.loss, labels.num_classes)
        reporter = Reporter(quiet=not engine.first)
        job = Job(config, engine, Path(out), loss, reporter, build_augmentation(config, transform), model)
        engine.from_first(lambda: held.enter_context(holding(out, "partlabel train", make=True)))
        if dataset is not None:
            keep(job, dataset, labels, Path(images))
        crew = agree(engine, labels, Path(images), validation, truth, config, elsewhere)

        identity = _identity(config, labels, validation, earlier, elsewhere) | names_of(transform)
        started = engine.from_first(lambda: is_started(job.out, identity, resume))
        sweep_temporary()
        if resume and not started:
            job.report.line(f"{out} holds no run yet: a new one begins")
        with engine.together():
            facts = (validation, truth, reporter, earlier, elsewhere, crew)
            data = prepare_data(config, labels, Path(images), *facts)
        agree_on_data(engine, data)
        identity["labels of usable images"] = data.table.content_hash()
        engine.from_first(lambda: is_started(job.out, identity, resume))

        with engine.together():
            if config.optim.patience is not None and not len(data.held_out):
                raise UserError("optim.patience stops where validation gets no better, and nothing is held out for it")
            net = build_model(job, labels)
        checkpoint = engine.from_first(lambda: newest(job, data)) if started else None
        if checkpoint is not None:
            with fitting(job.checkpoints.folder):
                net.load_state_dict(checkpoint["model"])
        batches = open_batches(job, data, net, new=checkpoint is None)
        engine.from_first(lambda: write_inputs(job.out, identity, data))  # only now: a mistake leaves no half run

        if checkpoint is None and config.optim.start == "closed-form" and config.optim.name != "closed-form":
            start_head(job, data, net, batches)
        state = begin(job, data, net, checkpoint)
        _tell(job, called, "on_start", config.to_dict(), state.epoch)
        run_epochs(job, state, data, batches, called)
        run = finish(job, state, data, batches)
        _tell(job, called, "on_end", run)
        return run


def run_epochs(job: Job, state: State, data: Data, batches: Batches, called: Callbacks) -> None:
    """Run the epochs that are left, with their rounds, validation and checkpoints."""
    config = job.config
    run_epoch = solve_head if config.optim.name == "closed-form" else train_epoch
    for epoch in range(state.epoch, config.epochs):
        if has_converged(state.history, config.optim.patience):
            job.report.line(f"stopped after epoch {epoch}: none of the last {config.optim.patience} was better")
            return
        if epoch + 1 in config.relabel.before:
            state.history.append(relabel(job, state, data, batches, epoch))
            _tell(job, called, "on_round_end", state.history[-1])
        row = run_epoch(job, state, batches, epoch)
        row["validation"], scores = validate(job, state, data, batches)
        state.history.append(row)
        job.report.line(epoch_line(row, config.epochs))
        save(job, state, scores)
        if _tell(job, called, "on_epoch_end", row):
            job.report.line(f"stopped after epoch {epoch + 1} by a callback")
            return


def _tell(job: Job, called: Callbacks, method: str, *arguments: Any) -> bool:
    """Call the callbacks in the first process; all hear whether one answered True."""
    return bool(called.all) and job.engine.from_first(lambda: called.call(method, *arguments))


def relabel(job: Job, state: State, data: Data, batches: Batches, epoch: int) -> dict[str, Any]:
    """Carry out the round of relabelling before an epoch, counted from 0, and give its row of ``metrics.jsonl``.

    Raises:
        UserError: the round gave a warning, and the training stops then.
    """
    with job.report.bar(f"relabelling before epoch {epoch + 1}", "batches") as bar:
        own = nullcontext() if job.config.relabel.ema else state.as_saved()
        with own:
            row = state.labels.relabel(state.model, batches.train, epoch, job.engine, bar)
    job.report.line(round_line(row))
    if job.engine.first:
        write_round(job.out, row)
        state.labels.table.select(data.rows).write_parquet(job.out / RELABELLED)
    if row["warnings"] and job.config.relabel.stop_on_warning:
        raise UserError(f"stopped after round {row['round']} of relabelling, as it gave a warning", row["warnings"])
    return {name: value for name, value in row.items() if name != "classes"}


def _of_own_folder(
    validation: LabelTable | None, folder: Path, labels: LabelTable
) -> tuple[LabelTable, tuple[str, Path]]:
    """Call the validation images after their folder, which no name of the training labels does."""
    if validation is None:
        raise UserError("validation_images is the folder of the images of a validation table, and none is given")
    folder = folder.resolve()
    trained = labels.images.to_pylist()
    name = folder.name or "validation"
    starts = chain([name], (f"{name}-{number}" for number in count(2)))
    start = next(start for start in starts if not any(name.startswith(f"{start}/") for name in trained))
    names = pa.array([f"{start}/{name}" for name in validation.images.to_pylist()], pa.string())
    return replace(validation, images=names), (start, folder)


def _identity(
    config: Config,
    labels: LabelTable,
    validation: LabelTable | None,
    earlier: Run | None,
    elsewhere: tuple[str, Path] | None,
) -> dict[str, Any]:
    """What makes two runs the same, as plain values."""
    return {
        **({} if earlier is None else {"after": str(earlier.folder.resolve())}),
        **({} if elsewhere is None else {"validation images": [elsewhere[0], str(elsewhere[1])]}),
        "config": config.to_dict(),
        "labels": labels.content_hash(),
        "validation labels": validation.content_hash() if validation else None,
    }
