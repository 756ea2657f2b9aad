"""Which labels to ask for next: questions in rounds, answered from labels that were hidden, on frozen features.

    python -m experiments.next_labels --data ../shared/data/coco-mini

2 % of the (image, class) pairs are known at first, drawn at random; then come rounds of 2 %, 10 % known after four.
After each round a logistic regression is fitted to each class (L-BFGS from the weights of the round before, at most 25
steps, L2 0.1 on the mean over the known labels of the class, for every row and round), its scores decide the next
questions, and it is measured on the test images at threshold 0. It sees the first 384 principal components of the
standardised pooled features, which is quicker and costs about half a point of mAP; "full" rows see all 1,280 features.
The results are ``experiments/results/next_labels.jsonl``; a killed run goes on, finished rows are not computed again.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from experiments.frozen import pooled
from experiments.main_job import FROZEN, tables
from experiments.store import RESULTS, Store
from partlabel import LabelTable, Model, simulate
from partlabel.method.uncertainty import summarise
from partlabel.metrics import evaluate
from partlabel.tasks.next_labels import WHY, Mix, choose

STORE = Store(RESULTS / "next_labels.jsonl")
FIGURE = Path(__file__).parents[1] / "docs" / "next.png"
L2, STEPS, ROUND, COMPONENTS = 0.1, 25, 0.02, 384
DROPOUT, PASSES, KEPT = 0.2, 12, 4
Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]
Data = tuple[Tensor, Tensor, LabelTable, LabelTable]


@dataclass
class Now:
    """What a strategy may look at: features, weights, scores (N, C), labels, how many to ask for."""

    x: Tensor
    weight: Tensor
    scores: NDArray[np.float32]
    table: LabelTable
    budget: int
    seed: int

    @property
    def unknown(self) -> NDArray[np.bool_]:
        return self.table.dense() == 0

    def random(self) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64([self.seed, self.table.num_known]))


def over_all_pairs(high: float, uncertain: float) -> Callable[[Now], Pairs]:
    """Shares of the pairs with the highest scores and of those nearest to 0, whatever their class; the rest random."""

    def ask(now: Now) -> Pairs:
        free = np.flatnonzero(now.unknown)
        score = now.scores.reshape(-1)[free]
        taken = np.zeros(len(free), bool)
        for value, share in ((score, high), (-np.abs(score), uncertain)):
            count = round(share * now.budget)
            if count:
                taken[np.argpartition(np.where(taken, -np.inf, value), -count)[-count:]] = True
        rest = now.budget - int(taken.sum())
        taken[now.random().choice(np.flatnonzero(~taken), rest, replace=False)] = True
        image, cls = np.divmod(free[taken], now.table.num_classes)
        return image, cls

    return ask


def by_class(mix: Mix) -> Callable[[Now], Pairs]:
    """What ``partlabel next`` asks."""

    def ask(now: Now) -> Pairs:
        found = choose(now.scores, now.table, now.budget, mix, seed=now.seed + now.table.num_known, evenly=True)
        return found.image[found.open], found.cls[found.open]

    return ask


def by_information(random: float) -> Callable[[Now], Pairs]:
    """The same budget for every class: the highest mutual information between label and weights, the rest random.

    The passes of MC dropout drop inputs of all images alike.
    """

    def ask(now: Now) -> Pairs:
        passes = []
        generator = torch.Generator().manual_seed(now.seed)
        bias = torch.from_numpy(now.scores[:1]) - now.x[:1] @ now.weight
        for _ in range(PASSES):
            kept = torch.rand(now.x.shape[1], 1, generator=generator) >= DROPOUT
            passes.append(now.x @ (now.weight * kept / (1 - DROPOUT)) + bias)
        information = summarise(torch.stack(passes)).mutual_information.numpy()
        found = choose(
            information, now.table, now.budget, Mix(random=random), seed=now.seed + now.table.num_known, evenly=True
        )
        return found.image[found.open], found.cls[found.open]

    return ask


def diverse(random: float) -> Callable[[Now], Pairs]:
    """As ``by_class``, but the seeking part is spread out: of 4 times as many, those far from each other."""

    def ask(now: Now) -> Pairs:
        seed = now.seed + now.table.num_known
        few = choose(now.scores, now.table, now.budget, Mix(random=random), seed=seed, evenly=True)
        part = few.why == WHY.index("random")
        drawn = few.image[part & few.open], few.cls[part & few.open]
        state = now.table.dense()
        state[drawn] = 1
        parts = [drawn]
        directions = F.normalize(now.x)
        for c in range(now.table.num_classes):
            count = int(((few.cls == c) & ~part).sum())
            free = np.flatnonzero(state[:, c] == 0)
            free = free[np.argsort(-now.scores[free, c], kind="stable")[: KEPT * count]]
            own = directions[free]
            nearest = torch.full((len(free),), -1.0)
            picked = []
            at = 0
            for _ in range(count):
                picked.append(at)
                nearest = torch.maximum(nearest, own @ own[at])
                nearest[at] = torch.inf
                at = int(nearest.argmin())
            parts.append((free[picked], np.full(count, c)))
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])

    return ask


def pictures(now: Now) -> Pairs:
    """Every label of images that are drawn at random."""
    empty = now.random().permutation(np.flatnonzero(np.diff(now.table.indptr) == 0))
    image = empty[: now.budget // now.table.num_classes]
    return np.repeat(image, now.table.num_classes), np.tile(np.arange(now.table.num_classes), len(image))


STRATEGIES: dict[str, Callable[[Now], Pairs]] = {
    "all pairs, random": over_all_pairs(0, 0),
    "all pairs, uncertain": over_all_pairs(0, 1),
    "all pairs, half highest, half random": over_all_pairs(0.5, 0),
    "per class, seek 50, random 50": by_class(Mix(random=0.5)),
    "per class, seek 80, random 20": by_class(Mix(random=0.2)),
    "whole images": pictures,
    "per class, seek 100": by_class(Mix(random=0)),
    "per class, seek 90, random 10": by_class(Mix(random=0.1)),
    "per class, seek 65, random 35": by_class(Mix(random=0.35)),
    "per class, uncertain 80, random 20": by_class(Mix(random=0.2, uncertain=0.8)),
    "per class, seek 40, uncertain 40, random 20": by_class(Mix(random=0.2, uncertain=0.4)),
    "per class, seek 60, uncertain 20, random 20": by_class(Mix(random=0.2, uncertain=0.2)),
    "per class, mutual information 80, random 20": by_information(0.2),
    "per class, diverse seek 80, random 20": diverse(0.2),
}
CHIEF = ("all pairs, random", "per class, seek 80, random 20", "whole images")


def fit(x: Tensor, labels: NDArray[np.int8], start: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor]:
    """Weights (D, C) and biases (C,) of the mean logistic loss of each class plus L2/2 |w|^2."""
    features = x.numpy()
    solution = np.zeros((features.shape[1] + 1, labels.shape[1]))
    if start is not None:
        solution[:-1], solution[-1] = start[0].numpy(), start[1].numpy()
    for c in range(labels.shape[1]):
        rows = np.flatnonzero(labels[:, c])
        own, sign = features[rows], labels[rows, c].astype(np.float32)

        def loss(v: NDArray[np.float64], own: Any = own, sign: Any = sign) -> tuple[float, NDArray[np.float64]]:
            w = v[:-1].astype(np.float32)
            margin = sign * (own @ w + np.float32(v[-1]))
            slope = -sign / (1 + np.exp(np.clip(margin, -50, 50))) / len(sign)
            gradient = np.append(slope @ own + L2 * w, slope.sum()).astype(np.float64)
            return float(np.logaddexp(0, -margin).mean() + L2 / 2 * (w @ w)), gradient

        options = {"maxiter": STEPS, "ftol": 1e-5, "gtol": 1e-4}
        if len(rows):
            solution[:, c] = minimize(loss, solution[:, c], jac=True, method="L-BFGS-B", options=options).x
    return torch.from_numpy(solution[:-1]).float(), torch.from_numpy(solution[-1]).float()


def features(data: Path, components: int) -> Data:
    """Standardised pooled features of the training and the test images, or their components, and their tables."""
    parts = tables(data)
    model = Model(FROZEN.model, parts[0].classes, FROZEN.images.size)
    raw = []
    for table, flip in zip(parts, (True, False), strict=True):
        stored = pooled(model, [data / "images" / name for name in table.images.to_pylist()], flip)
        raw.append(stored.array[:, 0, :, 0, 0].astype(np.float32))
    mean, std = raw[0].mean(0), raw[0].std(0)
    x, x_test = (torch.from_numpy((part - mean) / std) for part in raw)
    if components < x.shape[1]:
        axes = torch.linalg.eigh(x.T @ x)[1][:, -components:]
        x, x_test = x @ axes, x_test @ axes
    return x, x_test, *parts


def simulate_rounds(
    ask: Callable[[Now], Pairs],
    start: float,
    rounds: int,
    seed: int,
    data: Data,
) -> list[dict[str, Any]]:
    """One row for the start and for each round."""
    x, x_test, truth, test = data
    true, answers = truth.dense(), test.dense()
    budget = round(ROUND * true.size)
    table = (simulate.dense if ask is pictures else _at_random)(truth, start, seed)
    weights, rows, asked = None, [], {}
    for number in range(rounds + 1):
        if number:
            assert weights is not None
            scores = (x @ weights[0] + weights[1]).numpy()
            image, cls = ask(Now(x, weights[0], scores, table, budget, seed))
            asked = about(table, scores, true, image, cls)
            table = table.with_labels(image, cls, true[image, cls], origin="asked")
        weights = fit(x, table.dense(), weights)
        found = evaluate(x_test @ weights[0] + weights[1], answers)
        rows.append(
            {
                "known": table.num_known / true.size,
                "map80": 100 * found.mean_ap,
                "map18": 100 * float(np.nanmean(found.average_precision[:18])),
                "micro_f1": 100 * found.micro_f1,
                **asked,
            }
        )
    return rows


def about(
    table: LabelTable,
    scores: NDArray[np.float32],
    true: NDArray[np.int8],
    image: NDArray[np.int64],
    cls: NDArray[np.int64],
) -> dict[str, float]:
    """Of the questions of a round: the share answered present, and how many times more present labels a class has.

    ``growth``: mean over the classes of log((present after + 1) / (present before + 1)). Both also as the scores
    expected it.
    """
    before = table.class_counts()[0]
    size = table.num_classes
    found = np.bincount(cls, true[image, cls] > 0, size)
    expected = np.bincount(cls, 1 / (1 + np.exp(-scores[image, cls].astype(np.float64))), size)
    growth, expected_growth = (float(np.log((before + 1 + new) / (before + 1)).mean()) for new in (found, expected))
    shares = {"answers_present": found.sum() / len(cls), "expected_present": expected.sum() / len(cls)}
    return {**{k: float(v) for k, v in shares.items()}, "growth": growth, "expected_growth": expected_growth}


def _at_random(truth: LabelTable, start: float, seed: int) -> LabelTable:
    return simulate.partial(truth, start, seed, per_image="bernoulli")


def jobs(seeds: int) -> list[tuple[str, float, int, int, bool]]:
    """Strategy, share known at first, rounds, seed, all features; the most telling first."""
    names = list(STRATEGIES)
    listed = [(name, 0.02, 9 if name in CHIEF else 4, 0, False) for name in names]
    listed += [(name, start, 4, 0, False) for start in (0.005, 0.01, 0.05) for name in CHIEF]
    for seed in range(1, seeds):
        listed += [(name, 0.02, 4, seed, False) for name in names]
    listed += [(name, 0.02, 4, 0, True) for name in names[:5]]
    listed += [(n, start, 4, seed, False) for seed in range(1, seeds) for start in (0.005, 0.01, 0.05) for n in CHIEF]
    return listed


def draw(rows: dict[str, Any], path: Path) -> None:
    """mAP against the labels that are known: questions, random questions and whole images."""
    from matplotlib.figure import Figure

    names = {CHIEF[1]: "partlabel next", CHIEF[0]: "random questions", CHIEF[2]: "whole images, at random"}
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    for (name, label), color in zip(names.items(), ("#0b6e4f", "#c1440e", "#35618f"), strict=True):
        own = {key: found for key, found in rows.items() if key.startswith(f"{name} | start 0.02 | seed")}
        for key, found in own.items():
            if key.endswith("full"):
                continue
            known, value = ([100 * r["known"] for r in found], [r["map80"] for r in found])
            first = key.endswith("seed 0")
            axes.plot(known, value, color=color, marker="o", markersize=3, alpha=1 if first else 0.35)
            if first:
                at = (known[-1], value[-1])
                axes.annotate(
                    label, at, (-4, 7 if name == CHIEF[2] else -14), textcoords="offset points", color=color, ha="right"
                )
    if "all labels known" in rows:
        axes.axhline(rows["all labels known"][0]["map80"], color="0.5", linestyle=":")
        axes.text(2, rows["all labels known"][0]["map80"] + 0.3, "all labels known", color="0.4")
    axes.set_xticks(range(0, 21, 2))
    axes.set(xlabel="known labels, % of all (image, class) pairs", ylabel="mAP on test images, 80 classes")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/coco-mini"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    data = features(arguments.data, COMPONENTS)
    rows = STORE.read()
    for name, start, rounds, seed, full in jobs(arguments.seeds):
        key = f"{name} | start {start:g} | seed {seed}{' | full' if full else ''}"
        if key not in rows:
            given = features(arguments.data, 10**9) if full else data
            rows[key] = simulate_rounds(STRATEGIES[name], start, rounds, seed, given)
            STORE.add(key, rows[key])
        last = rows[key][4]
        print(f"{key:75} {last['map80']:.2f} / {last['map18']:.2f} / {last['micro_f1']:.2f}", flush=True)
    if "all labels known" not in rows:
        weight, bias = fit(data[0], data[2].dense(), None)
        found = evaluate(data[1] @ weight + bias, data[3].dense())
        rows["all labels known"] = [{"known": 1.0, "map80": 100 * found.mean_ap, "micro_f1": 100 * found.micro_f1}]
        STORE.add("all labels known", rows["all labels known"])
    draw(rows, FIGURE)


if __name__ == "__main__":
    main()
