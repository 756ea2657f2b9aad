"""Prediction of shards by many processes: how well they share the work, and what is left when they are killed.

Run ``python -m benchmarks.shards share`` (plain processes and Ray, 1 to 8 workers, or ``share ray 1 4`` for some of
them, while rows of others stay; a pretended accelerator of 50 ms an image, so that the cores of this machine do not
count) and ``python -m benchmarks.shards kill`` (50 workers killed or
stopped at random moments). The union of all shards is compared with one process, to the bit. Results are in
``benchmarks/results/shards.json``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from partlabel.core import lease
from partlabel.core.files import write_json
from partlabel.models.model import Model
from partlabel.models.score_files import ScoreFile
from partlabel.models.scores import read_scores
from partlabel.tasks import engines, shard_work
from partlabel.tasks.predict import scorer
from partlabel.training.config import ModelConfig

RESULT = Path(__file__).parent / "results" / "shards.json"
CLASSES, SIZE, IMAGES, SHARD = 20, 32, 1600, 10


@contextmanager
def throttled(model: Any, device: Any = None) -> Any:
    """The scorer of a model that takes its time."""
    pause = float(os.environ["BENCH_PAUSE"])
    with scorer(model, device) as (on, score):

        def slow(pixels: torch.Tensor) -> np.ndarray:
            time.sleep(pause * len(pixels))
            return score(pixels)

        yield on, slow


def make(folder: Path) -> None:
    """Images of noise and a random model."""
    (folder / "photos").mkdir(parents=True)
    random = np.random.default_rng(0)
    for i in range(IMAGES):
        pixels = random.integers(0, 255, (40, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "photos" / f"{i:05}.png")
    torch.manual_seed(0)
    config = ModelConfig(backbone="test_resnet", weights="none")
    Model(config, [f"c{i}" for i in range(CLASSES)], SIZE).save(folder / "model")


def worker(folder: Path, output: str) -> None:
    """One process of many; says when it worked, and on what."""
    torch.set_num_threads(1)
    lease.SILENCE, lease.SIGN, shard_work.scorer = 3.0, 0.5, throttled
    model = Model.load(folder / "model")
    print("ready", flush=True)
    start = time.time()
    done = engines.predict_shards(model, folder / "photos", folder / output, size=SHARD)
    print(json.dumps({"start": start, "end": time.time(), "shards": done.shards, "images": done.images}), flush=True)


def begin(folder: Path, output: str, pause: float) -> subprocess.Popen[str]:
    """Start a worker."""
    command = [sys.executable, "-m", "benchmarks.shards", "worker", str(folder), output]
    variables = {**os.environ, "BENCH_PAUSE": str(pause)}
    return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True, start_new_session=True)


def union(folder: Path) -> tuple[list[str], np.ndarray]:
    """All images and scores of an output, by name."""
    files = [ScoreFile(path) for path in sorted(folder.glob("part-*.parquet"))]
    names = [name for file in files for name in file.column("image").to_pylist()]
    order = np.argsort(names)
    return [names[i] for i in order], read_scores(files).dense()[order]


def share(
    folder: Path, rows: list[dict[str, Any]], names: tuple[str, ...], counts: tuple[int, ...], pause: float = 0.05
) -> list[dict[str, Any]]:
    """Time workers; efficiency is against one worker of the same engine, measured now or in the rows that are there."""
    for engine in names:
        for count in counts:
            output = f"{engine}-{count}"
            if engine == "processes":
                running = [begin(folder, output, pause) for _ in range(count)]
                said = [json.loads(own.communicate()[0].splitlines()[-1]) for own in running]
                seconds = max(row["end"] for row in said) - max(row["start"] for row in said)
            else:
                seconds = on_ray(folder, output, count, pause)
            images, scores = union(folder / output)
            first = union(folder / "first")
            same = images == first[0] and np.array_equal(scores, first[1])
            rows = [row for row in rows if (row["engine"], row["workers"]) != (engine, count)]
            rows.append({"engine": engine, "workers": count, "seconds": seconds, "equal_to_one_process": same})
            print(rows[-1], flush=True)
    for row in rows:
        alone = next(own["seconds"] for own in rows if own["engine"] == row["engine"] and own["workers"] == 1)
        row["efficiency"] = alone / row["seconds"] / row["workers"]
    return sorted(rows, key=lambda row: (row["engine"], row["workers"]))


def on_ray(folder: Path, output: str, count: int, pause: float) -> float:
    """Time shards on a local Ray; its workers are started and have opened the model before, as the processes have."""
    import ray

    os.environ["BENCH_PAUSE"] = str(pause)
    ray.init(num_cpus=count, include_dashboard=False, log_to_driver=False, object_store_memory=200 * 2**20)

    def warm(folder: Path) -> None:
        from benchmarks import shards

        engines.scorer = shards.throttled
        engines._opened.clear()
        time.sleep(3)

    ray.get([ray.remote(num_cpus=1)(warm).remote(folder) for _ in range(count)])
    before = sorted(path.name for path in (folder / "photos").iterdir())[: 4 * SHARD * count]
    name = f"before-{output}"
    engines.predict_shards(folder / "model", folder / "photos", folder / name, names=before, size=SHARD, engine="ray")
    start = time.time()
    engines.predict_shards(folder / "model", folder / "photos", folder / output, size=SHARD, engine="ray")
    seconds = time.time() - start
    ray.shutdown()
    return seconds


def kill(folder: Path, events: int = 50, pause: float = 0.1) -> dict[str, Any]:
    """Kill or stop one of at most four workers at random moments and start another, then let the rest end by itself.

    Workers are forked from this process, which has everything imported: most of them live for seconds only.
    """
    random = np.random.default_rng(0)
    running = [fork(folder, "killed", pause) for _ in range(3)]
    stopped: list[Any] = []
    counts = {"killed": 0, "stopped": 0, "went_on": 0}
    for _ in range(events):
        time.sleep(random.uniform(0.5, 2.5))
        if stopped:  # one at most stands still: it goes on, late, or ends for good
            old = stopped.pop()
            if random.random() < 0.5:
                os.kill(old.pid, signal.SIGCONT)
                running.append(old)
                counts["went_on"] += 1
            else:
                old.kill()
                old.join()
        victim = running.pop(int(random.integers(len(running))))
        if random.random() < 0.5:
            victim.kill()
            victim.join()
            counts["killed"] += 1
        else:
            os.kill(victim.pid, signal.SIGSTOP)
            stopped.append(victim)
            counts["stopped"] += 1
        done = len(list((folder / "killed").glob("part-*.parquet")))
        print(f"{counts}, {done} of {IMAGES // SHARD} shards", flush=True)
        running += [fork(folder, "killed", pause) for _ in range(3 - len(running))]
    before = len(list((folder / "killed").glob("part-*.parquet")))
    start = time.time()
    for own in running:
        own.join()
    ended = time.time() - start
    for old in stopped:
        os.kill(old.pid, signal.SIGCONT)  # it finds all done, and ends
        old.join()
    codes = sorted({own.exitcode for own in (*running, *stopped)})
    names, scores = union(folder / "killed")
    expected = union(folder / "first")
    left = [path.name for path in (folder / "killed").iterdir() if not path.name.endswith(".parquet")]
    return {
        **counts,
        "shards": IMAGES // SHARD,
        "shards_done_before_the_last": before,
        "images": len(names),
        "each_exactly_once": names == expected[0],
        "equal_to_one_process": bool(np.array_equal(scores, expected[1])),
        "left_behind": left,
        "exit_codes": codes,
        "seconds_after_the_last": ended,
    }


def fork(folder: Path, output: str, pause: float) -> Any:
    """Start a worker as a copy of this process."""
    os.environ["BENCH_PAUSE"] = str(pause)
    own = multiprocessing.get_context("fork").Process(target=worker, args=(folder, output))
    own.start()
    return own


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("share", "kill", "worker"))
    parser.add_argument("rest", nargs="*")
    chosen = parser.parse_args()
    if chosen.what == "worker":
        worker(Path(chosen.rest[0]), chosen.rest[1])
        return
    result = json.loads(RESULT.read_text()) if RESULT.is_file() else {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made, "work")
        make(folder)
        torch.set_num_threads(1)
        fork(folder, "first", 0.0).join()
        if chosen.what == "share":
            own = tuple(name for name in chosen.rest if not name.isdigit()) or ("processes", "ray")
            counts = tuple(int(count) for count in chosen.rest if count.isdigit()) or (1, 2, 4, 8)
            result["share"] = share(folder, result.get("share", []), own, counts)
        else:
            result["kill"] = kill(folder)
            print(result["kill"])
    write_json(RESULT, result)


if __name__ == "__main__":
    main()
