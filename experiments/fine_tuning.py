"""Fine-tuning from the closed-form head: the last stages of lite0 at 288 px, all labels and a tenth of them.

    python -m experiments.fine_tuning choose --data ../shared/data/coco-mini --out runs [--threads N]
    python -m experiments.fine_tuning final NAME --data ../shared/data/coco-mini --out runs [--threads N]

``choose`` tries the settings of ``CANDIDATES`` on 6,000 of the training images, measured on the other 2,000; the test
images take no part in it. ``final`` trains on all training images with one of them and measures on the test images. The
frozen backbone with the head alone is the row ``frozen`` of both. A training that was killed goes on where it stopped;
what is finished is not computed again. Results: ``experiments/results/fine_tuning.jsonl``, with processor time, since
the machine may be shared.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.main_job import tables
from experiments.reading import Results
from experiments.rendering import table, words
from experiments.store import RESULTS, Store
from partlabel import Config, LabelTable, simulate, train
from partlabel.metrics import average_precision
from partlabel.tasks.predict import score

STORE = Store(RESULTS / "fine_tuning.jsonl")
SHARES = (1.0, 0.1)
HELD_OUT, SEED = 2000, 123

#: the head alone, on the frozen backbone
FROZEN = Config.preset("small").replace(validation=0.0)
TUNED = Config.preset("small-tuned").replace(validation=0.0)
CANDIDATES: dict[str, Config] = {
    "frozen": FROZEN,
    "tuned": TUNED,
    "rate 1e-4": TUNED.replace(optim__learning_rate=1e-4),
    "rate 1e-3": TUNED.replace(optim__learning_rate=1e-3),
    "no mixup": TUNED.replace(augment__mix="none"),
    "last stage": TUNED.replace(freeze=7),
    "partial-bce": TUNED.replace(loss__name="partial-bce"),
}


def split(table: LabelTable) -> tuple[LabelTable, LabelTable]:
    """The training images in two parts: to learn from, and to choose settings on."""
    order = np.random.default_rng(SEED).permutation(table.num_images)
    return table.select(np.sort(order[HELD_OUT:])), table.select(np.sort(order[:HELD_OUT]))


def run(what: str, name: str, share: float, data: Path, out: Path) -> dict[str, Any]:
    """Train one candidate and measure it, or read its record."""
    key = f"{what}: {name}, {100 * share:g} % known"
    there = STORE.read()
    if key in there:
        return there[key]
    train_table, measured = tables(data)
    if what == "choose":
        train_table, measured = split(train_table)
    known = train_table if share == 1 else simulate.partial(train_table, share, 0)
    folder = out / key.replace(": ", "-").replace(", ", "-").replace(" ", "-").replace("%", "percent")
    began, cpu = time.perf_counter(), time.process_time()
    resumed = (folder / "run.json").is_file()
    done = train(known, data / "images", out=folder, config=CANDIDATES[name], resume=resumed)
    minutes, cpu_minutes = (time.perf_counter() - began) / 60, (time.process_time() - cpu) / 60
    model = done.load_model("last")
    scores = score(model, [data / "images" / image for image in measured.images.to_pylist()])
    precision = average_precision(scores, measured.dense())
    record = {
        "map80": 100 * float(np.nanmean(precision)),
        "map18": 100 * float(np.nanmean(precision[:18])),
        "images_trained": known.num_images,
        "images_measured": measured.num_images,
        "train_minutes": round(minutes, 2),
        "cpu_minutes": round(cpu_minutes, 2),
        "resumed": resumed,
        "threads": torch.get_num_threads(),
        "config": CANDIDATES[name].to_dict(),
    }
    STORE.add(key, record)
    print(f"{key}: mAP80 {record['map80']:.2f}, {cpu_minutes:.1f} minutes of processor time", flush=True)
    return record


ABOUT = """Lite0 at 288 px, from the head in closed form: its last stages learn for four epochs (preset `small-tuned`;
`last stage`: one stage less; rates where another one is named), one thread, seed 0. Settings are chosen on 2,000
training images held out of 8,000 (`held out`: learned from the other 6,000); `frozen` is that head alone. Minutes are
of processor time, with the pass over the images where it was not stored."""


def render(results: Results) -> str:
    """Table of what was run."""
    del results
    rows = []
    for key, record in STORE.read().items():
        what, name, share = key.replace(": ", ", ").split(", ")
        measured = "test" if what == "final" else "held out"
        values = (f"{record[k]:.2f}" for k in ("map80", "map18"))
        rows.append((measured, name, share.removesuffix(" known"), *values, f"{record['cpu_minutes']:.1f}"))
    rows.sort(key=lambda row: (row[0], row[2], row[1]))
    header = ("images", "what learns", "labels known", "mAP80", "mAP18", "minutes")
    return f"{words(ABOUT)}\n\n{table(header, rows)}\n\n`python -m experiments.fine_tuning choose|final`."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("choose", "final"))
    parser.add_argument("names", nargs="*", help=f"of {', '.join(CANDIDATES)}; all of them where left out")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/coco-mini"))
    parser.add_argument("--out", type=Path, default=Path("runs"))
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for name in arguments.names or CANDIDATES:
        for share in SHARES:
            run(arguments.what, name, share, arguments.data, arguments.out)


if __name__ == "__main__":
    main()
