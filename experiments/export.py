"""One trained classifier as a PyTorch model, as .pt2, as ONNX and as INT8 ONNX: mAP, size and time.

    python -m experiments.export --data ../shared/data/coco-mini --out runs/export

The small preset (EfficientNet-Lite0 at 224 px, frozen, average pooling) with 10 % of the labels known at random. The
ranges of the INT8 file are measured on 100 of the training images. mAP is that of the test images, every label
known, all files on the same decoded images. "Changed" counts the decisions of (image, class) pairs that differ from
the model's, at the thresholds that the training chose on its validation part. Times are processor time with one thread:
the median of 15 calls, the files taking turns. The result is ``experiments/results/export.jsonl``.
"""

from __future__ import annotations

import argparse
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.timing import interleaved, machine
from numpy.typing import NDArray

from experiments.main_job import FROZEN, tables
from experiments.store import RESULTS, Store
from partlabel import LabelTable, Model, simulate, train
from partlabel.images import ImageDataset, make_loader
from partlabel.metrics import evaluate
from partlabel.models.onnx import OnnxModel
from partlabel.tasks.export import Scorer, export, export_int8, model_scorer, open_program

STORE = Store(RESULTS / "export.jsonl")
KNOWN, CALIBRATED, COMPARED, AT_ONCE = 0.1, 100, 100, 8


def trained(folder: Path, table: LabelTable, images: Path) -> Model:
    """The model of the run, trained where it is not there."""
    if not (folder / "summary.json").is_file():
        config = FROZEN.replace(validation=0.1)
        train(
            simulate.partial(table, KNOWN, 0), images, out=folder, config=config, resume=(folder / "run.json").is_file()
        )
    return Model.load(folder)


def decoded(paths: list[Path], size: int) -> NDArray[np.uint8]:
    rows = [list(range(a, min(a + 100, len(paths)))) for a in range(0, len(paths), 100)]
    return np.concatenate([pixels.numpy() for pixels, _ in make_loader(ImageDataset(paths, size), rows, 0)])


def scores_of(scorer: Scorer, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    return np.concatenate([scorer(pixels[a : a + AT_ONCE]) for a in range(0, len(pixels), AT_ONCE)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/coco-mini"))
    parser.add_argument("--out", type=Path, default=Path("runs/export"))
    parser.add_argument("--pictures", type=int, default=1500)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    train_table, test_table = tables(arguments.data)
    images = arguments.data / "images"
    model = trained(arguments.out / "run", train_table, images)
    names = train_table.images.to_pylist()
    typical = [images / name for name in names[:CALIBRATED]]
    others = [images / name for name in names[CALIBRATED : CALIBRATED + COMPARED]]
    files = {name: arguments.out / name for name in ("model.pt2", "model.onnx", "model-int8.onnx")}
    export(model, files["model.pt2"], typical)
    export(model, files["model.onnx"], typical)
    export_int8(model, files["model-int8.onnx"], typical, others)
    sides: dict[str, Scorer] = {
        "PyTorch": model_scorer(model),
        "model.pt2": open_program(files["model.pt2"]),
        **{name: OnnxModel.load(file) for name, file in files.items() if name.endswith(".onnx")},
    }
    test = test_table.select(slice(0, arguments.pictures))
    pixels, labels = decoded([images / n for n in test.images.to_pylist()], model.preprocessing.size), test.dense()
    thresholds = np.asarray(model.thresholds, np.float32)
    rows: dict[str, dict[str, Any]] = {}
    expected: NDArray[np.float32] | None = None
    for name, side in sides.items():
        scores = scores_of(side, pixels)
        expected = scores if expected is None else expected
        found = evaluate(scores, labels, thresholds)
        rows[name] = {
            "map80": 100 * found.mean_ap,
            "micro_f1": 100 * found.micro_f1,
            "macro_f1": 100 * found.macro_f1,
            "largest_difference": float(np.abs(scores - expected).max()),
            "mean_difference": float(np.abs(scores - expected).mean()),
            "decisions_changed": int(((scores >= thresholds) != (expected >= thresholds)).sum()),
            "present": int((scores >= thresholds).sum()),
            "bytes": files[name].stat().st_size if name in files else None,
        }
        print(name, rows[name], flush=True)
    for batch in (1, 8):
        calls = {name: lambda side=side, x=pixels[:batch]: side(x) for name, side in sides.items()}
        for name, seconds in interleaved(calls, rounds=15, repeats=1).items():
            times = {kind.removesuffix("_s"): 1000 * value / batch for kind, value in seconds.items()}
            rows[name][f"milliseconds_a_picture_batch_{batch}"] = times
    setting = {
        "known": KNOWN,
        "pictures": len(pixels),
        "calibration_pictures": CALIBRATED,
        "machine": machine() | {name: version(name) for name in ("onnx", "onnxruntime", "onnxscript")},
    }
    STORE.add("setting", setting)
    for name, row in rows.items():
        STORE.add(name, row)
        times = ", ".join(f"{row[f'milliseconds_a_picture_batch_{b}']['median']:.1f}" for b in (1, 8))
        print(f"{name:18} mAP80 {row['map80']:.2f}  ms {times}  bytes {row['bytes']}")


if __name__ == "__main__":
    main()
