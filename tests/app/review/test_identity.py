"""No answer reaches another run, another image or another class, whatever the server shows by then."""

from __future__ import annotations

import os
import shutil
import sqlite3

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from partlabel.app.review.app import REVIEW, make_app
from partlabel.app.review.desk import Desk
from partlabel.app.review.scores import digest
from partlabel.app.review.views import Filter
from partlabel.core.errors import UserError
from tests.app.review.made import Made, as_json, drawn_table, keep_scores, make_run, said

BASE = "http://127.0.0.1:8000"


def browser(desk: Desk, review: str | None = None) -> TestClient:
    headers = {"Origin": BASE, REVIEW: desk.identity if review is None else review}
    return TestClient(make_app(desk), base_url=BASE, headers=headers, follow_redirects=False)


def stored(made: Made) -> list[tuple[str, str, str, str]]:
    with sqlite3.connect(made.run / "review" / "answers.sqlite") as connection:
        return connection.execute("SELECT image, class, answer, content FROM answers ORDER BY number").fetchall()


def scores_of(desk: Desk) -> np.ndarray:
    (path,) = desk.home.glob(f"cache/scores-*-{digest(desk.pictures._contents.tolist())}.npy")
    return np.load(path)


def exchange(path, shade: int) -> None:
    """Another image under the name, with the old length (as far as PNG allows) and the old time."""
    times = os.stat(path)
    Image.fromarray(np.full((24, 32, 3), shade, np.uint8)).save(path)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize("review", ["", "0" * 16, "' OR 1=1"])
def test_a_page_of_another_review_is_refused(desk, review):
    client = browser(desk, review)
    store = desk.store.identity
    for path in ("/api/queue", "/api/pictures", "/api/picture/0", "/api/conflicts"):
        assert client.get(path).status_code == 409, path
    for path, body in (("undo", {"store": store, "browser": "me"}), ("export", {"format": "csv"})):
        assert client.post(f"/api/{path}", json=body).status_code == 409, path
    session = client.get("/api/session")
    assert session.status_code == 200
    assert session.headers[REVIEW] == session.json()["review"] == desk.identity
    assert not list(desk.home.glob("labels-*"))


def test_an_answer_for_another_run_is_refused_even_for_a_copy(made, desk, tmp_path):
    client = browser(desk)
    shutil.copytree(made.run, tmp_path / "copy")
    copy = Made(tmp_path / "copy", made.images, made.table, made.scores)
    other = copy.open()
    assert other.store.identity != desk.store.identity
    body = {"store": other.store.identity, "browser": "me", "answers": [as_json(other, 0, 0, "yes")]}
    reply = client.post("/api/answers", json=body)
    assert (reply.status_code, reply.json()["error"].endswith(".")) == (409, True)
    assert stored(made) == []
    other.close()


def test_an_answer_given_before_another_table_was_shown_goes_to_its_image_and_class(made, desk):
    """The page was loaded, the server restarted with fewer images in another order: names decide, not numbers."""
    body = {"store": desk.store.identity, "browser": "me"}
    answers = [as_json(desk, image, 1, "yes") for image in (3, 15, 39)]
    desk.close()
    made.table = made.table.select(np.arange(20)[::-1])
    again = made.open()
    reply = browser(again, "an old page").post("/api/answers", json={**body, "answers": answers}).json()
    assert (reply["saved"], reply["aside"], reply["outdated"]) == (3, 1, 0)
    assert [row[0] for row in stored(made)] == ["003.png", "015.png", "039.png"]
    assert again.verdicts.keys() == {("003.png", "dog"), ("015.png", "dog")}
    again.close()


def test_addresses_of_images_are_by_content_and_never_kept_for_another(made, desk, tmp_path):
    client = browser(desk)
    good = client.get(f"/photo/{desk.pictures.content(0)}/0")
    assert good.status_code == 200
    assert "immutable" in good.headers["cache-control"]
    assert client.get(f"/photo/{desk.pictures.content(1)}/0").status_code == 404
    assert client.get("/photo/0").status_code == 404
    for number in ("99999999999", "9" * 400, "9" * 5000, "-1", "1e3", "٣", "0x1"):
        for path in (f"/photo/{desk.pictures.content(0)}/{number}", f"/api/picture/{number}"):
            assert client.get(path).status_code == 404, path


def test_an_image_exchanged_under_a_running_server_is_not_shown(made, desk):
    client = browser(desk)
    address = f"/photo/{desk.pictures.content(5)}/5"
    assert client.get(address).status_code == 200
    exchange(made.images / "005.png", 250)
    for path in (address, address.replace("photo", "thumbnail")):
        reply = client.get(path)
        assert reply.status_code == 404
        assert "005.png: was changed on disk since it was scored" in reply.json()["error"]
    os.utime(made.images / "006.png")  # only touched
    assert client.get(f"/photo/{desk.pictures.content(6)}/6").status_code == 200


def test_exchanged_images_are_scored_anew_and_old_answers_about_them_do_not_count(made, desk, monkeypatch):
    before = scores_of(desk)
    desk.answer("me", "1", [said(desk, 2, 0, "yes"), said(desk, 3, 0, "no")], False)
    desk.close()
    exchange(made.images / "002.png", 251)
    asked = []

    def score(model, paths, *args, **options):
        asked.extend(path.name for path in paths)
        return np.full((len(paths), 3), 9.0, np.float32)

    monkeypatch.setattr("partlabel.training.run.Run.model", None)
    monkeypatch.setattr("partlabel.tasks.scoring.score", score)
    again = made.open()
    assert asked == ["002.png"]
    after = scores_of(again)
    assert (after[2] == 9).all()
    rest = np.arange(40) != 2
    assert (after[rest] == before[rest]).all()
    assert again.verdicts.keys() == {("003.png", "cat")}
    assert again.outdated == ["002.png"]
    assert again.session("me")["outdated"] == {"count": 1, "first": ["002.png"]}
    again.answer("me", "2", [said(again, 2, 0, "no")], False)
    assert {pair: verdict.answer for pair, verdict in again.verdicts.items()} == {
        ("003.png", "cat"): "no",
        ("002.png", "cat"): "no",
    }
    again.close()


def test_random_servers_on_one_address_and_tabs_that_stay_open(tmp_path):
    """Each of 400 answers comes from a tab of some earlier server: it is stored for what was seen, or refused."""
    random = np.random.default_rng(0)
    runs = []
    for number in range(3):
        table, scores = drawn_table(12, seed=number)
        (tmp_path / str(number)).mkdir()
        made = make_run(tmp_path / str(number), table, scores)
        for place, name in enumerate(table.images.to_pylist()):
            exchange(made.images / name, 20 * number + place)
        keep_scores(made.run, table, scores, made.images)
        runs.append(made)
    orders = [np.arange(12), np.arange(12)[::-1], np.arange(5, 12)]
    tabs, expected, refused, desk = [], [[] for _ in runs], 0, None
    for turn in range(400):
        if turn % 20 == 0:
            if desk is not None:
                desk.close()
            which = int(random.integers(3))
            shown = Made(
                runs[which].run,
                runs[which].images,
                runs[which].table.select(orders[random.integers(3)]),
                runs[which].scores,
            )
            desk = shown.open()
            items = desk.page("all", Filter(), False, 0, 30)["items"]
            tabs.append((which, desk.store.identity, items))
        owner, store, items = tabs[random.integers(len(tabs))]
        item = items[random.integers(len(items))]
        given = {name: item[name] for name in ("picture", "class_name", "content")}
        answer = str(random.choice(["yes", "no"]))
        body = {"store": store, "browser": "me", "answers": [{**given, "answer": answer, "queue": "all"}]}
        code = browser(desk, "whatever").post("/api/answers", json=body).status_code
        assert code == (200 if owner == which else 409)
        if code == 200:
            expected[owner].append((item["picture"], item["class_name"], answer, item["content"]))
        refused += code == 409
    desk.close()
    assert refused > 100
    assert [stored(made) for made in runs] == expected
    assert sum(map(len, expected)) + refused == 400


def test_an_old_store_is_read_and_goes_on(made):
    made.open().close()
    path = made.run / "review" / "answers.sqlite"
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.executescript("""
            CREATE TABLE answers (number INTEGER PRIMARY KEY, browser TEXT NOT NULL, batch TEXT NOT NULL,
            image TEXT NOT NULL, class TEXT NOT NULL, answer TEXT NOT NULL CHECK (answer IN ('yes', 'no', 'skip')),
            queue TEXT NOT NULL, settles INTEGER NOT NULL, undone INTEGER NOT NULL DEFAULT 0, time REAL NOT NULL);
            INSERT INTO answers VALUES (1, 'me', '1', '001.png', 'cat', 'yes', 'all', 0, 0, 1.0);
            PRAGMA user_version = 1;""")
    connection.close()
    desk = made.open()
    assert desk.verdicts.keys() == {("001.png", "cat")}
    desk.answer("me", "2", [said(desk, 2, 0, "no")], False)
    label = desk.board.state(desk.board.key(2, 0))
    desk.close()
    with sqlite3.connect(path) as connection:
        (before,) = connection.execute("SELECT before FROM answers WHERE number = 2").fetchone()
    assert (before is None) == (label == 0)
    again = made.open()
    assert len(again.verdicts) == 2
    again.close()


def test_a_damaged_store_is_said(made):
    made.open().close()
    path = made.run / "review" / "answers.sqlite"
    data = bytearray(path.read_bytes())
    data[4096 : 4096 + 512] = os.urandom(512)
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"answers\.sqlite: the answers (are damaged|cannot be read or written)"):
        made.open()
