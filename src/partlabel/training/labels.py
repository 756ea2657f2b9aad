"""The curriculum inside a training: what the labels are after each round, and what a checkpoint keeps of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from partlabel.core.errors import UserError
from partlabel.labels.holdout import shared_pairs
from partlabel.labels.table import ORIGINS, LabelTable
from partlabel.models.model import Model
from partlabel.training.batches import Source
from partlabel.training.config import Config
from partlabel.training.curriculum import Added, Progress, choose, record
from partlabel.training.engine import Engine
from partlabel.training.optimizer import RunningMean
from partlabel.training.schedule import epoch_batches

_MODEL = ORIGINS.index("model")


class TrainingLabels:
    """The labels of a training, which grow before the epochs in ``relabel.before``.

    Args:
        config: the training.
        table: the labels at the start.
        rows: the images of the training part; only these are relabelled.
        truth: true labels to compare with, or None.

    Raises:
        UserError: no image has a known label.

    Attributes:
        table: the labels now.
    """

    def __init__(self, config: Config, table: LabelTable, rows: NDArray[np.int64], truth: LabelTable | None) -> None:
        self.config, self.truth, self.rows = config, truth, rows
        self.table = table
        self._rounds: list[Added] = []
        self._weak: LabelTable | None = None
        self._mean: RunningMean | None = None
        self._learned = np.bincount(table.select(rows).indices, minlength=table.num_classes) > 0
        if not len(self.train_rows):
            raise UserError("no image with a known label is left to train on")

    def follow(self, model: Model) -> None:
        """Start the running mean of the weights, where one does the relabelling."""
        if self.config.relabel.before and self.config.relabel.ema:
            self._mean = RunningMean(model, self.config.relabel.ema)

    def after_step(self) -> None:
        """Take in the weights after a step."""
        if self._mean is not None:
            self._mean.update()

    @property
    def train_rows(self) -> NDArray[np.int64]:
        """Images to train on. One without a known label gives no gradient and is left out, until it gets a label."""
        if self.config.assume_absent:
            return self.rows
        return self.rows[np.diff(self.table.indptr)[self.rows] > 0]

    def labels(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int8], Tensor | None]:
        """Labels (len(rows), C) to train on, and the weights of the single ones where model labels have one."""
        labels = self.table.dense(rows)
        if self.config.assume_absent:
            labels[labels == 0] = -1
        if self._weak is None or self.config.relabel.weight == 1:
            return labels, None
        weight = np.where(self._weak.dense(rows) != 0, np.float32(self.config.relabel.weight), np.float32(1))
        return labels, torch.from_numpy(weight)

    def relabel(
        self,
        model: Model,
        source: Source,
        epoch: int,
        engine: Engine,
        progress: Progress,
    ) -> dict[str, Any]:
        """Carry out the round before an epoch, counted from 0; each process looks at a share of the batches.

        Returns:
            Its record, see :func:`partlabel.training.curriculum.record`, the same in all processes.
        """
        config, number = self.config.relabel, len(self._rounds) + 1
        batches = epoch_batches(len(self.rows), self.config.optim.batch_size, self.config.seed, epoch)
        processes = {"rank": engine.rank, "world": engine.world, "gather": engine.gather}
        whole = [np.sort(self.rows[batch]) for batch in batches]

        def search() -> Added:
            seed = self.config.seed + number
            found = choose([(model, source)], self.table, whole, config, seed=seed, progress=progress, **processes)
            return found.only(self._learned)

        if self._mean is None:
            added = search()
        else:
            with self._mean.in_place():
                added = search()
        self._add(added)
        row = record(self.table, self.rows, added, number, config, self.truth)
        return {"round": row.pop("round"), "before_epoch": epoch + 1, **row}

    def _add(self, added: Added) -> None:
        self._rounds.append(added)
        self.table = self.table.with_labels(
            added.image, added.cls, added.value, origin="model", score=added.score, round=len(self._rounds)
        )
        self._weak = self.table.hide(self.table.origin == _MODEL)

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: how many rounds there were; their labels lie in the run folder, once."""
        return {"count": len(self._rounds), "mean": None if self._mean is None else self._mean.mean}

    def restore(self, state: dict[str, Any]) -> None:
        """Add the labels again that were there at a checkpoint, put into its ``rounds`` by :func:`with_rounds`."""
        for stored in state["rounds"]:
            self._add(Added(**{name: tensor.numpy() for name, tensor in stored.items()}))
        if self._mean is not None:
            self._mean.load(state["mean"])


def with_rounds(state: dict[str, Any], table: LabelTable, relabelled: Path) -> dict[str, Any]:
    """Put the labels of the rounds so far into the state of a checkpoint, as tensors.

    Args:
        state: of :meth:`TrainingLabels.state`; one of an earlier version has them.
        table: the labels at the start.
        relabelled: the table after the last round, some images of it; it may be of a round after the checkpoint.

    Raises:
        UserError: that is missing or damaged.
    """
    if "rounds" in state:
        return state
    rounds = []
    if state["count"]:
        found = LabelTable.read_parquet(relabelled)
        found = found.hide(~shared_pairs(table, found))
        place = table.image_index(found.images)[found.pair_images()]
        score, number = (np.zeros(0) if own is None else own for own in (found.score, found.round))
        columns: dict[str, Any] = {
            **{"image": place, "cls": found.indices.astype(np.int64), "value": found.values},
            "score": score.astype(np.float32),
        }
        order = np.lexsort((columns["cls"], place))
        number = number[order]
        rounds = [
            {name: torch.from_numpy(values[order][number == own]) for name, values in columns.items()}
            for own in range(1, state["count"] + 1)
        ]
    return {**state, "rounds": rounds}
