"""Flipped labels found: ways to rank them, and cleanlab's multi-label ranking on the same out-of-fold probabilities.

    python -m experiments.suspects --data ../shared/data/coco-mini

3 % of the known labels of coco-mini are flipped, with 10 % of the labels known and with all of them. The number of each
row is the precision at the number flipped: as many labels as were flipped are taken from the top of the ranking; the
share of them that was flipped. cleanlab (``pip install cleanlab``) takes unknown labels as absent, so it ranks them too
("as it is"); in its best case ("known only") the unknown pairs are then struck from its ranking, and it is also given
the calibrated probabilities. The results are ``experiments/results/suspects.jsonl``; finished rows are not run again.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cleanlab.multilabel_classification.rank import get_label_quality_scores_per_class
from numpy.typing import NDArray

from experiments.frozen import pooled
from experiments.main_job import FROZEN, tables
from experiments.store import RESULTS, Store
from partlabel import LabelTable, Model, simulate
from partlabel.metrics.calibration import sigmoid
from partlabel.training.folds import calibrated, out_of_fold

STORE = Store(RESULTS / "suspects.jsonl")
FLIPPED = 0.03
#: cleanlab's scores of a label: lower is worse
METHODS = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
Floats = NDArray[np.float64]


def flip(table: LabelTable, share: float, seed: int) -> tuple[LabelTable, NDArray[np.bool_]]:
    """The table with a share of its known labels flipped, and which ones, in their order."""
    rng = np.random.default_rng(seed)
    flipped = np.zeros(table.num_known, bool)
    flipped[rng.permutation(table.num_known)[: round(share * table.num_known)]] = True
    values = np.where(flipped, -table.values, table.values)
    noisy = LabelTable.from_pairs(table.images, table.classes, table.pair_images(), table.indices, values)
    return noisy, flipped


def rules(table: LabelTable, scores: NDArray[np.float32], probabilities: Floats) -> dict[str, Floats]:
    """Doubt of each known label by different rules; a class without scores has no doubt."""
    image, cls, present = table.pair_images(), table.indices, table.values > 0
    score, calibrated_p = scores[image, cls].astype(float), probabilities[image, cls]
    p = sigmoid(score)
    count = np.maximum(np.bincount(cls, minlength=table.num_classes), 1)
    spread = np.sqrt(np.bincount(cls, np.nan_to_num(score) ** 2, table.num_classes) / count)
    sure_present = np.bincount(cls, p * present, table.num_classes) / np.maximum(np.bincount(cls, present), 1)
    sure_absent = np.bincount(cls, (1 - p) * ~present, table.num_classes) / np.maximum(np.bincount(cls, ~present), 1)
    confusion = p / sure_present[cls] - (1 - p) / sure_absent[cls]
    found = {
        "calibrated probability (partlabel)": np.where(present, 1 - calibrated_p, calibrated_p),
        "raw margin": np.where(present, -score, score),
        "margin over the spread of the class": np.where(present, -score, score) / spread[cls],
        "expected confusion": np.where(present, -confusion, confusion),
    }
    return {name: np.nan_to_num(value, nan=-np.inf) for name, value in found.items()}


def cleanlab_rows(
    table: LabelTable, flipped: NDArray[np.bool_], probabilities: Floats, what: str
) -> dict[str, dict[str, float]]:
    """Precision of cleanlab's rankings, as it is and with the unknown pairs struck."""
    count = int(flipped.sum())
    labels = table.dense()
    was_flipped = np.zeros(labels.shape, bool)
    was_flipped[table.pair_images(), table.indices] = flipped
    columns = np.flatnonzero(~np.isnan(probabilities.sum(0)))
    p, known = probabilities[:, columns], labels[:, columns] != 0
    lists = [np.flatnonzero(row > 0).tolist() for row in labels[:, columns]]
    rows = {}
    for method in METHODS:
        for adjust in (False, True) if method != "confidence_weighted_entropy" else (False,):
            quality = get_label_quality_scores_per_class(lists, p, method=method, adjust_pred_probs=adjust)
            name = f"cleanlab {method}{', adjusted' if adjust else ''}, {what}"
            top = np.argsort(quality, axis=None, kind="stable")[:count]
            rows[f"{name}, as it is"] = {
                "precision": 100 * float(was_flipped[:, columns].ravel()[top].mean()),
                "unknown": 100 * float((~known).ravel()[top].mean()),
            }
            top = np.argsort(np.where(known, quality, np.inf), axis=None, kind="stable")[:count]
            rows[f"{name}, known only"] = {"precision": 100 * float(was_flipped[:, columns].ravel()[top].mean())}
    return rows


def measure(features: NDArray[np.float32], table: LabelTable, seed: int) -> dict[str, Any]:
    """All rankings of one table whose labels are right."""
    noisy, flipped = flip(table, FLIPPED, seed)
    scores = out_of_fold(features, noisy, seed=seed).dense()
    probabilities = calibrated(scores, noisy)
    count = int(flipped.sum())
    rows: dict[str, Any] = {}
    for name, doubt in rules(noisy, scores, probabilities).items():
        rows[name] = {"precision": 100 * float(flipped[np.argsort(-doubt, kind="stable")[:count]].mean())}
    rows |= cleanlab_rows(noisy, flipped, sigmoid(scores.astype(float)), "raw")
    rows |= cleanlab_rows(noisy, flipped, probabilities, "calibrated")
    return {"known": noisy.num_known, "flipped": count, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/coco-mini"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    table, _ = tables(arguments.data)
    model = Model(FROZEN.model, table.classes, FROZEN.images.size)
    stored = pooled(model, [arguments.data / "images" / name for name in table.images.to_pylist()], flip=True)
    features = stored.array[:, :, :, 0, 0].astype(np.float32).mean(1)
    done = STORE.read()
    for name, known, seed in [(f"10 % known, seed {s}", 0.1, s) for s in range(arguments.seeds)] + [
        ("all known", 1, 0)
    ]:
        if name not in done:
            done[name] = measure(features, simulate.partial(table, known, seed) if known < 1 else table, seed)
            STORE.add(name, done[name])
        print(name)
        for rule, row in sorted(done[name]["rows"].items(), key=lambda item: -item[1]["precision"]):
            print(f"  {row['precision']:5.1f}  {rule}")


if __name__ == "__main__":
    main()
