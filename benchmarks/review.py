"""The review server under load: 100,000 images, 600 classes, four browsers.

    python -m benchmarks.review --data ../shared/data/coco-mini [--pictures N --classes C]

The names are made up and share real photographs by hard links; scores and labels are drawn. The server is a process of
its own and is asked over HTTP, as a browser asks. Measured are: the first start, which sorts all pairs; a start with
that stored, until the first answer of the server; pages of queues with and without filters, each filter asked for the
first time; the next image (its labels and the image itself), thumbnails made and kept; and answers on disk in a
second by four browsers at once. Each list of questions is checked against the arrays.
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

from benchmarks.timing import machine, save
from partlabel.app.review.app import REVIEW
from partlabel.app.review.pictures import TAG
from partlabel.app.review.scores import DESCRIPTION, WEIGHTS, Judge, digest, half, store_scores
from partlabel.images import content_hash
from partlabel.labels.table import LabelTable

KNOWN, FILLED, BROWSERS, SECONDS = 0.01, 0.03, 4, 10.0


def make(folder: Path, data: Path, pictures: int, classes: int) -> tuple[Path, Path, Path]:
    """A run with scores, a label table and images."""
    random = np.random.default_rng(0)
    photos, images, run = sorted((data / "images").glob("*.jpg")), folder / "images", folder / "run"
    (run / "best").mkdir(parents=True)
    (run / "review" / "cache").mkdir(parents=True)
    images.mkdir()
    names = [f"{i:06}.jpg" for i in range(pictures)]
    copies = folder / "photos"
    copies.mkdir()
    own = []
    for photo in photos[:2000]:
        own.append(copies / photo.name)
        own[-1].write_bytes(photo.read_bytes())
    for number, name in enumerate(names):
        os.link(own[number % len(own)], images / name)
    scores = random.normal(-4, 2, (pictures, classes)).astype(np.float32)
    chance = random.random((pictures, classes), np.float32)
    image, cls = np.nonzero(chance < KNOWN)
    titles = [f"class {i}" for i in range(classes)]
    table = LabelTable.from_pairs(names, titles, image, cls, np.where(scores[image, cls] > -3, 1, -1))
    image, cls = np.nonzero((chance >= KNOWN) & (chance < KNOWN + FILLED))
    score = scores[image, cls]
    table = table.with_labels(image, cls, np.where(score > 0, 1, -1), origin="model", score=score, round=1)
    table.write_parquet(folder / "labels.parquet")
    (run / "run.json").write_text("{}")
    (run / WEIGHTS).write_bytes(b"drawn")
    (run / DESCRIPTION).write_text(f"classes = {json.dumps(titles)}\nthresholds = {[0.0] * classes}\n")
    judge = Judge.of_run(run)
    hashes = np.array([content_hash(path) for path in own], "S32")
    contents = hashes[np.arange(pictures) % len(own)]
    name = f"scores-{digest(judge.weights, judge.classes)}-{digest(contents.tolist())}.npy"
    store_scores(run / "review" / "cache" / name, contents, half(scores))
    return run, images, folder / "labels.parquet"


class Server:
    """The server process, until the block ends."""

    def __init__(self, run: Path, images: Path, labels: Path) -> None:
        words = ["review", str(run), "--images", str(images), "--labels", str(labels), "--port", "0", "--json"]
        self._command = [sys.executable, "-m", "partlabel", *words]

    def __enter__(self) -> Server:
        began = time.perf_counter()
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
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
        self.peak_mb = int(status.split("VmHWM:")[1].split()[0]) / 1024
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
                            "picture": f"{i:06}.jpg",
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


def check(browser: httpx.Client, run: Path, pictures: int) -> None:
    """The pages hold what a plain sort of the scores gives."""
    (path,) = (run / "review" / "cache").glob("levels-*.npy")
    levels = np.load(path, mmap_mode="r")
    column = levels[7].astype(int)
    expected = np.lexsort((np.arange(pictures), -column))[:60].tolist()
    page = browser.get("/api/queue", params={"queue": "all", "class": 7}).json()
    assert [item["image"] for item in page["items"]] == expected
    page = browser.get("/api/queue", params={"queue": "all", "low": 0.25, "high": 0.75}).json()
    assert page["total"] == int(((levels >= np.ceil(0.25 * 65535)) & (levels <= np.floor(0.75 * 65535))).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/coco-mini"))
    parser.add_argument("--pictures", type=int, default=100_000)
    parser.add_argument("--classes", type=int, default=600)
    arguments = parser.parse_args()
    pictures, classes = arguments.pictures, arguments.classes
    with tempfile.TemporaryDirectory() as name:
        made = make(Path(name), arguments.data, pictures, classes)
        result: dict[str, Any] = {"machine": machine(), "pictures": pictures, "classes": classes, "start": {}}
        with Server(*made) as server:
            result["start"]["first_s"] = server.listening_s
        result["start"]["first_peak_mb"] = server.peak_mb
        rows = []
        for _ in range(3):
            with Server(*made) as server:
                rows.append((server.listening_s, server.first_page_s))
        result["start"]["warm_s"], result["start"]["first_page_s"] = np.median(rows, axis=0).tolist()
        with Server(*made) as server, server.browser() as browser:
            check(browser, made[0], pictures)
            random = np.random.default_rng(2).permutation(pictures).tolist()
            tags = {i: content_hash(made[1] / f"{i:06}.jpg")[:TAG] for i in random[:300]}
            result["labels"] = {row["id"]: row["total"] for row in server.session["queues"]}
            result["page_ms"] = pages(browser, classes)
            result["next_picture_ms"] = {
                "its labels": milliseconds(lambda i: browser.get(f"/api/picture/{i}"), random[:200]),
                "the image": milliseconds(lambda i: browser.get(f"/photo/{tags[i]}/{i}"), random[:200]),
            }
            result["thumbnail_ms"] = {
                "made": milliseconds(lambda i: browser.get(f"/thumbnail/{tags[i]}/{i}"), random[:300]),
                "kept": milliseconds(lambda i: browser.get(f"/thumbnail/{tags[i]}/{i}"), random[:300]),
            }
            result["session_ms"] = milliseconds(lambda _: browser.get("/api/session"), range(20))
            result["answers"] = answering(server, pictures, classes)
        result["peak_mb"] = server.peak_mb
        result["load_of_the_machine"] = os.getloadavg()[0]
    save("review", result)


if __name__ == "__main__":
    main()
