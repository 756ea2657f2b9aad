"""How many of the labels that are listed as suspects are expected to be wrong, and how many are.

    python -m experiments.label_noise --data ../shared/data/coco-mini --features features.npy

Tables are drawn from the training images of coco-mini, and a share of their known labels is flipped. Listed is what
``partlabel suspects`` lists: labels whose calibrated out-of-fold probability contradicts them. The rows are
``experiments/results/label_noise.jsonl``; finished ones are not run again.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.main_job import tables
from experiments.store import RESULTS, Store
from partlabel import LabelTable
from partlabel.metrics.label_noise import wrong_probability
from partlabel.tasks.suspects import find_suspects
from partlabel.training.folds import calibrated, out_of_fold

STORE = Store(RESULTS / "label_noise.jsonl")
#: images, classes and the share of known labels
TABLES = {"3000 x 30": (3000, 30, 0.3), "8000 x 80": (8000, 80, 0.1)}
FLIPPED = (0.0, 0.01, 0.05, 0.1)
SEEDS = 2


def row(size: str, share: float, seed: int, features: NDArray[np.floating], table: LabelTable) -> dict[str, Any]:
    """One table: what is listed, expected and true."""
    images, classes, known = TABLES[size]
    random = np.random.default_rng([seed, images, classes])
    rows = np.sort(random.permutation(table.num_images)[:images])
    drawn = table.select(rows)
    often = np.flatnonzero(drawn.class_counts()[0] >= 20)
    drawn = drawn.select_classes([drawn.classes[c] for c in np.sort(random.permutation(often)[:classes])])
    labels = drawn.dense()
    given = random.random(labels.shape) < known
    flipped = given & (random.random(labels.shape) < share)
    noisy = np.where(given, np.where(flipped, -labels, labels), 0).astype(np.int8)
    own = LabelTable.from_dense(drawn.images, drawn.classes, noisy)
    scores = out_of_fold(features[rows], own, seed=seed).dense()
    judged = np.isfinite(scores).all(0)
    own = own.select_classes([own.classes[c] for c in np.flatnonzero(judged)])
    scores, flipped = scores[:, judged], flipped[:, judged]
    listed = find_suspects(own, calibrated(scores, own))
    image, cls = own.pair_images().astype(np.int64), own.indices.astype(np.int64)
    likely, epsilon = wrong_probability(scores[image, cls], cls, own.values > 0, own.num_classes)
    wrong = np.zeros(scores.shape)
    wrong[image, cls] = likely
    count = int(flipped.sum())
    by_likely = np.argsort(-likely, kind="stable")[:count]
    return {
        "known": own.num_known,
        "flipped": count,
        "share_found": epsilon,
        "listed": len(listed.image),
        "listed_wrong": int(flipped[listed.image, listed.cls].sum()),
        "listed_expected": float(wrong[listed.image, listed.cls].sum()),
        "right_of_first_by_probability": int(flipped[listed.image[:count], listed.cls[:count]].sum()),
        "right_of_first_by_wrong": int(flipped[image[by_likely], cls[by_likely]].sum()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--features", type=Path, required=True, help="features (N, D) of train.txt, .npy")
    options = parser.parse_args()
    torch.set_num_threads(1)
    table, _ = tables(options.data)
    features = np.load(options.features)
    done = STORE.read()
    for seed in range(SEEDS):
        for size in TABLES:
            for share in FLIPPED:
                name = f"{size}, {share:.0%} flipped, seed {seed}"
                if name not in done:
                    done[name] = row(size, share, seed, features, table)
                    STORE.add(name, done[name])
                print(name, done[name], flush=True)


if __name__ == "__main__":
    main()
