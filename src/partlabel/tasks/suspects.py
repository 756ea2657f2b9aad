"""Known labels that are perhaps wrong: those that a model contradicts that was trained without them.

The images are dealt out into folds. For each fold, a linear head on the run's features learns from the known labels
of the other folds and scores this one, so no label is judged by a head that has seen it. Unknown labels take part in
nothing: they are not learned from, not counted as absent, and cannot be suspects. Scores become probabilities by the
calibration of each class (:mod:`partlabel.metrics.calibration`), so that a doubt means the same in a frequent and in a
rare class; of the ranking rules tried on coco-mini it finds the most flipped labels (experiments/suspects.py).
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from partlabel.core.compute import default_device, loader_workers
from partlabel.core.errors import UserError
from partlabel.core.files import replacing
from partlabel.core.progress import Reporter
from partlabel.core.text import as_cell
from partlabel.labels.holdout import shared_pairs
from partlabel.labels.match import match
from partlabel.labels.table import LabelTable
from partlabel.metrics.calibration import fit, parts
from partlabel.metrics.label_noise import wrong_probability
from partlabel.models.model import Head, Heads, Model
from partlabel.tasks.scoring import NEITHER, scores_of
from partlabel.training.batches import Stored, open_source, pooled
from partlabel.training.config import Config
from partlabel.training.folds import MIN_KNOWN, out_of_fold
from partlabel.training.prepare import Prepared, prepare
from partlabel.training.run import Run

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Suspects:
    """Known labels that are contradicted, the surest contradiction first.

    Attributes:
        image: (M,) int32 image numbers of the table.
        cls: (M,) int32 class numbers.
        label: (M,) int8, the label in the table: +1 present, -1 absent.
        probability: (M,) float64, that the class is present, as judged without this label.
        checked: number of known labels that were checked.
        not_checked: numbers of the classes with too few known present or known absent labels.
        wrong: (M,) float64, how likely the label is wrong, see :mod:`partlabel.metrics.label_noise`; None where only
            probabilities were given. Their sum is how many of those listed are expected to be wrong.
    """

    image: NDArray[np.int32]
    cls: NDArray[np.int32]
    label: NDArray[np.int8]
    probability: NDArray[np.float64]
    checked: int
    not_checked: tuple[int, ...]
    wrong: NDArray[np.float64] | None = None


@dataclass(frozen=True, eq=False)
class Checked:
    """What the check of a run came to.

    Attributes:
        suspects: the contradicted labels of ``table``.
        table: the labels that were checked; only those given by people.
        skipped: (name, reason) of images that could not be read.
        backbone_has_seen: the backbone was trained on such labels, so that it may agree with wrong ones.
    """

    suspects: Suspects
    table: LabelTable
    skipped: list[tuple[str, str]]
    backbone_has_seen: bool


def find_suspects(table: LabelTable, probabilities: NDArray[np.floating], min_known: int = 1) -> Suspects:
    """Rank the known labels that probabilities contradict.

    A label is contradicted when the probability of the other sign is above 0.5. The surest comes first; equals keep the
    order of the table.

    Args:
        table: labels of N images and C classes.
        probabilities: (N, C) in [0, 1], of present, from a model that has not seen the label of the pair. Those of
            unknown pairs and of classes that are not checked are not looked at.
        min_known: known present and known absent labels that a class needs.

    Raises:
        UserError: another shape, or values outside 0..1 for known pairs (all are named).
    """
    given = np.asarray(probabilities)
    if given.shape != (table.num_images, table.num_classes):
        raise UserError(f"the probabilities are {given.shape}, expected {(table.num_images, table.num_classes)}")
    enough, image = np.minimum(*table.class_counts()) >= min_known, table.images_at(slice(None))
    return _ranked(table, lambda some: given[image[some], table.indices[some]].astype(np.float64), enough)[0]


def _ranked(
    table: LabelTable, probabilities: Callable[[slice], Floats], enough: NDArray[np.bool_]
) -> tuple[Suspects, NDArray[np.integer]]:
    """Rank by probabilities; also gives where the suspects lie among the known labels.

    Args:
        table: the labels.
        probabilities: gives those of some of the known labels, in the order of the table.
        enough: (C,) classes to check.
    """
    checked, held, likely, wrong = 0, [np.zeros(0, np.int32)], [np.zeros(0)], []
    short = np.int32 if table.num_known < 2**31 else np.int64
    for some in parts(table.num_known):
        looked, p = enough[table.indices[some]], probabilities(some)
        checked += int(np.count_nonzero(looked))
        wrong += [(some.start + i, p[i]) for i in np.flatnonzero(looked & ~((p >= 0) & (p <= 1)))]
        found = np.flatnonzero(looked & (np.where(table.values[some] > 0, 1 - p, p) > 0.5))
        held.append((found + some.start).astype(short))
        likely.append(p[found])
    image = table.images_at(slice(None))
    if wrong:
        places = [f"{table.images[int(image[i])]}, {table.classes[table.indices[i]]}: {p:g}" for i, p in wrong]
        raise UserError(f"{len(wrong)} probabilities are not between 0 and 1", places)
    at, p = np.concatenate(held), np.concatenate(likely)
    del held, likely
    order = np.argsort(-np.where(table.values[at] > 0, 1 - p, p), kind="stable")
    at, p = at[order], p[order]
    left_out = tuple(np.flatnonzero(~enough).tolist())
    return Suspects(image[at], table.indices[at], table.values[at], p, checked, left_out), at


def check_table(
    features: NDArray[np.floating],
    table: LabelTable,
    *,
    seed: int = 0,
) -> Suspects:
    """Rank the known labels that heads contradict which have not seen them; see :func:`out_of_fold`.

    Memory: the features (N, D) twice, D = 1,280 for an EfficientNet-Lite0: 10 KB an image, whatever the classes; scores
    are computed for some classes at a time, and those of known labels kept.
    """
    return _check(table, out_of_fold(features, table, seed=seed).known())


def _check(table: LabelTable, scores: NDArray[np.float32]) -> Suspects:
    """Rank by scores (K,) of the known labels, of models that have not seen them; NaN in classes without scores."""
    judged = np.ones(table.num_classes, bool)
    judged[table.indices[np.isnan(scores)]] = False
    judged &= np.bincount(table.indices, minlength=table.num_classes) > 0
    kept = judged[table.indices]
    if not kept.all():
        table, scores = table.hide(kept), scores[kept]
    del kept
    if not len(scores):
        return replace(_ranked(table, lambda some: np.zeros(0), judged)[0], wrong=np.zeros(0))
    cls, present = table.indices, table.values > 0
    calibration = fit(scores, cls, present, table.num_classes)
    if calibration is None:
        raise UserError("all known labels of the classes that can be checked are of one sign")
    found, at = _ranked(table, calibration.of_pairs(scores, cls), judged)
    likely, _ = wrong_probability(scores, cls, present, table.num_classes)
    return replace(found, wrong=likely[at])


def check_scores(
    run: Run | str | os.PathLike[str], table: LabelTable | None, scores: str | os.PathLike[str]
) -> Checked:
    """Check labels by scores of a run's best model that are at hand; only labels that it was not trained on.

    Args:
        run: the run folder.
        table: the labels; None takes those that the run was validated on.
        scores: a folder of scores that ``partlabel predict`` wrote in shards.

    Raises:
        UserError: no run, no label that was given by a person and not trained on, or scores that do not fit.
    """
    run = run if isinstance(run, Run) else Run(run)
    table = run.held_out_labels if table is None else table
    matched = match(table, run.model, every="table")
    own = matched.table.without_origin("model")
    own = own.hide(~shared_pairs(run.labels, own))
    if not own.num_known:
        raise UserError(
            "no label of the table was given by a person and is new to the model, so its scores prove nothing; "
            "without --scores, heads are trained that have not seen the labels"
        )

    def known() -> NDArray[np.float32]:  # all that is held of the scores
        found = scores_of(run.model, own.images, None, scores, run.elsewhere).select(matched.of_model)
        values = found.pairs(own.images_at(slice(None)), own.indices)
        values[~(np.minimum(*own.class_counts()) >= MIN_KNOWN)[own.indices]] = np.nan
        return values

    return Checked(_check(own, known()), own, [], False)


def check(
    run: Run | str | os.PathLike[str],
    table: LabelTable | None,
    images: str | os.PathLike[str] | None,
    scores: str | os.PathLike[str] | None = None,
    *,
    seed: int = 0,
) -> Checked:
    """Check labels by :func:`check_scores` where scores are given, else by :func:`check_run`, which needs the images.

    Raises:
        UserError: neither is given, or what these two raise.
    """
    if scores is not None:
        return check_scores(run, table, scores)
    if images is None:
        raise UserError(NEITHER)
    return check_run(run, table, images, seed=seed)


def check_run(
    run: Run | str | os.PathLike[str], table: LabelTable | None, images: str | os.PathLike[str], *, seed: int = 0
) -> Checked:
    """Check labels with the features of a run.

    Args:
        run: the run folder; its best model gives the features.
        table: the labels; None takes those that the run was trained and validated on. The table that the run was
            trained from finds the stored features of a frozen backbone; in another order they are computed anew.
        images: folder of the images.
        seed: of the folds.

    Raises:
        UserError: no run, other classes than the run's, no label given by a person, too few images, images that are
            missing or bad.
    """
    run = run if isinstance(run, Run) else Run(run)
    config, model = run.config, run.load_model()  # its own, as its pooling may be changed
    if config.model.is_own:
        raise UserError(
            f"{run.folder}: suspects are found by features of a timm backbone, not of a network of your own"
        )
    table = run.all_labels if table is None else table
    match(table, model, every="table")  # only the check: the heads learn the classes of the table, in its order
    table = table.without_origin("model")
    if not table.num_known:
        raise UserError("no label of the table was given by a person, so there is nothing to check")
    reporter = Reporter()
    prepared = prepare(table, Path(images), config.images, config.workers, reporter, run.elsewhere)
    features = _pooled(model, config, prepared, reporter)
    known = np.flatnonzero(np.diff(prepared.table.indptr))
    kept = prepared.table.select(known)
    found = check_table(features[known], kept, seed=seed)
    return Checked(found, kept, prepared.skipped, config.freeze != "all")


def write_suspects(path: str | os.PathLike[str], table: LabelTable, suspects: Suspects) -> None:
    """Write suspects as CSV, the surest first.

    Columns: image, class, label (1 present, -1 absent), probability (of present, by models that have not seen it), and
    wrong (how likely the label is wrong).
    """
    wrong = np.full(len(suspects.image), np.nan) if suspects.wrong is None else suspects.wrong
    names = table.images.to_pylist()
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("image", "class", "label", "probability", "wrong"))
        columns = (suspects.image, suspects.cls, suspects.label, suspects.probability, wrong)
        for i, c, label, p, w in zip(*columns, strict=True):
            said = (as_cell(names[i]), as_cell(table.classes[c]))
            writer.writerow((*said, int(label), f"{p:.6g}", "" if np.isnan(w) else f"{w:.3g}"))


def _pooled(model: Model, config: Config, prepared: Prepared, reporter: Reporter) -> NDArray[np.float32]:
    """Features (N, D) of the last stage, averaged over the regions, and over both sides where those are stored."""
    frozen = config.freeze == "all"
    if not frozen:  # nothing is stored yet: the averages do, whole maps would fill the disk
        for head in model.head.members if isinstance(model.head, Heads) else [model.head]:
            assert isinstance(head, Head)
            head.pool = None
    model.to(default_device())
    with reporter.bar("computing image features") as bar:
        source = open_source(
            model,
            model.backbone.num_stages,
            prepared.paths,
            flip=frozen and config.images.flip,
            workers=loader_workers(model.pixel_scale.device.type, config.workers),
            max_pixels=config.images.max_pixels,
            device=model.pixel_scale.device,
            progress=bar,
            names=prepared.contents,
        )
    assert isinstance(source, Stored)  # features of a whole backbone are always stored
    return pooled(source, model.config.square_root)
