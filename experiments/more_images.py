"""What to spend labels on: mAP over the number of images and the share of their labels that is known.

    python -m experiments.more_images --data ../shared/data/coco-mini [--more ../shared/data/coco-more]

Frozen features (EfficientNet-Lite0, 224 px), the head in closed form with its round, three seeds; a seed draws the
images from the training part (18,000: all of it, and the further ones), and the known labels. Measured on the test
images. The results are ``experiments/results/more_images.jsonl``; what is finished is not computed again.
"""

from __future__ import annotations

import argparse
import csv
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.closed_form import frozen_features, mean_ap
from experiments.main_job import tables
from experiments.reading import Results, Sample
from experiments.rendering import lines, table, words
from experiments.store import RESULTS, Store
from partlabel import Config, LabelTable
from partlabel.training.discriminant import fit

STORE = Store(RESULTS / "more_images.jsonl")
IMAGES, SHARES = (700, 2000, 6000, 18000), (0.01, 0.03, 0.1, 0.3, 1.0)
SEEDS, CLASSES = range(3), 80
ABOUT = """Not of the paper. How good a head becomes with a number of images and a share of their labels known at random
(frozen EfficientNet-Lite0 at 224 px, the head in closed form with its round, {seeds} seeds that draw images and labels,
mAP80 on the 3,000 test images). A column is a share of labels, so one step to the
right costs about as many labels as one step down."""


def name_of(images: int, share: float, seed: int) -> str:
    return f"{images} images, {100 * share:g} % known, seed {seed}"


def further(folder: Path, classes: tuple[str, ...]) -> LabelTable:
    """The further training images, with all labels of the classes."""
    with open(folder / "labels.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    values = np.array([[row[name] for name in classes] for row in rows], dtype=np.int8)
    return LabelTable.from_dense([row["image"] for row in rows], classes, values)


def run(data: Path, more: Path | None) -> None:
    """Compute the rows that are not there yet."""
    config = Config.preset("small").replace(model__backbone="tf_efficientnet_lite0", images__size=224)
    train, test = tables(data)
    x, labels = frozen_features(config, train, data / "images"), train.dense()
    if more is not None:
        others = further(more, train.classes)
        x = np.concatenate([x, frozen_features(config, others, more / "images")])
        labels = np.concatenate([labels, others.dense()])
    x_test, truth = frozen_features(config, test, data / "images"), test.dense()
    found = STORE.read()
    for seed in SEEDS:
        for images in IMAGES:
            for share in SHARES:
                name = name_of(images, share, seed)
                if name in found or images > len(x):
                    continue
                random = np.random.default_rng([seed, images, round(1000 * share)])
                rows = random.choice(max(train.num_images, images), images, replace=False)
                known = np.where(random.random((images, labels.shape[1])) < share, labels[rows], 0).astype(np.int8)
                value = mean_ap(fit(x[rows], known).scores(x_test), truth)
                STORE.add(name, {"map80": round(value, 3), "known": int((known != 0).sum())})
                print(name, round(value, 2), flush=True)


def _values(found: dict[str, Any], images: int, share: float) -> list[float]:
    own = (found.get(name_of(images, share, seed)) for seed in SEEDS)
    return [row["map80"] for row in own if row]


def render(results: Results) -> str:
    """The section of RESULTS.md."""
    found = STORE.read()
    if not found:
        return "Not run."
    samples = {(n, share): Sample(tuple(_values(found, n, share))) for n in IMAGES for share in SHARES}
    rows = [(f"{n:,}", *(str(samples[n, share]) for share in SHARES)) for n in IMAGES if samples[n, 1.0].values]
    series = {f"{n:,} images": [(n * CLASSES * share, samples[n, share]) for share in SHARES] for n in IMAGES}
    axes = ("known labels (image, class)", "mAP on test images, 80 classes")
    figure = lines(results, "more-images", series, *axes, log=True)
    head = ("images", *(f"{100 * share:g} % known" for share in SHARES))
    seeds = len({name.rpartition(" ")[2] for name in found})
    parts = [words(ABOUT.format(seeds=seeds)), figure, table(head, rows), words(advice(found))]
    return "\n\n".join([*parts, "`python -m experiments.more_images`."])


def advice(found: dict[str, Any]) -> str:
    """What the table says to a user: the same number of labels on three times as many images or a third of them."""
    gains = []
    for few, many in pairwise(IMAGES):
        for less, more in pairwise(SHARES):
            wide, deep = _values(found, many, less), _values(found, few, more)
            if wide and deep:
                gains.append(float(np.mean(wide) - np.mean(deep)))
    if not gains:
        return ""
    return (
        f"**The same number of labels** on three times as many images, a third of the labels of each, instead of on "
        f"a third of the images: {min(gains):+.1f} to {max(gains):+.1f} points of mAP in {len(gains)} comparisons, "
        f"{np.mean(gains):+.1f} on average ({sum(gain > 0 for gain in gains)} of them above 0)."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/coco-mini"))
    parser.add_argument("--more", type=Path, help="folder of further training images, for 18,000 in all")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    run(arguments.data, arguments.more)


if __name__ == "__main__":
    main()
