"""The server, and a mirror of small archives."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from partlabel.app.download import DATASETS, fetching, sources
from tests.app.download.server import Served, Server, md5
from tests.app.download.small import COCO, DESCRIBED, NUS, ROWS, VOC


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr(fetching, "WAIT", 0.001)
    running = Server()
    thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield running
    running.go_on.set()
    running.shutdown()
    running.server_close()


@pytest.fixture
def mirror(server, monkeypatch):
    """Small archives of the same layout under the names of the real ones, with their checksums."""
    for name, files in (("voc2007", VOC), ("coco2014", COCO), ("nuswide-lists", NUS)):
        server.files |= {f"/{name}/{file}": Served(body) for file, body in files.items()}
        dataset = DATASETS[name]
        known = tuple(replace(file, md5=file.md5 and md5(files[file.name])) for file in dataset.files)
        monkeypatch.setitem(sources.DATASETS, name, replace(dataset, files=known))
    for file in DATASETS["openimages"].files:
        source = b"machine" if "machine" in file.name else b"verification"
        server.files[f"/openimages/{file.name}"] = Served(ROWS % source if file.part else DESCRIBED)
    return server
