"""The store of answers: what is kept, taken back, judged; and what it says about a file that it cannot use."""

from __future__ import annotations

import csv
import sqlite3
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel.app.review import answers
from partlabel.app.review.answers import AnswerStore, New, StoreError
from partlabel.app.review.record import write_record
from partlabel.app.review.verdicts import Given, judge
from partlabel.core.errors import UserError
from tests.reference import review as reference

A, B = ("a.jpg", "cat"), ("b.jpg", "cat")


@pytest.fixture
def store(tmp_path):
    opened = AnswerStore(tmp_path / "answers.sqlite")
    yield opened
    opened.close()


def new(pair, answer, queue="all"):
    return New(*pair, answer, queue)


def said(store, pair):
    verdict = store.verdicts([pair])[pair]
    return None if verdict is None else (verdict.answer, verdict.conflict)


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["yes", "no", "skip"]), st.booleans()), max_size=8),
    st.randoms(),
)
def test_judging_is_the_loop(answers, random):
    listed = [Given(i, b, a, s, 0.0) for i, (b, a, s) in enumerate(answers)]  # type: ignore[arg-type]
    random.shuffle(listed)
    found = judge(listed)
    assert (None if found is None else (found.answer, found.conflict)) == reference.judge(answers)


def test_answers_are_kept_on_a_disk_that_is_waited_for(store, tmp_path):
    assert store._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    store.add("me", "1", [new(A, "yes"), new(B, "no")])
    again = AnswerStore(tmp_path / "answers.sqlite")
    assert {pair: v.answer for pair, v in again.verdicts().items() if v} == {A: "yes", B: "no"}


def test_yes_against_no_of_another_browser_is_a_conflict_until_it_is_settled(store):
    store.add("me", "1", [new(A, "yes")])
    store.add("me", "2", [new(A, "no")])
    assert said(store, A) == ("no", False)  # people correct themselves
    store.add("you", "1", [new(A, "yes")])
    assert said(store, A) == ("yes", True)
    store.add("they", "1", [new(A, "skip")])
    assert said(store, A) == ("yes", True)
    store.add("they", "2", [new(A, "no")], settle=True)
    assert said(store, A) == ("no", False)
    store.add("you", "2", [new(A, "yes")])
    assert said(store, A) == ("yes", True)
    assert store.undo("you") == [A]
    assert said(store, A) == ("no", False)
    assert store.undo("they") == [A]  # the conflict is back
    assert said(store, A) == ("yes", True)


def test_a_person_with_two_browsers_is_one_and_two_people_at_one_browser_are_two(store):
    store.add("phone", "1", [new(A, "yes"), new(B, "yes")], person="Ada")
    store.add("laptop", "1", [new(A, "no")], person="Ada")
    assert said(store, A) == ("no", False)
    store.add("phone", "2", [new(B, "no")], person="Ben")
    assert said(store, B) == ("no", True)
    verdict = store.verdicts()[B]
    assert [(given.person, given.answer) for given in verdict.counting] == [("Ada", "yes"), ("Ben", "no")]


def test_undo_takes_back_batches_of_this_browser_from_the_latest_on(store):
    store.add("me", "1", [new(A, "yes")])
    store.add("me", "2", [new(A, "no"), new(B, "skip")])
    store.add("you", "1", [new(B, "yes")])
    assert store.undo("me") == [A, B]
    assert (said(store, A), said(store, B)) == (("yes", False), ("yes", False))
    assert store.undo("me") == [A]
    assert said(store, A) is None
    assert store.undo("me") == []
    assert said(store, B) == ("yes", False)


def test_a_batch_sent_again_is_stored_once(store):
    assert store.add("me", "1", [new(A, "yes")])
    assert not store.add("me", "1", [new(A, "yes")])
    assert store.add("you", "1", [new(A, "yes")])  # a name of another browser
    assert store.undo("me") == [A]
    assert store.undo("me") == []


def test_a_batch_is_stored_whole_or_not_at_all(store):
    with pytest.raises(StoreError, match="not one of yes, no and skip"):
        store.add("me", "1", [new(A, "yes"), new(B, "maybe")])
    assert store.verdicts() == {}
    assert store.add("me", "1", [new(A, "yes")])  # the store goes on


def test_many_threads_at_once(store):
    def work(name):
        for i in range(20):
            store.add(name, str(i), [new((f"{i}.jpg", name), "yes")])

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.verdicts()) == 80


def test_pace_by_hand(store, monkeypatch):
    now = 1_000_000.0
    monkeypatch.setattr(answers.time, "time", lambda: now)
    assert store.pace("me") == answers.Pace(None, 0.0)
    store.add("me", "0", [new((f"{i}.jpg", "x"), "yes") for i in range(30)])
    assert store.pace("me").per_hour is None  # nobody knows how long these took
    for number in range(1, 7):
        now += 10
        store.add("me", str(number), [new((f"{number}.jpg", "y"), "no"), new((f"{number}.jpg", "z"), "skip")])
    assert store.pace("me").per_hour == pytest.approx(360)  # 6 labels in a minute; what is skipped is no label
    assert store.pace("me").minutes == pytest.approx(1)
    now += 400  # a pause
    store.add("me", "late", [new(A, "yes")])
    assert store.pace("me").minutes == pytest.approx(1)
    assert store.pace("you") == answers.Pace(None, 0.0)


def test_files_that_are_no_such_store_are_refused(tmp_path):
    (tmp_path / "text").write_text("this is no database, but it is longer than a header" * 20)
    with pytest.raises(UserError, match="cannot be read or written"):
        AnswerStore(tmp_path / "text")
    with pytest.raises(UserError, match="cannot be read or written"):
        AnswerStore(tmp_path / "no" / "folder")
    connection = sqlite3.connect(tmp_path / "later")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(UserError, match="newer partlabel"):
        AnswerStore(tmp_path / "later")


def test_any_damage_of_an_answer_is_noticed(store, tmp_path):
    """A bit flips anywhere in the file: it is refused, or says the same."""
    for number in range(40):
        store.add("me", str(number), [new((f"{number:03}.jpg", "cat"), "yes" if number % 2 else "no")], person="Ada")
    store.undo("me")
    sound = store.verdicts()
    store.close()
    whole = (tmp_path / "answers.sqlite").read_bytes()
    rng = np.random.default_rng(0)
    noticed = 0
    for number in range(300):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
        path = tmp_path / f"{number}.sqlite"
        path.write_bytes(damaged)
        try:
            again = AnswerStore(path)
        except UserError as error:
            noticed += "\n" not in error.message
        else:
            assert again.verdicts() == sound
            again.close()
    assert noticed > 30  # much of a small file is empty


def test_a_missing_answer_is_noticed(store, tmp_path):
    for number in range(5):
        store.add("me", str(number), [new((f"{number}.jpg", "cat"), "yes")])
    store.close()
    with sqlite3.connect(tmp_path / "answers.sqlite") as connection:
        connection.execute("DELETE FROM answers WHERE number = 3")
    connection.close()
    with pytest.raises(UserError) as caught:
        AnswerStore(tmp_path / "answers.sqlite")
    assert caught.value.offenders == ["answers 3 to 3 are missing"]


@pytest.mark.parametrize("version", [1, 2])
def test_stores_of_earlier_versions_go_on(tmp_path, version):
    connection = sqlite3.connect(tmp_path / "old.sqlite")
    connection.executescript(
        "CREATE TABLE answers (number INTEGER PRIMARY KEY, browser TEXT NOT NULL, batch TEXT NOT NULL, "
        "image TEXT NOT NULL, class TEXT NOT NULL, answer TEXT NOT NULL, queue TEXT NOT NULL, "
        "settles INTEGER NOT NULL, undone INTEGER NOT NULL DEFAULT 0, time REAL NOT NULL);"
        + (answers._CHANGES[1] if version == 2 else "")
        + "INSERT INTO answers (browser, batch, image, class, answer, queue, settles, time) "
        f"VALUES ('me', '1', 'a.jpg', 'cat', 'yes', 'all', 0, 1.0); PRAGMA user_version = {version};"
    )
    connection.close()
    for _ in range(2):  # the second time with checksums
        store = AnswerStore(tmp_path / "old.sqlite")
        verdict = store.verdicts()["a.jpg", "cat"]
        assert verdict is not None
        assert verdict.answer == "yes"
        store.close()


def test_a_locked_store_says_so(store, tmp_path):
    store._connection.execute("PRAGMA busy_timeout = 50")
    other = sqlite3.connect(tmp_path / "answers.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="another program holds the file"):
        store.add("me", "1", [new(A, "yes")])
    other.execute("ROLLBACK")
    other.close()
    assert store.add("me", "1", [new(A, "yes")])


def test_the_record_says_who_answered_what_and_when(store, tmp_path):
    store.add("b1", "1", [New("=a.jpg", "cat", "yes", "all", "c0", "given absent")], person="Ada")
    store.add("b2", "1", [New("=a.jpg", "cat", "no", "all", "c0", "given absent")], person="Ben")
    store.undo("b2")
    store.add("b2", "2", [New("=a.jpg", "cat", "skip", "all")], person="Ben")
    store.add("b3", "1", [New("=a.jpg", "cat", "no", "all")], settle=True)
    write_record(store, tmp_path / "record.csv")
    with open(tmp_path / "record.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["person"], row["before"], row["answer"], row["after"]) for row in rows] == [
        ("Ada", "given absent", "yes", "present"),
        ("Ben", "given absent", "no", "conflict"),
        ("Ben", "unknown", "skip", "present"),
        ("", "unknown", "no", "absent"),
    ]
    assert [bool(row["taken_back"]) for row in rows] == [False, True, False, False]
    assert {row["image"] for row in rows} == {"'=a.jpg"}
