"""Other published losses against BCE and partial-BCE: 10 % of the labels known, and one present label an image known.

    python -m experiments.rivals --data ../shared/data/coco-mini

The small preset (frozen backbone, 20 epochs) on four fifths of the training images. The labels of the others choose
the step and one threshold for all classes; every label of the test images measures. A step is a factor of the
preset's learning rate and one of its weight decay: rate 0.3, 1 and 3 with the same decay; three times the decay; and,
with 10 % known, rate 3 and 10 with the decay divided by as much, which is the loss itself times 3 and 10. Each loss has
the one of the best mAP on the held-out labels with seed 0; the other seeds take it over.

``partial``: 10 % of the labels of each image, at random; of the held-out images, too, only these are used.
``single``: one present label of each image and nothing else. There, held-out unknown labels are taken as absent, as
present ones alone rank nothing; so for every loss. BCE and partial-BCE have nothing to learn from there: with unknown
labels taken as absent, both are AN.

Heads that see the same batches train side by side in one process, from the stored features: the start, batches,
mirrored images, rates, optimizer and losses are those of ``partlabel.train``, without its checkpoints.

The results are ``experiments/results/rivals.jsonl``; a killed run goes on, finished rows are not computed again.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from experiments.frozen import pooled
from experiments.main_job import FROZEN, tables
from experiments.store import RESULTS, Store
from partlabel import LabelTable, Model, simulate
from partlabel.images import flip_draw
from partlabel.metrics import evaluate
from partlabel.metrics.thresholds import choose, cuts
from partlabel.training.batches import Stored, statistics
from partlabel.training.optimizer import build_loss, build_optimizer
from partlabel.training.schedule import epoch_batches, learning_rate_factor

STORE = Store(RESULTS / "rivals.jsonl")
HELD_OUT = 0.2
#: setting -> (factor of the learning rate, factor of the weight decay)
STEPS = {"single": ((0.3, 1.0), (1.0, 1.0), (3.0, 1.0), (1.0, 3.0))}
STEPS["partial"] = (*STEPS["single"], (3.0, 1 / 3), (10.0, 0.1))
RIVALS = ("an", "wan", "an-ls", "asl", "hill", "splc", "ll-r", "ll-ct")
LOSSES = {"partial": ("bce", "partial-bce", *RIVALS), "single": RIVALS}


def known_labels(setting: str, table: LabelTable, seed: int) -> LabelTable:
    """The labels of a setting; images without any stay in the table."""
    if setting == "partial":
        return simulate.partial(table, 0.1, seed)
    one = simulate.noisy_plus(table, seed)
    return one.hide(one.values > 0, "one present label")


@dataclass(frozen=True)
class Run:
    """One training of a head."""

    setting: str
    loss: str
    step: tuple[float, float]
    seed: int

    @property
    def name(self) -> str:
        rate, decay = self.step
        return f"{self.setting}, {self.loss}, rate {rate:g}, decay {decay:.2g}, seed {self.seed}"


class Bench:
    """The features and labels; trains heads and measures them."""

    def __init__(self, data: Path) -> None:
        self.train_table, self.test_table = tables(data)
        self.truth = self.test_table.dense()
        model = Model(FROZEN.model, self.train_table.classes, FROZEN.images.size)
        paths = [[data / "images" / name for name in t.images.to_pylist()] for t in (self.train_table, self.test_table)]
        self.source = pooled(model, paths[0], flip=True)
        self.test_source = pooled(model, paths[1], flip=False)

    def run(self, runs: Sequence[Run]) -> list[dict[str, Any]]:
        """The rows of runs that have setting and seed in common."""
        setting, seed = runs[0].setting, runs[0].seed
        table = known_labels(setting, self.train_table, seed)
        rows, held = table.split([1 - HELD_OUT, HELD_OUT], seed)
        rows = rows[np.diff(table.indptr)[rows] > 0]
        mean, std = statistics(self.source, rows, "cpu")
        x, x_test = (standardised(source, mean, std) for source in (self.source, self.test_source))
        labels = table.dense()
        heads = self._trained(runs, x, torch.from_numpy(labels), rows)
        if setting == "single":
            held = held[(labels[held] != 0).any(1)]
            labels = np.where(labels > 0, 1, -1).astype(np.int8)
        with torch.inference_mode():
            scores = [[scored(head, part).numpy() for part in (x[held, 0], x_test[:, 0])] for head in heads]
        return [self._measured(own, labels[held], test) for own, test in scores]

    def _trained(self, runs: Sequence[Run], x: Tensor, labels: Tensor, rows: NDArray[np.int64]) -> list[nn.Module]:
        seed, optim = runs[0].seed, FROZEN.optim
        torch.manual_seed(seed)
        start = Model(FROZEN.model, self.train_table.classes, FROZEN.images.size)
        heads, optimizers, losses = [], [], []
        for run in runs:
            head = nn.Linear(x.shape[2], labels.shape[1])
            head.load_state_dict(
                {name: p.flatten(1) if p.ndim > 1 else p for name, p in start.head.classifier.state_dict().items()}
            )
            rate, decay = optim.learning_rate * run.step[0], optim.weight_decay * run.step[1]
            own = replace(optim, learning_rate=rate, weight_decay=decay)
            trained: Any = SimpleNamespace(backbone=nn.Module(), head=head)
            optimizers.append(build_optimizer(trained, own))
            losses.append(build_loss(FROZEN.replace(loss__name=run.loss).loss, labels.shape[1]))
            heads.append(head)
        for epoch in range(optim.epochs):
            batches = epoch_batches(len(rows), optim.batch_size, seed, epoch)
            for i, batch in enumerate(batches):
                own_rows = rows[batch]
                pictures = x[own_rows, flip_draw(seed, epoch, own_rows).astype(np.int64)]
                known = labels[own_rows]
                factor = learning_rate_factor(optim, epoch + (i + 0.5) / len(batches))
                for head, optimizer, loss in zip(heads, optimizers, losses, strict=True):
                    for group in optimizer.param_groups:
                        group["lr"] = group["base_lr"] * factor
                    value = loss(scored(head, pictures), known, weight=None, epoch=epoch + 1) / len(own_rows)
                    optimizer.zero_grad()
                    value.backward()
                    optimizer.step()
        return heads

    def _measured(
        self, held: NDArray[np.float32], labels: NDArray[np.int8], test: NDArray[np.float32]
    ) -> dict[str, Any]:
        known, present = held[labels != 0], labels[labels != 0] > 0
        threshold, _ = choose(cuts(known, present * 1.0, ~present * 1.0), "f1")
        at_zero = evaluate(test, self.truth)
        return {
            "held_out_map": 100 * evaluate(held, labels).mean_ap,
            "map80": 100 * at_zero.mean_ap,
            "map18": 100 * float(np.nanmean(at_zero.average_precision[:18])),
            "micro_f1": 100 * at_zero.micro_f1,
            "micro_f1_chosen": 100 * evaluate(test, self.truth, threshold).micro_f1,
            "threshold": threshold,
        }


def standardised(source: Stored, mean: Tensor, std: Tensor) -> Tensor:
    """Features (N, 1 or 2, D) with mean 0 and deviation 1."""
    features = torch.from_numpy(source.array[..., 0, 0].astype(np.float32))
    return features.sub_(mean).div_(torch.where(std > 0, std, 1.0))


def scored(head: nn.Module, features: Tensor) -> Tensor:
    """Scores (N, C)."""
    return F.linear(features, head.weight, head.bias)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/coco-mini"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    found = STORE.read()
    bench = Bench(arguments.data)

    def finish(runs: list[Run]) -> None:
        missing = [run for run in runs if run.name not in found]
        rows = bench.run(missing) if missing else []
        for run, row in zip(missing, rows, strict=True):
            found[run.name] = row
            STORE.add(run.name, row)

    names = ("map80", "map18", "micro_f1", "micro_f1_chosen")
    print("setting  loss         step       " + "  ".join(names) + "  (means; range of map80)")
    for setting, losses in LOSSES.items():
        finish([Run(setting, loss, step, 0) for loss in losses for step in STEPS[setting]])
        best = {
            loss: max(STEPS[setting], key=lambda step: found[Run(setting, loss, step, 0).name]["held_out_map"])
            for loss in losses
        }
        for seed in range(arguments.seeds):
            finish([Run(setting, loss, best[loss], seed) for loss in losses])
        for loss in losses:
            rows = [found[Run(setting, loss, best[loss], seed).name] for seed in range(arguments.seeds)]
            means = "  ".join(f"{np.mean([row[name] for row in rows]):.2f}" for name in names)
            all80 = [row["map80"] for row in rows]
            step = f"{best[loss][0]:g} / {best[loss][1]:.2g}"
            print(f"{setting:8} {loss:12} {step:10} {means}  ({min(all80):.2f} to {max(all80):.2f})", flush=True)


if __name__ == "__main__":
    main()
