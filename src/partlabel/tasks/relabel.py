"""Model labels for the easy unknown pairs of a table, outside a training."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from partlabel.core.errors import UserError
from partlabel.core.progress import Reporter
from partlabel.images import ImageDataset, check, resolve
from partlabel.labels.match import match
from partlabel.labels.table import LabelTable
from partlabel.method.strategies import STRATEGIES
from partlabel.models.model import Model
from partlabel.tasks.scoring import NEITHER, scores_of
from partlabel.training.batches import Files, Source
from partlabel.training.config import RelabelConfig
from partlabel.training.curriculum import choose, choose_of, prior_of, record
from partlabel.training.schedule import epoch_batches


def relabel(
    models: Sequence[Model],
    table: LabelTable,
    folder: str | os.PathLike[str] | None,
    config: RelabelConfig,
    *,
    batch_size: int = 64,
    seed: int = 0,
    workers: int = 1,
    truth: LabelTable | None = None,
    scores: str | os.PathLike[str] | None = None,
) -> tuple[LabelTable, dict[str, Any]]:
    """Label the easy unknown pairs of a table, outside a training.

    Args:
        models: one model, or several whose scores are averaged; their classes are the same and all in the table.
        table: labels; image names are files in ``folder``. Classes that the model does not know stay as they are.
        folder: the folder of the images; not needed with scores.
        config: the strategy.
        batch_size: images of a mini-batch, for strategy [b].
        seed: of the dropout samples and the mini-batches.
        workers: loader processes, where the images are run through the models here.
        truth: true labels to compare with.
        scores: instead of the images, a folder of scores of the one model that ``partlabel predict`` wrote in shards.

    Returns:
        The table with labels of origin ``model`` added, in a round after those that it has, and the record of that.

    Raises:
        UserError: models of different classes, or of classes that the table lacks; images that are missing or cannot
            be read; no dropout where the strategy needs it; scores that are not enough.
    """
    classes = models[0].classes
    if any(model.classes != classes for model in models):
        raise UserError("the models of an ensemble have different classes, or in another order")
    matched = match(table, models[0], every="model")
    own, rows = matched.table, np.arange(table.num_images)
    if scores is not None and len(models) > 1:
        raise UserError("stored scores are those of one model; the scores of several are averaged from the images")
    if scores is None and folder is None:
        raise UserError(NEITHER)
    reads = STRATEGIES[config.strategy].reads
    if reads == "class":
        prior_of(own, config.strategy)  # it refuses before anything is scored
    if scores is not None or (len(models) == 1 and reads != "uncertainty"):
        found = scores_of(models[0], table.images, folder, scores)
        with Reporter().bar("relabelling") as bar:
            added = choose_of(found, own, config, batch_size=batch_size, seed=seed, progress=bar)
        del found  # and what is remembered of its files
    else:
        assert folder is not None
        paths = resolve(table.images, folder)
        check(paths).raise_if_bad()
        members: list[tuple[Model, Source]] = [
            (model, Files(ImageDataset(paths, model.preprocessing.size), workers)) for model in models
        ]
        batches = [np.sort(batch) for batch in epoch_batches(len(rows), batch_size, seed, 0)]
        with Reporter().bar("scoring images for relabelling", "batches") as bar:
            added = choose(members, own, batches, config, seed=seed, progress=bar)
    last = 0 if table.round is None or not table.num_known else int(table.round.max())
    number = max(last, 0) + 1
    place = {"origin": "model", "score": added.score, "round": number}
    after = own.with_labels(added.image, added.cls, added.value, **place)
    done = record(after, rows, added, number, config, truth)
    if own is table:
        return after, done
    return table.with_labels(added.image, matched.of_table[added.cls], added.value, **place), done
