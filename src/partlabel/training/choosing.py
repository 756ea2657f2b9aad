"""The preset ``auto``: looks at the table and the machine, tries settings on known labels, and says why it took one.

On a CPU the candidates are frozen backbones whose weights are installed, each at some image sizes, with the round of
self-training and without. Their features of some images of the training part are computed until the time is over, and
each is judged by out-of-fold average precision on the known labels of these images (:mod:`partlabel.training.folds`).
The largest
backbone stays, unless another setting is better by two standard errors over the classes: on few labels the largest of
several numbers is mostly luck, and the larger backbone is nearly always better (LOG.md). On a GPU, and in several
processes, nothing is tried, and a rule decides.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from partlabel.core.compute import cores, is_first_process, processes
from partlabel.core.errors import UserError
from partlabel.core.progress import Reporter, duration
from partlabel.images import find
from partlabel.images.looking import GOOD, look, record_folder
from partlabel.labels.table import LabelTable
from partlabel.metrics import average_precision
from partlabel.models.model import Model
from partlabel.models.weights import has_wheel
from partlabel.training.batches import Stored, open_source
from partlabel.training.config import Config
from partlabel.training.data import lasting_split
from partlabel.training.folds import FOLDS, out_of_fold
from partlabel.training.head import as_round, head_features
from partlabel.training.presets import DEFAULT
from partlabel.training.run import SETTINGS

#: seconds that trying may take
SECONDS = 120.0
#: images that are tried at most, and those that are run at once
_IMAGES, _CHUNK = 400, 40
#: classes with known labels of both signs that a comparison needs
_CLASSES = 4
#: standard errors by which another candidate has to be better
_ERRORS = 2.0
#: known present labels, and gigabytes of memory on the GPU, from which on a whole network is trained there
_GPU_PRESENT, _GPU_MEMORY = 2000, 8


@dataclass(frozen=True)
class Machine:
    """What there is to train on: cores, processes, the GPU by name (None: there is none) and its memory in bytes."""

    cores: int
    processes: int = 1
    gpu: str | None = None
    gpu_memory: int = 0

    @staticmethod
    def here() -> Machine:
        """This machine."""
        if not torch.cuda.is_available():
            return Machine(cores(), processes().world)
        about = torch.cuda.get_device_properties(0)
        return Machine(cores(), processes().world, about.name, about.total_memory)

    def __str__(self) -> str:
        if self.gpu is not None:
            return f"a GPU ({self.gpu}, {self.gpu_memory / 2**30:.0f} GiB)"
        return f"{self.cores} processor core{'s' if self.cores > 1 else ''}, no GPU"


@dataclass(frozen=True, eq=False)
class Candidate:
    """Settings that are tried.

    Attributes:
        name: in words.
        changes: what differs from the preset ``small``, as :meth:`Config.replace` takes it.
        seconds: of one image.
        precision: (C,) out-of-fold average precision on the known labels, 0..1; NaN where it is undefined.
    """

    name: str
    changes: dict[str, Any]
    seconds: float
    precision: NDArray[np.float64]


def choose(
    labels: LabelTable,
    images: Path,
    *,
    machine: Machine | None = None,
    seconds: float = SECONDS,
    report: Reporter | None = None,
) -> Config:
    """Choose the settings of a training; ``chosen`` of the result says what was chosen and why.

    Args:
        labels: the table.
        images: folder of its images.
        machine: what to train on; None looks.
        seconds: that trying may take, about: a batch that has begun is finished.
        report: is told what will be done, and what it came to.

    Raises:
        UserError: none of the images is there.
    """
    machine, report = machine or Machine.here(), report or Reporter(quiet=not is_first_process())
    config, why = _by_rule(labels, machine)
    if why is None:
        report.line(f"preset auto: trying settings on known labels, for {duration(seconds)} at most")
        tried, count, took = _try(labels, images, seconds)
        best, reason = decide(tried)
        config = config.replace(**best.changes) if best else config
        listed = ", ".join(f"{each.name} {_mean(each.precision)}" for each in tried)
        measured = f", mAP out of fold on known labels: {listed}" if any(map(_is_defined, tried)) else ""
        found = f"Tried {len(tried)} settings on {count:,} images in {duration(took)}{measured}. " if tried else ""
        why = f"{found}Taken: {best.name if best else f'the preset {DEFAULT}'}, {reason}."
    chosen = f"{_table(labels)}; {machine}. {why}"
    report.line(f"preset auto: {chosen}")
    return config.replace(chosen=chosen)


def automatic(labels: LabelTable, images: Path, out: Path, resume: bool = False) -> Config:
    """The settings of :func:`choose`; those of the run in ``out``, where that is resumed."""
    if resume and (out / SETTINGS).is_file():
        return Config.read(out / SETTINGS)
    return choose(labels, images)


def decide(tried: Sequence[Candidate]) -> tuple[Candidate | None, str]:
    """The first candidate, or the one that is better by two standard errors over the classes; and why, in words.

    The standard error is that of the mean difference from the first, class by class. None: nothing was tried.
    """
    if not tried:
        return None, "as nothing could be tried in the time"
    first = tried[0]
    best, gain, reason = first, 0.0, "as the best on most tables, and no other is better here by two standard errors"
    for other in tried[1:]:
        gains = 100 * (other.precision - first.precision)
        gains = gains[np.isfinite(gains)]
        if len(gains) < _CLASSES:
            return first, f"as fewer than {_CLASSES} classes have enough known labels to compare by"
        mean, error = float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(len(gains)))
        if mean > max(gain, _ERRORS * error):
            best, gain, reason = other, mean, f"{mean:.1f} points (+- {error:.1f}) better than {first.name}"
    return best, reason


def _by_rule(labels: LabelTable, machine: Machine) -> tuple[Config, str | None]:
    """The settings that a rule gives, and why; None: it is to be tried."""
    small, present = Config.preset(DEFAULT), int(labels.class_counts()[0].sum())
    if machine.gpu is not None:
        if present < _GPU_PRESENT:
            return (
                small,
                f"Taken: the preset {DEFAULT}, as {_GPU_PRESENT:,} known present labels are few to train all on.",
            )
        if machine.gpu_memory < _GPU_MEMORY * 2**30:
            return small, f"Taken: the preset {DEFAULT}, as {_GPU_MEMORY} GiB on the GPU are few to train all on."
        return Config.preset("gpu"), "Taken: the preset gpu, by rule; nothing was tried."
    if machine.processes > 1:
        return small, f"Taken: the preset {DEFAULT}, as several processes train together; nothing was tried."
    return small, None


def candidates() -> list[tuple[str, dict[str, Any]]]:
    """Backbones and image sizes with weights at hand, the best on most tables first: name and changes."""
    sizes = {"tf_efficientnet_lite2": (288,), "tf_efficientnet_lite0": (288, 224)}
    return [
        (f"{name.removeprefix('tf_efficientnet_')} at {size} px", {"model__backbone": name, "images__size": size})
        for name in sizes
        for size in sizes[name]
        if has_wheel(name)
    ]


def _try(labels: LabelTable, folder: Path, seconds: float) -> tuple[list[Candidate], int, float]:
    """Run the candidates on some images of the training part, all on the same ones, until the time is over."""
    began = time.perf_counter()
    table, paths = _sample(labels, folder)
    base, ways = Config.preset(DEFAULT), candidates()
    models = [(name, changes, base.replace(**changes)) for name, changes in ways]
    opened = [
        (name, changes, config, Model(config.model, table.classes, config.images.size).eval())
        for name, changes, config in models
    ]
    features: list[list[NDArray[np.float32]]] = [[] for _ in opened]
    spent, count, longest = [0.0] * len(opened), 0, 0.0
    while count < len(paths) and time.perf_counter() - began + 2 * longest < seconds:
        chunk, start = paths[count : count + _CHUNK], time.perf_counter()
        for number, (_, _, config, model) in enumerate(opened):
            before = time.perf_counter()
            features[number].append(_features(model, config, chunk))
            spent[number] += time.perf_counter() - before
        longest = max(longest, time.perf_counter() - start)
        count += len(chunk)
    if count < 2 * FOLDS or not opened:
        return [], count, time.perf_counter() - began
    own = table.select(np.arange(count))
    tried = []
    for number, (name, changes, config, _) in enumerate(opened):
        x = np.concatenate(features[number])
        for words, own_changes, rounds in (
            (name, changes, as_round(config.self_training)),
            (f"{name} without self-training", {**changes, "self_training": {"present": 0.0, "absent": 0.0}}, None),
        ):
            if time.perf_counter() - began < seconds or not tried:
                scores = out_of_fold(x, own, rounds=rounds).dense()
                tried.append(Candidate(words, own_changes, spent[number] / count, precision_of(scores, own)))
    return tried, count, time.perf_counter() - began


def _sample(labels: LabelTable, folder: Path) -> tuple[LabelTable, list[Path]]:
    """Some images with known labels that are there, whole, and not of the validation part."""
    table = labels.select(sample_rows(labels, 2 * _IMAGES))
    found = find(table.images.to_pylist(), folder)
    there = np.array([path is not None for path in found])
    paths = [path for path in found if path is not None]
    if not paths:
        raise UserError(f"none of the images of the table is in {folder}")
    looked = look(paths, store=record_folder()).rows  # what is odd about them, the training says of all images
    good, contents = looked["state"] == GOOD, looked["content"][looked["state"] == GOOD]
    rows = np.flatnonzero(there)[good]
    paths = [path for path, fine in zip(paths, good, strict=True) if fine]
    table = table.select(rows)
    keep = np.arange(len(paths))
    if len(paths) > 2 * FOLDS:
        keep = np.flatnonzero(~lasting_split(table, contents, Config.preset(DEFAULT).validation))
    keep = keep[:_IMAGES]
    return table.select(keep), [paths[i] for i in keep]


def sample_rows(labels: LabelTable, count: int) -> NDArray[np.int64]:
    """Images with known labels in random order, two with a present one for each without: present ones are few."""
    random = np.random.default_rng(0)
    known = random.permutation(np.flatnonzero(np.diff(labels.indptr)))
    has_present = np.zeros(labels.num_images, bool)
    has_present[labels.pair_images()[labels.values > 0]] = True
    shown = has_present[known]
    place = np.where(shown, np.cumsum(shown) / 2, np.cumsum(~shown))
    return known[np.argsort(place, kind="stable")][:count]


def _features(model: Model, config: Config, paths: list[Path]) -> NDArray[np.float32]:
    stage = model.backbone.num_stages
    source = open_source(model, stage, paths, flip=False, workers=0, max_pixels=config.images.max_pixels)
    assert isinstance(source, Stored)
    return head_features(model, source, np.arange(len(paths)))


def precision_of(scores: NDArray[np.float32], table: LabelTable) -> NDArray[np.float64]:
    """(C,) average precision on known labels, NaN where it is undefined."""
    scored = np.isfinite(scores).all(0)
    found = np.full(table.num_classes, np.nan)
    if scored.any():
        found[scored] = average_precision(scores[:, scored], table.dense()[:, scored])
    return found


def _is_defined(tried: Candidate) -> bool:
    return bool(np.isfinite(tried.precision).any())


def _mean(precision: NDArray[np.float64]) -> str:
    defined = precision[np.isfinite(precision)]
    return f"{100 * defined.mean():.1f}" if len(defined) else "not defined"


def _table(labels: LabelTable) -> str:
    present, absent = labels.class_counts()
    return (
        f"{labels.num_images:,} images, {labels.num_classes:,} classes, {int(present.sum()):,} present and "
        f"{int(absent.sum()):,} absent labels known"
    )
