"""How often the interval of the headline holds what all labels would say, under four ways in which labels become known.

    python -m experiments.honest --data ../shared/data/coco-mini

Tables of several sizes are drawn from coco-mini, some of their labels are made unknown, out-of-fold scores are learned
from the known ones, and the headline (``partlabel.metrics.headline``) is compared with the metrics of the same scores
on all labels, over the same classes. The four ways:

- random: chance decides, with one rate for the whole table, 10 to 40 %.
- habit: present labels are known about three times as often as absent ones; the rates differ from class to class, and
  images with many objects are labelled more.
- score: the higher another model scores a pair, the likelier its label is known.
- one-sided: absent labels are rare, and in two of five classes there are none; such classes are not measured.

The rows are ``experiments/results/honest.jsonl``; finished ones are not run again, and a table of them is printed.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.frozen import pooled
from experiments.main_job import FROZEN
from experiments.store import RESULTS, Store
from partlabel import Model, formats
from partlabel.metrics import evaluate
from partlabel.metrics.headline import MEANS, headline
from partlabel.training.discriminant import out_of_fold

STORE = Store(RESULTS / "honest.jsonl")
WAYS = ("random", "habit", "score", "one-sided")
#: images and classes of a table
SIZES = {"500 x 8": (500, 8), "1500 x 12": (1500, 12)}
SEEDS = 20
#: a class is drawn where at least this share of the images shows it, and at least three of them
_SHARE = 0.02
Floats = NDArray[np.floating]


def known(way: str, labels: NDArray[np.int8], other: Floats, random: np.random.Generator) -> NDArray[np.bool_]:
    """Draw which of the labels (N, C) are known; ``other``: (N, C) scores of another model."""
    images, classes = labels.shape
    present = labels > 0
    if way == "random":
        rate: Any = random.uniform(0.1, 0.4)
    elif way == "habit":
        some = np.clip(0.35 * np.exp(random.normal(0, 0.5, classes)), 0.05, 0.9)
        none = np.clip(0.13 * np.exp(random.normal(0, 0.6, classes)), 0.02, 0.8)
        objects = present.sum(1)
        popular = np.exp(random.normal(0, 0.4, images) + 0.25 * (objects - objects.mean()))
        rate = np.where(present, some, none) * (popular / popular.mean())[:, None]
    elif way == "score":
        rank = (other.argsort(0).argsort(0) + 0.5) / images
        rate = 0.05 + 0.6 * rank ** random.uniform(3, 8)
    else:
        some = np.clip(0.3 * np.exp(random.normal(0, 0.4, classes)), 0.05, 0.9)
        none = np.clip(0.08 * np.exp(random.normal(0, 0.6, classes)), 0.01, 0.5)
        rate = np.where(present, some, np.where(random.random(classes) < 0.4, 0, none))
    return random.random(labels.shape) < rate


def other_scores(features: Floats, labels: NDArray[np.int8]) -> Floats:
    """Scores (N, C) of another model, ridge regression on all labels."""
    away = features - features.mean(0)
    away /= away.std(0) + 1e-6
    gram = away.T @ away + 20_000 * np.eye(away.shape[1], dtype=away.dtype)
    return away @ np.linalg.solve(gram, away.T @ labels.astype(away.dtype))


def row(way: str, size: str, seed: int, features: Floats, labels: NDArray[np.int8], other: Floats) -> dict[str, Any]:
    """One table: the headline, and the same numbers on all labels."""
    images, classes = SIZES[size]
    random = np.random.default_rng([seed, WAYS.index(way), images, classes])
    chosen = random.permutation(len(labels))[:images]
    shown = (labels[chosen] > 0).sum(0)
    often = np.flatnonzero(shown >= max(3, _SHARE * images if classes < labels.shape[1] else 0))
    columns = np.sort(random.permutation(often)[:classes])
    all_labels = labels[np.ix_(chosen, columns)]
    given = np.where(known(way, all_labels, other[np.ix_(chosen, columns)], random), all_labels, 0).astype(np.int8)
    names = [str(c) for c in columns]
    scores = out_of_fold(features[chosen], given, seed=seed).dense()
    found = headline(scores, given, names, seed=seed)
    of = {"way": way, "size": size, "seed": seed, "classes": len(names), "measured": int(found.measured.sum())}
    if not found.measured.any():
        return of | {"metrics": {}}
    truth = evaluate(scores[:, found.measured], all_labels[:, found.measured])
    metrics = {}
    for name in MEANS:
        each = found.means[name]
        right = float((all_labels[:, found.measured] > 0).mean() if name == "prevalence" else getattr(truth, name))
        alone = float(getattr(found.known, name)) if name != "prevalence" else None
        if not np.isnan(each.value + right):
            bounds = {"value": each.value, "low": each.low, "high": each.high}
            metrics[name] = {**bounds, "known_labels_alone": alone, "all_labels": right}
    return of | {
        "known": float((given != 0).mean()),
        "not_by_chance": int((~found.by_chance).sum()),
        "metrics": metrics,
    }


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each way and size, and over all sizes: how often the interval holds, its width, mean errors, in points."""
    found = []
    for way in WAYS:
        for size in (*SIZES, "all"):
            of = [r for r in rows if r["way"] == way and size in ("all", r["size"])]
            for name in MEANS:
                numbers = [r["metrics"][name] for r in of if name in r["metrics"]]
                if not numbers:
                    continue
                error = np.array([n["value"] - n["all_labels"] for n in numbers])
                alone = [n["known_labels_alone"] - n["all_labels"] for n in numbers if n["known_labels_alone"]]
                found.append(
                    {
                        "way": way,
                        "size": size,
                        "metric": name,
                        "tables": len(numbers),
                        "tables_without_a_number": len(of) - len(numbers),
                        "held": float(np.mean([n["low"] <= n["all_labels"] <= n["high"] for n in numbers])),
                        "width": 100 * float(np.mean([n["high"] - n["low"] for n in numbers])),
                        "mean_error": 100 * float(error.mean()),
                        "mean_absolute_error": 100 * float(np.abs(error).mean()),
                        "known_labels_alone_mean_error": 100 * float(np.mean(alone)) if alone else None,
                    }
                )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument(
        "--features", type=Path, help="features (N, D) of train.txt and then test.txt, .npy, made before"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    table, _ = formats.read("csv", options.data / "labels.csv", coding="native")
    names = [n for part in ("train.txt", "test.txt") for n in (options.data / part).read_text().split()]
    place = {name: i for i, name in enumerate(table.images.to_pylist())}
    labels = table.dense([place[name] for name in names])
    if options.features is None:
        model = Model(FROZEN.model, table.classes, FROZEN.images.size)
        stored = pooled(model, [options.data / "images" / name for name in names], flip=False)
        features = np.asarray(stored.array[:, 0].mean((-2, -1)), np.float32)
    else:
        features = np.load(options.features)
    other = other_scores(features, labels)
    done = STORE.read()
    for seed in range(SEEDS):
        for size in SIZES:
            for way in WAYS:
                name = f"{way}, {size}, seed {seed}"
                if name not in done:
                    STORE.add(name, row(way, size, seed, features, labels, other))
    for line in summary(list(STORE.read().values())):
        print(
            f"{line['way']:10} {line['size']:10} {line['metric']:13} {line['tables']:3} tables  "
            f"held {line['held']:.2f}  width {line['width']:5.1f}  error {line['mean_error']:+5.1f}  "
            f"known labels alone {line['known_labels_alone_mean_error'] or float('nan'):+5.1f}"
        )


if __name__ == "__main__":
    main()
