"""Carrying out one job: known labels, training, metrics of images that were not trained on."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray

from experiments import known_labels
from experiments.datasets import Dataset, Pictures
from experiments.jobs import Job, store, where
from experiments.presets import Preset
from experiments.reading import NAMES
from experiments.store import Store
from partlabel import Config, LabelTable, Model, train
from partlabel.core.errors import UserError
from partlabel.core.files import to_toml
from partlabel.method.graph import LabelGraph
from partlabel.metrics import Metrics, evaluate
from partlabel.tasks.predict import score
from partlabel.training.batches import Stored, open_source

_DEFAULTS = {field.name: field.default for field in fields(Job)}


class LastOnly(LabelGraph):
    """The label graph whose output is component v of ``h_v^T`` alone, without ``h_v^0``."""

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        """As :class:`LabelGraph`, less the scores that it adds."""
        return super().forward(scores) - scores


@dataclass(frozen=True)
class Place:
    """Where jobs of a preset run: their data, their run folders, their results; ``command`` is written down."""

    preset: Preset
    dataset: Dataset
    out: Path
    results: Path
    command: str

    @property
    def store(self) -> Store:
        return store(self.results, self.preset.name)

    def run(self, job: Job) -> Path:
        return self.out / self.preset.name / job.name


def carry_out(job: Job, place: Place, keep: bool = False, needed: bool = False) -> bool:
    """Run a job, or go on with it, unless its result is there or another process has it (then False).

    Args:
        job: the job.
        place: data and folders.
        keep: its run folder stays, as another job will need its model.
        needed: now, so wait for another process that has the job, and run it again where its folder is gone.

    Raises:
        UserError: the result that is there is of another data set.
    """
    with place.store.alone(job.name, wait=needed) as alone:
        if not alone:
            return False
        there = place.store.read().get(job.name)
        if there is not None:
            same_data(there, place.dataset.name, place.store.path, job.name)
            if not needed or (place.run(job) / "summary.json").is_file():
                return True
        record = _carried_out(job, place)
        place.store.add(job.name, record)
        for part in ("checkpoints", "best", "rounds"):
            shutil.rmtree(place.run(job) / part, ignore_errors=True)
        if not (keep or needed):
            shutil.rmtree(place.run(job), ignore_errors=True)
        print(f"{job.name}: mAP {record['metrics']['mean_ap']:.2f}, {record['seconds']:.0f} s", flush=True)
    return True


def same_data(record: dict[str, Any], dataset: str, path: Path, name: str) -> None:
    """Refuse to go on beside results of other data.

    Raises:
        UserError: the record is of another data set.
    """
    theirs = record.get("dataset", dataset)
    if theirs != dataset:
        raise UserError(
            f"{path}: {name} is a result on {theirs}; give those on {dataset} another folder with --results and --out"
        )


def _carried_out(job: Job, place: Place) -> dict[str, Any]:
    config = place.preset.config(job)
    earlier = [other for other in (place.preset.start(job), job.previous) if other is not None]
    for other in earlier:
        carry_out(other, place, needed=True)
    began = time.perf_counter()
    start = place.preset.start(job)
    if start is not None:
        config = config.replace(model__weights=str(place.run(start) / "last"))
    whole = _pictures(job, place)
    with _graph_of(job):
        known = _known(job, place, whole)
        rows, truth = None, whole.table
        if job.held_out:
            share = place.preset.held_out
            fit, rows = whole.table.split([1 - share, share], seed=0)
            known, truth = _without(known, fit, config), _without(truth, fit, config)
        run = place.run(job)
        run.parent.mkdir(parents=True, exist_ok=True)
        resume = (run / "run.json").is_file()
        summary = train(known, whole.folder, out=run, config=config, truth=truth, resume=resume).summary
        model = Model.load(run, which="last")
        metrics = _measured(model, config, place.dataset.test) if rows is None else _on_rows(model, config, whole, rows)
    return {
        "job": job.name,
        "settings": {k: v for k, v in asdict(job).items() if v != _DEFAULTS.get(k)},
        "dataset": place.dataset.name,
        "data": [part.table.content_hash() for part in (place.dataset.train, place.dataset.test)],
        "known": known.num_known / (known.num_images * known.num_classes),
        "images_with_labels": int((np.diff(known.indptr) > 0).sum()),
        "metrics": metrics_record(metrics),
        "rounds": summary.get("rounds", []),
        "final_loss": summary["last"]["loss"],
        "seed": job.seed,
        "seconds": round(time.perf_counter() - began, 1),
        "command": place.command,
        **where(),
        "config": to_toml(config.to_dict()),
    }


def metrics_record(metrics: Metrics) -> dict[str, float | None]:
    """The metrics of the paper in percent, None where undefined; and of how many classes PC-P is the mean."""
    values = {name: float(getattr(metrics, name)) for name in NAMES}
    found = {name: None if np.isnan(value) else round(100 * value, 4) for name, value in values.items()}
    return {**found, "pc_precision_classes": float(np.isfinite(metrics.precision).sum())}


@contextmanager
def _graph_of(job: Job) -> Iterator[None]:
    """The variant of the graph that the paper mentions and partlabel does not have."""
    if not job.last_only:
        yield
        return
    with mock.patch("partlabel.models.model.LabelGraph", LastOnly):
        yield


def _pictures(job: Job, place: Place) -> Pictures:
    whole, first = place.dataset.train, place.preset.bases[job.base].pictures
    return whole if first is None else Pictures(whole.table.select(slice(0, first)), whole.folder)


def _without(table: LabelTable, fit: NDArray[np.int64], config: Config) -> LabelTable:
    """Leave out the images that are held out.

    Where the backbone is frozen they stay without labels, so that the stored features of all images serve.
    """
    if config.freeze != "all":
        return table.select(fit)
    image = np.repeat(np.arange(table.num_images), np.diff(table.indptr))
    return table.hide(np.isin(image, fit), "held out")


def _known(job: Job, place: Place, whole: Pictures) -> LabelTable:
    before = job.previous
    if before is None:
        return known_labels.draw(job.labels, whole.table, job.seed)
    run = place.run(before)
    table = LabelTable.read_parquet(run / "labels.parquet")
    scores = scores_of(Model.load(run, which="last"), place.preset.config(before), whole.paths, train=True)
    return known_labels.ask(table, scores, whole.table, job.labels.share, job.seed)


def scores_of(model: Model, config: Config, paths: list[Path], train: bool) -> NDArray[np.float32]:
    """Scores (N, C); of a frozen backbone from the stored features, which for the training part hold mirrored ones."""
    if config.freeze != "all":
        return score(model, paths)
    stages = model.backbone.num_stages
    limit = config.images.max_pixels
    source = open_source(model, stages, paths, flip=train and config.images.flip, workers=1, max_pixels=limit)
    assert isinstance(source, Stored)
    batches = [np.arange(a, min(a + 512, len(paths))) for a in range(0, len(paths), 512)]
    with torch.inference_mode():
        return torch.cat([model(batch, stages) for batch in source.batches(batches, None)]).numpy()


def _measured(model: Model, config: Config, tested: Pictures) -> Metrics:
    return evaluate(scores_of(model, config, tested.paths, train=False), tested.table.dense())


def _on_rows(model: Model, config: Config, whole: Pictures, rows: NDArray[np.int64]) -> Metrics:
    """On the part of the training images that was held out, from the stored features where there are any."""
    if config.freeze == "all":
        return evaluate(scores_of(model, config, whole.paths, train=True)[rows], whole.table.dense(rows))
    return _measured(model, config, Pictures(whole.table.select(rows), whole.folder))
