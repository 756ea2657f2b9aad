"""How many images to run at once on a CPU: batches of 1 to 64 of the same images, by PyTorch and by onnxruntime.

    python -m benchmarks.export --data ../shared/data/coco-mini [--threads N]

EfficientNet-Lite0 at 224 pixels, 80 classes, 64 decoded images. "predict" is what :func:`partlabel.predict` runs,
"features" what fills the cache of a frozen backbone (both in the layout that they use), "onnx" an exported file. In
each round every batch size runs over all 64 images; their results must agree within 1e-4 (of the largest value, where
that is above 1). With one thread it is processor time.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.timing import interleaved, machine, save
from partlabel.images import load
from partlabel.models.model import Model
from partlabel.models.onnx import OnnxModel
from partlabel.tasks.export import TOLERANCE, export, model_scorer
from partlabel.training.config import ModelConfig

CLASSES, SIZE, PICTURES, SIZES = 80, 224, 64, (1, 4, 8, 64)

Run = Callable[[np.ndarray], np.ndarray]


def features_of(model: Model) -> Run:
    """As :mod:`partlabel.training.batches` fills its cache."""

    def run(pixels: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return model.features(torch.from_numpy(pixels), model.backbone.num_stages).numpy()

    return run


def over(run: Run, pixels: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([run(pixels[a : a + size]) for a in range(0, len(pixels), size)])


def by_size(run: Run, pixels: np.ndarray, rounds: int) -> dict[str, Any]:
    """Milliseconds an image by batch size, and the largest difference between batch sizes."""
    found: dict[int, np.ndarray] = {}

    def keep(size: int) -> None:
        found[size] = over(run, pixels, size)

    times = interleaved({str(size): partial(keep, size) for size in SIZES}, rounds=rounds, repeats=1)
    difference = max(float(np.abs(values - found[PICTURES]).max()) for values in found.values())
    if not difference <= TOLERANCE * max(1, float(np.abs(found[PICTURES]).max())):
        raise SystemExit(f"batch sizes differ by {difference}")
    milliseconds = {
        size: {kind.removesuffix("_s"): 1000 * value / len(pixels) for kind, value in seconds.items()}
        for size, seconds in times.items()
    }
    return {"largest_difference": difference, "milliseconds_a_picture": milliseconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    paths = sorted((arguments.data / "images").rglob("*.jpg"))[:PICTURES]
    pixels = np.stack([load(path, SIZE).numpy() for path in paths])
    torch.manual_seed(0)
    model = Model(ModelConfig(pooling="average"), [str(c) for c in range(CLASSES)], SIZE).eval()
    with tempfile.TemporaryDirectory() as folder:
        export(model, Path(folder) / "m.onnx", paths[:5])
        sides: dict[str, Run] = {
            "predict": model_scorer(model),
            "features": features_of(model),
            "onnx": OnnxModel.load(Path(folder) / "m.onnx"),
        }
        found = {name: by_size(run, pixels, arguments.rounds) for name, run in sides.items()}
    save("export", {"machine": machine(), "pictures": len(pixels), "rounds": arguments.rounds, **found})


if __name__ == "__main__":
    main()
