"""The frozen backbone by onnxruntime against PyTorch, and the whole way from a CSV to a trained model.

    python -m benchmarks.features --images ../shared/data/coco-mini/images [--count 2000]

First part: images a second of each backbone, in batches as they come, both sides in turns in one process with one
thread, and the largest difference of their values (relative above 1). Second part: a CSV with labels drawn at random
for the first ``--count`` images becomes a label table and a run of the preset ``small``, with empty caches, once with
onnxruntime and once without; processor time of all processes, and how the scores of the two runs differ. The peer is
PyTorch, which is what runs where onnxruntime is not installed.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.timing import compare, interleaved, machine, save
from partlabel import Model
from partlabel.core.compute import inference_batch
from partlabel.images import load
from partlabel.models import compiled
from partlabel.models.config import ModelConfig
from partlabel.tasks.predict import score

#: backbone, size, weights
BACKBONES = (
    ("tf_efficientnet_lite0", 224, "auto"),
    ("tf_efficientnet_lite0", 288, "auto"),
    ("resnet50", 224, "none"),
)
LABELS, CLASSES = 1.25, 20
CHILD = (
    "import sys; from partlabel.models import compiled; from partlabel.app.cli import main; {}; sys.exit(main({!r}))"
)


def backbone(name: str, size: int, weights: str, images: list[Path]) -> dict[str, Any]:
    """Both ways on one batch of real images."""
    model = Model(ModelConfig(backbone=name, weights=weights, pooling="average"), ["a"], size).eval()
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    stage, count = model.backbone.num_stages, inference_batch("cpu")
    pixels = torch.stack([load(path, size) for path in images[:count]])
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        began = time.process_time()
        fast, _ = compiled.opened(model, stage, pixels, Path(folder))
        wrote = time.process_time() - began
        wanted, found = model.features(pixels, stage), fast(pixels)
        difference = float(((found - wanted).abs() / wanted.abs().clamp_min(1)).max())
        sides = {"PyTorch": lambda: model.features(pixels, stage), "partlabel": lambda: fast(pixels)}
        times = interleaved(sides, rounds=7, repeats=2)
    rates = {f"{side} images_per_second": count / each["lowest_s"] for side, each in times.items()}
    return {
        "backbone": name,
        "size": size,
        "batch": count,
        "largest_difference": difference,
        "seconds_to_write": wrote,
        **rates,
        **compare(times, "PyTorch"),
    }


def command(words: list[str], cache: Path, before: str = "pass") -> tuple[float, float]:
    """Run a command of partlabel with an own cache: processor time of it and its processes, and time on the clock."""
    start, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = {**os.environ, "PARTLABEL_CACHE": str(cache), "OMP_NUM_THREADS": str(torch.get_num_threads())}
    subprocess.run(
        [sys.executable, "-c", CHILD.format(before, words)], env=environment, check=True, stdout=subprocess.DEVNULL
    )
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    return end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime, time.perf_counter() - began


def job(images: Path, names: list[str], folder: Path) -> dict[str, Any]:
    """From a CSV to a trained model, both ways."""
    random = np.random.default_rng(0)
    labels = np.full(len(names) * CLASSES, "", "U2")
    chosen = random.choice(labels.size, int(LABELS * len(names)), replace=False)
    labels[chosen] = random.choice(["1", "-1"], len(chosen))
    rows = [f"{name},{','.join(row)}" for name, row in zip(names, labels.reshape(-1, CLASSES).tolist(), strict=True)]
    header = ",".join(["image", *(f"class {c}" for c in range(CLASSES))])
    (folder / "labels.csv").write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    sides = {"PyTorch": "compiled.FEWEST = 10 ** 9", "partlabel": "pass"}
    found: dict[str, Any] = {}
    for side, before in sides.items():
        table, cache, run = folder / f"{side}.parquet", folder / f"cache of {side}", folder / side
        coding = ["--coding", "1=present,-1=absent,blank=unknown"]
        importing = command(["import", "csv", str(folder / "labels.csv"), *coding, "-o", str(table)], cache)
        training = command(["train", str(table), "--images", str(images), "-o", str(run)], cache, before)
        found[side] = {
            "import_processor_s": importing[0],
            "train_processor_s": training[0],
            "processor_s": importing[0] + training[0],
            "clock_s": importing[1] + training[1],
        }
        print(side, found[side], flush=True)
    paths = [images / name for name in names[:64]]
    first, second = (score(Model.load(folder / side), paths) for side in sides)
    return {
        "images": len(names),
        "labels": len(chosen),
        **found,
        "times_faster": found["PyTorch"]["processor_s"] / found["partlabel"]["processor_s"],
        "largest_difference_of_scores": float(np.abs(first - second).max()),
        "largest_score": float(np.abs(first).max()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, default=Path("../shared/data/coco-mini/images"))
    parser.add_argument("--count", type=int, default=8000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    images = sorted(arguments.images.iterdir())
    backbones = [backbone(*each, images) for each in BACKBONES]
    print(backbones, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        whole = job(arguments.images.resolve(), [path.name for path in images[: arguments.count]], Path(folder))
    save("features", {"machine": machine(), "backbones": backbones, "from a CSV to a trained model": whole})


if __name__ == "__main__":
    main()
