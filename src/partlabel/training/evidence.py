"""What a run is judged on: known labels with scores of models that have not seen them, and the numbers at the top.

Where the backbone is frozen, its features are at hand, and every known label is scored by a linear head that learned
from the other folds (:mod:`partlabel.training.folds`): all known labels count, and the scores of images without a known
label show what the known ones are a draw of. Otherwise it is the validation part with the scores of the best model.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.core.files import replacing
from partlabel.core.records import CHECKSUM, WRONG, checksum_of_arrays, write_record
from partlabel.labels.holdout import random_sample
from partlabel.labels.split import units
from partlabel.labels.table import LabelTable
from partlabel.metrics.headline import headline
from partlabel.metrics.thresholds import calibrate, fit_thresholds
from partlabel.training.batches import Source, Stored, pooled
from partlabel.training.config import Config
from partlabel.training.data import Data
from partlabel.training.folds import FOLDS, out_of_fold
from partlabel.training.head import as_round, head_features
from partlabel.training.run import HEADLINE, OUT_OF_FOLD, Run
from partlabel.training.state import Batches, Job, State

Kind = Literal["out-of-fold", "validation"]
#: how scores came about, in words for people
MEANINGS: dict[Kind, str] = {
    "out-of-fold": "all known labels, each scored by a head that learned from the other folds",
    "validation": "the known labels of the validation part, scored by the best model",
}


@dataclass(frozen=True, eq=False)
class Evidence:
    """Known labels with scores that have not seen them.

    ``table``: N images, C classes; images without a known label stay in. ``scores``: float32 (N, C) before the sigmoid,
    NaN in a class for which there are none. ``kind``: a key of ``MEANINGS``. ``same_scale``: the scores are those of
    models learned as the run's own was, so that thresholds chosen on them hold for it.
    """

    table: LabelTable
    scores: NDArray[np.float32]
    kind: Kind
    same_scale: bool


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
    return Evidence(table, out_of_fold(features, table, seed=config.seed, rounds=rounds), "out-of-fold", same)


def write_out_of_fold(run: Path, found: Evidence) -> None:
    """Write labels and scores as ``out_of_fold.parquet``: one row for each image, lists of C values."""
    count = found.table.num_classes

    def lists(values: NDArray[Any]) -> pa.Array:
        return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), count)

    columns = {"image": found.table.images, "score": lists(found.scores)}
    classes, scores = list(found.table.classes), {"score": found.scores.astype(np.float32)}
    fits = checksum_of_arrays(scores, classes, found.same_scale, found.table.images.to_pylist())
    about = {"classes": json.dumps(classes), "same_scale": json.dumps(found.same_scale), CHECKSUM: fits}
    content = pa.table(columns).replace_schema_metadata(about)
    with replacing(run / OUT_OF_FOLD) as temporary:
        pq.write_table(content, temporary, compression="zstd")


def evidence(run: Run) -> Evidence | None:
    """What a run can be judged on: its out-of-fold scores, else its validation part, else nothing.

    Raises:
        UserError: damaged files.
    """
    path = run.folder / OUT_OF_FOLD
    if not path.is_file():
        return Evidence(run.held_out.table, run.held_out.scores, "validation", True) if run.is_validated else None
    try:
        stored = pq.read_table(path)
        about = stored.schema.metadata or {}
        classes, same = tuple(json.loads(about[b"classes"])), bool(json.loads(about[b"same_scale"]))
        scores = stored["score"].combine_chunks().flatten().to_numpy(zero_copy_only=False).astype(np.float32)
        images, scores = stored["image"].combine_chunks(), scores.reshape(-1, max(len(classes), 1))
        fits = about.get(CHECKSUM.encode(), b"").decode("ascii", "replace")
        sums = checksum_of_arrays({"score": scores}, list(classes), same, images.to_pylist()) if fits else ""
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError, MemoryError) as error:
        raise UserError(f"{path}: is missing or damaged") from error
    if fits != sums:
        raise UserError(f"{path}: {WRONG}")
    table = run.all_labels.without_origin("model")
    place = np.full(table.num_images, -1)
    rows = table.image_index(images)
    place[rows[rows >= 0]] = np.flatnonzero(rows >= 0)
    if classes != table.classes or (place < 0).any() or scores.size != len(images) * len(classes):
        raise UserError(f"{path}: does not belong to the labels of the run")
    return Evidence(table, scores.reshape(len(images), len(classes))[place], "out-of-fold", same)


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
    table = random_sample(found.table)
    labels = table.dense()
    scored = np.isfinite(found.scores).all(0)
    limits = np.zeros(table.num_classes)
    if scored.any():
        own, known = found.scores[:, scored], labels[:, scored]
        names = tuple(np.array(table.classes)[scored].tolist())
        limits[scored] = fit_thresholds(own, known, names, calibration=calibrate(own, known)).values
    numbers = headline(
        found.scores, labels, table.classes, limits, units=units(table.num_images, table.groups)[0], seed=seed
    )
    return {
        "measured_on": found.kind,
        "meaning": MEANINGS[found.kind],
        "images": table.num_images,
        "known_labels": table.num_known,
        "left_out": found.table.num_known - table.num_known,
        **numbers.to_dict(),
    }
