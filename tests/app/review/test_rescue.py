"""A damaged store of answers: what can be read of it is taken over, and nothing is thrown away."""

from __future__ import annotations

import shutil
import sqlite3

import numpy as np
import pytest

from partlabel.app.cli import main
from partlabel.app.review.answers import AnswerStore, New
from partlabel.app.review.rescue import rescue
from partlabel.core.errors import UserError

COUNT = 400


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A store of 400 answers, of which one batch was taken back."""
    path = tmp_path_factory.mktemp("sound") / "answers.sqlite"
    store = AnswerStore(path)
    for start in range(0, COUNT, 20):
        new = [New(f"{i:04}.png", "cat", "yes" if i % 3 else "no", "all", "c0ffee") for i in range(start, start + 20)]
        store.add("browser", f"batch {start}", new, person="Ann")
    store.undo("browser")
    store.close()
    return path


def answers(path):
    store = AnswerStore(path)
    found = [(row["image"], row["class"], row["answer"], row["undone"], row["person"]) for row in store.rows()]
    store.close()
    return found


def test_a_sound_store_is_left_as_it_is(sound, tmp_path):
    path = shutil.copy(sound, tmp_path / "answers.sqlite")
    before = path.read_bytes()
    assert rescue(path) is None
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["answers.sqlite"]
    with pytest.raises(UserError, match="there is no such file"):
        rescue(tmp_path / "none.sqlite")


@pytest.mark.parametrize("what", ["head", "page", "value", "end", "row"])
def test_what_is_whole_is_taken_over(sound, tmp_path, what):
    path = shutil.copy(sound, tmp_path / "answers.sqlite")
    wanted, content = answers(path), bytearray(path.read_bytes())
    least = COUNT
    if what == "head":
        content[:4096] = bytes(4096)
    elif what == "page":  # one of the pages in which the answers lie
        at = content.index(b"0200.pngcatyes") // 4096 * 4096
        content[at : at + 4096] = bytes(4096)
        least = COUNT - 60
    elif what == "value":
        at = content.index(b"0200.pngcatyes")
        content[at + 1] ^= 1
        least = COUNT - 1
    elif what == "end":
        del content[content.index(b"0300.pngcat") // 4096 * 4096 :]
        least = 200
    path.write_bytes(content)
    if what == "row":
        with sqlite3.connect(path) as connection:
            connection.execute("DELETE FROM answers WHERE number = 7")
        connection.close()
        least = COUNT - 1
    with pytest.raises(UserError, match="--rescue"):
        AnswerStore(path)
    damaged = path.read_bytes()
    found = rescue(path)
    assert found is not None
    assert least <= found.answers < COUNT or (what == "head" and found.answers == COUNT)
    assert bool(found.lost) == (found.answers < COUNT), found
    assert (found.kept / path.name).read_bytes() == damaged
    now = answers(path)
    assert len(now) == found.answers
    assert now == [answer for answer in wanted if answer in set(now)]
    assert rescue(path) is None


def test_random_damage_loses_no_answer_that_is_whole(sound, tmp_path):
    rng, plain = np.random.default_rng(0), sound.read_bytes()
    wanted = answers(sound)
    for number in range(40):
        path = tmp_path / f"{number}.sqlite"
        content = bytearray(plain)
        at, size = int(rng.integers(len(content))), int(rng.choice([1, 8, 64, 512, 4096]))
        content[at : at + size] = rng.bytes(len(content[at : at + size]))
        path.write_bytes(content)
        found = rescue(path)
        now = answers(path)
        assert set(now) <= set(wanted)
        assert len(now) == (COUNT if found is None else found.answers)
        assert len(now) >= COUNT - 120, (at, size)


def test_answers_of_a_newer_version_are_left_as_they_are(sound, tmp_path):
    path = shutil.copy(sound, tmp_path / "answers.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE answers SET checksum = 1")
        connection.execute("PRAGMA user_version = 4")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(UserError, match="newer partlabel"):
        rescue(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["answers.sqlite"]


@pytest.mark.parametrize("version", [-1, 2, 2**30])
def test_a_version_that_cannot_be_is_damage(sound, tmp_path, version):
    path = shutil.copy(sound, tmp_path / "answers.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    with pytest.raises(UserError):
        AnswerStore(path)
    found = rescue(path)
    assert (found.answers, found.lost) == (COUNT, [])
    assert answers(path) == answers(sound)


def test_an_answer_without_checksum_that_is_none_is_not_taken_over(sound, tmp_path):
    path = shutil.copy(sound, tmp_path / "answers.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA ignore_check_constraints = 1")
        connection.execute("UPDATE answers SET answer = 'maybe', checksum = NULL WHERE number = 3")
        connection.execute("UPDATE answers SET checksum = NULL WHERE number = 4")
    connection.close()
    found = rescue(path)
    assert (found.answers, found.lost) == (COUNT - 1, ["answer 3, 0002.png: cat"])
    assert len(answers(path)) == COUNT - 1


def test_the_command(made, capsys, monkeypatch):
    from partlabel.app.review import server

    desk = made.open()
    desk.export("parquet")
    desk.close()
    path = made.run / "review" / "answers.sqlite"
    store = AnswerStore(path)
    store.add("me", "one", [New("000.png", "cat", "yes", "all")])
    store.add("me", "two", [New("001.png", "cat", "no", "all")])
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE answers SET answer = 'no' WHERE number = 1")
    connection.close()
    words = ["review", str(made.run), "--images", str(made.images), "--port", "0"]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "--rescue" in said
    assert "Next: partlabel train" not in said  # as nothing was served
    monkeypatch.setattr(server, "serve", lambda *_, **__: None)
    assert main([*words, "--rescue"]) == 0
    said = capsys.readouterr().err
    assert "1 answer is whole and was taken over; the damaged file is in " in said
    assert "not taken over: answer 1, 000.png: cat" in said
    assert answers(path) == [("001.png", "cat", "no", 0, None)]
