"""YOLO: the real-world case, the layouts that annotators write, and lines that are no boxes."""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel import formats
from partlabel.core.errors import UserError
from tests.formats.cases import CASES, rows

BOX = "0.5 0.5 0.2 0.2"


def refuse(path, **options) -> UserError:
    with pytest.raises(UserError) as caught:
        formats.read("yolo", path, **options)
    return caught.value


@pytest.fixture
def put(tmp_path):
    def write(files):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return tmp_path

    return write


def test_yolo_01_a_missing_file_is_unknown_and_an_empty_one_absent():
    folder = CASES / "YOLO-01"
    expected = {
        f"images/train/{name}.jpg": line for name, line in zip("abc", ([1, 1, -1], [-1] * 3, [0] * 3), strict=True)
    }
    for path in (folder / "yolo", folder / "yolo" / "data.yaml"):
        table, report = formats.read("yolo", path)
        assert table.classes == ("barrow", "rake", "hose")
        assert rows(table) == expected
        assert table.class_ids == ("0", "1", "2")
        assert report.without_annotations.examples == ["images/train/c.jpg"]
        assert "train: images/train (not there: val: images/val)" in report.layout
    table, _ = formats.read("yolo", path, not_listed="unknown")
    assert rows(table)["images/train/b.jpg"] == [0, 0, 0]
    table, _ = formats.read("yolo", path, images=folder / "yolo" / "images")
    assert table.images.to_pylist() == ["train/a.jpg", "train/b.jpg", "train/c.jpg"]


def test_parts_lists_and_the_paths_of_roboflow(put):
    root = put(
        {
            "data.yaml": "names: [cat, dog]\ntrain: ../train/images\nval: val.txt\ntest: [t/images, u/images]\n",
            "train/images/a.jpg": "",
            "train/labels/a.txt": f"0 {BOX}\n",
            "val.txt": "./v/images/b.jpg\n\n",
            "v/labels/b.txt": f"1.0 {BOX} 0.9\n\n1 0 0 1 1 0 1\n",
            "t/images/x/c.png": "",
            "t/labels/x/c.txt": " \n",
        }
    )
    table, report = formats.read("yolo", root)
    expected = {"train/images/a.jpg": [1, -1], "v/images/b.jpg": [-1, 1], "t/images/x/c.png": [-1, -1]}
    assert rows(table) == expected
    assert report.rows == 3
    assert report.repeats == 1
    table, _ = formats.read("yolo", root / "data.yaml", split="val")
    assert rows(table) == {"v/images/b.jpg": [-1, 1]}
    assert refuse(root, split="valid").offenders == ["train", "val", "test"]


def test_folders_with_a_list_of_names(put, tmp_path):
    root = put({"classes.txt": "cat\ndog\n", "images/a.jpg": "", "labels/a.txt": f"1 {BOX}\n", "labels/b.txt": ""})
    table, report = formats.read("yolo", root)
    assert rows(table) == {"images/a.jpg": [-1, 1], "images/b": [-1, -1]}
    assert "text files without their image; images have no ending: images/b" in report.notes
    shutil.rmtree(tmp_path / "images")
    assert rows(formats.read("yolo", root)[0]) == {"images/a": [-1, 1], "images/b": [-1, -1]}
    shutil.rmtree(tmp_path / "labels")
    (tmp_path / "classes.txt").unlink()
    files = {"obj.names": "cat\n", "obj_train_data/a.jpg": "", "obj_train_data/a.txt": f"0 {BOX}", "train.txt": "x"}
    assert rows(formats.read("yolo", put(files))[0]) == {"obj_train_data/a.jpg": [1]}
    shutil.rmtree(tmp_path / "obj_train_data")
    assert rows(formats.read("yolo", put({"a.jpg": "", "a.txt": f"0 {BOX}", "notes.txt": "x"}))[0]) == {"a.jpg": [1]}


def test_lines_that_are_no_boxes_are_all_listed(put):
    labels = {"a": f"0 {BOX}\n5 {BOX}\ncat {BOX}\n0 1 1\n", "b": f"0.5 {BOX}\nnan {BOX}\n-1 {BOX}"}
    files = {f"labels/{name}.txt": text for name, text in labels.items()}
    root = put(
        {"data.yaml": "names: {0: cat, 3: dog}\ntrain: images\n", "images/a.jpg": "", "images/b.jpg": "", **files}
    )
    (root / "images" / "c.jpg").write_text("")
    (root / "labels" / "c.txt").write_bytes(b"0 \xff")
    assert refuse(root).offenders == [
        f"{root}/labels/a.txt:2 class 5 has no name; there are 0 to 3",
        f"{root}/labels/a.txt:3 cat {BOX}",
        f"{root}/labels/a.txt:4 0 1 1",
        f"{root}/labels/b.txt:1 0.5 {BOX}",
        f"{root}/labels/b.txt:2 nan {BOX}",
        f"{root}/labels/b.txt:3 class -1 has no name; there are 0 to 3",
        f"{root}/labels/c.txt:1 b'0 \\xff' is not UTF-8",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("names: [a\ntrain: x", "not valid YAML"),
        ("just a text", "not the description of a YOLO data set"),
        ("train: images", "names is a list"),
        ("names: {a: b}\ntrain: images", "names is a list"),
        ("names: [a]\ntrain: images", "none of its folders is there"),
        ("names: [a]", "none of its folders is there"),
        ("names: [a, 'a ']\ntrain: images", "class numbers have the same name"),
        ("names: [a, [b]]\ntrain: images", "are texts, not list"),
        ("names: [a]\ntrain: {x: 1}", "are texts, not dict"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nnames: {0: *b}\ntrain: images", "are texts, not list"),
        ('names: [a]\ntrain: "a\\0b"', "none of its folders is there"),
        ("names: !!python/object/apply:os.getcwd []", "not valid YAML"),
    ],
)
def test_descriptions_that_are_none(put, text, message):
    assert message in refuse(put({"data.yaml": text})).message


def test_folders_that_are_none(put, tmp_path):
    assert "neither data.yaml nor a file with class names" in refuse(tmp_path).message
    assert "cannot be read" in refuse(tmp_path / "none.yaml").message
    assert refuse(put({"a.yaml": "", "b.yml": ""})).offenders == ["a.yaml", "b.yml"]


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=5), st.randoms())
@settings(max_examples=25, deadline=None)
def test_round_trip(labels, chance):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for part in ("images", "labels"):
            (root / part).mkdir()
        (root / "data.yaml").write_text("names: [x, y, z]\ntrain: images\n")
        for number, line in enumerate(labels):
            (root / "images" / f"{number}.jpg").write_bytes(b"")
            boxes = [f"{c} {BOX}" for c, there in enumerate(line) for _ in range(chance.randint(1, 2)) if there]
            random.shuffle(boxes)
            (root / "labels" / f"{number}.txt").write_text(chance.choice(["\n", "\r\n"]).join(boxes))
        table, _ = formats.read("yolo", root)
    assert table.images.to_pylist() == [f"images/{n}.jpg" for n in range(len(labels))]
    np.testing.assert_array_equal(table.dense() > 0, labels)
