"""Metrics of a model on the known labels of a table."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.images import resolve
from partlabel.labels.holdout import shared_pairs
from partlabel.labels.match import match
from partlabel.labels.split import units
from partlabel.labels.table import LabelTable
from partlabel.metrics import Accumulator, Metrics
from partlabel.metrics.headline import Headline, headline
from partlabel.models.model import Model
from partlabel.models.onnx import OnnxModel
from partlabel.models.scores import Scores
from partlabel.tasks.predict import open_classifier
from partlabel.tasks.scoring import scores_of
from partlabel.training.evidence import drawn_rows
from partlabel.training.run import MARKER, Run


def evaluate(
    run: Run | Model | OnnxModel | str | os.PathLike[str],
    labels: LabelTable,
    *,
    images: str | os.PathLike[str] | None = None,
    scores: str | os.PathLike[str] | None = None,
) -> Metrics:
    """Measure a classifier on the known labels of a table, over the classes of the table, at the model's thresholds.

    Args:
        run: a run or its folder, an ``.onnx`` file, or an open model.
        labels: the table; its classes are among the model's, its image names are files in ``images``.
        images: the folder of the images.
        scores: instead of it, a folder of scores that ``partlabel predict`` wrote in shards.

    Raises:
        UserError: the model lacks classes of the table, no label is known, or images are missing or cannot be read.

    >>> import partlabel as pl
    >>> test = pl.read("csv", "labels.csv", coding="1=present,0=absent,blank=unknown")
    >>> found = pl.evaluate("run", test, images="photos")
    >>> 0 <= found.mean_ap <= 1
    True
    >>> found.to_pandas().columns.tolist()[:3]
    ['present', 'absent', 'average_precision']
    """
    model = open_classifier(run)
    labelled = Labelled.of(model, labels, None)
    return labelled.metrics(scores_of(model, labelled.table.images, images, scores), model.thresholds)


def estimate(
    run: Run | Model | OnnxModel | str | os.PathLike[str],
    labels: LabelTable,
    *,
    images: str | os.PathLike[str] | None = None,
    scores: str | os.PathLike[str] | None = None,
) -> tuple[Metrics, Headline]:
    """Measure on known labels, as :func:`evaluate`, and estimate what all labels of the table's images would say.

    Images without a known label are scored too, as they show what the known labels are a draw of. Where images times
    classes are very many, the estimate is from some images drawn at random, as of
    :func:`partlabel.training.evidence.drawn_rows`.
    """
    model = open_classifier(run)
    labelled = Labelled.of(model, labels, None, every=True)
    return labelled.estimate(scores_of(model, labelled.table.images, images, scores), model.thresholds)


def trained_on(run: str | os.PathLike[str], table: LabelTable) -> dict[str, int]:
    """How many images of a table, and how many of its known labels, a run was trained on; 0 for an .onnx file."""
    if not (Path(run) / MARKER).is_file():
        return {"images": 0, "labels": 0}
    trained = Run(run).labels
    seen = shared_pairs(trained, table)
    return {"images": int((trained.image_index(table.images) >= 0).sum()), "labels": int(seen.sum())}


@dataclass(frozen=True, eq=False)
class Labelled:
    """Images with known labels, for a model that knows at least their classes; made by :meth:`of`.

    Attributes:
        table: the images that have a known label, and the classes of the table in the order of the model.
        columns: (K,) number in the model of each class of the table.
        paths: the file of each image; none where no folder was given.
    """

    table: LabelTable
    columns: NDArray[np.int64]
    paths: list[Path]

    @classmethod
    def of(
        cls,
        model: Model | OnnxModel,
        table: LabelTable,
        folder: str | os.PathLike[str] | None,
        without: Collection[Path] = (),
        every: bool = False,
    ) -> Labelled:
        """Match a table and the images in ``folder`` with a model; raises as :func:`evaluate` does.

        Args:
            model: gives the classes.
            table: labels; its image names are files in ``folder``.
            folder: the folder of the images; None looks for none.
            without: images to leave out.
            every: images without a known label take part too.
        """
        matched = match(table, model, every="table")
        table = matched.table
        if not table.num_known:
            raise UserError("no label of the table is known, so there is nothing to measure on")
        if not every:
            table = table.select(np.flatnonzero(np.diff(table.indptr)))
        paths = [] if folder is None else resolve(table.images, folder)
        if without:
            out = {path.resolve() for path in without}
            rows = [row for row, path in enumerate(paths) if path.resolve() not in out]
            if not rows:
                raise UserError("all images of the table are needed for something else; give a folder with more")
            table, paths = table.select(rows), [paths[row] for row in rows]
        return cls(table, matched.of_model, paths)

    def metrics(self, scores: NDArray[np.float32] | Scores, thresholds: Sequence[float]) -> Metrics:
        """Metrics of scores (N, C) of the images, at C thresholds, over the classes of the table."""
        found = Accumulator(len(self.columns), self.table.classes)
        for rows, values in Scores.of(scores).select(self.columns).chunks():
            found.update(values, self.table.dense(rows), rows=rows)
        return found.compute(thresholds=np.asarray(thresholds)[self.columns])

    def estimate(
        self, scores: NDArray[np.float32] | Scores, thresholds: Sequence[float], seed: int = 0
    ) -> tuple[Metrics, Headline]:
        """The same on the images with a known label, and what all labels of the images would say."""
        scores, table, limits = Scores.of(scores), self.table, np.asarray(thresholds)[self.columns]
        unit, _ = units(table.num_images, table.groups)
        rows = drawn_rows(table, seed)
        own = scores.take(rows).select(self.columns).dense()
        found = headline(own, table.dense(rows), table.classes, limits, units=unit[rows])
        known = np.flatnonzero(np.diff(table.indptr))
        some = replace(self, table=table.select(known), paths=[])
        return some.metrics(scores.take(known), thresholds), found
