"""A frozen backbone against logistic regression on the same features: all labels known and 10 % known.

    python -m experiments.frozen --data ../shared/data/coco-mini --out runs/frozen

partlabel trains with its small preset, unchanged for every row. Logistic regression (L-BFGS, one L2 for all classes, on
the mean over the known labels of each class) has its L2 chosen on a fifth of the training images by mAP on their
known labels, then is fitted on all of them. Both see standardised pooled features.
The results are ``experiments/results/frozen.jsonl``; a killed run goes on, finished rows are not computed again.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from experiments.main_job import FROZEN, tables
from experiments.store import RESULTS, Store
from partlabel import LabelTable, Model, simulate, train
from partlabel.metrics import Metrics, evaluate
from partlabel.training.batches import Stored, open_source

STORE = Store(RESULTS / "frozen.jsonl")
L2 = (0.01, 0.03, 0.1, 0.3, 1.0)


def pooled(model: Model, paths: list[Path], flip: bool) -> Stored:
    """The stored features of images; the same ones that training uses."""
    stages = model.backbone.num_stages
    limit = FROZEN.images.max_pixels
    source = open_source(model, stages, paths, flip=flip, workers=1, max_pixels=limit)
    assert isinstance(source, Stored)
    return source


def logistic_regression(features: Tensor, labels: Tensor, l2: float) -> tuple[Tensor, Tensor]:
    """Weights (D, C) and biases (C,) that minimise, per class, the mean logistic loss plus l2/2 |w|^2."""
    known = (labels != 0).float()
    share = known / known.sum(0).clamp_min(1)
    weight = torch.zeros(features.shape[1], labels.shape[1], requires_grad=True)
    bias = torch.zeros(labels.shape[1], requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=60, history_size=10, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (F.softplus(-labels * (features @ weight + bias)) * share).sum() + l2 / 2 * weight.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return weight.detach(), bias.detach()


def tuned_regression(x: Tensor, table: LabelTable, seed: int) -> tuple[Tensor, Tensor, float]:
    """The regression with its L2 chosen on a fifth of the training images, and that L2."""
    fit, check = table.split([0.8, 0.2], seed)
    labels = torch.from_numpy(table.dense()).float()
    scored = {}
    for l2 in L2:
        weight, bias = logistic_regression(x[fit], labels[fit], l2)
        scored[l2] = evaluate(x[check] @ weight + bias, table.dense(check)).mean_ap
    best = max(scored, key=lambda l2: scored[l2])
    return (*logistic_regression(x, labels, best), best)


def record(metrics: Metrics, **more: Any) -> dict[str, Any]:
    """The numbers of one row, in percent."""
    first = float(np.nanmean(metrics.average_precision[:18]))
    names = ("zero_one", "macro_f1", "micro_f1")
    values = {name: 100 * float(getattr(metrics, name)) for name in names}
    return {"map80": 100 * metrics.mean_ap, "map18": 100 * first, **values, **more}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/coco-mini"))
    parser.add_argument("--out", type=Path, default=Path("runs/frozen"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    train_table, test_table = tables(arguments.data)
    folder = arguments.data / "images"
    model = Model(FROZEN.model, train_table.classes, FROZEN.images.size)
    train_paths, test_paths = ([folder / n for n in t.images.to_pylist()] for t in (train_table, test_table))
    train_features = pooled(model, train_paths, flip=True)
    test_features = pooled(model, test_paths, flip=False)

    def plain(source: Stored) -> NDArray[np.float32]:
        return source.array[:, 0, :, 0, 0].astype(np.float32)

    mean, std = plain(train_features).mean(0), plain(train_features).std(0)
    x, x_test = (torch.from_numpy((plain(f) - mean) / std) for f in (train_features, test_features))
    rows = STORE.read()
    for known in (1.0, 0.1):
        for seed in range(arguments.seeds if known < 1 else 1):
            table = simulate.partial(train_table, known, seed) if known < 1 else train_table
            name = f"{round(100 * known)} % known, seed {seed}, "
            if name + "logistic regression" not in rows:
                weight, bias, l2 = tuned_regression(x, table, seed)
                found = evaluate(x_test @ weight + bias, test_table.dense())
                STORE.add(name + "logistic regression", record(found, l2=l2))
            for loss in ("bce", "partial-bce"):
                if name + loss in rows:
                    continue
                run = arguments.out / f"{round(100 * known)}-{seed}-{loss}"
                config = FROZEN.replace(loss__name=loss, seed=seed)
                summary = train(table, folder, out=run, config=config, resume=(run / "run.json").is_file()).summary
                trained = Model.load(run, which="last")
                source = pooled(trained, test_paths, flip=False)
                batches = [np.arange(a, min(a + 512, len(test_paths))) for a in range(0, len(test_paths), 512)]
                with torch.inference_mode():
                    scores = [trained(b, trained.backbone.num_stages) for b in source.batches(batches, None)]
                found = evaluate(torch.cat(scores), test_table.dense())
                STORE.add(name + loss, record(found, train_seconds=summary["seconds"]))
    for name, row in STORE.read().items():
        print(f"{name:45} mAP80 {row['map80']:.2f}  mAP18 {row['map18']:.2f}  micro-F1 {row['micro_f1']:.2f}")


if __name__ == "__main__":
    main()
