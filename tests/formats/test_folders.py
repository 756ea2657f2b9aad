"""Class folders: the real-world case, copies, and what else lies in folders."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel import formats
from partlabel.core.errors import UserError
from partlabel.images import locate as files
from tests.formats.cases import CASES, case, rows


def refuse(path, **options) -> UserError:
    with pytest.raises(UserError) as caught:
        formats.read("folders", path, **options)
    return caught.value


@pytest.fixture
def fill(tmp_path):
    def write(*files, **contents):
        for name in files:
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(contents.get(file.stem, name).encode())
        return tmp_path

    return write


def test_fol_01_one_image_in_two_folders():
    folder, expected = case("FOL-01")
    table, report = formats.read("folders", folder / "photos")
    assert list(table.classes) == expected["classes"]
    assert table.num_images == expected["images"]
    assert rows(table) == {
        "cat/x.png": expected["labels"]["x (both paths)"],
        "cat/y.png": expected["labels"]["cat/y.png"],
        "dog/y.png": expected["labels"]["dog/y.png"],
    }
    assert report.not_listed == "unknown"
    assert any("dog/x.png = cat/x.png" in note for note in report.notes)
    table, _ = formats.read("folders", folder / "photos", not_listed="absent")
    assert rows(table) == {"cat/x.png": [1, 1], "cat/y.png": [1, -1], "dog/y.png": [-1, 1]}


def test_copies_are_told_by_the_whole_content(fill, monkeypatch):
    monkeypatch.setattr(files, "_END_BYTES", 4)
    path = fill(
        "a/1.jpg",
        "b/2.jpg",
        "c/3.jpg",
        "c/4.jpg",
        **{"1": "left same", "2": "best same", "3": "left same", "4": "sama"},
    )
    assert rows(formats.read("folders", path)[0]) == {"a/1.jpg": [1, 0, 1], "b/2.jpg": [0, 1, 0], "c/4.jpg": [0, 0, 1]}


def test_a_copy_in_one_folder_is_one_image(fill):
    table, report = formats.read("folders", fill("a/1.jpg", "a/2.jpg", **{"1": "x", "2": "x"}))
    assert rows(table) == {"a/1.jpg": [1]}
    assert report.repeats == 1


def test_empty_files_are_no_copies(fill):
    table, report = formats.read("folders", fill("a/1.jpg", "b/2.jpg", **{"1": "", "2": ""}))
    assert rows(table) == {"a/1.jpg": [1, 0], "b/2.jpg": [0, 1]}
    assert "empty files: a/1.jpg, b/2.jpg" in report.warnings


def test_what_else_lies_there(fill):
    path = fill("a/x/1.JPG", "a/notes.txt", "a/.hidden.jpg", ".git/3.jpg", "loose.png", "read.me", "b/Thumbs.db")
    table, report = formats.read("folders", path)
    assert rows(table) == {"a/x/1.JPG": [1, 0]}
    assert table.classes == ("a", "b")
    assert report.dropped["images in no class folder"].examples == ["loose.png"]
    others = "a/notes.txt, b/Thumbs.db, read.me"
    assert f"left aside (not images by their ending, or links to folders): {others}" in report.notes


def test_chosen_and_renamed_classes(fill):
    path = fill("a/1.jpg", "b/2.jpg", "c/3.jpg")
    table, report = formats.read("folders", path, classes="c,x", rename="b=x")
    assert (table.classes, rows(table)) == (("c", "x"), {"a/1.jpg": [0, 0], "b/2.jpg": [0, 1], "c/3.jpg": [1, 0]})
    ((reason, tally),) = report.dropped.items()
    assert "not in the class list" in reason
    assert tally.examples == ["a"]


def test_folders_of_parts_are_refused(fill):
    path = fill("train/cat/1.jpg", "val/cat/2.jpg")
    assert refuse(path).offenders == [f"{path}/train", f"{path}/val"]
    assert rows(formats.read("folders", path / "train")[0]) == {"cat/1.jpg": [1]}
    path = fill("train/3.jpg")
    assert "say classes=train,val if these are the classes" in refuse(path).message
    assert formats.read("folders", path, classes="train,val")[0].classes == ("train", "val")  # trains, perhaps
    assert formats.read("folders", fill("bus/b/3.jpg"))[0].num_classes == 3


def test_yolo_01_its_folders_are_no_classes():
    folder = CASES / "YOLO-01" / "yolo"
    assert refuse(folder / "images").offenders == [f"{folder}/images/train"]
    assert refuse(folder).offenders == [f"{folder}/images"]


def test_no_images(tmp_path):
    assert "not a folder" in refuse(tmp_path / "none").message
    assert "no folder in it holds an image" in refuse(tmp_path).message


def test_links(fill):
    path = fill("a/1.jpg", "b/2.jpg")
    (path / "b" / "1.jpg").symlink_to(path / "a" / "1.jpg")
    (path / "b" / "more").symlink_to(path, target_is_directory=True)
    table, report = formats.read("folders", path)
    assert rows(table) == {"a/1.jpg": [1, 1], "b/2.jpg": [0, 1]}
    assert any("b/more" in note for note in report.notes)
    for name in ("3.jpg", "4.jpg"):
        (path / "b" / name).symlink_to(path / "gone")
    assert refuse(path).offenders == [f"b/{name}: No such file or directory" for name in ("3.jpg", "4.jpg")]


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_closed_folder(fill):
    path = fill("a/1.jpg", "b/2.jpg")
    (path / "b").chmod(0)
    assert refuse(path).offenders == [f"{path}/b: Permission denied"]
    (path / "b").chmod(0o700)


NAME = st.text("aBü 9.-", min_size=1, max_size=4).filter(lambda name: name == name.strip() and not name.startswith("."))


@given(st.lists(NAME, min_size=1, max_size=4, unique=True), st.data())
@settings(max_examples=40, deadline=None)
def test_round_trip(classes, data):
    """Random labels, written as copies under random names, come back; told apart by a naive look at the bytes."""
    labels = data.draw(
        st.lists(st.lists(st.booleans(), min_size=len(classes), max_size=len(classes)), min_size=1, max_size=5)
    )
    with tempfile.TemporaryDirectory() as root:
        expected = {}
        for number, line in enumerate(labels):
            for name, present in zip(classes, line, strict=True):
                folder = Path(root, name, data.draw(st.sampled_from(["", "in", "in/ner"])))
                folder.mkdir(parents=True, exist_ok=True)
                if present:
                    ending = data.draw(st.sampled_from([".jpg", ".PNG", ".jpeg"]))
                    (folder / f"{data.draw(st.integers(0, 9))}-{number}{ending}").write_bytes(b"image %d" % number)
            if any(line):
                expected[number] = [int(present) for _, present in sorted(zip(classes, line, strict=True))]
        if not expected:
            return
        table, _ = formats.read("folders", root)
        found = {int(Path(root, name).read_bytes().split()[1]): line for name, line in rows(table).items()}
    assert list(table.classes) == sorted(classes)
    assert found == expected
