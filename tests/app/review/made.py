"""A run folder as `partlabel train` leaves it, without a training: the server needs no more of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from partlabel.app.review.board import Board
from partlabel.app.review.desk import Asked, Desk
from partlabel.app.review.listing import Names, open_board
from partlabel.app.review.scores import DESCRIPTION, WEIGHTS, Judge, digest, half
from partlabel.core.files import to_toml
from partlabel.core.lock import holding
from partlabel.core.records import write_array
from partlabel.images import content_hash, resolve
from partlabel.labels.table import LabelTable
from partlabel.metrics.calibration import Calibration
from partlabel.models.scores import Scores

CLASSES = ("cat", "dog", "<b>car</b>")


@dataclass
class Made:
    """A run, its images, the table to review and the scores (N, C) of its model, as they are stored."""

    run: Path
    images: Path
    table: LabelTable
    scores: np.ndarray

    def open(self) -> Desk:
        """Open the review."""
        return Desk(self.run, self.table, self.images)


def said(desk: Desk, image: int, cls: int, answer: str, queue: str = "all") -> Asked:
    """An answer about the pair with these numbers."""
    return Asked(desk.names[image], desk.table.classes[cls], desk.pictures.content(image), answer, queue)


def as_json(desk: Desk, image: int, cls: int, answer: str, queue: str = "all") -> dict[str, str]:
    """The same as a browser sends it."""
    given = said(desk, image, cls, answer, queue)
    return {
        "picture": given.image,
        "class_name": given.cls,
        "content": given.content,
        "answer": answer,
        "queue": queue,
    }


def make_run(folder: Path, table: LabelTable, scores: np.ndarray, images: Path | None = None) -> Made:
    """Write a run with these labels whose model gives these scores; images are made where no folder is given."""
    run = folder / "run"
    (run / "best").mkdir(parents=True)
    (run / "run.json").write_text("{}")
    (run / WEIGHTS).write_bytes(b"weights")
    describe(run, table.classes)
    table.write_parquet(run / "labels.parquet")
    if images is None:
        images = folder / "photos"
        images.mkdir()
        for number, name in enumerate(table.images.to_pylist()):
            pixels = np.full((24, 32, 3), 40 + number % 200, np.uint8)
            Image.fromarray(pixels).save(images / name)
    (run / "review" / "cache").mkdir(parents=True)
    keep_scores(run, table, scores, images)
    return Made(run, images, table, scores.astype(np.float16))


def check_after_restart(made: Made, acknowledged: dict[tuple[str, str], str], spare: int = 0) -> None:
    """Start the review once more, as the server does: all acknowledged answers count, and stand in an exported table.

    ``spare``: how many others may be there, which were stored but not acknowledged any more.
    """
    with holding(made.run, "the next server"):
        desk = made.open()
        try:
            kept = {pair: verdict.answer for pair, verdict in desk.verdicts.items()}
            assert acknowledged.items() <= kept.items()
            assert len(kept) - len(acknowledged) <= spare
            table = LabelTable.read_parquet(desk.export("parquet")["path"])
        finally:
            desk.close()
    dense, row = table.dense(), {name: number for number, name in enumerate(table.images.to_pylist())}
    found = {pair: dense[row[pair[0]], table.class_index(pair[1])] for pair in acknowledged}
    assert found == {pair: {"yes": 1, "no": -1}[answer] for pair, answer in acknowledged.items()}


def board_of(
    scores: np.ndarray,
    table: LabelTable,
    folder: Path,
    calibration: Calibration | None = None,
    asked: Sequence[int] = (),
    stored: bool = True,
) -> Board:
    """The board of scores (N, C) and a table; ``stored``: whether the scores are still there when it is asked."""
    held = Scores.of(scores.astype(np.float16))
    calibration = calibration or Calibration((1.0,) * table.num_classes, (0.0,) * table.num_classes)
    names = Names(folder, "scores", "table", "both")
    keys = np.array(asked, np.int64)
    return open_board(lambda: held, lambda: held if stored else None, calibration, table, keys, names)


def describe(run: Path, classes: Sequence[str]) -> None:
    """Write what the model of the run is."""
    network = {"backbone": "test_resnet", "pooling": "average"}
    images = {"size": 32, "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}
    about = {"classes": list(classes), "thresholds": [0.0] * len(classes), "model": network, "preprocessing": images}
    (run / DESCRIPTION).write_text(to_toml({"version": 1, **about}))


def drawn_table(count: int, classes: tuple[str, ...] = CLASSES, seed: int = 0) -> tuple[LabelTable, np.ndarray]:
    """A table with given and model labels and unknown pairs, and scores (N, C)."""
    random = np.random.default_rng(seed)
    scores = random.normal(size=(count, len(classes))).astype(np.float16).astype(np.float32)
    labels = random.choice(np.array([-1, 1], np.int8), scores.shape)
    labels[random.random(scores.shape) < 0.7] = 0
    table = LabelTable.from_dense([f"{i:03}.png" for i in range(count)], classes, labels)
    image, cls = np.nonzero((table.dense() == 0) & (random.random(scores.shape) < 0.5))
    value, score = np.where(scores[image, cls] > 0, 1, -1), scores[image, cls]
    return table.with_labels(image, cls, value, origin="model", score=score, round=1), scores


def keep_scores(run: Path, table: LabelTable, scores: np.ndarray, images: Path) -> None:
    """Store scores (N, C) of the images of a table as if the model of the run had been asked."""
    judge = Judge.of_run(run)
    contents = np.array([content_hash(path) for path in resolve(table.images, images)], "S32")
    name = f"scores-{digest(judge.weights, judge.classes)}-{digest(contents.tolist())}.npy"
    target = run / "review" / "cache" / name
    write_array(target, half(scores))
    write_array(target.with_suffix(".contents.npy"), contents)


def wait_for(until, seconds=600.0):
    """Look again and again until something is so."""
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)
