"""The review server at 20,000 images of 9,605 classes, asked by four browsers.

    python -m benchmarks.review [--pictures N --classes C] [--code OTHER/src]

Images are noise, the model has random weights; labels and scores are drawn, and the scores lie where ``predict`` keeps
them, so that none is computed. Of each image 20 labels are given and 10 filled in. The server is a process of its own
and is asked over HTTP, as a browser asks. Measured are: the first start, which makes the index; a start with that
stored, until the first answer of the server; pages of queues with and without filters, each filter asked for the first
time; the next image (its labels and the image itself), an image somewhere else, thumbnails made and kept; and answers
on disk in a second by four browsers at once. A list of one class is checked against the scores. With ``--code`` the
server is that of another version, and its numbers stand beside under ``before``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import torch
from PIL import Image

from benchmarks.timing import machine, save
from partlabel.app.review.app import REVIEW
from partlabel.app.review.pictures import TAG
from partlabel.images import content_hash
from partlabel.labels.table import LabelTable
from partlabel.models.model import Model
from partlabel.models.score_files import ScoreFile, ScoreWriter
from partlabel.models.scores import read_scores
from partlabel.tasks.scoring import model_digest
from partlabel.training.config import Config, ModelConfig
from partlabel.training.folder import create_folder, write_history

GIVEN, FILLED, BROWSERS, SECONDS, SIDE = 20, 10, 4, 10.0, 24
NAME = "{:06}.png"


def make(folder: Path, pictures: int, classes: int) -> tuple[Path, Path, Path]:
    """A run with stored scores, a label table and images."""
    random = np.random.default_rng(0)
    images, run = folder / "images", folder / "run"
    images.mkdir()
    names = [NAME.format(i) for i in range(pictures)]
    for name in names:
        Image.fromarray(random.integers(0, 255, (SIDE, SIDE, 3), dtype=np.uint8)).save(images / name)
    torch.manual_seed(0)
    titles = [f"class {i}" for i in range(classes)]
    model = Model(ModelConfig(backbone="test_resnet", weights="none"), titles, 32)
    create_folder(run, {"config": Config().to_dict()})
    write_history(run, [])
    model.save(run / "best")
    stored = folder / "cache" / "scores" / model_digest(model, "cpu")
    stored.mkdir(parents=True)
    image, cls, value, filled = (np.zeros((pictures, GIVEN + FILLED), np.int64) for _ in range(4))
    for low in range(0, pictures, 2000):
        own = names[low : low + 2000]
        with ScoreWriter(stored / f"{low}.parquet", titles, columns={"content": pa.binary(32)}) as writer:
            for start in range(0, len(own), 200):
                some = own[start : start + 200]
                scores = random.normal(-4, 2, (len(some), classes)).astype(np.float32)
                hashes = pa.array([content_hash(images / name).encode() for name in some], pa.binary(32))
                writer.add(some, scores, content=hashes)
                for row, one in enumerate(scores, low + start):
                    image[row], cls[row] = row, random.choice(classes, GIVEN + FILLED, replace=False)
                    value[row] = np.where(one[cls[row]] > -3, 1, -1)
                    filled[row, GIVEN:] = 1
    given = filled.reshape(-1) == 0
    parts = [part.reshape(-1)[given] for part in (image, cls, value)]
    table = LabelTable.from_pairs(names, titles, *parts)
    table.write_parquet(run / "labels.parquet")
    image, cls, value = (part.reshape(-1)[~given] for part in (image, cls, value))
    score = np.where(value > 0, 0.5, -0.5).astype(np.float32)
    table.with_labels(image, cls, value, origin="model", score=score, round=1).write_parquet(folder / "labels.parquet")
    return run, images, folder / "labels.parquet"


class Server:
    """The server process, until the block ends."""

    def __init__(self, run: Path, images: Path, labels: Path, code: Path) -> None:
        self._environment = {**os.environ, "PYTHONPATH": str(code), "PARTLABEL_CACHE": str(run.parent / "cache")}
        words = ["review", str(run), "--images", str(images), "--labels", str(labels), "--port", "0", "--json"]
        self._command = [sys.executable, "-m", "partlabel", *words]

    def __enter__(self) -> Server:
        began = time.perf_counter()
        self._process = subprocess.Popen(
            self._command, env=self._environment, stdout=subprocess.PIPE, text=True, cwd=self._environment["PYTHONPATH"]
        )
        assert self._process.stdout is not None
        self.address = json.loads(self._process.stdout.readline())["address"].rstrip("/")
        self.listening_s = time.perf_counter() - began
        with self.browser() as browser:
            start = time.perf_counter()
            page = browser.get("/")
            session = browser.get("/api/session")
            self.review, self.store = session.json()["review"], session.json()["store"]
            browser.headers[REVIEW] = self.review
            browser.get("/api/queue", params={"queue": "questions", "open": 1}).raise_for_status()
            self.first_page_s = time.perf_counter() - start
            self.session = session.json()
            assert page.status_code == 200
        return self

    def __exit__(self, *_: object) -> None:
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="utf-8")
        ticks = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[11:13]
        self.cpu_s = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        self.peak_mb, self.anonymous_mb = (
            int(status.split(name)[1].split()[0]) / 1024 for name in ("VmHWM:", "RssAnon:")
        )
        self._process.terminate()
        self._process.wait()

    def browser(self) -> httpx.Client:
        headers = {"Origin": self.address, REVIEW: getattr(self, "review", "")}
        return httpx.Client(base_url=self.address, headers=headers, timeout=120)


def milliseconds(ask: Callable[[Any], httpx.Response], items: Iterable[Any]) -> dict[str, float]:
    """Median and 95th percentile of the time of a request."""
    times = []
    for item in items:
        start = time.perf_counter()
        ask(item).raise_for_status()
        times.append(1000 * (time.perf_counter() - start))
    return {"p50": float(np.percentile(times, 50)), "p95": float(np.percentile(times, 95)), "requests": len(times)}


def pages(browser: httpx.Client, classes: int) -> dict[str, Any]:
    """Pages of 60 pairs."""

    def ask(queue: str, **more: Any) -> Callable[[int], httpx.Response]:
        return lambda i: browser.get(
            "/api/queue",
            params={"queue": queue, "open": 1, **{k: v(i) if callable(v) else v for k, v in more.items()}},
        )

    random = np.random.default_rng(1)
    drawn = random.permutation(classes)
    return {
        "questions": milliseconds(ask("questions", offset=lambda i: 60 * i), range(50)),
        "filled in": milliseconds(ask("filled", offset=lambda i: 60 * i), range(50)),
        "all": milliseconds(ask("all", offset=lambda i: 10_000 * i), range(50)),
        "filled in, one class": milliseconds(ask("filled", **{"class": lambda i: int(drawn[i])}), range(20)),
        "all, one class": milliseconds(ask("all", **{"class": lambda i: int(drawn[i])}), range(50)),
        "all, by score": milliseconds(ask("all", low=lambda i: 0.3 + i / 1000, high=0.7), range(50)),
        "all, one class by score and name": milliseconds(
            ask("all", low=0.1, search="12", **{"class": lambda i: int(drawn[i])}), range(50)
        ),
        "all images and classes by name (the slowest)": milliseconds(ask("all", search=lambda i: f"{i}7"), range(3)),
    }


def answering(server: Server, pictures: int, classes: int) -> dict[str, Any]:
    """Answers that four browsers store: one by one, then in batches of a grid of 24."""
    found = {}
    for size in (1, 24):
        stored, waits, end = [0] * BROWSERS, [[] for _ in range(BROWSERS)], time.perf_counter() + SECONDS

        def work(
            number: int,
            size: int = size,
            stored: list[int] = stored,
            waits: list[list[float]] = waits,
            end: float = end,
        ) -> None:
            random = np.random.default_rng([size, number])
            with server.browser() as browser:
                while time.perf_counter() < end:
                    cls = int(random.integers(classes))
                    chosen = random.choice(pictures, size, replace=False).tolist()
                    answers = [
                        {
                            "picture": NAME.format(i),
                            "class_name": f"class {cls}",
                            "content": "0" * TAG,
                            "answer": "yes",
                            "queue": "all",
                        }
                        for i in chosen
                    ]
                    start = time.perf_counter()
                    reply = browser.post(
                        "/api/answers", json={"store": server.store, "browser": f"{number}", "answers": answers}
                    )
                    waits[number].append(1000 * (time.perf_counter() - start))
                    stored[number] += reply.raise_for_status().json()["saved"]

        threads = [threading.Thread(target=work, args=(number,)) for number in range(BROWSERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        all_waits = [wait for own in waits for wait in own]
        found[f"batches of {size}"] = {
            "answers_per_second": sum(stored) / SECONDS,
            "p50_ms": float(np.percentile(all_waits, 50)),
            "p95_ms": float(np.percentile(all_waits, 95)),
        }
    return found


def check(browser: httpx.Client, folder: Path, pictures: int) -> None:
    """The list of a class holds what a plain sort of its scores gives."""
    files = sorted((folder / "cache" / "scores").glob("*/*.parquet"), key=lambda path: int(path.stem))
    scores = read_scores([ScoreFile(path) for path in files]).block(7, 8)[0].astype(np.float16).astype(np.float64)
    levels = np.rint(65535 / (1 + np.exp(-scores)))
    expected = np.lexsort((np.arange(pictures), -levels))[:60].tolist()
    page = browser.get("/api/queue", params={"queue": "all", "class": 7}).json()
    assert page["total"] == pictures
    assert [item["image"] for item in page["items"]] == expected


def measure(made: tuple[Path, Path, Path], code: Path, pictures: int, classes: int) -> dict[str, Any]:
    """All numbers of one version of the code."""
    result: dict[str, Any] = {"start": {}}
    with Server(*made, code) as server:
        result["start"]["first_s"] = server.listening_s
    result["start"]["first_cpu_s"], result["start"]["first_peak_mb"] = server.cpu_s, server.peak_mb
    cache = made[0] / "review" / "cache"
    index = sum(path.stat().st_size for path in cache.glob("*") if path.is_file() and "contents" not in path.name)
    result["start"]["index_bytes"] = index
    result["start"]["index_bytes_a_known_or_filled_label"] = index / (pictures * (GIVEN + FILLED))
    rows = []
    for _ in range(3):
        with Server(*made, code) as server:
            rows.append((server.listening_s, server.first_page_s))
    result["start"]["warm_s"], result["start"]["first_page_s"] = np.median(rows, axis=0).tolist()
    with Server(*made, code) as server, server.browser() as browser:
        check(browser, made[0].parent, pictures)
        random = np.random.default_rng(2).permutation(pictures).tolist()
        tags = {i: content_hash(made[1] / NAME.format(i))[:TAG] for i in random[:300]}
        result["labels"] = {row["id"]: row["total"] for row in server.session["queues"]}
        result["page_ms"] = pages(browser, classes)
        result["next_picture_ms"] = {
            "its labels": milliseconds(lambda i: browser.get(f"/api/picture/{i}"), range(200)),
            "labels of an image somewhere else": milliseconds(lambda i: browser.get(f"/api/picture/{i}"), random[:200]),
            "the image": milliseconds(lambda i: browser.get(f"/photo/{tags[i]}/{i}"), random[:200]),
        }
        result["thumbnail_ms"] = {
            "made": milliseconds(lambda i: browser.get(f"/thumbnail/{tags[i]}/{i}"), random[:300]),
            "kept": milliseconds(lambda i: browser.get(f"/thumbnail/{tags[i]}/{i}"), random[:300]),
        }
        result["session_ms"] = milliseconds(lambda _: browser.get("/api/session"), range(20))
        result["answers"] = answering(server, pictures, classes)
    result["peak_mb"], result["anonymous_mb_at_the_end"] = server.peak_mb, server.anonymous_mb
    result["load_of_the_machine"] = os.getloadavg()[0]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=20_000)
    parser.add_argument("--classes", type=int, default=9_605)
    parser.add_argument("--code", type=Path, help="folder src of another version")
    arguments = parser.parse_args()
    pictures, classes = arguments.pictures, arguments.classes
    path = Path(__file__).parent / "results" / "review.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    with tempfile.TemporaryDirectory() as name:
        made = make(Path(name), pictures, classes)
        own = Path(__file__).parents[1] / "src"
        found = measure(made, (arguments.code or own).resolve(), pictures, classes)
    about = {"machine": machine(), "pictures": pictures, "classes": classes, "labels_an_image": GIVEN + FILLED}
    sides = {side: kept.get(side) for side in ("before", "now")} | {"before" if arguments.code else "now": found}
    save("review", about | sides)


if __name__ == "__main__":
    main()
