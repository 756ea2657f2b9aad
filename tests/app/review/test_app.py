"""The interface over HTTP: what it gives, and what it says about mistakes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from starlette.testclient import TestClient

from partlabel.app.review.board import TOP
from partlabel.app.review.pictures import TAG
from partlabel.app.review.views import Filter
from partlabel.labels.table import LabelTable
from tests.app.review.made import as_json


@pytest.fixture
def answer(client, desk):
    """Post answers about pairs by number."""

    def post(*pairs, said="yes", browser="me", **more):
        answers = [as_json(desk, i, c, said) for i, c in pairs]
        body = {"store": desk.store.identity, "browser": browser, "answers": answers, **more}
        return client.post("/api/answers", json=body)

    return post


@pytest.fixture
def undo(client, desk):
    def post(browser):
        return client.post("/api/undo", json={"store": desk.store.identity, "browser": browser})

    return post


def test_session(client, made):
    found = client.get("/api/session").json()
    assert (found["run"], found["pictures"], found["pairs"]) == ("run", 40, 120)
    present, absent = made.table.class_counts()
    assert [row["known"] for row in found["classes"]] == (present + absent).tolist()
    filled = np.bincount(made.table.indices[made.table.origin == 1], minlength=3)
    assert [row["filled"] for row in found["classes"]] == filled.tolist()
    assert [row["id"] for row in found["queues"]] == ["questions", "filled", "suspects", "all"]
    assert found["progress"] == {"answered": 0, "skipped": 0, "conflicts": 0, "per_hour": None, "minutes": 0.0}
    assert found["precision"] == {"present": None, "absent": None}
    assert found["formats"][:3] == ["parquet", "csv", "coco"]


def test_all_pairs_are_listed_by_probability(client, made):
    page = client.get("/api/queue", params={"queue": "all", "limit": 500}).json()
    assert page["total"] == len(page["items"]) == 120
    scores = [item["score"] for item in page["items"]]
    assert scores == sorted(scores, reverse=True)
    dense = made.table.dense()
    for item in page["items"]:
        label = dense[item["image"], item["class"]]
        assert item["value"] == {1: "present", -1: "absent", 0: None}[int(label)]
        probability = 1 / (1 + np.exp(-float(made.scores[item["image"], item["class"]])))
        assert item["score"] == pytest.approx(probability, abs=1.1 / TOP)
        assert item["picture"] == made.table.images[item["image"]].as_py()


def test_a_picture_and_its_labels(client, made):
    found = client.get("/api/picture/7").json()
    assert (found["picture"], found["width"], found["height"]) == ("007.png", 32, 24)
    assert (found["previous"], found["next"]) == (6, 8)
    assert sorted(item["class"] for item in found["labels"]) == [0, 1, 2]
    present = [item["value"] == "present" for item in found["labels"]]
    assert present == sorted(present, reverse=True)
    assert client.get("/api/picture/0").json()["previous"] is None
    assert client.get("/api/picture/39").json()["next"] is None


def test_pictures_by_name(client, made):
    found = client.get("/api/pictures", params={"search": "01", "offset": 1, "limit": 3}).json()
    assert found["total"] == 11  # 001 and 010 to 019
    assert [item["picture"] for item in found["items"]] == ["010.png", "011.png", "012.png"]
    assert found["items"][0]["known"] == int((made.table.dense()[10] != 0).sum())


def test_answers_count_conflict_and_are_taken_back(client, answer, undo):
    saved = answer((1, 0), (2, 0)).json()
    assert (saved["saved"], saved["progress"]["answered"], saved["conflicts"]) == (2, 2, [])
    other = answer((1, 0), said="no", browser="you").json()
    assert [(c["image"], c["class"]) for c in other["conflicts"]] == [(1, 0)]
    assert client.get("/api/conflicts").json()["items"] == other["conflicts"]
    assert [a["answer"] for a in other["conflicts"][0]["answers"]] == ["yes", "no"]
    exported = client.post("/api/export", json={"format": "parquet"}).json()
    assert (exported["answers"], exported["unsettled"]) == (1, 1)
    settled = answer((1, 0), said="no", browser="you", resolve=True).json()
    assert (settled["conflicts"], settled["progress"]["conflicts"]) == ([], 0)
    undone = undo("you").json()
    assert (undone["undone"][0]["conflict"], undone["progress"]["conflicts"]) == (True, 1)
    undo("you")
    assert client.get("/api/session").json()["progress"]["conflicts"] == 0
    assert undo("you").status_code == 409
    assert client.get("/api/session").json()["progress"]["answered"] == 2


def test_open_pages_leave_out_what_anyone_answered(client, answer, undo):
    ask = {"queue": "questions", "open": 1, "limit": 5}
    first = client.get("/api/queue", params=ask).json()
    answer(*[(item["image"], item["class"]) for item in first["items"][:2]])
    answer((first["items"][2]["image"], first["items"][2]["class"]), said="skip", browser="you")
    second = client.get("/api/queue", params=ask).json()
    assert second["total"] == first["total"] - 3
    assert second["items"][:2] == first["items"][3:]
    undo("you")
    assert client.get("/api/queue", params=ask).json()["items"][0] == first["items"][2]
    closed = client.get("/api/queue", params=ask | {"open": 0}).json()
    assert [item["answer"] for item in closed["items"]] == ["yes", "yes", None, None, None]
    queue = client.get("/api/session").json()["queues"][0]
    assert (queue["total"], queue["answered"]) == (first["total"], 2)


def test_a_request_sent_again_counts_once(answer, undo):
    for _ in range(2):
        assert answer((1, 1), batch="one").json()["progress"]["answered"] == 1
    undo("me")
    assert undo("me").status_code == 409


def test_answers_outlive_the_server_and_follow_the_names(answer, desk, made):
    answer((3, 2))
    other = made.table.select(np.arange(40)[::-1]).select_classes(["<b>car</b>", "dog", "cat"])
    desk.close()
    made.table = other
    again = made.open()  # the model's order of classes stays
    assert again.verdicts.keys() == {("003.png", "<b>car</b>")}
    page = again.page("all", Filter(), False, 0, 120)
    assert [(item["image"], item["class"]) for item in page["items"] if item["answer"]] == [(36, 2)]


def test_answers_about_other_tables_are_kept_aside(answer, desk, made):
    answer((3, 2))
    desk.close()
    made.table = made.table.select(slice(10, 20))
    again = made.open()
    assert again.verdicts == {}
    assert again.undo("me")["undone"] == []


@pytest.mark.parametrize(
    "query",
    ["strange=1", "queue=none", "class=3", "class=-1", "class=x", "class=1e1", "class=٣", "low=2", "low=nan", "high=x",
     "limit=0", "limit=501", "offset=-1", "offset=" + "9" * 400, "origin=me", "open=2", "value=maybe",
     "class=1&class=2", "search=" + "x" * 201],
)  # fmt: skip
def test_wrong_parameters_are_named(client, query):
    response = client.get(f"/api/queue?{query}")
    assert response.status_code == 400
    assert response.json()["error"].endswith(".")
    assert query.split("=")[0] in response.json()["error"] or "twice" in response.json()["error"]


ONE = {"picture": "000.png", "class_name": "cat", "content": "0" * TAG, "answer": "yes", "queue": "all"}


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'{"browser": "me"}', b"\xff\xfe", {"browser": "", "answers": []},
     {"browser": "", "answers": [ONE]}, {"browser": "me", "answers": []}, {"browser": "me", "answers": [ONE] * 1001},
     *({"browser": "me", "answers": [ONE | change]} for change in (
         {"answer": "maybe"}, {"queue": "none"}, {"picture": ""}, {"picture": 0}, {"picture": "x" * 5000},
         {"class_name": None}, {"content": ""}, {"content": "0" * (TAG - 1)}, {"content": "../" + "0" * (TAG - 3)},
         {"more": 1})),
     {"browser": "me", "answers": [ONE], "more": 1}],
)  # fmt: skip
def test_wrong_answers_are_refused_whole(client, body, desk):
    data = body if isinstance(body, bytes) else json.dumps({"store": desk.store.identity, **body}).encode()
    response = client.post("/api/answers", content=data, headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    assert response.json()["error"].endswith(".")
    assert desk.store.verdicts() == {}


def test_export_goes_where_the_server_says_and_nowhere_else(client, answer, desk):
    done = client.post("/api/export", json={"format": "csv"}).json()
    assert done["path"].startswith(str(desk.home))
    for wrong in ("voc", "../../x", "parquet/../../x"):
        assert client.post("/api/export", json={"format": wrong}).status_code == 400
    assert len(list(desk.home.glob("labels-*"))) == 1
    answer((0, 0))
    path = client.post("/api/export", json={"format": "parquet"}).json()["path"]
    assert LabelTable.read_parquet(path).dense()[0, 0] == 1


def test_addresses_that_are_not_there(client: TestClient):
    for response in (client.get("/nothing"), client.get("/static/nothing.js"), client.delete("/api/session")):
        assert response.status_code in (404, 405)
        assert response.json()["error"].endswith(".")
