"""The training loop, from labels and images to a run folder."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from partlabel.core.errors import UserError
from partlabel.core.lock import holding
from partlabel.core.progress import Reporter
from partlabel.labels.table import LabelTable
from partlabel.training.agreement import agree, agree_on_data
from partlabel.training.choosing import automatic
from partlabel.training.config import Config
from partlabel.training.data import Data, prepare_data
from partlabel.training.engine import start
from partlabel.training.epoch import train_epoch
from partlabel.training.finish import finish
from partlabel.training.folder import is_started, write_inputs, write_round
from partlabel.training.head import solve_head
from partlabel.training.optimizer import build_loss
from partlabel.training.presets import AUTO, DEFAULT
from partlabel.training.run import RELABELLED, Run
from partlabel.training.state import Batches, Job, State, begin, build_model, open_batches, save
from partlabel.training.summary import epoch_line, round_line
from partlabel.training.validate import validate


def train(
    labels: LabelTable,
    images: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    config: Config | None = None,
    preset: str | None = None,
    validation: LabelTable | None = None,
    truth: LabelTable | None = None,
    after: Run | str | os.PathLike[str] | None = None,
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
        validation: labels to validate on, of images in the same folder; None holds out ``config.validation`` of the
            table.
        truth: true labels, for experiments; the labels that relabelling adds are compared with them, nothing else.
        after: an earlier run on a table that has grown since. Without config and preset its settings are taken; its
            images stay in the part where they were; and a report on this run compares the two.
        resume: go on with the newest whole checkpoint. On a CPU the result equals that of a run that was never stopped,
            to the bit; the epoch that was running begins again.

    Returns:
        The run.

    Raises:
        UserError: a preset beside a config, labels from which nothing can be learned, images that are missing or bad, a
            run folder in use, a resumed run with another table or configuration; a warning about a round under
            ``relabel.stop_on_warning``.

    >>> import partlabel as pl
    >>> labels = pl.read("csv", "labels.csv", coding="1=present,0=absent,blank=unknown")
    >>> config = pl.Config.read("run/config.toml").replace(optim__epochs=1)
    >>> run = pl.train(labels, images="photos", out="another", config=config)
    >>> run.labels.classes, run.is_finished
    (('red', 'green'), True)
    """
    earlier = Run(after) if after is not None else None
    if preset == AUTO and config is None:
        config, preset = automatic(labels, Path(images), Path(out), resume), None
    config = _chosen(config, preset, earlier)
    with start(config) as engine, ExitStack() as held:  # a mistake ends all processes, and is said once
        loss = build_loss(config.loss, labels.num_classes)
        job = Job(config, engine, Path(out), loss, Reporter(quiet=not engine.first))
        engine.from_first(lambda: held.enter_context(holding(out, "partlabel train", make=True)))
        crew = agree(engine, labels, Path(images), validation, truth, config)

        identity = _identity(config, labels, validation, earlier)
        started = engine.from_first(lambda: is_started(job.out, identity, resume))
        if resume and not started:
            job.report.line(f"{out} holds no run yet: a new one begins")
        with engine.together():
            data = prepare_data(config, labels, Path(images), validation, truth, job.report, earlier, crew)
        agree_on_data(engine, data)
        identity["labels of usable images"] = data.table.content_hash()
        engine.from_first(lambda: is_started(job.out, identity, resume))

        with engine.together():
            model = build_model(job, labels)
        checkpoint = engine.from_first(job.checkpoints.newest) if started else None
        if checkpoint is not None:
            model.load_state_dict(checkpoint["model"])
        batches = open_batches(job, data, model, new=checkpoint is None)
        engine.from_first(lambda: write_inputs(job.out, identity, data))  # only now: a mistake leaves no half run

        state = begin(job, data, model, checkpoint)
        run_epoch = solve_head if config.optim.name == "closed-form" else train_epoch
        for epoch in range(state.epoch, config.epochs):
            if epoch + 1 in config.relabel.before:
                state.history.append(relabel(job, state, data, batches, epoch))
            row = run_epoch(job, state, batches, epoch)
            row["validation"], scores = validate(job, state, data, batches)
            state.history.append(row)
            job.report.line(epoch_line(row, config.epochs))
            save(job, state, scores)
        return finish(job, state, data, batches)


def relabel(job: Job, state: State, data: Data, batches: Batches, epoch: int) -> dict[str, Any]:
    """Carry out the round of relabelling before an epoch, counted from 0, and give its row of ``metrics.jsonl``.

    Raises:
        UserError: the round gave a warning, and the training stops then.
    """
    with job.report.bar(f"relabelling before epoch {epoch + 1}") as bar:
        row = state.labels.relabel(state.model, batches.train, epoch, job.engine, bar)
    job.report.line(round_line(row))
    if job.engine.first:
        write_round(job.out, row)
        state.labels.table.select(data.rows).write_parquet(job.out / RELABELLED)
    if row["warnings"] and job.config.relabel.stop_on_warning:
        raise UserError(f"stopped after round {row['round']} of relabelling, as it gave a warning", row["warnings"])
    return {name: value for name, value in row.items() if name != "classes"}


def _chosen(config: Config | None, preset: str | None, earlier: Run | None) -> Config:
    if config is not None and preset is not None:
        raise UserError("config and preset both choose the settings; give one of them")
    if config is None and preset is None and earlier is not None:
        return earlier.config
    return Config.preset(preset or DEFAULT) if config is None else config


def _identity(config: Config, labels: LabelTable, validation: LabelTable | None, earlier: Run | None) -> dict[str, Any]:
    """What makes two runs the same, as plain values."""
    return {
        **({} if earlier is None else {"after": str(earlier.folder.resolve())}),
        "config": config.to_dict(),
        "labels": labels.content_hash(),
        "validation labels": validation.content_hash() if validation else None,
    }
