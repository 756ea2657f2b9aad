"""The demo job: a whole run of partlabel on scenes of handwritten digits, without a download.

It goes the way of a user's own data and calls only public functions: image files and CSV tables, import, hiding nine
labels in ten, training, evaluation on new scenes, a prediction file. What the scenes show, and which digits stand
together in them, is described in :mod:`partlabel.app.demo.digits`.

Three models are compared on the same scenes, the same known labels and the same settings: plain binary cross-entropy
(BCE, g = 1 in equation 1), partial-BCE (equations 1 and 2 with g(0.1) = 5), and partial-BCE with the label graph
(algorithm 2). Each label is known with a chance of 10 %, so that scenes have 0, 1, 2 or more known labels. At such
proportions g is 4 to 5, so plain BCE makes steps four to five times smaller. Two more trainings therefore tell what the
three numbers mean: BCE with five times the learning rate, and BCE with every label known.
"""

from __future__ import annotations

import csv
import os
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from partlabel import formats
from partlabel.app.demo.digits import CLASSES, Scene, draw_scenes
from partlabel.app.demo.figure import Example, draw
from partlabel.core.errors import UserError
from partlabel.core.files import write_json, write_text
from partlabel.labels import simulate
from partlabel.labels.table import LabelTable
from partlabel.metrics import Metrics
from partlabel.models.model import Model
from partlabel.tasks.evaluate import evaluate
from partlabel.tasks.predict import predictions, score
from partlabel.training.config import Config, ImageConfig, LossConfig, ModelConfig, OptimConfig
from partlabel.training.loop import train

#: chance that a label of a training scene is known
PROPORTION = 0.1
#: chosen for partial-BCE, on other test scenes
LEARNING_RATE = 0.03
#: seconds after which no training that can be left out is begun
PATIENCE = 170.0
#: scenes of each kind in the image
SHOWN = 8
#: a folder with this file was written by the demo, and the next demo may replace it
MARKER = "README.txt"
_OWN = ("scenes", "labels", "runs")
_README = """\
Written by `partlabel demo`, which replaces it when it runs again.

picture.png      scenes with their known, predicted and true labels
results.txt      the table of the models; results.json has all the numbers
predictions.csv  score, probability and decision of the best model for each test scene and digit
scenes/          the images
labels/          train.csv and test.csv as a user would have them, imported as .parquet; known.parquet was trained on
runs/            one run folder for each model
"""


@dataclass(frozen=True)
class Size:
    """How large the demo is: scenes to train on, scenes to measure on, and how often each training scene is used."""

    train: int = 4000
    test: int = 1000
    epochs: int = 7


@dataclass(frozen=True)
class Training:
    """One training of the demo.

    ``key``: name of the run folder. ``name``: as people read it. ``optional``: left out on a slow machine.
    ``every_label``: all labels are known, of the same scenes.
    """

    key: str
    name: str
    config: Config
    optional: bool = False
    every_label: bool = False


@dataclass(frozen=True)
class Outcome:
    """What a training came to: its metrics on the test scenes, and the seconds it took."""

    training: Training
    metrics: Metrics
    seconds: float


def run(output: str | os.PathLike[str], size: Size | None = None, seed: int = 0) -> dict[str, Any]:
    """Run the demo, print its steps and its table, and write a folder with all of it.

    The folder holds ``scenes/`` (JPEG files), ``labels/`` (CSV as a user would have it, and label tables), ``runs/`` (a
    run folder for each model), ``predictions.csv``, ``results.json``, ``results.txt`` and ``picture.png``.

    Args:
        output: folder to write: new, empty, or of an earlier demo, which is replaced.
        size: how large the demo is; None takes three to four minutes.
        seed: draws the scenes, the known labels and the first weights.

    Returns:
        What ``results.json`` holds: the metrics of each model in [0, 1], the settings, and the seconds it took.

    Raises:
        UserError: the folder holds something else.

    >>> results = run("demo")  # doctest: +SKIP
    """
    size, folder, began = size or Size(), Path(output), time.perf_counter()
    _open_folder(folder)
    scenes = _write_scenes(folder, size, seed)
    print(f"{size.train:,} training and {size.test:,} test scenes of handwritten digits in {folder / 'scenes'}")
    every, known, test = _labels(folder, seed)
    pairs = known.num_images * known.num_classes
    print(f"{known.num_known:,} of {pairs:,} training labels are known ({known.num_known / pairs:.1%})", flush=True)

    outcomes = []
    with _one_thread():
        for training in trainings(size.epochs, seed):
            if training.optional and time.perf_counter() - began > PATIENCE:
                print(f"\nLeft out, as this machine is slow: {training.name}")
                continue
            outcomes.append(_train(training, every if training.every_label else known, test, folder))
        best = max((o for o in outcomes if not o.training.every_label), key=lambda o: o.metrics.mean_ap)
        _show(folder, best, outcomes, (known, test), scenes)

    text = table(outcomes, known, test) + "\n\n" + _explained(outcomes, best, folder)
    results = {
        "labels": {
            "known": known.num_known,
            "of": pairs,
            "scenes_with_known_labels": int(np.sum(known.proportion() > 0)),
        },
        "test_scenes": test.num_images,
        "epochs": size.epochs,
        "seed": seed,
        "best": best.training.key,
        "models": [_described(outcome) for outcome in outcomes],
        "seconds": round(time.perf_counter() - began, 1),
    }
    write_json(folder / "results.json", results)
    write_text(folder / "results.txt", text + "\n")
    print(f"\n{text}\n\nAll in {results['seconds']:.0f} s")
    return results


def trainings(epochs: int, seed: int) -> list[Training]:
    """The trainings of the demo, in their order.

    The network is the first three stages of timm's smallest ResNet, with random weights; at 48 px its map has 6 x 6
    regions. Scenes are not mirrored, because digits are not. There is no validation: the model of the last epoch is
    taken. The optimizer is the paper's, SGD with momentum 0.9, at batch 16 and weight decay 1e-4.
    """
    bce = Config(
        model=ModelConfig(backbone="test_resnet", weights="none", stages=3),
        images=ImageConfig(size=48, flip=False),
        loss=LossConfig(name="bce"),
        optim=OptimConfig(epochs=epochs, learning_rate=LEARNING_RATE, schedule="cosine", warmup=0.5),
        validation=0.0,
        seed=seed,
    )
    partial = bce.replace(loss__name="partial-bce")
    return [
        Training("bce", "BCE", bce),
        Training("partial-bce", "partial-BCE", partial),
        Training("partial-bce-graph", "partial-BCE + label graph", partial.replace(model__graph=True)),
        Training(
            "bce-5x", "BCE, 5 x learning rate", bce.replace(optim__learning_rate=5 * LEARNING_RATE), optional=True
        ),
        Training("every-label", "BCE, every label known", bce, optional=True, every_label=True),
    ]


def table(outcomes: list[Outcome], known: LabelTable, test: LabelTable) -> str:
    """The outcomes as text, in percent."""
    columns = {"mAP": "mean_ap", "0-1": "zero_one", "macro-F1": "macro_f1", "micro-F1": "micro_f1"}
    share = known.num_known / (known.num_images * known.num_classes)
    lines = [
        f"Measured on {test.num_images:,} new scenes, in percent; {share:.0%} of the training labels known",
        "",
        " " * 28 + "".join(f"{title:>10}" for title in columns) + f"{'seconds':>10}",
    ]
    for outcome in outcomes:
        values = "".join(f"{100 * getattr(outcome.metrics, name):10.1f}" for name in columns.values())
        lines.append(f"{outcome.training.name:28}{values}{outcome.seconds:10.0f}")
    return "\n".join(lines)


def _explained(outcomes: list[Outcome], best: Outcome, folder: Path) -> str:
    own = folder / "runs" / best.training.key
    shown = any(outcome.training.key == "bce-5x" for outcome in outcomes)
    larger = "the row with 5 x learning rate shows" if shown else "5 x learning rate, left out here, would show"
    return f"""\
All rows share the scenes, the number of steps, the network and, where not said otherwise, the learning rate. With so
few known labels, partial-BCE weighs a scene 4 to 5 times as much as BCE does, so that under SGD plain BCE makes smaller
steps; {larger} what remains of the difference when it does not.
One seed: differences of one or two points are chance.

Look at     {folder / "picture.png"}
The same with commands, as for your own images:
  partlabel import csv {folder}/labels/train.csv --coding native --images {folder}/scenes -o train.parquet
  partlabel simulate train.parquet partial --proportion {PROPORTION} --per-image bernoulli -o known.parquet
  partlabel train known.parquet --images {folder}/scenes --config {own}/config.toml -o run
  partlabel evaluate run {folder}/labels/test.parquet --images {folder}/scenes
  partlabel predict run {folder}/scenes/test -o predictions.csv"""


def _described(outcome: Outcome) -> dict[str, Any]:
    training = outcome.training
    return {
        "name": training.name,
        "run": f"runs/{training.key}",
        "every_label": training.every_label,
        "seconds": round(outcome.seconds, 1),
        "config": training.config.to_dict(),
        **outcome.metrics.to_dict(),
    }


@contextmanager
def _one_thread() -> Generator[None]:
    """Tensors this small gain nothing from more threads, which wait for each other on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _open_folder(folder: Path) -> None:
    """Make the folder, or clear one that an earlier demo wrote."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARKER).is_file():
        raise UserError(f"{folder}: is not empty, and no earlier demo wrote it; choose another folder")
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: is a file; choose a folder")
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / MARKER, _README)
    for name in _OWN:
        if (folder / name).exists():
            shutil.rmtree(folder / name)


def _write_scenes(folder: Path, size: Size, seed: int) -> dict[str, Scene]:
    """Draw the scenes and write them as a user has his data: images in folders, and a CSV file with every label.

    Returns:
        The scenes, by the name of their image.
    """
    named: dict[str, Scene] = {}
    (folder / "labels").mkdir()
    drawn = {"train": draw_scenes("train", size.train, seed), "test": draw_scenes("test", size.test, seed)}
    for part, own in drawn.items():
        (folder / "scenes" / part).mkdir(parents=True)
        scenes = {f"{part}/{i:05}.jpg": scene for i, scene in enumerate(own)}
        for name, scene in scenes.items():
            (folder / "scenes" / name).write_bytes(scene.jpeg())
        with open(folder / "labels" / f"{part}.csv", "w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["image", *CLASSES])
            rows.writerows([name, *scene.labels().tolist()] for name, scene in scenes.items())
        named |= scenes
    return named


def _labels(folder: Path, seed: int) -> tuple[LabelTable, LabelTable, LabelTable]:
    """Import both CSV files and hide most training labels.

    Returns:
        All labels of the training scenes that keep a known one, the known training labels, and the test labels.
    """
    tables = {}
    for part in ("train", "test"):
        source = folder / "labels" / f"{part}.csv"
        tables[part], _ = formats.read("csv", source, coding="native", images=folder / "scenes")
        tables[part].write_parquet(folder / "labels" / f"{part}.parquet")
    known = simulate.partial(tables["train"], PROPORTION, seed, per_image="bernoulli")
    known.write_parquet(folder / "labels" / "known.parquet")
    return tables["train"].select(np.flatnonzero(known.proportion())), known, tables["test"]


def _train(training: Training, labels: LabelTable, test: LabelTable, folder: Path) -> Outcome:
    """Train one model and measure it on the test scenes, of which every label is known."""
    print(f"\nTraining: {training.name}", flush=True)
    began, own = time.perf_counter(), folder / "runs" / training.key
    train(labels, folder / "scenes", out=own, config=training.config)
    seconds = time.perf_counter() - began
    found = evaluate(own, test, images=folder / "scenes")
    print(f"mAP {found.mean_ap:.1%} on the test scenes, after {seconds:.0f} s", flush=True)
    return Outcome(training, found, seconds)


def _show(
    folder: Path,
    best: Outcome,
    outcomes: list[Outcome],
    labels: tuple[LabelTable, LabelTable],
    scenes: dict[str, Scene],
) -> None:
    """Write the predictions of the best model and draw its image.

    The scenes are the first ones (of training: with a known label), whatever the model makes of them.
    """
    known, test = labels
    model = Model.load(folder / "runs" / best.training.key)
    names = test.images.to_pylist()
    scores = score(model, [folder / "scenes" / name for name in names])
    predictions(model, names, scores).write(folder / "predictions.csv")
    new = [_example(scenes[name], None, own) for name, own in zip(names[:SHOWN], scores, strict=False)]
    shown = known.select(np.flatnonzero(known.proportion())[:SHOWN])
    names = shown.images.to_pylist()
    scores = score(model, [folder / "scenes" / name for name in names])
    own_labels = zip(names, shown.dense(), scores, strict=True)
    trained = [_example(scenes[name], labels, own) for name, labels, own in own_labels]
    others = "; ".join(f"{o.training.name}: {o.metrics.mean_ap:.1%}" for o in outcomes if o is not best)
    headline = f"{best.training.name}: mAP {best.metrics.mean_ap:.1%} on {test.num_images:,} new scenes  ({others})"
    draw(folder / "picture.png", trained, new, headline)


def _example(scene: Scene, known: NDArray[np.int8] | None, scores: NDArray[np.float32]) -> Example:
    return Example(scene.pixels, known, predicted=scores >= 0, true=scene.labels() > 0)
