"""A trained run, a server process for it, and pages of a real browser that watch for errors."""

from __future__ import annotations

import secrets
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from partlabel import LabelTable, train
from partlabel.app.demo.digits import CLASSES, draw_scenes
from tests.app.review.test_process import serve
from tests.pictures import tiny_config
from tests.processes import Started, free_port

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

COUNT = 30
#: a file and two classes as no friend names them
EVIL_FILE = "<img src=x onerror=alert(1)>.png"
EVIL_CLASS = "<img src=x onerror=alert(2)>"
LONG_CLASS = "three, written by hand in blue ink on a form that was scanned at two hundred dots per inch"
NAMES = tuple({"two": EVIL_CLASS, "three": LONG_CLASS}.get(name, name) for name in CLASSES)
#: Notices go after six seconds, which a busy machine may stand still for: they stay in the tests.
NOTICES_STAY = """(() => {
  const plain = window.setTimeout.bind(window);
  window.setTimeout = (act, wait, ...rest) => plain(act, wait === 6000 ? 1e8 : wait, ...rest);
})()"""


@dataclass
class Served:
    """A server process of `partlabel review`, which can be killed and started again at the same address."""

    run: Path
    images: Path
    labels: Path
    address: str = ""
    process: Started | None = None

    def start(self) -> None:
        port = self.address.rstrip("/").rpartition(":")[2] or str(free_port())
        words = ["review", str(self.run), "--images", str(self.images), "--labels", str(self.labels), "--port", port]
        self.process = Started(serve, (words,), self.run.parent / f"said-{secrets.token_hex(4)}")
        line = self.process.hear("http://")
        self.address = line[line.index("http://") :].split()[0]

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def answers(self) -> dict[tuple[str, str], str]:
        """What lies in the file of answers, read beside the server."""
        with sqlite3.connect(f"file:{self.run}/review/answers.sqlite?mode=ro", uri=True) as connection:
            rows = connection.execute("SELECT image, class, answer FROM answers WHERE undone = 0 ORDER BY number")
            return {(image, name): answer for image, name, answer in rows}


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``pictures``, ``labels.parquet`` (some filled in by a model) and the ``run`` of a training."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "pictures").mkdir()
    scenes = draw_scenes("train", COUNT, 0)
    names = [EVIL_FILE if i == 0 else f"scene-{i:03}.png" for i in range(COUNT)]
    for name, scene in zip(names, scenes, strict=True):
        Image.fromarray(scene.pixels).save(folder / "pictures" / name)
    labels = np.stack([scene.labels() for scene in scenes]).astype(np.int8)
    random = np.random.default_rng(0)
    labels[random.random(labels.shape) < 0.7] = 0
    table = LabelTable.from_dense(names, NAMES, labels)
    train(table, folder / "pictures", out=folder / "run", config=tiny_config(optim__epochs=1))
    image, cls = np.nonzero((labels == 0) & (random.random(labels.shape) < 0.3))
    score = random.normal(size=len(image)).astype(np.float32)
    filled = table.with_labels(image, cls, np.where(score > 0, 1, -1), origin="model", score=score, round=1)
    filled.write_parquet(folder / "labels.parquet")
    with _served(folder / "run", folder):  # the first start scores the images; the copies of the run have the scores
        pass
    return folder


@contextmanager
def _served(run: Path, trained: Path) -> Iterator[Served]:
    server = Served(run, trained / "pictures", trained / "labels.parquet")
    try:
        server.start()
        yield server
    finally:
        if server.process is not None:
            server.kill()


@pytest.fixture
def server(trained: Path, tmp_path: Path) -> Iterator[Served]:
    """A server of a copy of the run, without answers."""
    shutil.copytree(trained / "run", tmp_path / "run")
    with _served(tmp_path / "run", trained) as server:
        yield server


@dataclass
class Watch:
    """What a page complained of."""

    complaints: list[str] = field(default_factory=list)
    #: messages that belong to a server that was killed on purpose
    expected: str = "\0"
    #: how often a page asked whether it may be left
    warned: int = 0

    def follow(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.complaints.append(f"error {error}"))

        def dialog(shown: Any) -> None:
            if shown.type == "beforeunload":
                self.warned += 1
            else:
                self.complaints.append(f"dialog {shown.message}")
            shown.accept()

        def console(message: Any) -> None:
            if message.type in ("error", "warning") and self.expected not in message.text:
                self.complaints.append(message.text)

        page.on("dialog", dialog)
        page.on("console", console)


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Fails the test at its end when a page it follows logged an error, or opened a dialog."""
    watch = Watch()
    yield watch
    assert watch.complaints == []


@contextmanager
def browsing(chromium: Browser, watch: Watch, **options: Any) -> Iterator[Page]:
    """A page in a browser of its own: own storage, own name."""
    context = chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    context.add_init_script(NOTICES_STAY)
    page = context.new_page()
    watch.follow(page)
    try:
        yield page
    finally:
        context.close()


@pytest.fixture
def page(chromium: Browser, watch: Watch, server: Served) -> Iterator[Page]:
    """A page that is closed before its server, so that it does not miss it."""
    with browsing(chromium, watch) as page:
        yield page
