"""NUS-WIDE lists: folders of class files, files with columns, and lists that do not fit."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel import formats
from partlabel.core.errors import UserError
from tests.formats.cases import case, rows


def refuse(path, **options) -> UserError:
    with pytest.raises(UserError) as caught:
        formats.read("nuswide", path, **options)
    return caught.value


@pytest.fixture
def put(tmp_path):
    """Write files: ``put({name: text})``; the folder is returned."""

    def write(files):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(text.encode())
        return tmp_path

    return write


OFFICIAL = {
    "ImageList/ImageList/Imagelist.txt": "actor\\0001_2.jpg\r\nbear\\0002_1.jpg\r\nzoo\\0003_7.jpg\r\n",
    "ImageList/ImageList/TrainImagelist.txt": "zoo\\0003_7.jpg\nactor\\0001_2.jpg\n",
    "ImageList/ImageList/TestImagelist.txt": "bear\\0002_1.jpg\n",
    "Groundtruth/AllLabels/Labels_sky.txt": "1\r\n0\r\n1\r\n",
    "Groundtruth/AllLabels/Labels_train.txt": "0\n1\n0\n",
    "Groundtruth/TrainTestLabels/Labels_sky_Train.txt": "1 \n1\n",
    "Groundtruth/TrainTestLabels/Labels_sky_Test.txt": "0\n",
    "Groundtruth/TrainTestLabels/Labels_train_Train.txt": "0\n0\n\n",
    "Groundtruth/TrainTestLabels/Labels_train_Test.txt": "1",
    "ConceptsList/Concepts81.txt": "sky\ntrain\n",
}


def test_the_official_tree(put):
    path = put(OFFICIAL)
    table, report = formats.read("nuswide", path)
    assert table.classes == ("sky", "train")
    assert rows(table) == {"actor/0001_2.jpg": [1, -1], "bear/0002_1.jpg": [-1, 1], "zoo/0003_7.jpg": [1, -1]}
    assert (report.rows, report.cells("present"), report.cells("absent")) == (3, 3, 3)
    assert report.coding == "1 = present; 0 = absent"
    table, _ = formats.read("nuswide", path, set="train")
    assert rows(table) == {"zoo/0003_7.jpg": [1, -1], "actor/0001_2.jpg": [1, -1]}
    table, _ = formats.read("nuswide", path, set="test", zero="unknown")
    assert rows(table) == {"bear/0002_1.jpg": [0, 1]}
    only = path / "Groundtruth" / "TrainTestLabels"
    assert "say set=train or set=test" in refuse(only).message
    assert "no image list of the set test" in refuse(only, set="test").message
    images = path / "ImageList" / "ImageList" / "TestImagelist.txt"
    assert rows(formats.read("nuswide", only, set="test", image_list=images)[0]) == {"bear/0002_1.jpg": [-1, 1]}
    assert "no label lists of the set all" in refuse(only, set="all").message


def test_chosen_and_renamed_classes(put):
    path = put({**OFFICIAL, "Groundtruth/AllLabels/Labels_bear.txt": "0\n1\n1\n"})
    table, report = formats.read("nuswide", path, classes="trains,bear", rename="train=trains")
    assert table.classes == ("trains", "bear")
    assert rows(table) == {"actor/0001_2.jpg": [-1, -1], "bear/0002_1.jpg": [1, 1], "zoo/0003_7.jpg": [-1, 1]}
    assert report.dropped["lists of classes that are not in the class list"].examples == ["sky"]
    error = refuse(path, rename="bear=sky")
    here = f"{path}/Groundtruth/AllLabels"
    assert error.offenders == [
        f"actor/0001_2.jpg, sky: {here}/Labels_bear.txt:1 absent / {here}/Labels_sky.txt:1 present",
        f"bear/0002_1.jpg, sky: {here}/Labels_bear.txt:2 present / {here}/Labels_sky.txt:2 absent",
    ]


def test_an_image_that_is_listed_twice(put):
    path = put({"Imagelist.txt": "a\nb\na\n", "Labels_x.txt": "1\n0\n0\n"})
    assert refuse(path).offenders == [f"a, x: {path}/Labels_x.txt:1 present / {path}/Labels_x.txt:3 absent"]
    table, report = formats.read("nuswide", path, conflicts="unknown")
    assert rows(table) == {"a": [0], "b": [-1]}
    assert any("repeat an earlier one" in note for note in report.notes)


def test_lists_that_do_not_fit(put):
    path = put(
        {
            "Imagelist.txt": "a\nb\nc\n",
            "Labels_long.txt": "1\n0\n1\n1\n",
            "Labels_odd.txt": "1\n\n2\n",
            "Labels_short.txt": "1\n0",
            "Labels_two.txt": "1 0\n1\n0\n",
            "Labels_void.txt": "",
            "Labels_word.txt": "1\n-1\nx\n",
        }
    )
    assert refuse(path).offenders == [
        f"{path}/Labels_long.txt: 4 lines, the image list has 3",
        f"{path}/Labels_odd.txt:2 blank",
        f"{path}/Labels_odd.txt:3 2",
        f"{path}/Labels_short.txt: 2 lines, the image list has 3",
        f"{path}/Labels_two.txt:1 1 0",
        f"{path}/Labels_void.txt: the file is empty",
        f"{path}/Labels_word.txt:2 -1",
        f"{path}/Labels_word.txt:3 x",
    ]
    (path / "Imagelist.txt").write_text("a\n\nb\n\nc")
    assert refuse(path).offenders == [f"{path}/Imagelist.txt:2 blank", f"{path}/Imagelist.txt:4 blank"]


def test_lists_that_are_not_there_or_twice(put, tmp_path):
    assert "no such folder" in refuse(tmp_path / "none").message
    assert "no label lists" in refuse(put({"Imagelist.txt": "a"})).message
    path = put({"x/Labels_a.txt": "1"})
    assert rows(formats.read("nuswide", path)[0]) == {"a": [1]}
    path = put({"y/Labels_a.txt": "1"})
    assert refuse(path).offenders == [f"{path}/x/Labels_a.txt, {path}/y/Labels_a.txt"]
    path = put({"x/Imagelist.txt": "a"})
    error = refuse(path / "x", image_list=path / "gone.txt")
    assert "gone.txt: cannot be read" in error.message
    (path / "y" / "Labels_a.txt").unlink()
    assert refuse(path).offenders == [f"{path}/Imagelist.txt", f"{path}/x/Imagelist.txt"]


def test_one_file_with_columns(put):
    """The two files of the case CSV-08, without their paths, as one file with a column for each class."""
    folder, expected = case("CSV-08")
    texts = {name: (folder / name).read_text() for name in ("ok.txt", "double.txt", "short.txt")}
    bare = {name: "".join(line.partition(" ")[2] + "\n" for line in text.splitlines()) for name, text in texts.items()}
    path = put({**bare, "list.txt": "a.png\nb.png\n", "bad.txt": "1 0 1\n1 2 0\n1 x 10\n"})
    options = {"image_list": path / "list.txt", "classes": folder / "names.txt"}
    table, _ = formats.read("nuswide", path / "ok.txt", **options)
    assert rows(table) == expected["ok.txt"]
    assert rows(formats.read("nuswide", path / "ok.txt", zero="unknown", **options)[0])["b.png"] == [0, 0, 1]
    assert refuse(path / "double.txt", **options).offenders == [
        f"{path}/double.txt:1 6 values, 3 classes",
        f"{path}/double.txt:2 6 values, 3 classes",
    ]
    assert refuse(path / "short.txt", **options).offenders == [f"{path}/short.txt:2 2 values, 3 classes"]
    assert refuse(path / "bad.txt", **options).offenders == [
        f"{path}/bad.txt: 3 lines, the image list has 2",
        f"{path}/bad.txt:2:2 2",
        f"{path}/bad.txt:3:2 x",
        f"{path}/bad.txt:3:3 10",
    ]
    for lost in ({"image_list": None}, {"classes": None}, {"set": "train"}):
        assert "needs its images and the names" in refuse(path / "ok.txt", **{**options, **lost}).message


@st.composite
def matrices(draw):
    classes = draw(
        st.lists(
            st.text("abü _9", min_size=1, max_size=4).filter(lambda n: n == n.strip()),
            min_size=1,
            max_size=4,
            unique=True,
        )
    )
    images = draw(
        st.lists(
            st.text("ab. 9", min_size=1, max_size=5).map(str.strip).filter(bool), min_size=1, max_size=6, unique=True
        )
    )
    cell = st.sampled_from([0, 1])
    return images, sorted(classes), np.array([[draw(cell) for _ in classes] for _ in images])


@given(matrices(), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_round_trip(content, random):
    images, classes, matrix = content
    ends = ["\n", "\r\n", " \n"]

    def text(lines):
        mark = random.choice(["", "\ufeff"])
        return (mark + random.choice(ends).join(lines) + random.choice(["", "\n", "\n\n"])).encode(
            random.choice(["utf-8", "utf-16"]) if not mark else "utf-8"
        )

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "images").mkdir()
        (root / "images" / random.choice(["ImageList.txt", "Imagelist.txt"])).write_bytes(
            text(f"x\\{n}" for n in images)
        )
        for name, column in zip(classes, matrix.T, strict=True):
            (root / f"Labels_{name}.txt").write_bytes(text(map(str, column)))
        (root / "all.txt").write_bytes(text(random.choice([" ", "\t"]).join(map(str, line)) for line in matrix))
        tables = [
            formats.read("nuswide", root)[0],
            formats.read("nuswide", root / "all.txt", image_list=next((root / "images").iterdir()), classes=classes)[0],
        ]
    for table in tables:
        assert table.images.to_pylist() == [f"x/{name}" for name in images]
        assert list(table.classes) == classes
        np.testing.assert_array_equal(table.dense(), 2 * matrix - 1)


def outcome(folder):
    try:
        return formats.read("nuswide", folder)[0], ""
    except UserError as error:
        return None, str(error)


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_a_damaged_file_gives_an_error_with_its_name_or_a_right_table(data):
    files = {"Imagelist.txt": b"a.jpg\nb.jpg\nc.jpg\n", "Labels_x.txt": b"1\n0\n1\n"}
    name = data.draw(st.sampled_from(sorted(files)))
    damaged = data.draw(st.one_of(st.binary(max_size=30), st.integers(0, 18).map(lambda n: files[name][:n])))
    with tempfile.TemporaryDirectory() as folder:
        for own, content in {**files, name: damaged}.items():
            Path(folder, own).write_bytes(content)
        table, message = outcome(folder)
    if table is None:
        assert ".txt" in message
    elif name == "Labels_x.txt":
        assert rows(table) == {"a.jpg": [1], "b.jpg": [-1], "c.jpg": [1]} or b"1" in damaged or b"0" in damaged
        assert damaged.count(b"1") + damaged.count(b"0") == 3
    else:
        assert table.num_known == table.num_images
