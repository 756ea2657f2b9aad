"""A server among rough clients, on a store that is locked or damaged; what it acknowledged is there after a restart."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
from contextlib import ExitStack, contextmanager, suppress

import httpx
import numpy as np
import pytest

from partlabel.app.cli import main
from partlabel.app.review import security, server
from partlabel.app.review.answers import AnswerStore
from partlabel.app.review.app import REVIEW, make_app
from partlabel.app.review.desk import open_desk
from partlabel.labels.table import LabelTable
from tests.app.review.made import check_after_restart, describe, keep_scores, said
from tests.app.review.test_process import answers_of, client, command, running, started  # noqa: F401

pytestmark = [pytest.mark.slow, pytest.mark.linux]

HUGE = ("9" * 12, "9" * 30, "1" + "0" * 400, "-1", "1e9", "٣", "0x1", "%00", "NaN")


def answer(browser, name, image, value="yes"):
    """Answer a question; the pair, where that was acknowledged."""
    body = answers_of(browser, image, 0, value)
    reply = browser.post("/api/answers", json={"browser": name, **body})
    return reply, (body["answers"][0]["picture"], body["answers"][0]["class_name"])


def address_of(browser):
    return browser.base_url.host, browser.base_url.port


def silent(held, place, count, begin=b""):
    """Connections that say nothing, or the beginning of a request, and stay."""
    for _ in range(count):
        connection = held.enter_context(socket.create_connection(place, timeout=600))
        connection.sendall(begin)


@contextmanager
def many_files():
    """Let this process open 1,200 files more, or as many as the system allows."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd")) + 50
    most = 1200 + used if before[1] == resource.RLIM_INFINITY else min(1200 + used, before[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(most, before[0]), before[1]))
    yield most - used
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_rough_clients_keep_nobody_waiting_and_lose_nothing(started):  # noqa: F811
    kept = []
    patient = "from partlabel.app.review import security, server; server.FIRST_REQUEST = security.PATIENCE = 7200.0"
    with running(started, first=patient) as (process, address), client(address) as browser, ExitStack() as held:
        place, many = address_of(browser), held.enter_context(many_files()) // 3
        silent(held, place, many)
        silent(held, place, many, b"GET /api/session HTTP/1.1\r\nHost: 127")
        silent(held, place, many, b"POST /api/answers HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://127.0.0.1\r\n"
               b"Content-Length: 900000\r\n\r\n{")  # fmt: skip
        for image in range(5):  # while they all stay
            reply, pair = answer(browser, "me", image)
            assert reply.status_code == 200
            kept.append(pair)
        with client(address) as other, suppress(httpx.TransportError):  # it is closed, or said with 413 before
            found = other.post("/api/answers", content=b" " * 20_000_000, headers={"Content-Type": "application/json"})
            assert found.status_code == 413
        session = browser.get("/api/session").json()
        browser.headers[REVIEW] = session["review"]
        for text in HUGE:
            for path in (f"/api/picture/{text}", f"/photo/0/{text}", f"/thumbnail/0/{text}"):
                assert browser.get(path).status_code in (404, 400), path
            for name in ("class", "offset", "limit", "low", "high"):
                reply = browser.get("/api/queue", params={name: text})
                assert reply.status_code in (200, 400), (name, text)
        process.send_signal(signal.SIGTERM)  # among all those connections
        process.wait(timeout=600)
    check_after_restart(started, dict.fromkeys(kept, "yes"))


def test_a_locked_and_then_damaged_store_under_a_running_server(started, capsys):  # noqa: F811
    path = started.run / "review" / "answers.sqlite"
    with running(started) as (process, address), client(address) as browser:
        assert answer(browser, "me", 0)[0].status_code == 200
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        reply, _ = answer(browser, "me", 1)
        assert reply.status_code == 503
        assert "another program holds the file" in reply.json()["error"]
        other.execute("ROLLBACK")
        other.close()
        assert answer(browser, "me", 1)[0].status_code == 200
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=600)
    content = bytearray(path.read_bytes())
    content[:100] = bytes(100)
    path.write_bytes(content)
    assert main(command(started, "--port", "0")) == 2
    assert "--rescue" in capsys.readouterr().err
    with running(started, "--rescue") as (_, address), client(address) as browser:
        assert browser.get("/api/session").json()["progress"]["answered"] == 2
        assert answer(browser, "me", 2)[0].status_code == 200
    check_after_restart(started, {(f"00{image}.png", "cat"): "yes" for image in range(3)})


def test_a_table_exchanged_under_a_running_server(started):  # noqa: F811
    path = started.run.parent / "completed.parquet"
    table = LabelTable.read_parquet(path)
    with running(started) as (_, address), client(address) as browser:
        _, gone = answer(browser, "me", 0)
        table.select(np.arange(10, 40)).write_parquet(path)
        reply, pair = answer(browser, "me", 20)  # it goes on with what it shows
        assert reply.status_code == 200
        browser.headers[REVIEW] = browser.get("/api/session").json()["review"]
        exported = browser.post("/api/export", json={"format": "parquet"}).json()
        assert LabelTable.read_parquet(exported["path"]).num_images == 40
    with running(started) as (_, address), client(address) as browser:
        session = browser.get("/api/session").json()
        assert session["pictures"] == 30
        assert session["progress"]["answered"] == 1
        browser.headers[REVIEW] = session["review"]
        exported = browser.post("/api/export", json={"format": "parquet"}).json()
    now = LabelTable.read_parquet(exported["path"])
    assert now.dense()[int(now.image_index([pair[0]])[0]), list(now.classes).index(pair[1])] == 1
    store = AnswerStore(started.run / "review" / "answers.sqlite")
    assert {gone, pair} <= store.verdicts().keys()  # the answer about an image that is gone is kept for when it is back
    store.close()


@pytest.mark.parametrize("times", [(2e9, 1e9, 0.0, 1.5e9), (1.5e9, 1.5e9, 1e9, 1e9)])
def test_a_clock_that_goes_back(made, monkeypatch, times):
    desk = made.open()
    for number, now in enumerate(times):
        with monkeypatch.context() as patch:
            patch.setattr("time.time", lambda now=now: now)
            desk.answer("me", f"batch {number}", [said(desk, 0, 0, "yes" if number % 2 else "no")], False)
            assert desk.verdicts["000.png", "cat"].answer == ("yes" if number % 2 else "no")  # the later one counts
            pace = desk.store.pace("me")
        assert pace.minutes >= 0
        assert pace.per_hour is None or pace.per_hour >= 0
    desk.close()
    check_after_restart(made, {("000.png", "cat"): "yes"})
    desk = made.open()
    assert [(item["picture"], item["class_name"]) for item in desk.undo("me")["undone"]] == [("000.png", "cat")]
    desk.close()
    check_after_restart(made, {("000.png", "cat"): "no"})


def test_a_class_that_a_later_model_no_longer_has(made):
    """The answers about it are kept, and count again with a model that has it."""
    desk = made.open()
    desk.answer("me", "1", [said(desk, 3, 1, "no"), said(desk, 4, 2, "yes")], False)
    desk.close()
    whole = made.table
    made.table = whole.select_classes(["cat", "<b>car</b>"])
    describe(made.run, ["cat", "<b>car</b>"])
    keep_scores(made.run, made.table, made.scores[:, [0, 2]], made.images)
    check_after_restart(made, {("004.png", "<b>car</b>"): "yes"})
    describe(made.run, whole.classes)
    made.table = whole
    check_after_restart(made, {("003.png", "dog"): "no", ("004.png", "<b>car</b>"): "yes"})


def test_a_disk_that_fills_up(started):  # noqa: F811
    """Its files may not grow beyond what a few answers need: others are refused in words, none is half there."""
    kept = {}
    first = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))"
    with running(started, first=first) as (process, address), client(address) as browser:
        for image in range(40):
            reply, pair = answer(browser, "me", image)
            if reply.status_code != 200:
                break
            kept[pair] = "yes"
        assert (reply.status_code, bool(kept)) == (503, True)
        assert reply.json()["error"].startswith("The answers cannot be written now (the disk")
        assert answer(browser, "me", image)[0].status_code == 503  # and it goes on
        assert browser.get("/api/session").json()["progress"]["answered"] == len(kept)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=600)
    check_after_restart(started, kept)


def test_silent_connections_are_closed(started, monkeypatch):  # noqa: F811
    monkeypatch.setattr(server, "FIRST_REQUEST", 0.3)
    monkeypatch.setattr(security, "PATIENCE", 0.3)
    import threading

    import uvicorn

    desk = open_desk(started.run, None, started.images)
    ready = threading.Event()
    running_server = server._Server(
        uvicorn.Config(make_app(desk), http=server._Prompt, **server._SETTINGS), ready.set, lambda number: None
    )
    listening = server._listen("127.0.0.1", 0)
    thread = threading.Thread(target=lambda: running_server.run(sockets=[listening]))
    thread.start()
    assert ready.wait(600)
    for begin, expected in (
        (b"", b""),
        (b"GET / HTTP/1.1\r\nHost: 127", b""),
        (b"POST /api/answers HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://127.0.0.1\r\nContent-Length: 9\r\n\r\n{",
         b"HTTP/1.1 408"),
    ):  # fmt: skip
        with socket.create_connection(listening.getsockname(), timeout=600) as connection:
            connection.sendall(begin)
            reply = b""
            while part := connection.recv(65536):
                reply += part
        assert reply.startswith(expected)
        assert bool(reply) == bool(expected)
        if reply:
            assert json.loads(reply.rpartition(b"\r\n\r\n")[2])["error"] == "The request took too long."
    running_server.should_exit = True
    thread.join(600)
    assert not thread.is_alive()
    desk.close()
