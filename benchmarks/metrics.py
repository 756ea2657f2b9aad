"""All metrics of 40,504 x 80 scores at 10 % and 100 % known labels: partlabel and torchmetrics, interleaved in one run.

Run ``OMP_NUM_THREADS=1 python -m benchmarks.metrics``. torchmetrics computes the set it has: average precision per
class, precision, recall and F1 (macro and micro) and exact match, in one ``MetricCollection``, whose compute groups
share the counts. Both sides get the same tensors, in one piece and in batches of 64. The run stops where the
results differ.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchmetrics
from torchmetrics import MetricCollection
from torchmetrics.classification import (
    MultilabelAveragePrecision,
    MultilabelExactMatch,
    MultilabelF1Score,
    MultilabelPrecision,
    MultilabelRecall,
)

from partlabel.metrics import Accumulator, Metrics, evaluate

IMAGES, CLASSES, BATCH = 40_504, 80, 64
#: torchmetrics computes in float32, and ranks float32 probabilities
TOLERANCE = 2e-6
PAIRS = {
    "macro_f1": "macro_f1",
    "micro_f1": "micro_f1",
    "macro_p": "pc_precision",
    "macro_r": "pc_recall",
    "micro_p": "ov_precision",
    "micro_r": "ov_recall",
}


def problem(known: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores of a fair classifier, and labels at COCO's 3.6 % of presents."""
    rng = np.random.default_rng(0)
    labels = np.where(rng.random((IMAGES, CLASSES)) < 0.036, 1, -1)
    scores = rng.normal(size=(IMAGES, CLASSES)) + 1.5 * labels - 1
    return torch.from_numpy(scores.astype(np.float32)), torch.from_numpy(
        (labels * (rng.random(labels.shape) < known)).astype(np.int8)
    )


def peer_metrics(classes: int) -> MetricCollection:
    options: dict[str, Any] = {"num_labels": classes, "ignore_index": -1, "validate_args": False}
    return MetricCollection(
        {
            "ap": MultilabelAveragePrecision(average=None, **options),
            "macro_f1": MultilabelF1Score(average="macro", **options),
            "micro_f1": MultilabelF1Score(average="micro", **options),
            "macro_p": MultilabelPrecision(average="macro", **options),
            "micro_p": MultilabelPrecision(average="micro", **options),
            "macro_r": MultilabelRecall(average="macro", **options),
            "micro_r": MultilabelRecall(average="micro", **options),
            "exact": MultilabelExactMatch(**options),
        }
    )


def peer_labels(labels: torch.Tensor) -> torch.Tensor:
    """1 present, 0 absent, -1 unknown."""
    return torch.where(labels == 0, -1, (labels > 0).long())


def ours(scores: torch.Tensor, labels: torch.Tensor, batch: int) -> Metrics:
    accumulator = Accumulator(labels.shape[1])
    for start in range(0, len(labels), batch):
        accumulator.update(scores[start : start + batch], labels[start : start + batch])
    return accumulator.compute()


def theirs(collection: MetricCollection, scores: torch.Tensor, labels: torch.Tensor, batch: int) -> dict[str, Any]:
    collection.reset()
    for start in range(0, len(labels), batch):
        collection.update(scores[start : start + batch], labels[start : start + batch])
    return collection.compute()


def differences(found: Metrics, peer: dict[str, Any]) -> dict[str, float]:
    result = {name: abs(getattr(found, name) - float(peer[key])) for key, name in PAIRS.items()}
    result["average_precision"] = float(np.abs(found.average_precision - peer["ap"].numpy()).max())
    return result


def interleaved(one: Callable[[], Any], other: Callable[[], Any], rounds: int) -> tuple[list[float], list[float]]:
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for run, spent in ((one, times[0]), (other, times[1])):
            start = time.perf_counter()
            run()
            spent.append(time.perf_counter() - start)
    return times


def compare(known: float, batch: int, rounds: int) -> dict[str, Any]:
    scores, labels = problem(known)
    collection, coded = peer_metrics(CLASSES), peer_labels(labels)
    gaps = differences(ours(scores, labels, batch), theirs(collection, scores, coded, batch))
    if max(gaps.values()) > TOLERANCE:
        raise SystemExit(f"the results differ: {gaps}")
    mine, peer = interleaved(
        lambda: ours(scores, labels, batch), lambda: theirs(collection, scores, coded, batch), rounds
    )
    return {
        "known": known,
        "batch": batch,
        "partlabel_s": statistics.median(mine),
        "torchmetrics_s": statistics.median(peer),
        "ratio": statistics.median(peer) / statistics.median(mine),
        "ratio_lowest": min(peer) / max(mine),
        "largest_difference": gaps,
    }


def disagreements() -> dict[str, Any]:
    """Where torchmetrics gives another number, and what is right."""
    one = torch.tensor
    exact_labels = one([[-1, 1, -1], [1, -1, 0], [0, 0, 0], [1, 1, -1]], dtype=torch.int8)
    exact_scores = one([[-1.0, 1, -1], [1, -1, 1], [1, 1, 1], [1, -1, -1]])
    saturated = one([[30.0], [20.0]]), one([[1], [-1]], dtype=torch.int8)
    absent = one([[1.0, -1.0], [-1.0, -1.0]]), one([[1, -1], [-1, -1]], dtype=torch.int8)
    unknown = one([[1.0, -1.0], [-1.0, 1.0]]), one([[1, 0], [-1, 0]], dtype=torch.int8)

    def both(scores: torch.Tensor, labels: torch.Tensor) -> tuple[Metrics, dict[str, Any]]:
        collection = peer_metrics(labels.shape[1])
        return evaluate(scores, labels), theirs(collection, scores, peer_labels(labels), len(labels))

    mine, peer = both(exact_scores, exact_labels)
    result: dict[str, Any] = {
        "exact match of four rows: right, right, nothing known, wrong": {
            "partlabel": [mine.zero_one, mine.zero_one_full_rows],
            "torchmetrics": float(peer["exact"]),
            "why": "it counts the row without known labels as right: 3 of 4 in place of 2 of 3; no value for full rows",
        }
    }
    mine, peer = both(*saturated)
    result["average precision where the sigmoid is 1 in float32 (present 30, absent 20)"] = {
        "partlabel": mine.mean_ap,
        "torchmetrics": float(peer["ap"].mean()),
        "why": "it ranks probabilities; here both are 1, a tie",
    }
    mine, peer = both(*absent)
    result["precision, recall and F1 of a perfect prediction with one class that is always absent"] = {
        "partlabel": [mine.pc_precision, mine.pc_recall, mine.macro_f1],
        "torchmetrics": [float(peer[key]) for key in ("macro_p", "macro_r", "macro_f1")],
        "why": "it keeps the class with 0 of 0 in the divisor as 0",
    }
    try:
        peer_answer: Any = float(both(*unknown)[1]["ap"].nanmean())
    except IndexError as error:
        peer_answer = f"IndexError: {error}"
    result["mean average precision with one class without known labels"] = {
        "partlabel": evaluate(*unknown).mean_ap,
        "torchmetrics": peer_answer,
        "why": "the class has no curve",
    }
    return result


def cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    cases = [(0.1, IMAGES), (0.1, BATCH), (1.0, IMAGES)]
    result = {
        "machine": {
            "cpu": cpu_model(),
            "threads": arguments.threads,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": torch.__version__,
            "torchmetrics": torchmetrics.__version__,
        },
        "images": IMAGES,
        "classes": CLASSES,
        "rounds": arguments.rounds,
        "runs": [compare(known, batch, arguments.rounds) for known, batch in cases],
        "torchmetrics_differs": disagreements(),
    }
    target = Path(__file__).parent / "results" / "metrics.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for run in result["runs"]:
        print(
            f"{run['known']:4.0%} known, batches of {run['batch']:6,}: partlabel {run['partlabel_s'] * 1e3:7.1f} ms, "
            f"torchmetrics {run['torchmetrics_s'] * 1e3:7.1f} ms, {run['ratio']:.1f} times faster"
        )
    print(json.dumps(result["torchmetrics_differs"], indent=1))


if __name__ == "__main__":
    main()
