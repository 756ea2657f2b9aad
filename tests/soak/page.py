"""People at the page of a server that is killed, stopped, or finds its disk full: no acknowledged answer is lost."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sqlite3
import sys
import threading
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from partlabel import LabelTable
from partlabel.app.cli import main
from partlabel.app.review.app import REVIEW
from tests.disk import layer
from tests.disk.matrix import NOISE, Bench, fork

#: seconds that a server may take to start, on a machine that does much else
PATIENCE = 600


class Server:
    """``partlabel review`` in a process, with a disk that may refuse."""

    def __init__(self, bench: Bench, mode: int = layer.COUNT, at: int = 0, error: int = 0) -> None:
        assert fork is not None
        self.said = bench.base / "said-by-server"
        self.said.write_text("")
        self.process: BaseProcess = fork.Process(target=self._child, args=(bench, mode, at, error))
        self.process.start()

    def _child(self, bench: Bench, mode: int, at: int, error: int) -> None:
        target = os.open(self.said, os.O_WRONLY | os.O_APPEND)
        os.dup2(target, 1)
        os.dup2(target, 2)
        faulthandler.enable()
        bench.armed.arm(mode, at, error)
        place = bench.disk / "place"
        words = ["review", place / "run", "--labels", place / "labels.parquet", "--images", place / "photos"]
        code = main([*map(str, words), "--port", "0", "--json"])
        sys.stdout.flush()
        os._exit(code)

    def address(self) -> str | None:
        """Where it listens; None where it ended before."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            for line in self.said.read_text(errors="replace").splitlines():
                if line.startswith("{"):
                    return str(json.loads(line)["address"]).rstrip("/")
            if not self.process.is_alive():
                return None
            time.sleep(0.02)
        return None

    def stop(self, number: int) -> int | None:
        """Send a signal, and give the exit code."""
        if self.process.is_alive() and self.process.pid:
            os.kill(self.process.pid, number)
        self.process.join(PATIENCE)
        if self.process.is_alive():
            os.kill(self.process.pid or 0, signal.SIGABRT)  # it says where each of its threads stands
            self.process.join()
            return None
        return self.process.exitcode


class Person(threading.Thread):
    """A browser that answers pairs that nobody else answers, and now and then takes the last answer back."""

    def __init__(self, address: str, name: str, pairs: list[tuple[int, int]], seed: int) -> None:
        super().__init__(daemon=True)
        self._address, self._name, self._pairs = address, name, pairs
        self._rng = np.random.default_rng(seed)
        #: what the server said was on disk, and pairs of which nothing is known, as an answer of the server was lost
        self.stored: dict[tuple[str, str], str] = {}
        self.unclear: set[tuple[str, str]] = set()
        self.odd: list[str] = []

    def run(self) -> None:
        """Answer until the server is gone."""
        with httpx.Client(base_url=self._address, headers={"Origin": self._address}, timeout=PATIENCE) as browser:
            try:
                self._work(browser)
            except httpx.TransportError:
                return

    def _work(self, browser: httpx.Client) -> None:
        session = browser.get("/api/session").json()
        browser.headers[REVIEW] = session["review"]
        for number, (image, cls) in enumerate(self._pairs):
            seen = browser.get(f"/api/picture/{image}")
            if seen.status_code != 200:
                self._note(seen)
                continue
            item, name = seen.json(), session["classes"][cls]["name"]
            pair, said = (item["picture"], name), str(self._rng.choice(["yes", "no", "skip"]))
            answer = {
                "picture": pair[0],
                "class_name": name,
                "content": item["content"],
                "answer": said,
                "queue": "all",
            }
            body = {"browser": self._name, "store": session["store"], "batch": f"{self._name}-{number}"}
            self.unclear.add(pair)
            reply = browser.post("/api/answers", json={**body, "answers": [answer]})
            if reply.status_code == 200:
                self.unclear.discard(pair)
                self.stored[pair] = said
                if self._rng.random() < 0.1:
                    self._undo(browser, session, pair)
            else:
                self._note(reply)
            if self._rng.random() < 0.05:
                self._note(
                    browser.post("/api/export", json={"format": str(self._rng.choice(["parquet", "csv", "coco"]))})
                )
                self._note(browser.get(f"/thumbnail/{item['content']}/{image}"))

    def _undo(self, browser: httpx.Client, session: dict[str, Any], pair: tuple[str, str]) -> None:
        self.unclear.add(pair)
        reply = browser.post("/api/undo", json={"browser": self._name, "store": session["store"]})
        if reply.status_code == 200:
            self.unclear.discard(pair)
            del self.stored[pair]
        else:
            self._note(reply)

    def _note(self, reply: httpx.Response) -> None:
        """Every refusal is one sentence, and none is a fault of partlabel."""
        if reply.status_code in (200, 304):
            return
        try:
            text = reply.json().get("error", "")
        except ValueError:
            text = ""
        if reply.status_code == 500 or not text or NOISE.search(text):
            self.odd.append(f"{reply.status_code}: {text}")


def people(bench: Bench, rng: np.random.Generator, fault: str, mode: int, error: int, wrong: list[str]) -> None:
    """Let several people answer at once, end the server by a fault, and look at what is on disk."""
    at = int(rng.integers(5, 400)) if mode != layer.COUNT else 0
    server = Server(bench, mode, at, error)
    address = server.address()
    persons: list[Person] = []
    if address is not None:
        table = LabelTable.read_parquet(bench.disk / "place" / "labels.parquet")
        pairs = [(i, c) for i in range(table.num_images) for c in range(table.num_classes)]
        rng.shuffle(pairs)
        count = int(rng.integers(1, 6))
        persons = [Person(address, f"person {k}", pairs[k::count], int(rng.integers(2**31))) for k in range(count)]
        for person in persons:
            person.start()
        end = time.monotonic() + float(rng.uniform(0.05, 3))
        while time.monotonic() < end and server.process.is_alive() and any(p.is_alive() for p in persons):
            time.sleep(0.01)
    code = server.stop(signal.SIGKILL if fault == "killed by time" else signal.SIGTERM)
    for person in persons:
        person.join(PATIENCE)
        wrong += person.odd
    bench.armed.disarm()
    said = server.said.read_text(errors="replace")
    if code not in (0, 2, 143, -signal.SIGTERM, -signal.SIGKILL) or NOISE.search(said):
        wrong.append(f"the server ended with {code}: {said[-400:]!r}")
    _check(bench, persons, wrong)


def _check(bench: Bench, persons: list[Person], wrong: list[str]) -> None:
    """Start the server once more, on a sound disk: everything acknowledged is there, and in the exported table."""
    stored = {pair: said for person in persons for pair, said in person.stored.items()}
    unclear = {pair for person in persons for pair in person.unclear}
    server = Server(bench)
    address = server.address()
    if address is None:
        wrong.append(f"the server does not start again: {server.said.read_text(errors='replace')[-400:]!r}")
        server.stop(signal.SIGKILL)
        return
    with httpx.Client(base_url=address, headers={"Origin": address}, timeout=PATIENCE) as browser:
        browser.headers[REVIEW] = browser.get("/api/session").json()["review"]
        exported = browser.post("/api/export", json={"format": "parquet"}).json()
    if (code := server.stop(signal.SIGTERM)) not in (0, 143, -signal.SIGTERM):
        wrong.append(f"the server ended with {code} after SIGTERM")
    if "path" not in exported:
        wrong.append(f"no export: {exported}")
        return
    table = LabelTable.read_parquet(Path(exported["path"]))
    rows = sqlite3.connect(bench.disk / "place" / "run" / "review" / "answers.sqlite")
    kept = {(i, c): a for i, c, a in rows.execute("SELECT image, class, answer FROM answers WHERE undone = 0")}
    rows.close()
    lost = [pair for pair, said in stored.items() if pair not in unclear and kept.get(pair) != said]
    strange = [pair for pair in kept if pair not in stored and pair not in unclear]
    wrong += [f"{len(lost)} acknowledged answers are lost: {lost[:3]}"] if lost else []
    wrong += [f"{len(strange)} answers nobody gave: {strange[:3]}"] if strange else []
    image = table.image_index([image for image, _ in kept])
    dense, names = table.dense(), list(table.classes)
    for (_, cls), row, said in zip(kept, image.tolist(), kept.values(), strict=True):
        if said != "skip" and dense[row, names.index(cls)] != (1 if said == "yes" else -1):
            wrong.append(f"the exported table does not hold an answer about {cls}")
    review = bench.disk / "place" / "run"
    left = [str(p.relative_to(review)) for p in review.rglob(".*") if p.is_file()]
    left += [str(p) for p in review.rglob("*-wal")]
    wrong += [f"{name} is left behind" for name in left]
