"""How many answers a reviewer needs until the labels that the model filled in are right: queue against random order.

    python -m experiments.review_study --data ../shared/data/coco-mini --out runs/review

Frozen backbone, 10 % of the labels known at random. The model fills in all other labels by its thresholds. A scripted
reviewer knows the hidden truth and answers the queue of filled-in labels of the review page, those that are present and
those that are absent by themselves; an answer puts a wrong label right. Counted are the answers after which at least
99 % of the labels that still stand as the model filled them in, or that were confirmed, are right. The orders: the
queue of the page, in which every fifth label is drawn at random; the same without these; and random order, over several
shuffles. The results are ``experiments/results/review_study.jsonl``; finished seeds are not computed again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.frozen import pooled
from experiments.main_job import FROZEN, tables
from experiments.store import RESULTS, Store
from partlabel import LabelTable, Model, simulate, train
from partlabel.app.review import queues
from partlabel.app.review.listing import Names, open_board
from partlabel.app.review.views import Filter, Marks, View, Views
from partlabel.metrics.calibration import Calibration
from partlabel.models.scores import Scores

STORE = Store(RESULTS / "review_study.jsonl")
KNOWN, TARGET, SHUFFLES = 0.1, 0.99, 20


def scored(truth: LabelTable, known: LabelTable, seed: int, folder: Path, run: Path) -> tuple[Model, NDArray]:
    """The model trained on the known labels, and its scores (N, C) of all images."""
    train(known, folder, out=run, config=FROZEN.replace(seed=seed), resume=(run / "run.json").is_file())
    model = Model.load(run)
    source = pooled(model, [folder / name for name in truth.images.to_pylist()], flip=True)
    batches = [np.arange(a, min(a + 512, truth.num_images)) for a in range(0, truth.num_images, 512)]
    with torch.inference_mode():
        scores = [model(batch, model.backbone.num_stages) for batch in source.batches(batches, None)]
    return model, torch.cat(scores).numpy()


def filled_in(known: LabelTable, scores: NDArray[np.float32], thresholds: NDArray[np.float32]) -> LabelTable:
    """The table with every unknown label filled in by the model."""
    image, cls = np.nonzero(known.dense() == 0)
    score = scores[image, cls]
    value = np.where(score >= thresholds[cls], 1, -1)
    return known.with_labels(image, cls, value, origin="model", score=score, round=1)


def answers_needed(right: NDArray[np.bool_], target: float = TARGET) -> int:
    """Answers until a share of at least ``target`` of the standing labels is right.

    Args:
        right: (K,) whether the model was right, in the order in which the reviewer answers. A label that turns out
            wrong changes its sign, so it no longer stands among the K.
        target: the share.
    """
    found = np.concatenate([[0], np.cumsum(~right)])  # wrong ones put right after each number of answers
    precision = right.sum() / np.maximum(len(right) - found, 1)
    return int(np.flatnonzero(precision >= target)[0])


def orders(table: LabelTable, scores: NDArray[np.float32], calibration: Calibration, sign: str, folder: Path) -> Any:
    """Keys (class * N + image) of the filled-in labels of a sign: in the page's order, and the least sure first."""
    held, names = Scores.of(scores.astype(np.float16)), Names(folder, "scores", "table", "both")
    board = open_board(lambda: held, lambda: held, calibration, table, np.zeros(0, np.int64), names)
    marks = Marks()
    base = View(queues.filled(board, table, folder / "filled.npy")[0], marks)
    page = np.asarray(Views(board, table.images, marks).get("filled", base, Filter(value=sign)).keys)
    levels = board.levels_of(page).astype(np.int64)
    return page, page[np.argsort(levels if sign == "present" else -levels, kind="stable")]


def study(truth: LabelTable, seed: int, data: Path, out: Path) -> dict[str, Any]:
    """One seed."""
    known = simulate.partial(truth, KNOWN, seed)
    model, scores = scored(truth, known, seed, data / "images", out / f"seed-{seed}")
    thresholds = np.asarray(model.thresholds, np.float32)
    calibration = model.calibration or Calibration((1.0,) * truth.num_classes, (0.0,) * truth.num_classes)
    table, true = filled_in(known, scores, thresholds), truth.dense().T.reshape(-1)
    row: dict[str, Any] = {}
    for sign, value in (("present", 1), ("absent", -1)):
        with tempfile.TemporaryDirectory() as folder:
            page, ranked = orders(table, scores, calibration, sign, Path(folder))
            right = {"page": true[page] == value, "least_sure_first": true[ranked] == value}
        random = np.random.default_rng(seed)
        shuffled = [answers_needed(random.permutation(right["page"])) for _ in range(SHUFFLES)]
        row[sign] = {
            "filled": len(page),
            "wrong": int((~right["page"]).sum()),
            "precision": float(right["page"].mean()),
            "answers": {name: answers_needed(own) for name, own in right.items()},
            "answers_random": float(np.mean(shuffled)),
            "found_by_1000": {
                **{name: int((~own[:1000]).sum()) for name, own in right.items()},
                "random": 1000 * float((~right["page"]).mean()),
            },
        }
    return row


def came_to(rows: dict[str, Any]) -> dict[str, Any]:
    """Means over the seeds, and by how much the queue is shorter than random order."""
    found: dict[str, Any] = {}
    for sign in ("present", "absent"):
        own = [row[sign] for row in rows.values()]
        mean = {name: float(np.mean([r["answers"][name] for r in own])) for name in own[0]["answers"]}
        shuffled = float(np.mean([r["answers_random"] for r in own]))
        found[sign] = {
            "filled": float(np.mean([r["filled"] for r in own])),
            "precision": float(np.mean([r["precision"] for r in own])),
            "answers": {**mean, "random": shuffled},
            "share_of_random": {name: value / shuffled if shuffled else None for name, value in mean.items()},
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/coco-mini"))
    parser.add_argument("--out", type=Path, default=Path("runs/review"))
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    truth = tables(arguments.data)[0]
    rows = {name: row for name, row in STORE.read().items() if name.startswith("seed ")}
    STORE.add("setting", {"known": KNOWN, "target": TARGET})
    for seed in range(arguments.seeds):
        name = f"seed {seed}"
        if name not in rows:
            rows[name] = study(truth, seed, arguments.data, arguments.out)
            STORE.add(name, rows[name])
    STORE.add("mean", came_to(rows))
    print(json.dumps(came_to(rows), indent=1))


if __name__ == "__main__":
    main()
