"""What is asked in which order, against loops and by hand."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel.app.review import queues, suspecting
from partlabel.app.review.board import TOP, state
from partlabel.app.review.queues import in_turns, mix
from partlabel.app.review.suspecting import AT_WORK, NOT_YET
from partlabel.app.review.views import Filter
from partlabel.core.files import cache_folder
from partlabel.labels.table import LabelTable
from tests.app.review.made import drawn_table, make_run, wait_for
from tests.reference import review as reference


@settings(max_examples=60)
@given(st.lists(st.integers(0, 4), max_size=40), st.integers(1, 6))
def test_turns_are_the_loop(cls, together):
    assert in_turns(np.array(cls, np.int64), together).tolist() == reference.in_turns(cls, together)


@settings(max_examples=60)
@given(st.permutations(range(30)), st.integers(0, 30), st.integers(0, 30), st.integers(2, 6))
def test_mixing_is_the_loop(order, count, sample, every):
    ranked = np.array(order[:count], np.int64)
    drawn = np.random.default_rng(0).permutation(ranked)[:sample]
    found = mix(ranked, drawn, every).tolist()
    assert found == reference.mix(ranked.tolist(), drawn.tolist(), every)
    assert sorted(found) == sorted(ranked.tolist())


def test_filled_in_labels_by_hand(tmp_path, monkeypatch):
    monkeypatch.setattr(queues, "SAMPLE", 1)
    table = LabelTable.from_dense([f"{i:02}.png" for i in range(12)], ["x"], np.zeros((12, 1), np.int8))
    scores = np.array([3, 2, 0.5, 5, 7, 1, -1, -4, -2, -6, -0.2, -8], np.float32)[:, None]
    table = table.with_labels(range(12), [0] * 12, np.where(scores[:, 0] > 0, 1, -1), origin="model")
    board = make_run(tmp_path, table, scores).open().board
    keys, sample = queues.filled(board, table, tmp_path / "filled.npy")
    drawn = {name: int(part[0]) for name, part in sample.items()}
    assert drawn["present"] < 6 <= drawn["absent"]
    for name, ranked in (("present", [2, 5, 1, 0, 3, 4]), ("absent", [10, 6, 8, 7, 9, 11])):  # by the size of the score
        rest = [i for i in ranked if i != drawn[name]]
        own = [i for i in keys.tolist() if i in ranked]
        assert own == [*rest[:4], drawn[name], *rest[4:]]
    size = [abs(float(scores[i, 0])) for i in keys if i not in drawn.values()]
    assert size == sorted(size)


def test_the_sample_is_a_random_sample(tmp_path, monkeypatch):
    """Each label that the model filled in is as likely to be in it as any other, whatever its score."""
    monkeypatch.setattr(queues, "SAMPLE", 500)
    scores = np.linspace(0.1, 6, 2000, dtype=np.float32)[:, None]
    table = LabelTable.from_dense([str(i) for i in range(2000)], ["x"], np.zeros((2000, 1), np.int8))
    table = table.with_labels(range(2000), [0] * 2000, [1] * 2000, origin="model")
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in table.images.to_pylist():
        (folder / name).touch()
    board = make_run(tmp_path, table, scores, folder).open().board
    keys, sample = queues.filled(board, table, tmp_path / "filled.npy")
    quarters = np.bincount(sample["present"] // 500, minlength=4)
    assert quarters.sum() == 500
    assert quarters.min() > 90  # 125 expected, with a deviation of 8
    assert np.isin(np.asarray(keys[:2500])[4::5][:400], sample["present"]).all()


def test_questions_are_about_pairs_that_no_person_knows(made, desk):
    asked = np.asarray(desk._bases["questions"].keys)
    known = made.table.without_origin("model").dense().T.reshape(-1)
    assert len(asked)
    assert not known[asked].any()
    assert len(set(asked.tolist())) == len(asked)
    cls = asked // 40
    present, absent = made.table.without_origin("model").class_counts()
    need = np.lexsort((present + absent, np.minimum(present, absent)))  # who knows least of its rarer sign, first
    assert cls[: queues.TOGETHER].tolist() == [need[0]] * queues.TOGETHER
    assert cls[queues.TOGETHER] == need[1]
    levels = desk.board.levels_of(asked[: queues.TOGETHER]).astype(float) / TOP
    assert (np.diff(np.abs(np.log(levels / (1 - levels)))) >= -0.01).all()  # the thresholds are 0


def test_nothing_is_asked_where_all_is_known(tmp_path):
    table, scores = drawn_table(6)
    whole = LabelTable.from_dense(table.images, table.classes, np.ones((6, 3), np.int8))
    desk = make_run(tmp_path, whole, scores).open()
    queue = {row["id"]: row for row in desk.session(None)["queues"]}
    assert (queue["questions"]["total"], queue["filled"]["total"], queue["all"]["total"]) == (0, 0, 18)
    assert queue["questions"]["reason"].startswith("People have answered every question")
    assert "--labels" in queue["filled"]["reason"]


def test_a_second_start_computes_nothing(made, monkeypatch):
    first = made.open()
    first.close()
    monkeypatch.setattr("partlabel.tasks.next_labels.choose", None)
    monkeypatch.setattr(queues, "mix", None)
    second = made.open()
    assert second.page("questions", Filter(), False, 0, 9) == first.page("questions", Filter(), False, 0, 9)


def reason(desk):
    return desk.session(None)["queues"][2]["reason"]


FOUND = """
import numpy as np
import partlabel.tasks.suspects as suspects
from partlabel.app.review.suspecting import look
def check(run, table, images):
    given = table.without_origin("model")
    at = given.pair_images()[:3], given.indices[:3].astype(np.int64)
    return suspects.Checked(suspects.Suspects(*at, given.values[:3], np.full(3, 0.9), 10, ()), given, [], False)
suspects.check_run = check
"""


@pytest.mark.slow
def test_suspects_are_looked_for_when_they_are_first_asked_for_and_kept(made, desk, monkeypatch, tmp_path):
    given = made.table.without_origin("model")
    go = tmp_path / "go"
    waiting = f"import pathlib, time\nwhile not pathlib.Path({str(go)!r}).exists():\n    time.sleep(0.01)\n"
    monkeypatch.setattr(suspecting, "PROGRAM", f"{FOUND}\n{waiting}look()")
    assert reason(desk) == NOT_YET
    assert desk.page("suspects", Filter(), False, 0, 9)["total"] == 0
    assert reason(desk) == AT_WORK
    go.touch()
    wait_for(lambda: reason(desk) != AT_WORK)
    assert reason(desk) is None
    page = desk.page("suspects", Filter(), False, 0, 9)
    at = given.pair_images()[:3], given.indices[:3].astype(np.int64)
    assert [(item["image"], item["class"]) for item in page["items"]] == [*zip(*(a.tolist() for a in at), strict=True)]
    assert {item["origin"] for item in page["items"]} == {"given"}
    monkeypatch.setattr(suspecting, "PROGRAM", "raise SystemExit(1)")
    again = made.open()
    assert again.page("suspects", Filter(), False, 0, 9) == page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "said"),
    [
        (suspecting.PROGRAM, "config.toml: cannot be read"),  # the made run has no settings of a training
        ("import os; os.abort()", f"{'ended the search' if os.name == 'posix' else 'status 3'}; see "),
        ("import sys; sys.stdin.buffer.read(9); print('library')", "the search broke off with status 0; see "),
        ("raise KeyError('odd')", "the search broke off with status 1; see "),
    ],
)
def test_why_there_are_no_suspects_is_said(desk, monkeypatch, tmp_path, program, said):
    """Wherever the review was started, and whatever was put into the path, which Python passes over."""
    (tmp_path / "queue.py").write_text("raise SystemExit('a module of somebody else')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, tmp_path])
    monkeypatch.setattr(suspecting, "PROGRAM", program)
    desk.page("suspects", Filter(), False, 0, 9)
    wait_for(lambda: reason(desk) not in (NOT_YET, AT_WORK))
    assert reason(desk).startswith("Suspects cannot be found: ")
    assert said in reason(desk)
    if "KeyError" in program:
        assert "KeyError: 'odd'" in Path(reason(desk).split("see ")[1].rstrip(".")).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("executable", "said"), [(None, "where its own program is"), ("gone", "Suspects cannot be found: ")]
)
def test_a_search_that_cannot_be_started_is_said(desk, monkeypatch, executable, said):
    monkeypatch.setattr(suspecting, "get_executable", lambda: executable)
    desk.page("suspects", Filter(), False, 0, 9)
    wait_for(lambda: reason(desk) not in (NOT_YET, AT_WORK))
    assert said in reason(desk)


def test_a_task_that_cannot_be_sent_is_said(desk, monkeypatch):
    monkeypatch.setattr(desk.suspecting, "_task", (lambda: None,))
    desk.page("suspects", Filter(), False, 0, 9)
    wait_for(lambda: reason(desk) not in (NOT_YET, AT_WORK))
    assert "by a fault of partlabel; see " in reason(desk)
    assert desk.suspecting._process.returncode is not None


@pytest.mark.slow
def test_the_search_ends_with_the_review(desk, monkeypatch):
    """And nobody takes that for a fault."""
    kept = sorted((cache_folder() / "errors").glob("*"))
    monkeypatch.setattr(suspecting, "PROGRAM", "import time; time.sleep(600)")
    desk.page("suspects", Filter(), False, 0, 9)
    wait_for(lambda: desk.suspecting._process is not None)
    desk.close()
    assert desk.suspecting._process.returncode != 0
    wait_for(lambda: reason(desk) != AT_WORK)
    assert "the review has ended" in reason(desk)
    assert sorted((cache_folder() / "errors").glob("*")) == kept


def test_states_of_the_model(desk, made):
    keys = np.asarray(desk._bases["filled"].keys)
    states = desk.board.states_of(keys)
    assert set(states.tolist()) <= {state("model", True), state("model", False)}
    assert len(keys) == int((made.table.origin == 1).sum())
    assert desk.board.levels.max() <= TOP
