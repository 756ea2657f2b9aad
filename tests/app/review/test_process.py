"""The command and its process: start, kill, a second server, addresses, and what is said about mistakes."""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from partlabel.app.cli import main
from partlabel.app.review import server
from partlabel.app.review.app import REVIEW
from partlabel.app.review.suspecting import PROGRAM
from tests.app.review.made import check_after_restart, wait_for
from tests.processes import Started

pytestmark = [pytest.mark.slow, pytest.mark.linux]


@pytest.fixture
def started(made):
    """The made run, after a first start: what takes long is stored."""
    made.table.write_parquet(made.run.parent / "completed.parquet")
    made.open().close()
    return made


def command(made, *words):
    labels = ["--labels", str(made.run.parent / "completed.parquet")]
    return ["review", str(made.run), "--images", str(made.images), *labels, *words]


def serve(words: list[str], first: str = "") -> None:
    """`partlabel` with these words, after some code."""
    exec(first, {})
    sys.exit(main(words))


@contextmanager
def running(made, *words, first="") -> Iterator[tuple[Started, str]]:
    """A server process and its address; ``first``: what Python does before."""
    words = [*command(made), "--port", "0", "--json", *words]
    process = Started(serve, (words, first), made.run.parent / f"said-{secrets.token_hex(4)}")
    try:
        yield process, json.loads(process.hear('"address": '))["address"]
    finally:
        process.kill()
        process.wait()


def client(address):
    base = address.split("?")[0].rstrip("/")
    return httpx.Client(base_url=base, headers={"Origin": base}, timeout=600)


def answers_of(browser, image, cls, said):
    """The body of an answer, as a page that was just loaded sends it."""
    session = browser.get("/api/session").json()
    item = browser.get(f"/api/picture/{image}", headers={REVIEW: session["review"]}).json()
    name = session["classes"][cls]["name"]
    given = {"picture": item["picture"], "class_name": name, "content": item["content"]}
    return {"store": session["store"], "answers": [{**given, "answer": said, "queue": "all"}]}


def test_a_killed_server_has_lost_no_answer_that_it_acknowledged(started):
    acknowledged: dict[tuple[str, str], str] = {}
    with running(started) as (process, address):

        def work(name: str, first: int) -> None:
            with client(address) as browser:
                for number in range(first, 40, 4):
                    for cls, class_name in enumerate(started.table.classes):
                        said = "yes" if (number + cls) % 2 else "no"
                        try:
                            body = {"browser": name, **answers_of(browser, number, cls, said)}
                            reply = browser.post("/api/answers", json=body)
                        except httpx.TransportError:
                            return
                        if reply.status_code == 200 and reply.json()["saved"] == 1:
                            acknowledged[f"{number:03}.png", class_name] = said

        threads = [threading.Thread(target=work, args=(f"browser {i}", i)) for i in range(4)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 600
        while len(acknowledged) < 20 and time.monotonic() < end:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)  # in the middle of the answers of four browsers
        for thread in threads:
            thread.join()
    assert len(acknowledged) >= 20
    check_after_restart(started, acknowledged, spare=4)  # stored, but killed before it was said


def test_a_second_server_of_a_run_is_refused_until_the_first_is_gone(started, capsys):
    with running(started) as (_, address), client(address) as browser:
        assert browser.post("/api/answers", json={"browser": "me", **answers_of(browser, 0, 0, "yes")}).is_success
        assert main(command(started, "--port", "0")) == 2
        assert browser.post("/api/answers", json={"browser": "me", **answers_of(browser, 1, 0, "no")}).is_success
        said = capsys.readouterr().err
        assert f"{started.run}: is in use by partlabel review at port " in said
        assert "since" in said
    with running(started) as (_, address), client(address) as browser:  # the lock of a killed one is gone
        assert browser.get("/api/session").json()["pictures"] == 40
        assert browser.post("/api/answers", json={"browser": "you", **answers_of(browser, 2, 0, "yes")}).is_success
    check_after_restart(started, {("000.png", "cat"): "yes", ("001.png", "cat"): "no", ("002.png", "cat"): "yes"})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_stopped_server_leaves_all_answers_in_one_file(started, number):
    with running(started) as (process, address), client(address) as browser:
        assert browser.post("/api/answers", json={"browser": "me", **answers_of(browser, 0, 0, "yes")}).is_success
        process.send_signal(number)
        process.wait(timeout=600)
    assert [path.name for path in (started.run / "review").glob("answers*")] == ["answers.sqlite"]
    with sqlite3.connect(started.run / "review" / "answers.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM answers").fetchone() == (1,)
    assert not list(started.run.glob(".lock*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("stuck", ["exporting.write", "desk.write_record"])
def test_work_that_does_not_end_holds_no_server_that_was_told_to_stop(started, number, stuck):
    """A disk that does not answer, under an export or at the very end; the answers are there at the next start."""
    limit = 1.0 if stuck == "desk.write_record" else 600.0  # an export holds a thread, but not what closes
    first = (
        "import threading; from partlabel.app.review import desk, exporting, server;"
        f"server.LIMIT, server.REST = {limit}, 0.2; server._SETTINGS['timeout_graceful_shutdown'] = 0.2;"
        f"{stuck} = lambda *_: threading.Event().wait()"
    )
    with running(started, first=first) as (process, address), client(address) as browser:
        assert browser.post("/api/answers", json={"browser": "me", **answers_of(browser, 0, 0, "yes")}).is_success
        review = {REVIEW: browser.get("/api/session").json()["review"]}
        with pytest.raises(httpx.ReadTimeout):
            browser.post("/api/export", json={"format": "csv"}, headers=review, timeout=0.5)
        process.send_signal(number)
        said = process.communicate(timeout=600)[1]
    assert process.returncode == 128 + number
    assert ("every answer that the page called saved is on disk" in said) == (stuck == "desk.write_record")
    check_after_restart(started, {("000.png", "cat"): "yes"})


def test_a_thread_that_waits_for_work_holds_no_server_that_has_closed(started):
    """As anyio leaves one now and then, where a request was cut off."""
    first = (
        "import threading; from partlabel.app.review import server; server.LIMIT, server.REST = 600.0, 0.2;"
        "threading.Thread(target=threading.Event().wait).start()"
    )
    with running(started, first=first) as (process, _):
        process.send_signal(signal.SIGTERM)
        assert "ended without" not in process.communicate(timeout=600)[1]
        assert process.returncode == 128 + signal.SIGTERM


def test_a_second_start_needs_no_torch_and_stops_at_ctrl_c(started):
    script = (
        "import sys; from partlabel.app.review import server; import pathlib;"
        "heavy = {'torch', 'timm', 'sklearn', 'matplotlib'};"
        "say = lambda addresses: print(sorted(heavy & set(sys.modules)), flush=True);"
        "run, images, labels = map(pathlib.Path, sys.argv[1:]); server.serve(run, labels, images, port=0, say=say)"
    )
    words = [str(started.run), str(started.images), str(started.run.parent / "completed.parquet")]
    process = subprocess.Popen([sys.executable, "-c", script, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "[]\n"
        process.send_signal(signal.SIGINT)
        process.wait(timeout=600)
    finally:
        process.kill()


def test_others_need_the_token_of_the_start_address(started):
    with running(started, "--host", "0.0.0.0") as (_, address):
        token = address.split("?token=")[1]
        port = address.split("?")[0].rstrip("/").rpartition(":")[2]
        with client(f"http://127.0.0.1:{port}/") as browser:
            assert browser.get("/api/session").status_code == 403
            assert browser.get(f"/?token={token}").status_code == 303
            assert browser.get("/api/session").status_code == 200
            body = {"browser": "me", **answers_of(browser, 0, 0, "yes")}
            assert browser.post("/api/answers", json=body).status_code == 200
            assert browser.get("/api/session", headers={"Host": "evil.example"}).status_code == 403


def test_by_default_only_this_machine_is_listened_to(started):
    with running(started) as (_, address):
        assert address.startswith("http://127.0.0.1:")
        assert "token" not in address


def test_a_taken_port_is_said_before_anything_else(started, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(command(started, "--port", str(taken.getsockname()[1]))) == 2
    assert "--port 0 takes a free one" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--port", "-1"], "is no address"),
        (["--port", "99999"], "is no address"),
        (["--host", "no such host"], "is no address"),
        (["--host", "203.0.113.7"], "cannot be listened at"),
    ],
)
def test_wrong_addresses(started, capsys, words, said):
    assert main(command(started, *words)) == 2
    assert said in capsys.readouterr().err


def test_no_run_no_pictures_other_labels(started, capsys, tmp_path):
    images = str(started.images)
    assert main(["review", str(tmp_path), "--images", images, "--port", "0"]) == 2
    assert "is not a run folder" in capsys.readouterr().err
    assert main(["review", str(started.run), "--images", str(tmp_path / "none"), "--port", "0"]) == 2
    assert "not a folder" in capsys.readouterr().err
    started.table.select_classes(["cat"]).write_parquet(tmp_path / "fewer.parquet")
    words = ["--images", images, "--labels", str(tmp_path / "fewer.parquet"), "--port", "0"]
    assert main(["review", str(started.run), *words]) == 2
    printed = capsys.readouterr().err
    assert "lacks 2 of the 3 classes" in printed
    assert "dog" in printed


def test_the_missing_extra_is_named(started, capsys, monkeypatch):
    found = importlib.util.find_spec
    for gone in ("starlette", "uvicorn"):
        monkeypatch.setattr(importlib.util, "find_spec", lambda name, gone=gone: None if name == gone else found(name))
        assert main(command(started, "--port", "0")) == 2
        assert f"the review page needs {gone}: pip install {gone}" in capsys.readouterr().err


def test_the_browser_is_opened_only_when_asked(monkeypatch):
    opened: list[str] = []
    monkeypatch.setattr(server.webbrowser, "open", opened.append)
    server._announce({"": "http://127.0.0.1:1/"}, lambda address: None, False)
    assert opened == []
    server._announce({"": "http://127.0.0.1:1/"}, lambda address: None, True)
    assert opened == ["http://127.0.0.1:1/"]


@pytest.mark.parametrize(
    ("host", "token", "address"),
    [
        ("127.0.0.1", None, "http://127.0.0.1:80/"),
        ("::1", None, "http://[::1]:80/"),
        ("0.0.0.0", "abc", f"http://{socket.gethostname()}:80/?token=abc"),
        ("::", "abc", f"http://{socket.gethostname()}:80/?token=abc"),
    ],
)
def test_start_addresses(host, token, address):
    assert server._address(host, 80, token) == address


def test_the_run_keeps_nothing_outside_its_folder(started):
    assert sorted(os.listdir(started.run)) == ["best", "labels.parquet", "review", "run.json"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_search_for_suspects_ends_with_the_review(started, tmp_path, number):
    here = tmp_path / "process"
    program = f"import os, pathlib; pathlib.Path({str(here)!r}).write_text(str(os.getpid())); import torch; {PROGRAM}"
    look = "suspects.check_run = lambda *given: [torch.rand(2000, 2000) @ torch.rand(2000, 2000) for _ in range(10**6)]"
    program = program.replace("import torch", f"import torch, partlabel.tasks.suspects as suspects; {look}")
    first = f"import partlabel.app.review.suspecting as one; one.PROGRAM = {program!r}"
    with running(started, first=first) as (process, address):
        with client(address) as page:
            headers = {REVIEW: page.get("/api/session").headers[REVIEW]}
            assert page.get("/api/queue", params={"queue": "suspects"}, headers=headers).status_code == 200
            wait_for(lambda: here.exists() and here.read_text())
        process.send_signal(number)
        _, said = process.communicate(timeout=600)
        assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
        assert said == ""
        state = Path(f"/proc/{here.read_text()}/stat")  # that of a process whose parent was killed may stay as a zombie
        wait_for(lambda: not state.exists() or state.read_text(encoding="utf-8").rsplit(")")[1].split()[0] == "Z")
