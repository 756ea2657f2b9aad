"""Peak memory of what stands behind the scores, at 1,000, 5,000 and 20,000 images of 9,605 classes.

Run ``python -m benchmarks.score_memory``. Images are noise (for ``shards`` and ``predict``, up to 5,000 of them; for
the other tasks scores are drawn and lie in shards), the model has random weights, and twenty labels of each image are
known. Each task runs in a process of its own; what it holds before the task begins (libraries, model, label table) is
given beside its peak. Results are in ``benchmarks/results/score_memory.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from partlabel import LabelTable
from partlabel.core.files import write_json
from partlabel.images import resolve
from partlabel.models.model import Model
from partlabel.models.scores import ScoreWriter
from partlabel.tasks.completion import complete
from partlabel.tasks.engines import predict_shards
from partlabel.tasks.evaluate import estimate
from partlabel.tasks.next_labels import ask
from partlabel.tasks.prediction_files import Keep
from partlabel.tasks.scoring import model_digest, scored, scores_of, write_predictions
from partlabel.training.config import ModelConfig

RESULT = Path(__file__).parent / "results" / "score_memory.json"
CLASSES, KNOWN, SIZES = 9_605, 20, (1_000, 5_000, 20_000)
#: images that are scored, which takes minutes
IMAGES = 5_000
TASKS = ("shards", "predict", "evaluate", "next", "complete")


def peak() -> float:
    """Largest resident memory of this process so far, in MB."""
    line = next(
        line for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM")
    )
    return int(line.split()[1]) / 1024


def make(folder: Path) -> None:
    """Images, a model, and a label table for each size."""
    (folder / "photos").mkdir(parents=True)
    random = np.random.default_rng(0)
    names = [f"{i:05}.png" for i in range(max(SIZES))]
    for name in names[:IMAGES]:
        Image.fromarray(random.integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(folder / "photos" / name)
    torch.manual_seed(0)
    classes = [f"class {c}" for c in range(CLASSES)]
    model = Model(ModelConfig(backbone="test_resnet", weights="none"), classes, 32)
    model.save(folder / "model")
    for size in SIZES:
        image = np.repeat(np.arange(size), KNOWN)
        cls = np.concatenate([random.choice(CLASSES, KNOWN, replace=False) for _ in range(size)])
        value = random.choice(np.array([-1, 1], np.int8), len(cls))
        LabelTable.from_pairs(names[:size], classes, image, cls, value).write_parquet(folder / f"{size}.parquet")
        draw(folder / f"scores-{size}", model, names[:size])


def draw(folder: Path, model: Model, names: list[str]) -> None:
    """Shards of drawn scores, as if predicted."""
    folder.mkdir()
    random, about = np.random.default_rng(0), {"model": model_digest(model, "cpu")}
    for number, low in enumerate(range(0, len(names), 5_000)):
        with ScoreWriter(folder / f"part-{number:06}.parquet", model.classes, about) as writer:
            for start in range(low, min(low + 5_000, len(names)), 250):
                writer.add(names[start : start + 250], random.normal(-2, 2, (250, CLASSES)).astype(np.float32))


def task(folder: Path, name: str, size: int) -> None:
    """Carry out one task, and say what it took."""
    torch.set_num_threads(1)
    table, model = LabelTable.read_parquet(folder / f"{size}.parquet"), Model.load(folder / "model")
    with torch.inference_mode():
        model(torch.zeros(8, 3, 32, 32, dtype=torch.uint8))
    before, start, stored = peak(), time.time(), folder / f"scores-{size}"
    names = table.images.to_pylist()
    if name == "shards":
        predict_shards(model, folder / "photos", folder / f"shards-{size}", names=names, keep=Keep())
    elif name == "predict":
        paths = resolve(table.images, folder / "photos")
        write_predictions(folder / "found.parquet", model, names, paths, Keep.of(model))
        assert scored(model, paths).shape == (size, CLASSES)
    elif name == "evaluate":
        estimate(model, table, scores=stored)
    elif name == "next":
        ask(model, table, None, 1000, stored=stored)
    else:
        scores = scores_of(model, table.images, None, stored)
        complete(table, scores, table, scores)
    row = {"task": name, "images": size, "before_mb": before, "peak_mb": peak(), "seconds": time.time() - start}
    print(json.dumps(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", nargs="*")
    chosen = parser.parse_args().task
    if chosen:
        task(Path(chosen[0]), chosen[1], int(chosen[2]))
        return
    rows = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made, "work")
        make(folder)
        variables = {**os.environ, "PARTLABEL_CACHE": str(Path(made, "cache"))}
        for size in SIZES:
            for name in TASKS:
                if name in ("shards", "predict") and size > IMAGES:
                    continue
                command = [sys.executable, "-m", "benchmarks.score_memory", str(folder), name, str(size)]
                said = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=True).stdout
                rows.append(json.loads(said.splitlines()[-1]))
                print(rows[-1], flush=True)
    slopes = {}
    for name in TASKS:
        own = {row["images"]: row for row in rows if row["task"] == name}
        beyond = {size: (row["peak_mb"] - row["before_mb"]) * 2**20 for size, row in own.items()}
        slopes[name] = {f"{low}-{high}": (beyond[high] - beyond[low]) / (high - low) for low, high in pairwise(own)}
    result = {"classes": CLASSES, "known_labels_of_an_image": KNOWN, "rows": rows, "bytes_an_image_beyond": slopes}
    write_json(RESULT, {**result, "machine": platform.machine(), "python": platform.python_version()})
    print(json.dumps(slopes, indent=1))


if __name__ == "__main__":
    main()
