"""50 passes of MC dropout against one pass of the whole network, and against baal's loop over the whole network.

    python -m benchmarks.uncertainty --data ../shared/data/coco-mini [--threads N]

EfficientNet-Lite0 at 224 pixels, 80 classes. All sides read the same decoded images in the same blocks and take turns
after each block; the pass is one without dropout and without graph. All take 8 images at once, which is fastest. The
classifier is random: time does not depend on it. baal runs on a few images only, and is compared by the time of a
image; it needs ``pip install --no-deps baal structlog``. Its means and variances must be those of partlabel within
the error of the samples.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from baal.bayesian.dropout import patch_module
from baal.modelwrapper import ModelWrapper, TrainingArgs
from partlabel.uncertain import uncertainty_from

from benchmarks.timing import machine, save
from partlabel.images import ImageDataset, make_loader
from partlabel.models.model import Model
from partlabel.training.batches import Stored
from partlabel.training.batches import statistics as channel_statistics
from partlabel.training.config import ModelConfig
from partlabel.training.shards import Held

CLASSES, SIZE, SAMPLES, BLOCK, BATCH, OF_BAAL, OF_STATISTICS = 80, 224, 50, 16, 8, 4, 64
DROPOUT = 0.5


def decode(folder: Path, count: int) -> np.ndarray:
    paths = sorted((folder / "images").rglob("*.jpg"))[:count]
    rows = [list(range(a, min(a + BLOCK, len(paths)))) for a in range(0, len(paths), BLOCK)]
    return np.concatenate([pixels.numpy() for pixels, _ in make_loader(ImageDataset(paths, SIZE), rows, 0)])


def build(pooling: str, graph: bool, pixels: np.ndarray, dropout: float = DROPOUT) -> Model:
    torch.manual_seed(0)
    config = ModelConfig(pooling=pooling, graph=graph, dropout=dropout)  # type: ignore[bad-argument-type]
    model = Model(config, [str(c) for c in range(CLASSES)], SIZE).eval().to(memory_format=torch.channels_last)
    with torch.inference_mode():
        features = model.features(torch.from_numpy(pixels[:OF_STATISTICS]), model.backbone.num_stages).numpy()
        stored = Stored(Held(features[:, None]), model.backbone.num_stages)
        model.head.standardise(*channel_statistics(stored, np.arange(len(features)), torch.device("cpu")))
        torch.nn.init.normal_(model.head.classifier.weight, std=0.05)
    return model


def one_pass(model: Model, pixels: np.ndarray, rows: np.ndarray) -> None:
    with torch.inference_mode():
        for a in range(0, len(rows), BATCH):
            model(torch.from_numpy(pixels[rows[a : a + BATCH]]).contiguous(memory_format=torch.channels_last))


def by_baal(model: Model, pixels: np.ndarray) -> torch.Tensor:
    """Scores (N, C, T)."""
    patched = patch_module(copy.deepcopy(model), inplace=False).eval()
    patched.head.training = True  # the head asks for its dropout in training only; nothing else in it has a mode
    wrapper = ModelWrapper(patched, TrainingArgs(use_cuda=False, replicate_in_memory=False))
    x = torch.from_numpy(pixels).contiguous(memory_format=torch.channels_last)
    return wrapper.predict_on_batch(x, SAMPLES)


def in_turns(sides: dict[str, Callable[[np.ndarray], object]], count: int) -> dict[str, dict[str, float]]:
    """Milliseconds of an image, the median and the lowest of all blocks; the sides take turns after each block.

    The first block is run once before. With one thread it is processor time, as in benchmarks.timing.
    """
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in sides}
    blocks = [np.arange(a, min(a + BLOCK, count)) for a in range(0, count, BLOCK)]
    for number, rows in enumerate([blocks[0], *blocks]):
        for name, side in sides.items():
            start = clock()
            side(rows)
            if number:
                times[name].append(1000 * (clock() - start) / len(rows))
    return {name: {"median": statistics.median(values), "lowest": min(values)} for name, values in times.items()}


def against_one_pass(pooling: str, pixels: np.ndarray, dropout: float = DROPOUT) -> dict[str, Any]:
    plain, graph = (build(pooling, graph, pixels, dropout) for graph in (False, True))
    source = Stored(Held(pixels), 0)
    milliseconds = in_turns(
        {
            "pass": lambda rows: one_pass(plain, pixels, rows),
            "uncertainty": lambda rows: uncertainty_from(plain, source, rows, samples=SAMPLES),
            "uncertainty_graph": lambda rows: uncertainty_from(graph, source, rows, samples=SAMPLES),
        },
        len(pixels),
    )
    return {
        "pooling": pooling,
        "dropout": dropout,
        "pictures": len(pixels),
        "milliseconds_a_picture": milliseconds,
        **{
            f"{name}_to_one_pass_{kind}": milliseconds[name][kind] / milliseconds["pass"][kind]
            for name in ("uncertainty", "uncertainty_graph")
            for kind in ("median", "lowest")
        },
    }


def against_baal(pooling: str, graph: bool, pixels: np.ndarray) -> dict[str, Any]:
    model, block = build(pooling, graph, pixels), pixels[:BLOCK]
    source, found, kept = Stored(Held(block), 0), [], []
    sides = {
        "partlabel": lambda rows: found.append(uncertainty_from(model, source, rows, samples=SAMPLES)),
        "baal": lambda rows: kept.append(by_baal(model, block[rows[:OF_BAAL]])),
    }
    milliseconds = in_turns(sides, len(block))
    for kind in milliseconds["baal"]:
        milliseconds["baal"][kind] *= len(block) / OF_BAAL
    own, scores = found[-1], torch.cat(kept, 2)
    difference = scores.mean(2) - own.mean[:OF_BAAL]
    exact = pooling == "average" and not graph
    error = own.variance[:OF_BAAL] * (1 / scores.shape[2] + (0 if exact else 1 / SAMPLES))
    checks = {
        "mean_difference_in_standard_errors": (difference.square() / error).mean().sqrt().item(),
        "ratio_of_mean_variances": (scores.var(2).mean() / own.variance[:OF_BAAL].mean()).item(),
    }
    if not (0.7 < checks["mean_difference_in_standard_errors"] < 1.3 and 0.9 < checks["ratio_of_mean_variances"] < 1.1):
        raise SystemExit(f"the two sides differ: {checks}")
    return {
        "pooling": pooling,
        "graph": graph,
        "pictures_of_baal": OF_BAAL,
        "milliseconds_a_picture": milliseconds,
        "times_faster": milliseconds["baal"]["median"] / milliseconds["partlabel"]["median"],
        **checks,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--pictures", type=int, default=2000)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    pixels = decode(arguments.data, arguments.pictures)
    some = pixels[: max(OF_STATISTICS, len(pixels) // 8)]
    save(
        "uncertainty",
        {
            "machine": machine(),
            "baal": version("baal"),
            "samples": SAMPLES,
            "against_one_pass": [
                against_one_pass("average", pixels),
                against_one_pass("average", some, 0.1),
                against_one_pass("weldon", some),
            ],
            "against_baal": [
                against_baal(pooling, graph, pixels) for pooling in ("average", "weldon") for graph in (False, True)
            ],
        },
    )


if __name__ == "__main__":
    main()
