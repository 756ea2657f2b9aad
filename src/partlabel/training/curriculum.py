"""Rounds of relabelling (algorithm 1): easy unknown pairs get a label of origin ``model``; each round is recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from partlabel.core.compute import autocast
from partlabel.core.errors import UserError
from partlabel.core.files import temporary_folder
from partlabel.labels.holdout import random_sample
from partlabel.labels.table import ORIGINS, LabelTable
from partlabel.method import curriculum
from partlabel.method.rounds import Round
from partlabel.method.strategies import STRATEGIES
from partlabel.method.uncertainty import mc_dropout
from partlabel.models.model import Head, Model
from partlabel.models.score_files import ScoreFile, ScoreWriter
from partlabel.models.scores import Scores, read_scores
from partlabel.training.batches import Source
from partlabel.training.class_shares import share_interval
from partlabel.training.config import RelabelConfig
from partlabel.training.schedule import epoch_batches

Progress = Callable[[int, int], None]
#: a round that labels more than this share of the unknown pairs is warned about
_MUCH = 0.95
#: batches of a process whose scores are sent to the others together
_SENT = 8
#: classes that are labelled together, and scores of images that are
_TOGETHER, _AT_ONCE = 8, 2**24


@dataclass(frozen=True)
class Added:
    """Labels that a round adds, sorted by image and class.

    ``image``: int32 (K,) rows of the table. ``cls``: int32 (K,). ``value``: int8 (K,), +1 or -1. ``score``: float32
    (K,), the score that decided (the mean of the dropout samples, or of the heads).
    """

    image: NDArray[np.integer]
    cls: NDArray[np.integer]
    value: NDArray[np.int8]
    score: NDArray[np.float32]

    def only(self, classes: NDArray[np.bool_]) -> Added:
        """Only the labels of the chosen (C,) classes."""
        kept = classes[self.cls]
        return Added(self.image[kept], self.cls[kept], self.value[kept], self.score[kept])

    @staticmethod
    def of(parts: Sequence[Added]) -> Added:
        """Put the labels of several batches or processes together."""
        image = np.concatenate([np.empty(0, np.int32), *(part.image for part in parts)])
        cls = np.concatenate([np.empty(0, np.int32), *(part.cls for part in parts)])
        value = np.concatenate([np.empty(0, np.int8), *(part.value for part in parts)])
        score = np.concatenate([np.empty(0, np.float32), *(part.score for part in parts)])
        order = np.lexsort((cls, image))
        return Added(image[order], cls[order], value[order], score[order])


def choose(
    members: Sequence[tuple[Model, Source]],
    table: LabelTable,
    batches: Sequence[NDArray[np.int64]],
    config: RelabelConfig,
    *,
    seed: int = 0,
    rank: int = 0,
    world: int = 1,
    gather: Callable[[Any], list[Any]] = lambda own: [own],
    progress: Progress = lambda done, of: None,
) -> Added:
    """Find the easy unknown pairs of some images and their labels (line 4 and 5 of algorithm 1).

    Args:
        members: a model, put into evaluation mode for good, and the images from some stage of its backbone on; the
            scores of several models are averaged (strategy [d] with whole models).
        table: the labels; only its unknown pairs are looked at.
        batches: row numbers; strategy [b] labels a share of the unknown pairs of each.
        config: the strategy.
        seed: of the dropout samples; those of an image depend on it and on the row number only.
        rank: of this process.
        world: number of processes; each takes every ``world``-th batch.
        gather: what every process found -> all of it, in the order of the processes.
        progress: called with (batches done, batches in all) of this process.

    Raises:
        UserError: the strategy needs dropout and the model has none.
    """
    reads = STRATEGIES[config.strategy].reads
    if reads == "uncertainty":
        _check_uncertainty(members)
    own = list(batches[rank::world])
    found: list[Added] = []
    for model, _ in members:
        model.eval()
    with torch.inference_mode(), Spool(table.classes if reads == "class" else ()) as spool:
        streams = [source.batches(own, None) for _, source in members]
        waiting: list[tuple[NDArray[np.int64], NDArray[np.float32]]] = []
        for done, (rows, *pictures) in enumerate(zip(own, *streams, strict=True), 1):
            if reads == "class":
                waiting.append((rows, _scores(members, pictures).numpy()))
                if done % _SENT == 0:
                    spool.add_all(gather(waiting))
                    waiting = []
            else:
                found.append(_new_labels(members, pictures, rows, torch.from_numpy(table.dense(rows)), config, seed))
            progress(done, len(own))
        if reads == "class":
            most = -(-len(batches) // world)  # batches of the first process; every process sends as often as it does
            for _ in range(len(own) // _SENT, most // _SENT + 1):
                spool.add_all(gather(waiting))
                waiting = []
            return _by_class(table, *spool.read(), config)
    return Added.of([part for parts in gather(found) for part in parts])


def choose_of(
    scores: Scores,
    table: LabelTable,
    config: RelabelConfig,
    *,
    batch_size: int,
    seed: int = 0,
    progress: Progress = lambda done, of: None,
) -> Added:
    """Find the easy unknown pairs of a table by scores that are at hand; as :func:`choose`, some of them at a time.

    A mini-batch, of which strategy [b] labels a share, is drawn from all images where their scores are few, else from
    some thousand images that follow each other in the table.

    Args:
        scores: (N, C) of the images and classes of the table.
        table: the labels; only its unknown pairs are looked at.
        config: the strategy.
        batch_size: images of a mini-batch.
        seed: of the mini-batches.
        progress: called with (images done, images in all).

    Raises:
        UserError: the strategy needs more than scores.
    """
    strategy = STRATEGIES[config.strategy]
    if strategy.reads == "uncertainty":
        raise UserError("the strategy uncertainty runs the model many times over each image: scores are not enough")
    if strategy.reads == "class":
        return _by_class(table, np.arange(table.num_images), scores, config)
    fill, parts = strategy.load(), []
    step = max(batch_size, _AT_ONCE // max(table.num_classes, 1))
    for number, low in enumerate(range(0, table.num_images, step)):
        some = np.arange(low, min(low + step, table.num_images))
        values = torch.from_numpy(scores.take(some).dense())
        for batch in epoch_batches(len(some), batch_size, seed, number):
            rows = np.sort(batch)
            before = torch.from_numpy(table.dense(some[rows]))
            after = fill(values[rows], before, config.threshold)
            parts.append(_difference(some[rows], before, after, values[rows]))
        progress(int(some[-1]) + 1, table.num_images)
    return Added.of(parts)


def _check_uncertainty(members: Sequence[tuple[Model, Source]]) -> None:
    if len(members) > 1 or members[0][0].config.heads > 1:
        raise UserError("the strategy uncertainty takes one model with one head; an ensemble goes with the others")
    if not members[0][0].config.dropout:
        raise UserError(
            "the strategy uncertainty needs a model with dropout: without it, every uncertainty would be 0. "
            "Train with model.dropout above 0, or choose another strategy, such as score-threshold with theta 2"
        )


def _scores(members: Sequence[tuple[Model, Source]], pictures: Sequence[Tensor]) -> Tensor:
    """Mean scores (N, C) of the members, float32 on the CPU."""
    each = []
    for (model, source), x in zip(members, pictures, strict=True):
        with autocast(model.pixel_scale.device, model.precision):
            each.append(model(_to_device(x, model), source.stage).float().cpu())
    return curriculum.ensemble_mean(each) if len(each) > 1 else each[0]


def _to_device(x: Tensor, model: Model) -> Tensor:
    """A batch on the device of a model, in its memory format."""
    moved = x.to(model.pixel_scale.device, non_blocking=True)
    return moved.contiguous(memory_format=torch.channels_last) if moved.ndim == 4 and moved.shape[-1] > 1 else moved


def _new_labels(
    members: Sequence[tuple[Model, Source]],
    pictures: Sequence[Tensor],
    rows: NDArray[np.int64],
    labels: Tensor,
    config: RelabelConfig,
    seed: int,
) -> Added:
    """The labels that one batch gets."""
    strategy = STRATEGIES[config.strategy]
    fill = strategy.load()
    if strategy.reads == "uncertainty":
        (model, source), x = members[0], _to_device(pictures[0], members[0][0])
        assert isinstance(model.head, Head)
        with autocast(x.device, model.precision):
            features = model.backbone(x if source.stage else model.normalise(x), first=source.stage)
        found = mc_dropout(model.head, features, torch.from_numpy(rows), samples=config.samples, seed=seed)
        scores = found.mean.float().cpu()
        measured = getattr(found, config.measure.replace("-", "_")).float().cpu()
        after = fill(scores, measured, labels, config.threshold)
    else:
        scores = _scores(members, pictures)
        after = fill(scores, labels, config.threshold)
    return _difference(rows, labels, after, scores)


def _difference(rows: NDArray[np.int64], before: Tensor, after: Tensor, scores: Tensor) -> Added:
    row, cls = np.nonzero((before != after).numpy())
    image, score = rows[row].astype(np.int32), scores.numpy()[row, cls].astype(np.float32)
    return Added(image, cls.astype(np.int32), after.numpy()[row, cls], score)


def _by_class(table: LabelTable, rows: NDArray[np.int64], scores: Scores, config: RelabelConfig) -> Added:
    """For a strategy that reads whole classes, some at a time, of the images ``rows``."""
    own = table if np.array_equal(rows, np.arange(table.num_images)) else table.select(rows)
    fill, prior = STRATEGIES[config.strategy].load(), prior_of(own, config.strategy)
    order, start = own.by_class()
    image, value = own.images_at(order), own.values[order]
    del order

    def labelled(low: int, some: NDArray[np.float32]) -> Added:
        high = low + len(some)
        labels = np.zeros((len(rows), len(some)), np.int8)
        here = slice(start[low], start[high])
        labels[image[here], np.repeat(np.arange(len(some)), np.diff(start[low : high + 1]))] = value[here]
        before, values = torch.from_numpy(labels), torch.from_numpy(some).T.contiguous()
        after = fill(values, before, prior[low:high], config.threshold, config.theta_absent)
        found = _difference(rows, before, after, values)
        return replace(found, cls=found.cls + low)

    parts: list[Added] = []
    for first, block in scores.blocks():
        parts += [labelled(first + at, block[at : at + _TOGETHER]) for at in range(0, len(block), _TOGETHER)]
        del block  # or it is held while the next one is read
    return Added.of(parts)


class Spool:
    """Scores of images in a file that is gone at the end, written batch by batch and read class by class."""

    def __init__(self, classes: Sequence[str]) -> None:
        with ExitStack() as held:
            self._path = held.enter_context(temporary_folder()) / "scores.parquet"
            self._writer = ScoreWriter(self._path, classes)
            self._held = held.pop_all()
        self._rows: list[NDArray[np.int64]] = []

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()  # Windows removes no open file
        self._held.close()

    def add(self, rows: NDArray[np.int64], scores: NDArray[np.float32]) -> None:
        """Add images (n,) by number with their scores (n, C)."""
        self._rows.append(rows)
        self._writer.add(list(map(str, rows.tolist())), scores)

    def add_all(self, parts: Sequence[Sequence[tuple[NDArray[np.int64], NDArray[np.float32]]]]) -> None:
        """Add what several processes have sent."""
        for each in parts:
            for rows, scores in each:
                self.add(rows, scores)

    def read(self) -> tuple[NDArray[np.int64], Scores]:
        """Give the numbers of all images, rising, and their scores in that order; nothing is added after it."""
        self._writer.__exit__(None)
        rows = np.concatenate([np.zeros(0, np.int64), *self._rows])
        order = np.argsort(rows, kind="stable")
        return rows[order], read_scores([ScoreFile(self._path)], order)


def prior_of(table: LabelTable, strategy: str) -> Tensor:
    """Expected share present of each class, from the labels that are like a random sample."""
    present, absent = (torch.from_numpy(count) for count in random_sample(table).class_counts())
    try:
        return curriculum.class_prior(present, absent)
    except ValueError as error:
        raise UserError(f"the strategy {strategy}: {error}") from None


def record(
    table: LabelTable,
    rows: NDArray[np.int64],
    added: Added,
    round: int,
    config: RelabelConfig,
    truth: LabelTable | None = None,
) -> dict[str, Any]:
    """What a round did, as plain values.

    Args:
        table: the labels after the round.
        rows: the images that were looked at.
        added: what the round added.
        round: its number.
        config: the strategy.
        truth: the true labels, where they are known; images and classes are found by name.

    Returns:
        ``label_proportion`` after the round, ``labelled_share`` of the pairs that were unknown, ``added_present``,
        ``added_absent``, ``warnings`` in plain sentences, ``classes`` (per class the added labels of both signs and the
        share known after), and, with a truth, ``truth``: of the labels added in this round and of all model labels, how
        many could be checked, the true positive rate (of the truly present, the share that was labelled present), the
        true negative rate (of the truly absent, the share labelled absent) and the accuracy of the labels of each sign
        (table 2 of the paper). Of a strategy that reads whole classes, ``classes`` also has the share that was expected
        to be present and the 95 % interval that the random sample of known labels gives it.
    """
    seen = table if np.array_equal(rows, np.arange(table.num_images)) else table.select(rows)
    present, absent = (
        torch.from_numpy(np.bincount(added.cls[added.value == sign], minlength=table.num_classes)) for sign in (1, -1)
    )
    known = torch.from_numpy(np.add(*seen.class_counts())) - present - absent
    counts = Round(len(rows), known, present, absent)
    result: dict[str, Any] = {
        "round": round,
        "strategy": config.strategy,
        "theta": config.threshold,
        "label_proportion": counts.label_proportion,
        "labelled_share": counts.labelled_share,
        "added_present": int(present.sum()),
        "added_absent": int(absent.sum()),
        "warnings": counts.warnings(table.classes, _MUCH),
        "truth": None,
    }
    if truth is not None:
        all_added = seen.origin == ORIGINS.index("model")
        earlier = (seen.pair_images()[all_added], seen.indices[all_added], seen.values[all_added])
        result["truth"] = {
            "this_round": _rates(table, (added.image, added.cls, added.value), truth),
            "all_rounds": _rates(seen, earlier, truth),
        }
    result["classes"] = _of_classes(counts, table.classes)
    if STRATEGIES[config.strategy].reads == "class":
        result["theta_absent"] = config.threshold if config.theta_absent is None else config.theta_absent
        for own, expected in zip(result["classes"], _expected(seen, config.strategy), strict=True):
            own.update(expected)
    return result


def _of_classes(counts: Round, names: Sequence[str]) -> list[dict[str, Any]]:
    """What a round added to each class."""
    numbers = (counts.present.tolist(), counts.absent.tolist(), counts.known_share.tolist())
    return [
        {"class": name, "added_present": p, "added_absent": a, "known_share": k}
        for name, p, a, k in zip(names, *numbers, strict=True)
    ]


def _expected(table: LabelTable, strategy: str) -> list[dict[str, Any]]:
    """What is expected of each class; the share present of a class without a known label lies between 0 and 1."""
    present, absent = random_sample(table).class_counts()
    ends = share_interval(present, present + absent).tolist()
    prior = prior_of(table, strategy).tolist()
    return [{"expected_present": p, "expected_interval": end} for p, end in zip(prior, ends, strict=True)]


def _rates(
    table: LabelTable, labels: tuple[NDArray[Any], NDArray[Any], NDArray[np.int8]], truth: LabelTable
) -> dict[str, Any]:
    """How many of some labels are right; None where nothing could be checked."""
    image, cls, value = labels
    row = truth.image_index(table.images)[image]
    places = {name: number for number, name in enumerate(truth.classes)}
    column = np.array([places.get(name, -1) for name in table.classes], np.int64)[cls]
    wanted = row * truth.num_classes + column
    keys = truth.pairs().key
    at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    there = (row >= 0) & (column >= 0) & (len(keys) > 0)
    there[there] = keys[at[there]] == wanted[there]
    said, true = value[there] > 0, truth.values[at[there]] > 0

    def share(right: NDArray[np.bool_], of: NDArray[np.bool_]) -> float | None:
        return float(right[of].mean()) if of.any() else None

    return {
        "checked": int(there.sum()),
        "true_positive_rate": share(said, true),
        "true_negative_rate": share(~said, ~true),
        "accuracy_present": share(true, said),
        "accuracy_absent": share(~true, ~said),
    }
