"""The main job on real photographs: fine-tuned with all labels known, and with 10 % by BCE and partial-BCE.

    python -m experiments.main_job JOB [JOB ...] --data ../shared/data/coco-mini --out runs

Each job is one training and one evaluation on the test images; its result is
a line of ``experiments/results/main_job.jsonl``. A job that was killed goes on where it stopped; a finished one is not
run again.
"""

from __future__ import annotations

import argparse
import csv
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.store import RESULTS, Store
from partlabel import Config, LabelTable, Model, simulate, train
from partlabel.tasks.evaluate import evaluate

STORE = Store(RESULTS / "main_job.jsonl")
SEED = 0

#: frozen backbone, average pooling, a head trained by SGD, L2 that suits both proportions
FROZEN = Config.preset("small").replace(
    validation=0.0, optim__name="sgd", model__square_root=False, images__size=224, images__flip=True
)
#: fine-tuning of everything at 160 px with AdamW, from a head that was trained on the frozen backbone first
START = FROZEN.replace(images__size=160, loss__name="bce")
TUNED = START.replace(
    freeze="none",
    model__dropout=0.2,
    optim__name="adamw",
    optim__epochs=4,
    optim__batch_size=16,
    optim__learning_rate=4e-4,
    optim__weight_decay=0.05,
    optim__warmup=0.1,
)
#: the paper's setting (SGD, WELDON, batch 16, rate divided by 10 late), shortened: 128 px, 3 epochs, 3,000 images; one
#: rate for all layers, as the paper's text has it
PAPER = Config.preset("paper").replace(
    model__backbone="tf_efficientnet_lite0",
    images__size=128,
    optim__epochs=3,
    optim__step_after=[2],
    optim__learning_rate=0.01,
    optim__head_learning_rate=None,
)
PAPER_PICTURES, CHECK_PICTURES = 3000, 500


def jobs() -> dict[str, tuple[float, Config]]:
    """Name of each job -> (proportion of known labels, configuration)."""
    longer = TUNED.replace(optim__epochs=7, optim__learning_rate=2e-4)
    table: dict[str, tuple[float, Config]] = {
        "frozen-all-160px": (1.0, START),
        "finetune-all": (1.0, TUNED),
        "finetune-all-7-epochs": (1.0, longer),
    }
    for name in ("bce", "partial-bce"):
        for rate in (0.01, 0.05, 0.1):
            table[f"finetune-10-{name}-lr{rate}"] = (0.1, PAPER.replace(loss__name=name, optim__learning_rate=rate))
    return table


def tables(data: Path) -> tuple[LabelTable, LabelTable]:
    """The training and the test table of the images, every label known."""
    with open(data / "labels.csv", encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        classes = next(reader)[1:]
        rows = {row[0]: row[1:] for row in reader}
    parts = []
    for part in ("train", "test"):
        names = (data / f"{part}.txt").read_text().split()
        parts.append(LabelTable.from_dense(names, classes, np.array([rows[n] for n in names], dtype=np.int8)))
    return parts[0], parts[1]


def run_job(name: str, data: Path, out: Path) -> dict[str, Any]:
    """Train and evaluate one job, or read its result."""
    there = STORE.read()
    if name in there:
        return there[name]
    proportion, config = jobs()[name]
    if name.startswith("finetune-all"):
        run_job("frozen-all-160px", data, out)
        config = config.replace(model__weights=str(out / "frozen-all-160px"))
    known, test = tables(data)
    check = None
    if proportion < 1:  # the rate is chosen on other images of the training part
        check = known.select(slice(PAPER_PICTURES, PAPER_PICTURES + CHECK_PICTURES))
        known = simulate.partial(known.select(slice(0, PAPER_PICTURES)), proportion, SEED)
    run = out / name
    began = time.perf_counter()
    summary = train(
        known, data / "images", out=run, config=config, validation=check, resume=(run / "run.json").is_file()
    ).summary
    minutes = (time.perf_counter() - began) / 60
    model = Model.load(run, which="last")
    metrics = evaluate(model, test, images=data / "images")
    record = {
        "job": name,
        "known": proportion,
        "seed": SEED,
        "config": config.to_dict(),
        "map80": 100 * metrics.mean_ap,
        "map18": 100 * float(np.nanmean(metrics.average_precision[:18])),
        **{k: 100 * float(getattr(metrics, k)) for k in ("zero_one", "macro_f1", "micro_f1")},
        "validation": summary["last"]["validation"],
        "train_minutes": minutes,
        "epoch_seconds": summary["last"]["seconds"],
        "images_per_second": summary["last"]["images_per_second"],
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "machine": platform.processor() or platform.machine(),
    }
    STORE.add(name, record)
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="+", choices=sorted(jobs()))
    parser.add_argument("--data", type=Path, default=Path("../shared/data/coco-mini"))
    parser.add_argument("--out", type=Path, default=Path("runs"))
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for name in arguments.jobs:
        record = run_job(name, arguments.data, arguments.out)
        print(f"{name}: mAP80 {record['map80']:.2f}  mAP18 {record['map18']:.2f}  {record['train_minutes']:.1f} min")


if __name__ == "__main__":
    main()
