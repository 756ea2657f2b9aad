"""The closed-form head on frozen features: few labels, asked labels, and tables of every size.

    python -m experiments.closed_form headline|asked|grid --data ../shared/data/coco-mini [--backbone NAME --size PX]

``headline``: known labels drawn at random, five seeds, mAP on the test images, with the round of self-training and
without. ``asked``: the same number of labels, asked in rounds by the growth rule of ``partlabel next`` from a random
start. ``grid``: tables of 200 to 6,000 images, 2 to 80 classes, 1 % to 100 % known, known at random, by habit or by one
sign; the strength that the table chooses for itself against the best one of a grid, chosen with the true labels of
images that were held out. Results are ``experiments/results/closed_form/*.jsonl``; what is finished is not computed
again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.main_job import tables
from experiments.store import RESULTS, Store
from partlabel import Config, LabelTable, Model, simulate
from partlabel.metrics import average_precision
from partlabel.tasks.next_labels import grow
from partlabel.training import discriminant
from partlabel.training.batches import Stored, open_source
from partlabel.training.discriminant import Round, fit
from partlabel.training.feature_space import FeatureSpace
from partlabel.training.head import head_features

SHARES = (0.01, 0.1, 0.3, 1.0)
SEEDS = range(5)
#: rounds of questions: share of all labels that is known after each; the first is drawn at random
ASKED = (0.01, 0.0125, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1, 0.15, 0.2)
MEASURED = (0.05, 0.1, 0.2)
#: kappa as a multiple of what the table chooses, for the best one in sight of the truth
MULTIPLES = 2.0 ** np.arange(-5, 6)

Features = NDArray[np.float32]


def frozen_features(config: Config, table: LabelTable, folder: Path) -> Features:
    """What the head of a preset sees of the images of a table."""
    model = Model(config.model, table.classes, config.images.size).eval()
    paths = [folder / name for name in table.images.to_pylist()]
    stages = model.backbone.num_stages
    source = open_source(model, stages, paths, flip=False, workers=1, max_pixels=config.images.max_pixels)
    assert isinstance(source, Stored)
    return head_features(model, source, np.arange(len(paths)))


def mean_ap(scores: Features, truth: NDArray[np.int8], classes: slice = slice(None)) -> float:
    """MAP in percent."""
    return 100 * float(np.nanmean(average_precision(scores, truth)[classes]))


class Rows:
    """A file of results, row by row."""

    def __init__(self, name: str) -> None:
        self.store = Store(RESULTS / "closed_form" / f"{name}.jsonl")
        self.rows = self.store.read()

    def add(self, name: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Compute a row, unless it is there."""
        if name not in self.rows:
            began = time.process_time()
            self.rows[name] = {**compute(), "cpu_seconds": round(time.process_time() - began, 1)}
            self.store.add(name, self.rows[name])
            print(name, self.rows[name], flush=True)
        return self.rows[name]


def known_at_random(table: LabelTable, share: float, seed: int) -> NDArray[np.int8]:
    """Labels of which a share is known."""
    if share == 1:
        return table.dense()
    if share * table.num_classes < 0.5:  # rounded, no image would have a label
        return simulate.partial(table, share, seed, per_image="bernoulli").dense()
    return simulate.partial(table, share, seed).dense()


def headline(name: str, x: Features, x_test: Features, table: LabelTable, test: LabelTable) -> None:
    """The rows of ``headline``."""
    rows, truth = Rows(f"headline-{name}"), test.dense()
    for share in SHARES:
        for seed in SEEDS if share < 1 else range(1):
            labels = known_at_random(table, share, seed)
            for what, rounds in (("with the round", Round()), ("without", None)):
                if share != 0.1 and rounds is None:
                    continue

                def row(labels: NDArray[np.int8] = labels, rounds: Round | None = rounds) -> dict[str, Any]:
                    head = fit(x, labels, rounds=rounds)
                    scores = head.scores(x_test)
                    return {
                        "map80": mean_ap(scores, truth),
                        "map18": mean_ap(scores, truth, slice(18)),
                        "strength": head.strength,
                    }

                rows.add(f"{100 * share:g} % at random, seed {seed}, {what}", row)


def asked(name: str, x: Features, x_test: Features, table: LabelTable, test: LabelTable) -> None:
    """The rows of ``asked``."""
    rows, truth, everything = Rows(f"asked-{name}"), test.dense(), table.dense()
    for seed in SEEDS:
        labels = known_at_random(table, ASKED[0], seed)
        sample = labels != 0
        for share in ASKED[1:]:
            if all(f"{100 * own:g} % asked, seed {seed}" in rows.rows for own in MEASURED):
                break
            head = fit(x, labels, sample=sample)
            budget = int(share * labels.size) - int((labels != 0).sum())
            image, cls = grow(head.scores(x), labels, budget)
            labels = labels.copy()
            labels[image, cls] = everything[image, cls]
            if share not in MEASURED:
                continue

            def row(labels: NDArray[np.int8] = labels, sample: NDArray[np.bool_] = sample) -> dict[str, Any]:
                scores = fit(x, labels, sample=sample).scores(x_test)
                found = float((labels > 0).sum() / (everything > 0).sum())
                return {
                    "map80": mean_ap(scores, truth),
                    "map18": mean_ap(scores, truth, slice(18)),
                    "present_found": found,
                }

            rows.add(f"{100 * share:g} % asked, seed {seed}", row)


def by_habit(truth: NDArray[np.int8], share: float, random: np.random.Generator) -> NDArray[np.int8]:
    """Each image has its own rate, and present labels are known three times as often as absent ones."""
    rate = share * random.gamma(1.0, 1.0, (len(truth), 1))
    rate = np.where(truth > 0, 3 * rate, rate)
    return np.where(random.random(truth.shape) < rate, truth, 0).astype(np.int8)


def one_sided(truth: NDArray[np.int8], share: float, random: np.random.Generator) -> NDArray[np.int8]:
    """Only present labels are known, a share of them, and none is absent."""
    return np.where((random.random(truth.shape) < share) & (truth > 0), truth, 0).astype(np.int8)


def at_random(truth: NDArray[np.int8], share: float, random: np.random.Generator) -> NDArray[np.int8]:
    """Each pair is known with the same chance."""
    return np.where(random.random(truth.shape) < share, truth, 0).astype(np.int8)


KINDS = {"at random": at_random, "by habit": by_habit, "one sign": one_sided}


def regret(x: Features, labels: NDArray[np.int8], x_test: Features, truth: NDArray[np.int8]) -> dict[str, Any]:
    """MAP on held-out images with the chosen strength, and with the best of all multiples of it."""
    images = FeatureSpace(x, labels)
    everything = np.arange(len(labels))
    kappa = discriminant._strength(images, discriminant._first(images, labels, everything), int((labels > 0).sum()))
    parts = discriminant.assign_folds(labels, 5, 0)
    raw = discriminant._raw_out_of_fold(images, labels, parts, Round(), [kappa] * 5)
    chosen = kappa * discriminant._FACTORS[raw.chosen()]
    means, _ = discriminant._learn(images, labels, everything, Round(), kappa)
    z = (x_test - images.mean.astype(np.float32)) @ (images.vectors / images.deviation[:, None]).astype(np.float32)
    usable = means.effective > 0
    found = {m: mean_ap((z @ images.directions(means, kappa * m))[:, usable], truth[:, usable]) for m in MULTIPLES}
    own = mean_ap((z @ images.directions(means, chosen))[:, usable], truth[:, usable])
    best = max(found, key=lambda m: found[m])
    return {
        "known_present": int((labels > 0).sum()),
        "map": own,
        "best": max(found[best], own),
        "strength": chosen,
        "best_multiple": best,
        "by_multiple": {f"{m:g}": round(v, 2) for m, v in found.items()},
        "classes_learned": int(usable.sum()),
    }


def grid(name: str, x: Features, table: LabelTable, sizes: tuple[int, ...]) -> None:
    """The rows of ``grid``; 2,000 images are held out to measure on."""
    rows, truth = Rows(f"grid-{name}"), table.dense()
    for size in sizes:
        for classes in (2, 12, 80):
            for share in (0.01, 0.1, 0.3, 1.0):
                for kind, draw in KINDS.items():
                    if share == 1 and kind == "by habit":
                        continue
                    random = np.random.default_rng([size, classes, int(1000 * share), len(kind)])
                    order = random.permutation(len(truth))
                    own, held = order[2000 : 2000 + size], order[:2000]
                    frequent = np.argsort(-(truth[held] > 0).sum(0))[:60]
                    columns = np.arange(80) if classes == 80 else random.permutation(frequent)[:classes]
                    labels = draw(truth[own][:, columns], share, random)
                    if not (labels > 0).any():
                        continue
                    y = truth[held][:, columns]
                    rows.add(
                        f"{size} images, {classes} classes, {100 * share:g} % known {kind}",
                        lambda own=own, labels=labels, held=held, y=y: regret(x[own], labels, x[held], y),
                    )
    lost = np.array([row["best"] - row["map"] for row in rows.rows.values()])
    print(f"{len(lost)} tables, within 1 point of the best: {np.mean(lost <= 1):.1%}, most lost: {lost.max():.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("headline", "asked", "grid"))
    parser.add_argument("--data", type=Path, default=Path("../shared/data/coco-mini"), help="digits: digit scenes")
    parser.add_argument("--backbone", default="tf_efficientnet_lite0")
    parser.add_argument("--size", type=int, default=288)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    job = {"headline": headline, "asked": asked}.get(arguments.what)
    if str(arguments.data) == "digits" and job is not None:
        from experiments.digit_scenes import digit_scenes

        job("digits", *digit_scenes())
        return
    config = Config.preset("small").replace(model__backbone=arguments.backbone, images__size=arguments.size)
    train_table, test_table = tables(arguments.data)
    folder = arguments.data / "images"
    name = f"{arguments.backbone.removeprefix('tf_efficientnet_')}-{arguments.size}"
    x = frozen_features(config, train_table, folder)
    if job is None:
        grid(name, x, train_table, (200, 1000, 6000))
        return
    x_test = frozen_features(config, test_table, folder)
    job(name, x, x_test, train_table, test_table)


if __name__ == "__main__":
    main()
