"""Runs to report on: a folder as a training leaves it, made of scores and labels that a test chooses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from partlabel import LabelTable
from partlabel.core.files import write_json
from partlabel.models.model import Model
from partlabel.training.card import write_card
from partlabel.training.config import Config
from partlabel.training.folder import create_folder, write_history, write_scores
from partlabel.training.summary import summary
from partlabel.training.thresholds import fit_run
from tests.pictures import tiny_config

#: names as strangers may choose them
CLASSES = ("cat", "<script>alert(1)</script>", 'a "quoted" & long name of a class', "never")


def row(epoch: int, mean_ap: float) -> dict[str, Any]:
    names = ("zero_one", "macro_f1", "micro_f1", "pc_precision", "pc_recall", "ov_precision", "ov_recall")
    measured = {"mean_ap": mean_ap, **dict.fromkeys(names, 0.5)}
    return {
        "epoch": epoch,
        "loss": 1 / epoch,
        "learning_rate": 0.1,
        "seconds": 1.0,
        "images_per_second": 10.0,
        "skipped_steps": 0,
        "validation": measured,
    }


def world(seed: int = 0, images: int = 60, known: float = 0.7) -> tuple[LabelTable, np.ndarray]:
    """Labels of four classes, the last one never present, and scores that tell them with some mistakes."""
    random = np.random.default_rng(seed)
    true = np.where(random.random((images, 4)) < (0.5, 0.3, 0.4, 0), 1, -1).astype(np.int8)
    scores = (1.5 * true + random.normal(0, 1.2, true.shape)).astype(np.float32)
    true[random.random(true.shape) >= known] = 0
    return LabelTable.from_dense([f"held/&b;{i:03}&c;.png" for i in range(images)], CLASSES, true), scores


def make_run(
    folder: Path,
    held: LabelTable | None,
    scores: np.ndarray | None,
    *,
    trained: LabelTable | None = None,
    config: Config | None = None,
    finished: bool = True,
    rounds: list[dict[str, Any]] | None = None,
) -> Path:
    """Write what a training with these held-out labels and scores leaves behind; its model has random weights."""
    if trained is None:
        random = np.random.default_rng(1)
        labels = random.choice(np.array([-1, 0, 1], np.int8), (200, 4), p=[0.3, 0.5, 0.2])
        labels[:, 3] = np.where(labels[:, 3] > 0, 0, labels[:, 3])
        trained = LabelTable.from_dense([f"{i}.png" for i in range(200)], CLASSES, labels, coding="1=present,0=absent")
    config = config or tiny_config(optim__epochs=3, validation=0.2)
    create_folder(folder, {"config": config.to_dict(), "labels": trained.content_hash(), "validation labels": None})
    trained.write_parquet(folder / "labels.parquet")
    history = [row(epoch, ap) for epoch, ap in ((1, 0.4), (2, 0.7), (3, 0.6))]
    if held is None:
        history = [{**each, "validation": None} for each in history]
    if rounds:
        (folder / "rounds").mkdir()
        for each in rounds:
            write_json(folder / "rounds" / f"round-{each['round']}.json", each)
            history.insert(2, {name: value for name, value in each.items() if name != "classes"})
    model = Model(config.model, trained.classes, config.images.size)
    for name in ("best", "last"):
        model.save(folder / name)
    if held is not None and scores is not None:
        held.write_parquet(folder / "validation.parquet")
        write_scores(folder, held.classes, scores)
        if finished:
            fit_run(folder)
    write_history(folder, history if finished else history[:1])
    if finished:
        write_json(folder / "summary.json", summary(history))
        write_card(folder)
    return folder


ROUND = {
    "round": 1,
    "before_epoch": 3,
    "strategy": "score-threshold",
    "theta": 2.0,
    "label_proportion": 0.9,
    "labelled_share": 0.8,
    "added_present": 12,
    "added_absent": 1234,
    "warnings": ["Only absent labels were added to <script>alert(1)</script> (9)."],
    "truth": {
        "this_round": {
            "checked": 100,
            "true_positive_rate": 0.25,
            "true_negative_rate": 0.875,
            "accuracy_present": None,
            "accuracy_absent": 0.975,
        },
        "all_rounds": {},
    },
    "classes": [],
}


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs on the same held-out labels, ``one`` and ``two &b;`` (with relabelling); an unfinished, a bare one."""
    folder = tmp_path_factory.mktemp("runs")
    held, scores = world()
    make_run(folder / "one", held, scores)
    worse = scores + np.random.default_rng(5).normal(0, 2.5, scores.shape).astype(np.float32)
    more = LabelTable.from_dense(
        pa.array([f"{i}.png" for i in range(300)]), CLASSES, np.tile(np.array([1, -1, -1, -1], np.int8), (300, 1))
    )
    make_run(folder / "two &b;", held, worse, trained=more, rounds=[ROUND])
    make_run(folder / "unfinished", held, scores, finished=False)
    make_run(folder / "bare", None, None)
    return folder
