"""Where not every pair is listed: which ones are, against a loop over all, and what the page shows of the others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel.app.review import board as boards
from partlabel.app.review import listing, queues
from partlabel.app.review.board import TOP
from partlabel.app.review.scores import ScoreShelf
from partlabel.app.review.views import Filter, Marks, Views
from partlabel.labels.table import LabelTable
from partlabel.metrics.calibration import Calibration
from partlabel.models.score_files import ScoreFile, ScoreWriter
from partlabel.models.scores import read_scores
from tests.app.review.made import board_of, drawn_table, make_run, said
from tests.app.review.test_views import FILTERS
from tests.reference import review as reference

CLASSES = tuple(f"class {i}" for i in range(9))
CALIBRATION = Calibration(tuple(np.linspace(0.3, 2, 9)), tuple(np.linspace(-2, 2, 9)))
ASKED = (3, 7, 30, 31, 95, 140, 200, 262)


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Three of the best classes of an image are listed, and everything goes in small parts."""
    monkeypatch.setattr(listing, "ALL", 0)
    monkeypatch.setattr(listing, "BEST", 3)
    for name, value in (("_SCORES", 40), ("_SORTED", 16), ("_PART", 8)):
        monkeypatch.setattr(listing, name, value)


def drawn(seed: int, count: int = 30) -> tuple[LabelTable, np.ndarray]:
    table, scores = drawn_table(count, CLASSES, seed)
    return table, np.round(scores * 2).astype(np.float32) / 2  # many equal ones


@pytest.mark.parametrize("seed", range(6))
def test_listed_pairs_are_the_loop(tmp_path, seed):
    table, scores = drawn(seed)
    board = board_of(scores, table, tmp_path, CALIBRATION, ASKED)
    dense, chance = table.dense(), CALIBRATION.probabilities(scores.astype(np.float16))
    listed, best = reference.listed(dense.tolist(), chance.tolist(), ASKED, 3)
    assert np.asarray(board.listed).tolist() == listed
    assert [board.best_of(image).tolist() for image in range(30)] == best
    levels = np.rint(chance * TOP).astype(int).T.reshape(-1)
    assert board.levels.tolist() == levels[listed].tolist()
    assert (board.states[:] > 0).tolist() == (dense.T.reshape(-1)[listed] != 0).tolist()
    ranked = sorted(listed, key=lambda key: (-levels[key], key))
    assert board.ranked()[:].tolist() == ranked
    assert [board.ranked().place(key) for key in range(270)] == [
        ranked.index(key) if key in listed else -1 for key in range(270)
    ]
    assert board.levels_of(np.arange(270)).tolist() == levels.tolist()  # the others come from the stored scores
    assert [level for *_, level in board.glance(np.arange(270))] == levels.tolist()
    again = board_of(scores, table, tmp_path, CALIBRATION, ASKED, stored=False)
    assert [level for *_, level in again.glance(np.arange(270))] == [
        levels[key] if key in listed else None for key in range(270)
    ]


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "ALL", 0)
        patch.setattr(listing, "BEST", 3)
        table, scores = drawn(7)
        folder = tmp_path_factory.mktemp("listed")
        both = [board_of(scores, table, folder, CALIBRATION, ASKED, stored=stored) for stored in (True, False)]
        return table, scores, both


@settings(max_examples=80)
@given(FILTERS, st.booleans(), st.lists(st.integers(0, 269), max_size=30), st.integers(0, 20), st.integers(1, 40))
def test_pages_are_the_loop(held, chosen, stored, answered, offset, limit):
    """Every pair of a class that is chosen, and the listed ones otherwise."""
    table, scores, (board, without) = held
    board = board if stored else without
    chance = CALIBRATION.probabilities(scores.astype(np.float16))
    levels = np.rint(chance * TOP).astype(int).T
    listed, _ = reference.listed(table.dense().tolist(), chance.tolist(), ASKED, 3)
    shown = range(270) if stored and chosen.cls is not None else listed
    states = board.states_of(np.arange(270)).reshape(9, 30).tolist()
    keys = sorted(shown, key=lambda key: (-levels.reshape(-1)[key], key))
    names = table.images.to_pylist()
    expected = reference.passing(keys, 30, names, levels.tolist(), states, chosen, boards.ORIGINS, TOP)
    marks = Marks()
    for key in answered:
        marks.set(key, True)
    view = Views(board, table.images, marks).get("all", None, chosen)
    total, page = view.page(offset, limit, open_only=False)
    assert (total, page.tolist()) == (len(expected), expected[offset : offset + limit])
    left = [key for key in expected if key not in answered]
    total, page = view.page(offset, limit, open_only=True)
    assert (total, page.tolist()) == (len(left), left[offset : offset + limit])
    for key in answered:
        marks.set(key, False)
    assert view.answered().tolist() == []


def test_filled_in_labels_are_those_of_a_whole_list(tmp_path, monkeypatch):
    table, scores = drawn(3, 200)
    monkeypatch.setattr(queues, "SAMPLE", 20)
    (tmp_path / "parts").mkdir()
    (tmp_path / "whole").mkdir()
    parts = board_of(scores, table, tmp_path / "parts", CALIBRATION)
    monkeypatch.setattr(listing, "ALL", 10_000)
    whole = board_of(scores, table, tmp_path / "whole", CALIBRATION)
    assert (parts.listed is None, whole.listed is None) == (False, True)
    found = [queues.filled(one, table, tmp_path / f"{i}.npy") for i, one in enumerate((parts, whole))]
    assert found[0][0].tolist() == found[1][0].tolist()
    for sign in ("present", "absent"):
        assert found[0][1][sign].tolist() == found[1][1][sign].tolist()


@pytest.mark.parametrize("damage", ["keys", "levels", "states", "order", "best"])
def test_damaged_arrays_are_made_again(tmp_path, damage):
    table, scores = drawn(1)

    def listed():
        board = board_of(scores, table, tmp_path, CALIBRATION, ASKED)
        best = [board.best_of(image).tolist() for image in range(30)]
        return [*(np.asarray(one).tolist() for one in (board.listed, board.levels, board.states, board.order)), best]

    first = listed()
    (path,) = tmp_path.glob(f"list-{damage}-*.npy")
    content = bytearray(path.read_bytes())
    content[150] ^= 4
    path.write_bytes(content)
    assert listed() == first


def test_arrays_of_earlier_versions_are_removed(tmp_path):
    for name in ("levels-a.npy", "order-a.npy", "start-a.npy", "states-b.npy"):
        (tmp_path / name).write_bytes(b"9 bytes a pair")
    table, scores = drawn(1)
    board_of(scores, table, tmp_path, CALIBRATION, ASKED)
    assert {path.name.split("-")[0] for path in tmp_path.iterdir()} == {"list"}


def test_a_review_of_many_pairs(tmp_path, monkeypatch):
    """The page says what it lists; a class shows every image; an answer about any pair counts."""
    monkeypatch.setattr(queues, "EACH", 2)
    table, scores = drawn(5)
    made = make_run(tmp_path, table, scores)
    monkeypatch.setattr("partlabel.app.review.listing.ALL", 0)
    desk = made.open()
    session = desk.session(None)
    assert (session["pairs"], session["listed"]) == (270, len(desk.board))
    assert session["listed"] < 270
    row = session["queues"][3]
    assert (row["total"], row["help"]) == (session["listed"], queues.SOME)
    page = desk.page("all", Filter(), False, 0, 5)
    assert page["scope"].endswith(f"Listed are {session['listed']} of 270 pairs of image and class.")
    page = desk.page("all", Filter(cls=4), False, 0, 500)
    assert (page["total"], page["scope"]) == (30, None)
    hidden = next(key for key in range(270) if desk.board.places(np.array([key]))[0] < 0)
    image, cls = desk.board.pair(hidden)
    (item,) = [one for one in desk.page("all", Filter(cls=cls), False, 0, 500)["items"] if one["image"] == image]
    assert item["score"] == round(int(desk.board.levels_of(np.array([hidden]))[0]) / TOP, 5)
    desk.answer("me", "1", [said(desk, image, cls, "yes")], False)
    assert desk.page("all", Filter(cls=cls), True, 0, 500)["total"] == 29
    assert desk.undo("me")["undone"] == [item]
    desk.answer("me", "2", [said(desk, image, cls, "no")], False)
    assert LabelTable.read_parquet(desk.export("parquet")["path"]).dense()[image, cls] == -1
    monkeypatch.setattr(ScoreShelf, "find", lambda self: None)
    desk.close()
    again = made.open()  # the scores were cleared meanwhile
    page = again.page("all", Filter(cls=cls), False, 0, 500)
    assert page["total"] < 30
    assert page["scope"] == queues.CLEARED
    assert again.page("filled", Filter(), False, 0, 5)["scope"] is None
    assert again.items(np.array([hidden]))[0]["score"] is None
    again.close()


def test_scores_in_files_are_found_without_the_model_until_they_are_cleared(tmp_path, monkeypatch):
    table, numbers = drawn(2)
    made = make_run(tmp_path, table, numbers)
    (tmp_path / "stored").mkdir()
    for low in (0, 20):
        with ScoreWriter(tmp_path / "stored" / f"{low}.parquet", table.classes) as writer:
            writer.add(table.images.to_pylist()[low : low + 20], numbers[low : low + 20])
    files = [ScoreFile(path) for path in sorted((tmp_path / "stored").iterdir())]
    asked = []

    def scored(model, paths):
        asked.append(len(paths))
        return read_scores(files)

    monkeypatch.setattr("partlabel.app.review.scores.ALL", 0)
    monkeypatch.setattr("partlabel.training.run.Run.model", None)
    monkeypatch.setattr("partlabel.tasks.scoring.scored", scored)
    desk = made.open()
    assert asked == [30]  # once, for the questions; the list finds them stored
    page = desk.page("all", Filter(cls=4), False, 0, 500)
    expected = np.lexsort((np.arange(30), -np.rint(TOP / (1 + np.exp(-numbers[:, 4].astype(np.float64))))))
    assert [item["image"] for item in page["items"]] == expected.tolist()
    desk.close()
    again = made.open()
    assert len(asked) == 1
    assert again.page("all", Filter(cls=4), False, 0, 500) == page
    files[1].path.unlink()  # while the server runs
    assert again.page("all", Filter(cls=5), False, 0, 500)["scope"] == queues.CLEARED
    assert again.page("all", Filter(cls=4), False, 0, 500) == page  # it was read before
    again.close()
