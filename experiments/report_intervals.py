"""How often the intervals of the report hold, and how much too high mAP is on few known labels.

    python -m experiments.report_intervals RUN --data ../shared/data/coco-mini

The test images, every label known, are the population: images are drawn from them, some of the labels are kept, and
the report's numbers for the draw are compared with the mean over all draws and with the population. RUN was trained by
the small preset. The results are ``experiments/results/report_intervals.jsonl``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.frozen import pooled
from experiments.main_job import tables
from experiments.store import RESULTS, Store
from partlabel import Model
from partlabel.app.report.intervals import interval
from partlabel.images import resolve
from partlabel.metrics import evaluate
from partlabel.metrics.bootstrap import NAMES, Design, resample

STORE = Store(RESULTS / "report_intervals.jsonl")
PICTURES, RESAMPLES = 800, 300


def scores_of(model: Model, paths: list[Path]) -> NDArray[np.float32]:
    """Scores (N, C) from the stored features."""
    source, stages = pooled(model, paths, flip=False), model.backbone.num_stages
    batches = [np.arange(a, min(a + 512, len(paths))) for a in range(0, len(paths), 512)]
    with torch.inference_mode():
        return torch.cat([model(batch, stages) for batch in source.batches(batches, None)]).numpy()


def coverage(scores: Any, labels: Any, thresholds: Any, known: float, draws: int) -> dict[str, Any]:
    """Draw images and labels many times; what share of the intervals hold the mean over the draws."""
    random = np.random.default_rng(1)
    names = [name for name in NAMES if name != "zero_one_full_rows"]
    values, bounds, quantiles, optimism = [], [], [], []
    for draw in range(draws):
        rows = random.choice(len(labels), PICTURES)
        kept = np.where(random.random((PICTURES, labels.shape[1])) < known, labels[rows], 0).astype(np.int8)
        design = Design(scores[rows], kept, thresholds)
        own = design.metrics(np.ones((PICTURES, 1))).metrics
        again = resample(design, np.arange(PICTURES), RESAMPLES, draw).metrics
        values.append([float(own[name][0]) for name in names])
        bounds.append([interval(value, again[name]) for name, value in zip(names, values[-1], strict=True)])
        quantiles.append([np.nanquantile(again[name], [0.025, 0.975]) for name in names])
        optimism.append(float(np.nanmean(again["mean_ap"])) - values[-1][names.index("mean_ap")])
    mean = np.mean(values, axis=0)

    def held(limits: Any) -> dict[str, float]:
        low, high = np.moveaxis(np.array(limits, float), 2, 0)
        return dict(zip(names, np.mean((low <= mean) & (mean <= high), axis=0).tolist(), strict=True))

    return {
        "known": known,
        "pictures": PICTURES,
        "draws": draws,
        "mean": dict(zip(names, mean.tolist(), strict=True)),
        "mean_ap_rises_in_resamples_by": float(np.mean(optimism)),
        "interval_held": held(bounds),
        "quantiles_held": held(quantiles),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/coco-mini"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model, (_, test) = Model.load(arguments.run), tables(arguments.data)
    scores = scores_of(model, resolve(test.images, arguments.data / "images"))
    labels, thresholds = test.dense(), np.array(model.thresholds)
    population = evaluate(scores, labels, thresholds)
    STORE.add("population", {"pictures": len(labels), "mean_ap": population.mean_ap})
    for known, draws in ((0.1, 200), (1.0, 40)):
        row = coverage(scores, labels, thresholds, known, draws)
        STORE.add(f"{100 * known:g} % known", row)
        print(row)


if __name__ == "__main__":
    main()
