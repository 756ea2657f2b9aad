"""Thresholds and calibration chosen on few held-out labels: what they are worth on the test images.

    python -m experiments.thresholds --data ../shared/data/coco-mini --out runs/thresholds

The small preset, frozen, with 10 % of the labels known at random; its validation part (800 images, about 80 known
labels of each class, in half of the classes at most 2 of them present) is all that thresholds and calibration see.
Every label of the test images is known. The results are ``experiments/results/thresholds.jsonl``; finished runs are
not trained again.

Thresholds: the default of 0; one for all classes by the best F1 of all held-out labels; each class's own best F1,
whatever its support; under the calibrated probabilities only; and what partlabel does, own labels from 20 of each sign
on. Calibration: the plain sigmoid, one fit for all classes, and partlabel's.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.frozen import pooled
from experiments.main_job import FROZEN, tables
from experiments.store import RESULTS, Store
from partlabel import LabelTable, Model, simulate, train
from partlabel.metrics import evaluate
from partlabel.metrics.calibration import Calibration, fit, reliability
from partlabel.metrics.thresholds import calibrate, choose, cuts, fit_thresholds
from partlabel.training.run import Run

STORE = Store(RESULTS / "thresholds.jsonl")


def trained(folder: Path, table: LabelTable, images: Path, seed: int) -> None:
    """Train one run, or leave it if it is there."""
    if not (folder / "summary.json").is_file():
        config = FROZEN.replace(seed=seed, validation=0.1)
        train(table, images, out=folder, config=config, resume=(folder / "run.json").is_file())


def test_scores(run: Path, paths: list[Path]) -> NDArray[np.float32]:
    """Scores of the best model on the test images."""
    file = run / "test_scores.npy"
    if not file.is_file():
        model = Model.load(run)
        source = pooled(model, paths, flip=False)
        batches = [np.arange(a, min(a + 512, len(paths))) for a in range(0, len(paths), 512)]
        with torch.inference_mode():
            np.save(file, torch.cat([model(b, model.backbone.num_stages) for b in source.batches(batches, None)]))
    return np.load(file)


def compared(run: Path, scores: NDArray[np.float32], truth: NDArray[np.int8]) -> dict[str, dict[str, float]]:
    """Each way to choose, measured on the test images, in percent; the Brier score as it is."""
    held = Run(run).held_out
    labels, count = held.table.dense(), held.table.num_classes
    image, cls = np.nonzero(labels)
    known, present = held.scores[image, cls], labels[image, cls] > 0
    one = fit(known, np.zeros(len(known), np.int64), present, 1)
    calibration = calibrate(held.scores, labels)
    assert one is not None
    assert calibration is not None
    own, likely = np.zeros(count), np.zeros(count)
    for c in range(count):
        mine = cls == c
        if present[mine].any():
            own[c] = choose(cuts(known[mine], present[mine] * 1.0, ~present[mine] * 1.0), "f1")[0]
            p = calibration.of(c, held.scores[:, c])
            likely[c] = choose(cuts(held.scores[:, c], p, 1 - p), "f1")[0]
    limits = {
        "0": np.zeros(count),
        "one for all": np.full(count, choose(cuts(known, present * 1.0, ~present * 1.0), "f1")[0]),
        "own labels": own,
        "calibrated": likely,
        "partlabel": fit_thresholds(held.scores, labels, held.table.classes, calibration=calibration).values,
    }
    rows = {}
    for name, values in limits.items():
        found = evaluate(scores, truth, values)
        rows[f"threshold: {name}"] = {"macro_f1": 100 * found.macro_f1, "micro_f1": 100 * found.micro_f1}
    ways = {
        "sigmoid": Calibration((1.0,) * count, (0.0,) * count),
        "one for all": Calibration(one.slope * count, one.offset * count),
        "partlabel": calibration,
    }
    for name, way in ways.items():
        p = way.probabilities(scores)
        found = reliability(p.ravel(), truth.ravel() > 0)
        single = [reliability(p[:, c], truth[:, c] > 0).error for c in range(count)]
        rows[f"calibration: {name}"] = {
            "error": 100 * found.error,
            "mean_error_of_the_classes": 100 * float(np.mean(single)),
            "brier": found.brier,
        }
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/coco-mini"))
    parser.add_argument("--out", type=Path, default=Path("runs/thresholds"))
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    train_table, test_table = tables(arguments.data)
    images = arguments.data / "images"
    paths = [images / name for name in test_table.images.to_pylist()]
    results: dict[str, Any] = {}
    for seed in range(arguments.seeds):
        run = arguments.out / str(seed)
        trained(run, simulate.partial(train_table, 0.1, seed), images, seed)
        results[f"seed {seed}"] = compared(run, test_scores(run, paths), test_table.dense())
        STORE.add(f"seed {seed}", results[f"seed {seed}"])
    seeds = list(results.values())
    results["mean"] = {
        name: {key: float(np.mean([row[name][key] for row in seeds])) for key in values}
        for name, values in seeds[0].items()
    }
    STORE.add("mean", results["mean"])
    for name, values in results["mean"].items():
        print(f"{name:28} " + "  ".join(f"{key} {value:.4g}" for key, value in values.items()))


if __name__ == "__main__":
    main()
