"""The demo: what partlabel is for, in three lessons on scenes of handwritten digits, without a download.

It goes the way of a user's own data and calls only public functions. What the scenes show, and which digits stand
together in them, is described in :mod:`partlabel.app.demo.digits`. One label in ten is known, of every scene by chance.

1. *Unknown is not absent.* The same scenes and the same known labels are learned twice: unknown labels taken as absent,
   as a loader does that fills a matrix with zeros, and left unknown (partial-BCE, equations 1 and 2).
2. *Asking.* As many labels again are added, those that ``partlabel next`` asks for or as many at random.
3. *Filling in with a promise.* ``partlabel complete`` fills in what it can at a stated precision, and is held against
   the truth, which only a demo knows.

A fifth of the known labels is never trained on: it decides the thresholds, and tests what is filled in.
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
from partlabel.app.api import complete, next_labels
from partlabel.app.demo.digits import CLASSES, Scene, draw_scenes
from partlabel.app.demo.figure import Example, Lessons, draw
from partlabel.app.demo.words import explained, table
from partlabel.core.errors import UserError
from partlabel.core.files import write_json, write_text
from partlabel.labels import simulate
from partlabel.labels.holdout import hold_out, shared_pairs
from partlabel.labels.pairs import MODEL
from partlabel.labels.table import LabelTable
from partlabel.metrics import Metrics
from partlabel.models.model import Model
from partlabel.tasks.evaluate import evaluate
from partlabel.tasks.next_labels import add_answers
from partlabel.tasks.predict import predictions, score
from partlabel.tasks.question_files import read_answers
from partlabel.training.config import Config, ImageConfig, LossConfig, ModelConfig, OptimConfig
from partlabel.training.loop import train

#: chance that a label of a training scene is known, and share of the known ones that is not trained on
PROPORTION, HELD_OUT = 0.1, 0.2
#: what is promised of the labels filled in: so many are right, with this confidence
PRECISION, CONFIDENCE = 0.9, 0.9
#: seconds after which no training that can be left out is begun
PATIENCE = 170.0
#: scenes of each kind in the image
SHOWN = 4
#: a folder with this file was written by the demo, and the next demo may replace it
MARKER = "README.txt"
_OWN = ("scenes", "labels", "runs")
_README = """\
Written by `partlabel demo`, which replaces it when it runs again.

picture.png      the three lessons, and scenes with their known, filled-in, predicted and true labels
results.txt      what was said; results.json has all the numbers
predictions.csv  score, probability and decision of the last model for each test scene and digit
scenes/          the images
labels/          known.csv as a user would have it, with empty cells; train, held and grown.parquet, made from it;
                 questions.csv with its answers; completed.parquet; truth.csv and test.csv with every label
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

    ``key``: name of the run folder. ``name``: as people read it. ``lesson``: 1 or 2. ``optional``: left out on a slow
    machine.
    """

    key: str
    name: str
    lesson: int
    config: Config
    optional: bool = False


@dataclass(frozen=True)
class Outcome:
    """What a training came to: its metrics on the test scenes, and the seconds it took."""

    training: Training
    metrics: Metrics
    seconds: float


@dataclass(frozen=True)
class Tables:
    """The label tables: what is ``known``, its parts ``train`` and ``held``, the ``truth``, and the ``test`` scenes."""

    known: LabelTable
    train: LabelTable
    held: LabelTable
    truth: LabelTable
    test: LabelTable


def run(output: str | os.PathLike[str], size: Size | None = None, seed: int = 0) -> dict[str, Any]:
    """Run the demo, print its steps and its lessons, and write a folder with all of it.

    The folder holds ``scenes/`` (JPEG files), ``labels/`` (CSV as a user would have it, and label tables), ``runs/`` (a
    run folder for each model), ``predictions.csv``, ``results.json``, ``results.txt`` and ``picture.png``.

    Args:
        output: folder to write: new, empty, or of an earlier demo, which is replaced.
        size: how large the demo is; None takes two to four minutes.
        seed: draws the scenes, the known labels and the first weights.

    Returns:
        What ``results.json`` holds: metrics of each model in [0, 1], what was asked and filled in, settings, seconds.

    Raises:
        UserError: the folder holds something else.

    >>> results = run("demo")  # doctest: +SKIP
    """
    size, folder, began = size or Size(), Path(output), time.perf_counter()
    _open_folder(folder)
    scenes = _write_scenes(folder, size, seed)
    print(f"{size.train:,} training and {size.test:,} test scenes of handwritten digits in {folder / 'scenes'}")
    tables = _labels(folder, seed)
    known, pairs = tables.known, tables.known.num_images * tables.known.num_classes
    print(f"{known.num_known:,} of {pairs:,} training labels are known ({known.num_known / pairs:.1%})", flush=True)

    outcomes, asked = [], {"questions": known.num_known, "present": 0}
    with _one_thread():
        for training in trainings(size.epochs, seed):
            if training.optional and time.perf_counter() - began > PATIENCE:
                print(f"\nLeft out, as this machine is slow: {training.name}")
                continue
            labels = tables.train
            if training.key == "asked":
                labels, asked["present"] = _ask(folder, tables, seed)
            elif training.key == "random":
                labels = _at_random(tables, seed)
            elif training.key == "every-label":
                labels = tables.truth.hide(~shared_pairs(tables.held, tables.truth))
            outcomes.append(_train(training, labels, tables, folder))
        completed, filled = _fill_in(folder, tables)
        _show(folder, outcomes, (tables, completed), filled, scenes)

    results: dict[str, Any] = {
        "labels": {"known": known.num_known, "of": pairs, "held_out": tables.held.num_known},
        "test_scenes": tables.test.num_images,
        "epochs": size.epochs,
        "seed": seed,
        "models": [_described(outcome) for outcome in outcomes],
        "asked": asked,
        "filled_in": filled,
    }
    text = f"{table(results)}\n\n{explained(results, folder)}"
    results["seconds"] = round(time.perf_counter() - began, 1)
    write_json(folder / "results.json", results)
    write_text(folder / "results.txt", text + "\n")
    print(f"\n{text}\n\nAll in {results['seconds']:.0f} s")
    return results


def trainings(epochs: int, seed: int) -> list[Training]:
    """The trainings of the demo, in their order.

    The network is the first three stages of timm's smallest ResNet, with random weights; at 48 px its map has 6 x 6
    regions. Scenes are not mirrored, because digits are not. The optimizer is the paper's, SGD with momentum 0.9, at
    batch 16 and weight decay 1e-4. Where every label counts as known, g is 1 and partial-BCE is plain BCE; unknown
    labels taken as absent do no better at five times the learning rate.
    """
    unknown = Config(
        model=ModelConfig(backbone="test_resnet", weights="none", stages=3),
        images=ImageConfig(size=48, flip=False),
        loss=LossConfig(name="partial-bce"),
        optim=OptimConfig(epochs=epochs, learning_rate=0.03, schedule="cosine", warmup=0.5),
        seed=seed,
    )
    absent = unknown.replace(assume_absent=True)
    return [
        Training("unknown-as-absent", "unknown labels taken as absent", 1, absent),
        Training("unknown", "unknown labels left unknown", 1, unknown),
        Training("asked", "those that partlabel next asks for", 2, unknown),
        Training("random", "as many at random", 2, unknown, optional=True),
        Training("every-label", "every label known", 2, unknown, optional=True),
    ]


def _described(outcome: Outcome) -> dict[str, Any]:
    training = outcome.training
    return {
        "key": training.key,
        "name": training.name,
        "lesson": training.lesson,
        "run": f"runs/{training.key}",
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
        labels = np.stack([scene.labels() for scene in own])
        _write_csv(folder / "labels" / {"train": "truth.csv", "test": "test.csv"}[part], list(scenes), labels)
        named |= scenes
    return named


def _write_csv(path: Path, images: list[str], labels: NDArray[np.int8]) -> None:
    """A row for each image: 1 present, 0 absent, an empty cell where nobody looked."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["image", *CLASSES])
        cells = {1: "1", -1: "0", 0: ""}
        for name, own in zip(images, labels.tolist(), strict=True):
            rows.writerow([name, *(cells[label] for label in own)])


def _labels(folder: Path, seed: int) -> Tables:
    """Write the table with holes, import all three, and put a fifth of the known labels aside."""

    def read(name: str) -> LabelTable:
        found, _ = formats.read(
            "csv", folder / "labels" / name, coding="1=present,0=absent,blank=unknown", images=folder / "scenes"
        )
        return found

    truth, test = read("truth.csv"), read("test.csv")
    some = simulate.partial(truth, PROPORTION, seed, per_image="bernoulli")
    _write_csv(folder / "labels" / "known.csv", some.images.to_pylist(), some.dense())
    known = read("known.csv")
    trained, held = hold_out(known, HELD_OUT, seed)
    for name, each in {"train": trained, "held": held, "truth": truth, "test": test}.items():
        each.write_parquet(folder / "labels" / f"{name}.parquet")
    return Tables(known, trained, held, truth, test)


def _train(training: Training, labels: LabelTable, tables: Tables, folder: Path) -> Outcome:
    """Train one model and measure it on the test scenes, of which every label is known."""
    print(f"\nTraining: {training.name}", flush=True)
    began, own = time.perf_counter(), folder / "runs" / training.key
    train(labels, folder / "scenes", out=own, config=training.config, validation=tables.held)
    seconds = time.perf_counter() - began
    found = evaluate(own, tables.test, images=folder / "scenes")
    print(f"mAP {found.mean_ap:.1%} on the test scenes, after {seconds:.0f} s", flush=True)
    return Outcome(training, found, seconds)


def _ask(folder: Path, tables: Tables, seed: int) -> tuple[LabelTable, int]:
    """Let the model ask as many questions as labels are known, answer them, and put the answers into the table.

    Returns:
        The labels to train on, and how many answers were present.
    """
    path = folder / "labels" / "questions.csv"
    own = folder / "runs" / "unknown"
    next_labels(own, tables.known, images=folder / "scenes", budget=tables.known.num_known, seed=seed).write(path)
    truth, rows = tables.truth.dense(), list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    images = tables.truth.image_index([row["image"] for row in rows])
    answers = truth[images, [CLASSES.index(row["class"]) for row in rows]]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        for row, answer in zip(rows, answers.tolist(), strict=True):
            writer.writerow({**row, "answer": "present" if answer > 0 else "absent"})
    grown, _ = add_answers(tables.train, read_answers(path))
    grown.write_parquet(folder / "labels" / "grown.parquet")
    return grown, int((answers > 0).sum())


def _at_random(tables: Tables, seed: int) -> LabelTable:
    """The labels to train on, and as many others as are known, drawn at random."""
    unknown = np.argwhere(tables.known.dense() == 0)
    drawn = np.random.default_rng([seed, 4]).permutation(unknown)[: tables.known.num_known]
    rows = tables.train.image_index(tables.known.images)[drawn[:, 0]]
    values = tables.truth.dense()[drawn[:, 0], drawn[:, 1]]
    return tables.train.with_labels(rows, drawn[:, 1], values, origin="sampled")


def _fill_in(folder: Path, tables: Tables) -> tuple[LabelTable, dict[str, Any]]:
    """Fill in what can be promised, and hold it against the truth.

    Returns:
        The completed table, and for either sign how many were filled in and which share of them is right.
    """
    print(f"\nFilling in labels of which {PRECISION:.0%} are right, with {CONFIDENCE:.0%} confidence", flush=True)
    found = complete(
        folder / "runs" / "asked", images=folder / "scenes", precision=PRECISION, confidence=CONFIDENCE
    ).labels
    found.write_parquet(folder / "labels" / "completed.parquet")
    truth = tables.truth.dense()[tables.truth.image_index(found.images)]
    own = found.hide(found.origin == MODEL).dense()
    signs = {"present": own > 0, "absent": own < 0}
    right = {name: float((truth[at] == own[at]).mean()) if at.any() else None for name, at in signs.items()}
    filled = {name: {"labels": int(at.sum()), "right": right[name]} for name, at in signs.items()}
    unknown = int(own.size - found.num_known + (own != 0).sum())
    return found, {"precision": PRECISION, "confidence": CONFIDENCE, "of": unknown, **filled}


def _show(
    folder: Path,
    outcomes: list[Outcome],
    labels: tuple[Tables, LabelTable],
    filled: dict[str, Any],
    scenes: dict[str, Scene],
) -> None:
    """Write the predictions of the model that asked, and draw the lessons.

    The scenes are the first ones (of training: with a known label), whatever the model makes of them.
    """
    tables, completed = labels
    model = Model.load(folder / "runs" / "asked")
    names = tables.test.images.to_pylist()
    found = predictions(model, names, score(model, [folder / "scenes" / name for name in names]))
    found.write(folder / "predictions.csv")
    new = [
        Example(scenes[name].pixels, {"predicted": np.where(own, 1, -1)}, scenes[name].labels() > 0)
        for name, own in zip(names[:SHOWN], found.present, strict=False)
    ]
    first = tables.known.select(np.flatnonzero(tables.known.proportion())[:SHOWN])
    after = completed.dense()[completed.image_index(first.images)]
    trained = [
        Example(scenes[name].pixels, {"known": own, "filled in": later}, scenes[name].labels() > 0)
        for name, own, later in zip(first.images.to_pylist(), first.dense(), after, strict=True)
    ]
    share = tables.known.num_known / (tables.known.num_images * tables.known.num_classes)
    bars = [(o.training.key, o.training.name, o.metrics.mean_ap) for o in outcomes]
    draw(folder / "picture.png", trained, new, Lessons(share, bars, filled, tables.known.num_known))
