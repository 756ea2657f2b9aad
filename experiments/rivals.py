"""Published methods for partial labels under one protocol: frozen features, each at its own best setting.

    python -m experiments.rivals tune|test --data ../shared/data/coco-mini [--settings 10 30 50 single open]

The features are those of the preset small at 224 px (square roots of averages, EfficientNet-Lite0, no mirrored copies),
the same for every row, and so are 12 epochs of SGD where a method needs them. ``tune``: on four fifths of the training
images, known labels of seed 0, each method and each of its variants at five weight decays, at two smaller ones too if
the smallest is best; the best mAP on the other fifth, all labels of which are known for that, is its setting. ``test``:
on all training images at this setting, five draws of the known labels, measured on the test images with all labels
and on 100 draws of as many test images with replacement.

Known labels: 10, 30 and 50 % of each image at random; ``single``: one present label of each image and nothing else;
``open``: 1 % as in Open Images, uneven over images and classes and half of them present.

The results are ``experiments/results/rivals/*.jsonl``; a killed run goes on, finished rows are not computed again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments import rival_methods as m
from experiments.closed_form import frozen_features, mean_ap
from experiments.image_draws import map_of_draws
from experiments.jobs import Labels
from experiments.known_labels import draw
from experiments.main_job import tables
from experiments.rival_solvers import SOLVERS
from experiments.store import RESULTS, Store
from partlabel import Config, LabelTable, simulate
from partlabel.metrics import evaluate
from partlabel.metrics.thresholds import choose, cuts
from partlabel.training import discriminant

SEEDS, DRAWS = range(5), 100
SETTINGS = ("10", "30", "50", "single", "open")
RATE = 5.0
#: weight decays among which each method and variant has its best; the second ones where the smallest of these is
DECAYS, SMALLER = (4e-4, 1.6e-3, 6.4e-3, 2.56e-2, 0.1), (2.5e-5, 1e-4)
Variant = dict[str, Any]
#: shares of the expected present and absent pairs
CAP_SHARES = ((1.0, 1.0), (0.5, 1.0), (0.5, 0.9), (0.25, 0.5), (0.1, 0.5), (0.1, 0.2))
#: method -> its class and variants
METHODS: dict[str, tuple[type[m.Method], tuple[Variant, ...]]] = {
    **{name: (m.Method, ({"loss": name},)) for name in ("bce", "partial-bce", "an", "wan", "an-ls", "asl", "hill")},
    **{name: (m.Method, ({"loss": name},)) for name in ("splc", "p-asl")},
    "ll-r": (m.Method, tuple({"loss": "ll-r", "delta": d} for d in (0.1, 0.3, 1.0))),
    "ll-ct": (m.Method, tuple({"loss": "ll-ct", "delta": d} for d in (0.02, 0.1, 0.3))),
    "em": (m.Method, tuple({"loss": "em", "alpha": a} for a in (0.01, 0.1))),
    "csl": (m.Method, tuple({"loss": "csl", "likely": k} for k in (1.0, 5.0, 10.0, 20.0, 40.0))),
    "csl, priors": (m.WithPriors, tuple({"eta": e, "likely": k} for e, k in ((0.05, 1.0), (0.2, 1.0), (0.05, 20.0)))),
    "em-apl": (m.EntropyAndPseudoLabels, tuple({"beta": b} for b in (0.02, 0.2, 0.9))),
    "role": (m.OnlineEstimates, tuple({"rate": r} for r in (0.3, 3.0, 10.0))),
    "cap": (m.ClassDistribution, tuple({"present": p, "absent": a} for p, a in CAP_SHARES)),
    "cft": (m.ClassDistribution, tuple({"present": 0.25, "absent": 0.5, "last": k} for k in (2, 4))),
    "co-occurrence": (m.CoOccurrence, ({"within": 0.5}, {"within": 0.5, "across": 0.5})),
    "blending": (m.Blending, tuple({"weight": w} for w in (0.1, 0.5, 1.5, 5.0))),
}
#: with present labels alone these learn nothing; where all images have the same share known, partial-BCE is BCE
NEEDS_ABSENT = ("bce", "partial-bce", "blending")


def known_labels(setting: str, table: LabelTable, seed: int) -> NDArray[np.int8]:
    """The labels of a setting."""
    if setting == "single":
        one = simulate.noisy_plus(table, seed)
        return one.hide(one.values > 0, "one present label").dense()
    if setting == "open":
        return draw(Labels("verified", 0.01), table, seed).dense()
    return simulate.partial(table, int(setting) / 100, seed).dense()


@dataclass
class Bench:
    """Features, and the labels of all pairs."""

    x: NDArray[np.float32]
    x_test: NDArray[np.float32]
    table: LabelTable
    truth: NDArray[np.int8]
    truth_test: NDArray[np.int8]

    @classmethod
    def of(cls, data: Path) -> Bench:
        config = Config.preset("small").replace(model__backbone="tf_efficientnet_lite0", images__size=224)
        train, test = tables(data)
        x, x_test = (frozen_features(config, table, data / "images") for table in (train, test))
        mean, deviation = x.mean(0), x.std(0)
        deviation[deviation == 0] = 1
        return cls((x - mean) / deviation, (x_test - mean) / deviation, train, train.dense(), test.dense())

    def split(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Four fifths to learn from, a fifth to choose by."""
        order = np.random.default_rng(7).permutation(len(self.x))
        return np.sort(order[1600:]), np.sort(order[:1600])

    def data(self, labels: NDArray[np.int8], rows: NDArray[np.int64] | None = None) -> m.Data:
        """Labels (S, N, C) and what else methods know."""
        x = self.x if rows is None else self.x[rows]
        held = self.truth[self.split()[1]]
        priors = [np.nanmean(_sigmoid(discriminant.fit(x, y, rounds=None).scores(x)), axis=0) for y in labels]
        return m.Data(
            torch.from_numpy(x),
            torch.from_numpy(labels),
            float((held > 0).sum(1).mean()),
            torch.from_numpy(np.stack(priors)).float(),
        )


def _sigmoid(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return (1 / (1 + np.exp(-np.clip(x, -50, 50)))).astype(np.float32)


def methods(setting: str, only: list[str] | None = None) -> Iterator[tuple[str, Variant]]:
    """Each method with each of its variants, or those of some methods."""
    yield from (own for own in _every(setting) if only is None or own[0] in only)


def _every(setting: str) -> Iterator[tuple[str, Variant]]:
    for name, (_, variants) in METHODS.items():
        equal = setting not in ("open", "single")
        if not (setting == "single" and name in NEEDS_ABSENT) and not (equal and name == "partial-bce"):
            yield from ((name, variant) for variant in variants)
    for name, (_, variants) in SOLVERS.items():
        yield from ((name, variant) for variant in variants)


def row_name(name: str, variant: Variant) -> str:
    more = ", ".join(f"{key} {value}" for key, value in variant.items() if key != "loss")
    return f"{name} ({more})" if more else name


def tune(bench: Bench, setting: str, only: list[str] | None = None) -> None:
    """The rows of ``tune``: mAP on the held-out fifth at each step, and the threshold of the best."""
    store = Store(RESULTS / "rivals" / f"tune-{setting}.jsonl")
    found = store.read()
    rows, held = bench.split()
    labels = known_labels(setting, bench.table, 0)[rows]
    one = bench.data(labels[None], rows)

    def at(name: str, variant: Variant, decays: tuple[float, ...]) -> NDArray[np.float32]:
        """Scores (S, n, C) of the held-out images by one head for each decay."""
        many = (len(decays), -1, -1)
        wide = m.Data(one.x, one.labels.expand(many).contiguous(), one.positives, one.priors.expand(many[:2]))
        method = METHODS[name][0](wide, **variant)
        weight, bias = m.train(wide, method, np.full(len(decays), RATE), np.array(decays), 0)
        return (torch.from_numpy(bench.x[held]) @ weight + bias[:, None]).numpy()

    def maps_of(scores: NDArray[np.float32]) -> list[float]:
        return [round(mean_ap(np.nan_to_num(own, posinf=0, neginf=0), bench.truth[held]), 3) for own in scores]

    for name, variant in methods(setting, only):
        key = row_name(name, variant)
        if key in found:
            continue
        began = time.process_time()
        decays: tuple[float, ...] = ()
        if name in SOLVERS:
            scores = SOLVERS[name][0](one.x.numpy(), labels, bench.x[held], **variant)[None]
        else:
            decays, scores = DECAYS, at(name, variant, DECAYS)
            if int(np.argmax(maps_of(scores))) == 0:
                decays, scores = SMALLER + DECAYS, np.concatenate([at(name, variant, SMALLER), scores])
        maps = maps_of(scores)
        best = int(np.argmax(maps))
        truth = bench.truth[held] > 0
        threshold, _ = choose(cuts(scores[best].ravel(), truth.ravel() * 1.0, ~truth.ravel() * 1.0), "f1")
        record = {"maps": maps, "best": best, "decay": decays[best] if decays else None, "threshold": float(threshold)}
        found[key] = {**record, "seconds": round(time.process_time() - began, 1)}
        store.add(key, found[key])
        print(setting, key, f"{maps[best]:.2f} at decay {record['decay']}", found[key]["seconds"], flush=True)


def chosen(setting: str, name: str) -> tuple[Variant, dict[str, Any]]:
    """The best variant of a method and its row of ``tune``."""
    found = Store(RESULTS / "rivals" / f"tune-{setting}.jsonl").read()
    variants = [variant for variant in (METHODS.get(name) or SOLVERS[name])[1] if row_name(name, variant) in found]
    rows = [found[row_name(name, variant)] for variant in variants]
    best = max(range(len(rows)), key=lambda i: rows[i]["maps"][rows[i]["best"]])
    return variants[best], rows[best]


def measure(bench: Bench, setting: str, only: list[str] | None = None) -> None:
    """The rows of ``test``."""
    store = Store(RESULTS / "rivals" / f"test-{setting}.jsonl")
    found = store.read()
    labels = np.stack([known_labels(setting, bench.table, seed) for seed in SEEDS])
    data = bench.data(labels)
    for name in dict.fromkeys(name for name, _ in methods(setting, only)):
        variant, row = chosen(setting, name)
        if name in found and found[name]["variant"] == row_name(name, variant):
            continue
        began = time.process_time()
        if name in SOLVERS:
            scores = np.stack([SOLVERS[name][0](bench.x, y, bench.x_test, **variant) for y in labels])
        else:
            own = METHODS[name][0](data, **variant)
            weight, bias = m.train(data, own, np.full(len(SEEDS), RATE), np.full(len(SEEDS), row["decay"]), 0)
            scores = (torch.from_numpy(bench.x_test) @ weight + bias[:, None]).numpy()
        found[name] = measured(bench, scores, row["threshold"])
        record = {"variant": row_name(name, variant), "decay": row["decay"], **found[name]}
        store.add(name, {**record, "seconds": round(time.process_time() - began, 1)})
        print(setting, name, np.mean(record["map80"]), flush=True)


def measured(bench: Bench, scores: NDArray[np.float32], threshold: float) -> dict[str, list[float]]:
    """What five heads reach on the test images, and their mean in each draw of test images, the same for all rows."""
    truth = bench.truth_test
    draws = np.mean([map_of_draws(own, truth, DRAWS) for own in scores], axis=0)
    return {
        "draws": [round(float(value), 3) for value in draws],
        "map80": [round(mean_ap(own, truth), 3) for own in scores],
        "map18": [round(mean_ap(own, truth, slice(18)), 3) for own in scores],
        "micro_f1": [round(100 * evaluate(own, truth, threshold).micro_f1, 3) for own in scores],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("tune", "test"))
    parser.add_argument("--data", type=Path, default=Path("../shared/data/coco-mini"))
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=SETTINGS)
    parser.add_argument("--methods", nargs="+", metavar="NAME", choices=[*METHODS, *SOLVERS], help="only these")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    bench = Bench.of(arguments.data)
    for setting in arguments.settings:
        (tune if arguments.what == "tune" else measure)(bench, setting, arguments.methods)


if __name__ == "__main__":
    main()
