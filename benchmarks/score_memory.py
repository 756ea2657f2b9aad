"""Peak memory of what stands behind the scores, at 1,000, 5,000 and 20,000 images of 9,605 classes.

Run ``python -m benchmarks.score_memory``, or with names of tasks to measure those alone; rows of others stay. Images
are noise (``shards`` and ``predict`` score them; for the other tasks scores are drawn and lie in shards, for ``review``
in the store that all commands share), the model has random weights, and twenty labels of each image are known. Each
task runs in a process of its own, forked from one that has imported everything; what it holds before the task
(libraries, model, label table) is given beside its peak. ``anonymous_mb`` is the peak of what is no page of a mapped
file, looked at every 20 ms: pages of the arrays on disk behind the review are the system's to drop.

All rows are of one method: memory that is freed goes back to the system at once (glibc would keep arrays of up to 32
MB, which looks like memory in use), and a table that a task reads from the run is not held twice. Results are in
``benchmarks/results/score_memory.json``.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import os
import platform
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from PIL import Image

from partlabel import LabelTable, relabel, suspects, thresholds
from partlabel.app.review.desk import Desk
from partlabel.core.files import write_json
from partlabel.images import content_hash, resolve
from partlabel.models.model import Model
from partlabel.models.score_files import ScoreFile, ScoreWriter
from partlabel.tasks.completion import complete
from partlabel.tasks.engines import predict_shards
from partlabel.tasks.evaluate import estimate
from partlabel.tasks.next_labels import ask
from partlabel.tasks.prediction_files import Keep
from partlabel.tasks.relabel import choose_of
from partlabel.tasks.scoring import model_digest, scored, scores_of, write_predictions
from partlabel.tasks.suspects import check_scores
from partlabel.training.card import write_card
from partlabel.training.config import Config, ModelConfig
from partlabel.training.folder import create_folder, write_history, write_scores
from partlabel.training.thresholds import fit_run

RESULT = Path(__file__).parent / "results" / "score_memory.json"
CLASSES, KNOWN, SIZES = 9_605, 20, (1_000, 5_000, 20_000)
#: how memory is measured; a row of another way is measured anew or dropped
METHOD = "resident peak of an own process; freed memory goes back at once; the table of a run is held once"
TASKS = (
    *("shards", "predict", "evaluate", "next", "complete"),
    *("relabel", "relabel by class", "suspects", "review", "thresholds"),
)
#: what the functions of ``partlabel`` load when they are called, so that it counts as libraries
LOADED = (choose_of, check_scores, write_card, fit_run)
#: tasks that read labels from the run
OF_RUN = ("suspects", "thresholds")


def status(name: str) -> float:
    """A number of this process in MB: ``VmHWM``, the largest resident memory so far, or ``RssAnon``, now."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


class Watch(threading.Thread):
    """Looks at the memory that is no page of a file."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.before = self.most = status("RssAnon")

    def run(self) -> None:
        while True:
            self.most = max(self.most, status("RssAnon"))
            time.sleep(0.02)


def make(folder: Path, sizes: tuple[int, ...]) -> None:
    """Images, a model, and a label table for each size."""
    (folder / "photos").mkdir(parents=True)
    random = np.random.default_rng(0)
    names = [f"{i:05}.png" for i in range(max(SIZES))]
    for name in names[: max(sizes)]:
        Image.fromarray(random.integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(folder / "photos" / name)
    torch.manual_seed(0)
    classes = [f"class {c}" for c in range(CLASSES)]
    model = Model(ModelConfig(backbone="test_resnet", weights="none"), classes, 32)
    model.save(folder / "model")
    for size in sizes:
        image = np.repeat(np.arange(size), KNOWN)
        cls = np.concatenate([random.choice(CLASSES, KNOWN, replace=False) for _ in range(size)])
        value = random.choice(np.array([-1, 1], np.int8), len(cls))
        LabelTable.from_pairs(names[:size], classes, image, cls, value).write_parquet(folder / f"{size}.parquet")
        draw(folder / f"scores-{size}", model, names[:size])


def store(folder: Path, size: int) -> None:
    """The drawn scores of a size where all commands keep theirs, each under the content of its image."""
    model = Model.load(folder / "model")
    target = folder / "review-cache" / "scores" / model_digest(model, "cpu")
    target.mkdir(parents=True, exist_ok=True)
    kind = pa.binary(32)
    for part in sorted((folder / f"scores-{size}").glob("part-*.parquet")):
        file = ScoreFile(part)
        names = file.column("image").to_pylist()
        with ScoreWriter(target / f"{size}-{part.name}", model.classes, columns={"content": kind}) as writer:
            for rows, values in file.read(np.arange(len(names)), 0, CLASSES):
                own = [names[i] for i in rows]
                hashes = pa.array([content_hash(folder / "photos" / name).encode() for name in own], kind)
                writer.add(own, values, content=hashes)


def make_run(folder: Path, size: int) -> None:
    """A run that was trained on two images and validated on the table of a size."""
    run, table, model = folder / f"run-{size}", LabelTable.read_parquet(folder / f"{size}.parquet"), folder / "model"
    create_folder(run, {"config": Config().to_dict()})
    write_history(run, [])
    both = np.ones((2, CLASSES), np.int8) * [[1], [-1]]
    LabelTable.from_dense(["t0.png", "t1.png"], table.classes, both.astype(np.int8)).write_parquet(
        run / "labels.parquet"
    )
    table.write_parquet(run / "validation.parquet")
    write_scores(
        run, table.classes, scores_of(Model.load(model), table.images, None, folder / f"scores-{size}").dense()
    )
    Model.load(model).save(run / "best")


def aside(function: Any, *arguments: Any) -> None:
    """Call a function in a process of its own, a copy of this one."""
    own = multiprocessing.get_context("fork").Process(target=function, args=arguments)
    own.start()
    own.join()
    assert own.exitcode == 0


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
    ctypes.CDLL(None).mallopt(-3, 2**17)  # M_MMAP_THRESHOLD of glibc: what is freed goes back
    torch.set_num_threads(1)
    table, model = LabelTable.read_parquet(folder / f"{size}.parquet"), Model.load(folder / "model")
    with torch.inference_mode():
        model(torch.zeros(8, 3, 32, 32, dtype=torch.uint8))
    before, watch, start, stored = status("VmHWM"), Watch(), time.time(), folder / f"scores-{size}"
    watch.start()
    names, run = table.images.to_pylist(), folder / f"run-{size}"
    more: dict[str, Any] = {}
    if name in OF_RUN:
        del table
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
    elif name == "complete":
        scores = scores_of(model, table.images, None, stored)
        complete(table, scores, table, scores)
    elif name.startswith("relabel"):
        chosen = (
            {"strategy": "class-adaptive", "theta": 0.001}
            if "class" in name
            else {"strategy": "score-threshold", "theta": 9.0}
        )
        more["added"] = relabel(folder / "model", table, scores=stored, **chosen).labels.num_known - table.num_known
    elif name == "suspects":
        more["suspects"] = len(suspects(run, scores=stored))
    elif name == "review":
        os.environ["PARTLABEL_CACHE"] = str(folder / "review-cache")
        Desk(run, table, folder / "photos")
        cache = (run / "review" / "cache").glob("*.*")
        more["index_bytes"] = sum(path.stat().st_size for path in cache if not path.name.startswith("contents-"))
        more["index_bytes_a_known_label"] = more["index_bytes"] / table.num_known
    else:
        thresholds(run, scores=stored)
    row = {
        **{"task": name, "images": size, "before_mb": before, "peak_mb": status("VmHWM")},
        **{"anonymous_before_mb": watch.before, "anonymous_mb": watch.most, "seconds": time.time() - start, **more},
    }
    (folder / "row.json").write_text(json.dumps(row), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", nargs="*", help=", ".join(TASKS))
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made, "work")
        os.environ["PARTLABEL_CACHE"] = str(Path(made, "cache"))
        aside(make, folder, chosen.sizes)
        for size in chosen.sizes:  # each forked from this process, which has started no thread of pyarrow
            aside(make_run, folder, size)
        for size in chosen.sizes:
            for name in chosen.task or TASKS:
                if name == "review":
                    aside(store, folder, size)
                aside(task, folder, name, size)
                keep(json.loads((folder / "row.json").read_text(encoding="utf-8")))


def keep(row: dict[str, Any]) -> None:
    """Put a row into the results, and the slopes that come out."""
    print(row, flush=True)
    stored = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.is_file() else {}
    stored = stored["rows"] if stored.get("method") == METHOD else []
    place = (row["task"], row["images"])
    rows = [*(other for other in stored if (other["task"], other["images"]) != place), row]
    rows.sort(key=lambda own: (TASKS.index(own["task"]), own["images"]))
    slopes = {}
    for name in TASKS:
        ends = ("anonymous_mb", "anonymous_before_mb") if name == "review" else ("peak_mb", "before_mb")
        own = {each["images"]: each for each in rows if each["task"] == name and each[ends[1]] is not None}
        beyond = {size: (each[ends[0]] - each[ends[1]]) * 2**20 for size, each in own.items()}
        slopes[name] = {f"{low}-{high}": (beyond[high] - beyond[low]) / (high - low) for low, high in pairwise(own)}
    measured = {(own["task"], own["images"]) for own in rows}
    missing = [f"{name}, {size} images" for name in TASKS for size in SIZES if (name, size) not in measured]
    result = {
        "method": METHOD,
        "not_measured": missing,
        "classes": CLASSES,
        "known_labels_of_an_image": KNOWN,
        "rows": rows,
        "bytes_an_image_beyond": slopes,
    }
    write_json(RESULT, {**result, "machine": platform.machine(), "python": platform.python_version()})


if __name__ == "__main__":
    main()
