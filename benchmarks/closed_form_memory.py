"""Peak memory and time of the end of a training: the closed-form head, its out-of-fold scores, and the headline.

Run ``python -m benchmarks.closed_form_memory``: images with 64 drawn features, 9,605 classes and 20 known labels of
each image, in a process of its own for each number of images. What it holds before (libraries, features, labels) is
given beside its peak. Results are in ``benchmarks/results/closed_form_memory.json``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.score_memory import Watch, status
from partlabel import LabelTable
from partlabel.core.files import write_json
from partlabel.training.columns import Columns
from partlabel.training.discriminant import Round, fit
from partlabel.training.evidence import Evidence, judge, write_out_of_fold
from partlabel.training.folder import create_folder, write_history
from partlabel.training.folds import out_of_fold
from partlabel.training.run import Run

RESULT = Path(__file__).parent / "results" / "closed_form_memory.json"
CLASSES, KNOWN, CHANNELS, SIZES = 9_605, 20, 64, (1_000, 5_000, 20_000)


def table_of(size: int) -> LabelTable:
    """Known labels drawn at random; every fourth is present."""
    random = np.random.default_rng(0)
    image = np.repeat(np.arange(size), KNOWN)
    cls = np.concatenate([random.choice(CLASSES, KNOWN, replace=False) for _ in range(size)])
    value = random.choice(np.array([-1, -1, -1, 1], np.int8), len(cls))
    names, classes = [f"{i}.png" for i in range(size)], [f"class {c}" for c in range(CLASSES)]
    return LabelTable.from_pairs(names, classes, image, cls, value)


def measure(size: int, folder: Path) -> None:
    """Solve, score, write and judge, and say what it took."""
    table = table_of(size)
    features = np.random.default_rng(1).normal(size=(size, CHANNELS)).astype(np.float32)
    before, start, watch, seconds = status("VmHWM"), time.process_time(), Watch(), {}

    def lap(name: str) -> None:
        nonlocal start
        seconds[name], start = time.process_time() - start, time.process_time()

    watch.start()
    fit(features, Columns.of_table(table))
    lap("head")
    found = out_of_fold(features, table, rounds=Round())
    lap("out_of_fold")
    create_folder(folder, {"config": {}})
    write_history(folder, [])
    table.write_parquet(folder / "labels.parquet")
    write_out_of_fold(folder, Evidence(table, found, found.scored, "out-of-fold", True))
    lap("written")
    del found
    judge(Run(folder))
    lap("judged")
    row = {"images": size, "before_mb": before, "peak_mb": status("VmHWM"), "anonymous_before_mb": watch.before}
    row |= {"anonymous_mb": watch.most, "processor_seconds": seconds}
    (folder / "row.json").write_text(json.dumps(row), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    for size in parser.parse_args().sizes:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made, "run")
            own = multiprocessing.get_context("spawn").Process(target=measure, args=(size, folder))
            own.start()
            own.join()
            assert own.exitcode == 0
            keep(json.loads((folder / "row.json").read_text(encoding="utf-8")))


def keep(row: dict[str, Any]) -> None:
    """Put a row into the results."""
    print(row, flush=True)
    stored = json.loads(RESULT.read_text(encoding="utf-8"))["rows"] if RESULT.is_file() else []
    rows = sorted(
        [*(other for other in stored if other["images"] != row["images"]), row], key=lambda own: own["images"]
    )
    about = {"classes": CLASSES, "known_labels_of_an_image": KNOWN, "features": CHANNELS}
    write_json(RESULT, {**about, "rows": rows, "machine": platform.machine(), "python": platform.python_version()})


if __name__ == "__main__":
    main()
