"""The training loop."""

from __future__ import annotations

import os
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from partlabel.core.compute import is_first_process, loader_workers
from partlabel.core.errors import UserError
from partlabel.core.files import write_json, write_text
from partlabel.core.lock import holding
from partlabel.core.progress import Reporter
from partlabel.images import flip_draw
from partlabel.labels.holdout import random_sample
from partlabel.labels.table import LabelTable
from partlabel.metrics import Metrics
from partlabel.models.model import Model, copy_model
from partlabel.training.batches import Source, Stored, open_source, statistics
from partlabel.training.card import write_card
from partlabel.training.checkpoints import Checkpoints
from partlabel.training.config import Config
from partlabel.training.engine import gather, start
from partlabel.training.held_out import SCORES_FILE, write_scores
from partlabel.training.labels import TrainingLabels
from partlabel.training.optimizer import batch_of_one, build_loss, build_optimizer, frozen_stages, keep_fixed
from partlabel.training.prepare import Prepared, check_labels, prepare
from partlabel.training.run import (
    create_run,
    epoch_line,
    headline,
    is_started,
    round_line,
    summary,
    write_history,
    write_round,
)
from partlabel.training.schedule import derived_seed, epoch_batches, learning_rate_factor, share
from partlabel.training.thresholds import FILE, fit_run
from partlabel.training.validate import ranks, validate


def train(
    config: Config,
    table: LabelTable,
    images: str | os.PathLike[str],
    run: str | os.PathLike[str],
    *,
    validation: LabelTable | None = None,
    truth: LabelTable | None = None,
    resume: bool = False,
) -> dict[str, Any]:
    """Train a model and write a run folder.

    The folder holds ``config.toml``, ``labels.parquet`` and ``validation.parquet`` (what was trained and validated on),
    ``metrics.jsonl`` (a row per epoch and round of relabelling), ``summary.json``, the models ``best/`` and ``last/``
    with their cards, and ``checkpoints/``; with relabelling also ``rounds/`` and ``relabelled.parquet``. Where labels
    are held out, thresholds by F1 and a calibration are chosen on them, see
    :func:`partlabel.training.thresholds.fit_run`. Under ``torchrun``, all processes train one model;
    ``optim.batch_size`` counts the images of all of them.

    Args:
        config: the run.
        table: the labels; image names are files in ``images``.
        images: folder of the pictures.
        run: folder to write; it must be new, or an unfinished run to ``resume``.
        validation: labels to validate on, of pictures in the same folder; None holds out ``config.validation`` of the
            table.
        truth: true labels, for experiments; the labels that relabelling adds are compared with them, nothing else.
        resume: go on with the newest whole checkpoint. On a CPU the result equals that of a run that was never stopped,
            to the bit; the epoch that was running begins again.

    Returns:
        The summary, as in ``summary.json``.

    Raises:
        UserError: labels from which nothing can be learned, pictures that are missing or bad, a run folder in use, a
            resumed run with another table or configuration, another process that writes into the folder; a warning
            about a round under ``relabel.stop_on_warning``.
    """
    one_writer = holding(run, "partlabel train", make=True) if is_first_process() else nullcontext()
    with one_writer:
        return _Training(config, table, Path(images), Path(run), validation, truth, resume).go()


class _Training:
    """The state of one training; each method is one step of it."""

    def __init__(
        self,
        config: Config,
        table: LabelTable,
        images: Path,
        run: Path,
        validation: LabelTable | None,
        truth: LabelTable | None,
        resume: bool,
    ) -> None:
        check_labels(table, config.unknown_as_absent)
        if validation is not None and validation.classes != table.classes:
            raise UserError("the validation labels have other classes than the training labels, or in another order")
        self.config, self.run = config, run
        self.fabric = start(config)
        self.first = self.fabric.global_rank == 0
        self.report = Reporter(quiet=not self.first)
        self.checkpoints = Checkpoints(run / "checkpoints")
        identity = {
            "config": config.to_dict(),
            "labels": table.content_hash(),
            "validation labels": validation.content_hash() if validation else None,
        }
        self.started = is_started(run, identity, resume)
        if resume and not self.started:
            self.report.line(f"{run} holds no run yet: a new one begins")
        self.loss = build_loss(config.loss, table.num_classes)
        prepared = prepare(table, images, config.images, config.workers, self.report)
        self._split(prepared, images, validation)
        self.labels = TrainingLabels(config, prepared.table, self.split_rows, truth)
        self._say_what_is_there()
        identity["labels of usable pictures"] = prepared.table.content_hash()
        is_started(run, identity, resume)
        torch.manual_seed(config.seed)
        self.model = Model(config.model, table.classes, config.images.size, table.class_ids)
        self.stage = frozen_stages(config.freeze, self.model)
        self.model.freeze(self.stage)
        self.model.to(self.fabric.device)
        if config.channels_last:
            self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.state = self.checkpoints.newest() if self.started else None
        if self.state is not None:
            self.model.load_state_dict(self.state["model"])
        self._open_sources(prepared)
        if self.first:  # only now, so that no mistake of the user leaves half a run behind
            create_run(run, identity)
            self._write_inputs()
        self.fabric.barrier()

    def _split(self, prepared: Prepared, images: Path, validation: LabelTable | None) -> None:
        """Rows to train and to validate on; measured are only labels that are a random sample."""
        everything, config = prepared.table, self.config
        rows, self.held_out = np.arange(everything.num_images), np.empty(0, np.int64)
        if validation is None and config.validation > 0:
            rows, self.held_out = everything.split([1 - config.validation, config.validation], config.seed)
        self.validation = None
        if validation is not None:
            self.validation = prepare(validation, images, config.images, config.workers, self.report)
        self.measured = random_sample(self.validation.table if self.validation else everything)
        self.skipped = prepared.skipped + (self.validation.skipped if self.validation else [])
        self.animated = prepared.animated
        self.split_rows = rows
        self.ranked = ranks(self.measured if self.validation else self.measured.select(self.held_out))

    def _say_what_is_there(self) -> None:
        self.about = {
            "classes": self.labels.table.num_classes,
            "images_trained": len(self.labels.train_rows),
            "images_without_labels": len(self.split_rows) - len(self.labels.train_rows),
            "images_skipped": len(self.skipped),
            "images_animated": len(self.animated),
            "known_labels": int(np.diff(self.labels.table.indptr)[self.labels.train_rows].sum()),
            "assume_absent": self.config.assume_absent,
            "processes": self.fabric.world_size,
        }
        self.report.line(
            f"{self.about['images_trained']} images to train on, "
            f"{self.validation.table.num_images if self.validation else len(self.held_out)} to validate on, "
            f"{self.about['images_without_labels']} without a known label, {len(self.skipped)} skipped"
        )

    def _write_inputs(self) -> None:
        table = self.labels.table
        table.select(self.split_rows).write_parquet(self.run / "labels.parquet")
        if self.validation or len(self.held_out):
            held = self.validation.table if self.validation else table.select(self.held_out)
            held.write_parquet(self.run / "validation.parquet")
        if self.skipped:
            write_text(self.run / "skipped.txt", "".join(f"{name}: {why}\n" for name, why in self.skipped))

    def _open_sources(self, prepared: Prepared) -> None:
        config = self.config
        workers = loader_workers(self.fabric.device.type, config.workers)
        several = self.fabric.world_size > 1

        def source(paths: list[Path], flip: bool, what: str) -> Source:
            with self.report.bar(what) as bar:
                return open_source(
                    self.model,
                    self.stage,
                    paths,
                    flip=flip,
                    workers=workers,
                    max_pixels=config.images.max_pixels,
                    device=self.fabric.device,
                    progress=bar,
                )

        what = "decoding pictures" if self.stage == 0 else f"running the {self.stage} frozen stages"
        if several and not self.first:
            self.fabric.barrier()  # the first process fills the cache, the others find it
        self.source = source(prepared.paths, config.images.flip, what)
        self.validation_source = self.source
        if self.validation:
            self.validation_source = source(self.validation.paths, False, f"{what} (validation)")
        if several and self.first:
            self.fabric.barrier()
        new = self.state is None and self.model.started_from is None
        if new and self.stage == self.model.backbone.num_stages and isinstance(self.source, Stored):
            self.model.head.standardise(*statistics(self.source, self.labels.train_rows, self.fabric.device))

    def begin(self) -> tuple[int, float | None, list[dict[str, Any]]]:
        """Set up the optimizer, from the newest checkpoint where there is one: epochs done, best score, their rows."""
        optimizer = build_optimizer(self.model, self.config.optim)
        state = self.state
        if state is not None:
            optimizer.load_state_dict(state["optimizer"])
        self.net, self.optimizer = self.fabric.setup(self.model, optimizer)
        self.labels.follow(self.model)
        if state is None:
            return 0, None, []
        self.labels.restore(state["labels"])
        if state["precision"]:
            self.fabric.strategy.precision.load_state_dict(state["precision"])
        if self.first:
            write_history(self.run, state["history"])
        self.report.line(f"going on after epoch {state['epoch']}")
        return state["epoch"], state["best"], state["history"]

    def go(self) -> dict[str, Any]:
        """Run all epochs that are left, then write the summary."""
        start, best, history = self.begin()
        for epoch in range(start, self.config.optim.epochs):
            if epoch + 1 in self.config.relabel.before:
                history.append(self.relabel(epoch))
            row = self.epoch(epoch)
            metrics, held_out = self._validate()
            row["validation"] = measured = None if metrics is None else headline(metrics, self.ranked)
            score = measured["mean_ap"] if measured else None
            history.append(row)
            self.report.line(epoch_line(row, self.config.optim.epochs))
            improved = score is not None and (best is None or score > best)
            best = score if improved else best
            if self.first:
                self._save(epoch + 1, best, history, improved or score is None, held_out)
            self.fabric.barrier()
        came_to = summary(history, **self.about)
        if self.first:  # thresholds stay where a person has chosen some since
            write_json(self.run / "summary.json", came_to)
            if (self.run / SCORES_FILE).is_file() and not (self.run / FILE).is_file():
                fit_run(self.run)
            write_card(self.run)
        self.fabric.barrier()
        return came_to

    def relabel(self, epoch: int) -> dict[str, Any]:
        """Carry out the round before an epoch, counted from 0, and give its row of ``metrics.jsonl``."""
        world = self.fabric.world_size
        with self.report.bar(f"relabelling before epoch {epoch + 1}") as bar:
            row = self.labels.relabel(
                self.model,
                self.source,
                epoch,
                rank=self.fabric.global_rank,
                world=world,
                gather=lambda own: gather(own, world),
                progress=bar,
            )
        self.report.line(round_line(row))
        if self.first:
            write_round(self.run, row)
            self.labels.table.select(self.split_rows).write_parquet(self.run / "relabelled.parquet")
        if row["warnings"] and self.config.relabel.stop_on_warning:
            raise UserError(f"stopped after round {row['round']} of relabelling, as it gave a warning", row["warnings"])
        return {name: value for name, value in row.items() if name != "classes"}

    def epoch(self, epoch: int) -> dict[str, Any]:
        """Train one epoch, counted from 0, and give its row of ``metrics.jsonl``."""
        config, world, rank = self.config, self.fabric.world_size, self.fabric.global_rank
        train_rows = self.labels.train_rows
        batches = epoch_batches(len(train_rows), config.optim.batch_size, config.seed, epoch)
        rows = [train_rows[batch] for batch in batches]
        mine = [share(batch, world, rank) for batch in rows]
        flips = [flip_draw(config.seed, epoch, own) for own in mine] if config.images.flip else None
        torch.manual_seed(derived_seed(config.seed, epoch, rank))
        self.net.train()
        keep_fixed(self.model, self.stage, self.config.freeze_batch_norm)
        total = torch.zeros((), device=self.fabric.device)
        skipped, began = 0, time.perf_counter()
        with self.report.bar(f"epoch {epoch + 1}") as bar:
            for i, pictures in enumerate(self.source.batches(mine, flips)):
                factor = learning_rate_factor(config.optim, epoch + (i + 0.5) / len(rows))
                for group in self.optimizer.param_groups:
                    group["lr"] = group["base_lr"] * factor
                total += self._step(pictures, mine[i], len(rows[i]), epoch + 1) * len(rows[i])
                skipped += not self._update()
                bar(i + 1, len(rows))
        if world > 1:
            dist.all_reduce(total)
            total /= world
        seconds = time.perf_counter() - began
        self._share_buffers()
        if not torch.isfinite(total) or not all(torch.isfinite(p).all() for p in self.model.parameters()):
            raise UserError(f"the loss is not finite in epoch {epoch + 1}; choose a lower learning rate")
        return {
            "epoch": epoch + 1,
            "loss": float(total) / len(train_rows),
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "seconds": round(seconds, 3),
            "images_per_second": round(len(train_rows) / seconds, 1),
            "skipped_steps": skipped,
        }

    def _share_buffers(self) -> None:
        """Average the statistics of batch normalisation over the processes, so that all validate and save one model."""
        if self.fabric.world_size > 1:
            for buffer in self.model.buffers():
                if buffer.is_floating_point():
                    dist.all_reduce(buffer)
                    buffer /= self.fabric.world_size

    def _step(self, pictures: Tensor, own: NDArray[np.int64], batch_size: int, epoch: int) -> Tensor:
        """Forward and backward of this process's share of a batch; the loss is the mean over the whole batch.

        Distributed processes average their gradients, so the sum over the own rows is multiplied by their number. A
        process without a row in a small batch runs one picture whose labels have weight 0, as it must take part.
        """
        labels, weight = self.labels.labels(own)
        if self.fabric.global_rank >= batch_size:
            weight = torch.zeros(labels.shape)
        x = self._to_device(pictures)
        with batch_of_one(self.model, len(own) == 1):
            scores = self.net(x, self.stage)
        known = torch.from_numpy(labels).to(scores.device)
        weight = None if weight is None else weight.to(scores.device)
        heads = scores.unbind() if scores.ndim == 3 else (scores,)
        loss = torch.stack([self.loss(head, known, weight=weight, epoch=epoch) for head in heads]).sum() / batch_size
        self.fabric.backward(loss * self.fabric.world_size)
        return loss.detach() * (self.fabric.world_size / len(heads))

    def _update(self) -> bool:
        """Apply the gradient; False where half precision overflowed and the step was left out."""
        clip = self.config.optim.clip_norm
        if clip is not None:
            self.fabric.clip_gradients(self.net, self.optimizer, max_norm=clip, error_if_nonfinite=False)
        scaler = getattr(self.fabric.strategy.precision, "scaler", None)
        before = scaler.get_scale() if scaler is not None else 0.0
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.labels.after_step()
        return scaler is None or scaler.get_scale() >= before

    def _to_device(self, pictures: Tensor) -> Tensor:
        x = pictures.to(self.fabric.device, non_blocking=True)
        return x.contiguous(memory_format=torch.channels_last) if self.config.channels_last and x.shape[-1] > 1 else x

    def _validate(self) -> tuple[Metrics | None, NDArray[np.float32] | None]:
        """Metrics on the known labels of the validation part, and its scores (N, C)."""
        table = self.measured
        rows = np.arange(table.num_images) if self.validation else self.held_out
        if not len(rows):
            return None, None
        self.net.eval()
        return validate(
            lambda pictures: self.net(self._to_device(pictures), self.stage),
            self.validation_source,
            table,
            rows,
            batch_size=max(self.config.optim.batch_size, 64),
            rank=self.fabric.global_rank,
            world=self.fabric.world_size,
        )

    def _save(
        self,
        epoch: int,
        best: float | None,
        history: list[dict[str, Any]],
        is_best: bool,
        held_out: NDArray[np.float32] | None,
    ) -> None:
        state = {
            "epoch": epoch,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.optimizer.state_dict(),
            "precision": self.fabric.strategy.precision.state_dict(),
            "best": best,
            "history": history,
            "labels": self.labels.state(),
        }
        self.model.save(self.run / "last")
        if is_best:
            copy_model(self.run / "last", self.run / "best")
            if held_out is not None:
                write_scores(self.run, self.model.classes, held_out)
        self.checkpoints.save(epoch, state)
        write_history(self.run, history)
