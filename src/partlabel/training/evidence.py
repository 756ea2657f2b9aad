"""What a run is judged on: known labels with scores of models that have not seen them, and the numbers at the top.

Where the backbone is frozen, its features are at hand, and every known label is scored by a linear head that learned
from the other folds (:mod:`partlabel.training.folds`): all known labels count, and the scores of images without a known
label show what the known ones are a draw of. Otherwise it is the validation part with the scores of the best model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.core.files import replacing
from partlabel.core.records import WRONG, checksum_of_rows, write_record
from partlabel.labels.holdout import random_sample
from partlabel.labels.split import units
from partlabel.labels.table import LabelTable
from partlabel.metrics.headline import headline
from partlabel.metrics.thresholds import thresholds_of
from partlabel.models.score_files import ScoreFile, ScoreWriter
from partlabel.models.scores import Scores, read_scores
from partlabel.training.batches import Source, Stored, pooled
from partlabel.training.by_class import by_class
from partlabel.training.config import Config
from partlabel.training.data import Data
from partlabel.training.folds import FOLDS, out_of_fold
from partlabel.training.head import as_round, head_features
from partlabel.training.run import HEADLINE, OUT_OF_FOLD, Run
from partlabel.training.state import Batches, Job, State

#: pairs of image and class that the headline is estimated on; where there are more, on a random draw of the images
HEADLINE_PAIRS = 2**23
Kind = Literal["out-of-fold", "validation"]
#: how scores came about, in words for people
MEANINGS: dict[Kind, str] = {
    "out-of-fold": "all known labels, each scored by a head that learned from the other folds",
    "validation": "the known labels of the validation part, scored by the best model",
}


@dataclass(frozen=True, eq=False)
class Evidence:
    """Known labels with scores that have not seen them.

    ``table``: N images, C classes; images without a known label stay in. ``scores``: (N, C) before the sigmoid, read
    some at a time, NaN in a class for which there are none. ``scored``: (C,) bool, the classes with scores. ``kind``: a
    key of ``MEANINGS``. ``same_scale``: the scores are those of models learned as the run's own was, so that thresholds
    chosen on them hold for it.
    """

    table: LabelTable
    scores: Scores
    scored: NDArray[np.bool_]
    kind: Kind
    same_scale: bool

    def finite(self) -> tuple[LabelTable, Scores]:
        """Return labels and scores in which a class without scores has no known label, and scores 0."""
        return self.table.hide(self.scored[self.table.indices]), _Finite(self.scores, self.scored)


class _Finite(Scores):
    """Other scores, 0 in the classes that have none."""

    def __init__(self, whole: Scores, scored: NDArray[np.bool_]) -> None:
        super().__init__(*whole.shape)
        self._whole, self._scored = whole, scored

    def chunks(self, low: int = 0, high: int | None = None) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        for rows, values in self._whole.chunks(low, high):
            yield rows, np.where(self._scored[low:high], values, np.float32(0))

    def take(self, rows: NDArray[np.int64]) -> Scores:
        return _Finite(self._whole.take(rows), self._scored)


def judged_by_folds(config: Config) -> bool:
    """Whether a linear head on frozen features stands for the model: nothing else learns, and from known labels."""
    model = config.model
    return (
        config.freeze == "all"
        and not model.is_own
        and not model.graph
        and model.heads == 1
        and not config.unknown_as_absent
        and not config.relabel.before
    )


def score_all(job: Job, state: State, data: Data, batches: Batches) -> Evidence | None:
    """Score every pair of the training and validation images by heads that have not seen the image.

    Returns:
        None where such heads do not stand for the model, or there are too few images (or groups) for folds.
    """
    config = job.config
    if not judged_by_folds(config) or not isinstance(batches.train, Stored):
        return None
    same = config.optim.name == "closed-form"

    def features_of(source: Source, count: int) -> NDArray[np.float32]:
        if same:
            return head_features(state.model, source, np.arange(count))
        assert isinstance(source, Stored)  # as the training images are
        return pooled(source, config.model.square_root)

    table, features = data.table, features_of(batches.train, data.table.num_images)
    if data.validation_paths is not None and data.validation_table is not None:
        own = data.validation_table
        new = table.image_index(own.images) < 0
        table = table.merge(own)
        features = np.concatenate([features, features_of(batches.validation, own.num_images)[new]])
    table = table.without_origin("model")
    if len(units(table.num_images, table.groups)[1]) < FOLDS:
        return None
    rounds = as_round(config.self_training) if same else None
    found = out_of_fold(features, table, seed=config.seed, rounds=rounds)
    return Evidence(table, found, found.scored, "out-of-fold", same)


def write_out_of_fold(run: Path, found: Evidence) -> None:
    """Write scores as ``out_of_fold.parquet``, see :mod:`partlabel.models.score_files`; some images at a time."""
    classes, names = list(found.table.classes), found.table.images
    with (
        replacing(run / OUT_OF_FOLD) as temporary,
        ScoreWriter(temporary, classes, {"same_scale": found.same_scale}) as writer,
    ):

        def rows() -> Iterator[NDArray[np.float32]]:
            for start, values in found.scores.in_order():
                writer.add(names.slice(start, len(values)), values)
                yield values

        about = (classes, found.same_scale, names.to_pylist())
        writer.seal(checksum_of_rows("score", found.scores.shape, rows(), *about))


def evidence(run: Run) -> Evidence | None:
    """What a run can be judged on: its out-of-fold scores, else its validation part, else nothing.

    Raises:
        UserError: damaged files.
    """
    path = run.folder / OUT_OF_FOLD
    if not path.is_file():
        if not run.is_validated:
            return None
        scores = run.held_out_scores
        return Evidence(run.held_out_labels, scores, np.ones(scores.num_classes, bool), "validation", True)
    try:
        file = ScoreFile(path)
        images, same, stored = file.column("image"), bool(file.about["same_scale"]), read_scores([file])
        scored = np.ones(stored.num_classes, bool)

        def rows() -> Iterator[NDArray[np.float32]]:
            for _, values in stored.in_order():
                np.logical_and(scored, ~np.isnan(values).any(0), out=scored)
                yield values

        sums = checksum_of_rows("score", stored.shape, rows(), list(file.classes), same, images.to_pylist())
    except (UserError, OSError, pa.ArrowException, KeyError, ValueError, TypeError, MemoryError) as error:
        raise UserError(f"{path}: is missing or damaged") from error
    if file.checksum not in ("", sums):
        raise UserError(f"{path}: {WRONG}")
    table = run.all_labels.without_origin("model")
    place = np.full(table.num_images, -1)
    at = table.image_index(images)
    place[at[at >= 0]] = np.flatnonzero(at >= 0)
    if file.classes != table.classes or (place < 0).any():
        raise UserError(f"{path}: does not belong to the labels of the run")
    return Evidence(table, read_scores([file], place), scored, "out-of-fold", same)


def drawn_rows(table: LabelTable, seed: int = 0) -> NDArray[np.int64]:
    """Return the images that the headline is estimated on: all, or some drawn at random, up to ``HEADLINE_PAIRS``."""
    most, rows = max(1, HEADLINE_PAIRS // max(table.num_classes, 1)), np.arange(table.num_images)
    return rows if len(rows) <= most else np.sort(np.random.default_rng(seed).permutation(rows)[:most])


def write_headline(run: Run) -> None:
    """Write what :func:`judge` says as ``headline.json``, where anything can be judged."""
    found = judge(run)
    if found is not None:
        write_record(run.folder / HEADLINE, found)


def judge(run: Run, seed: int = 0) -> dict[str, Any] | None:
    """Estimate what all labels would say of a run, as plain values; None where nothing can be judged.

    Only labels that are a random sample of their class and sign are measured on. Decisions are those of thresholds by
    F1 on the same scores.
    """
    found = evidence(run)
    if found is None:
        return None
    table, (known, finite) = random_sample(found.table), found.finite()
    limits = np.zeros(table.num_classes)
    if found.scored.any():
        chosen = np.flatnonzero(found.scored)
        own = random_sample(known).select_classes([table.classes[c] for c in chosen])
        on = by_class(finite.select(chosen), own)
        limits[chosen] = thresholds_of(on, own.classes, calibration=on.calibration()).values
    unit, rows = units(table.num_images, table.groups)[0], drawn_rows(table, seed)
    scores = found.scores.take(rows).dense()
    numbers = headline(scores, table.dense(rows), table.classes, limits, units=unit[rows], seed=seed)
    return {
        "measured_on": found.kind,
        "meaning": MEANINGS[found.kind],
        "images": len(rows),
        "known_labels": int(np.diff(table.indptr)[rows].sum()),
        "left_out": found.table.num_known - table.num_known,
        **numbers.to_dict(),
    }
