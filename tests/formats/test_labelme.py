"""LabelMe: the real-world case, shapes, paths, and files that are not LabelMe's."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel import formats
from partlabel.core.errors import UserError
from tests.formats.cases import CASES, rows
from tests.formats.test_writing import tables


def put(folder, name, flags, image="a.jpg", shapes=(), **more):
    path = Path(folder) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"version": "5", "flags": flags, "shapes": [{"label": s, "points": []} for s in shapes], **more}
    path.write_text(json.dumps({**content, "imagePath": image}))
    return path


def refuse(path, **options) -> UserError:
    with pytest.raises(UserError) as caught:
        formats.read("labelme", path, **options)
    return caught.value


def test_labelme_01_flags():
    folder = CASES / "LABELME-01"
    for not_listed in ("unknown", "absent"):
        table, report = formats.read("labelme", folder / "labelme", images=folder / "labelme", not_listed=not_listed)
        assert table.classes == ("barrow", "rake")
        assert rows(table) == {"a.jpg": [1, -1], "b.jpg": [-1, -1], "c.jpg": [0, 0]}
        assert report.without_annotations.examples == ["c.jpg"]
    assert rows(formats.read("labelme", folder / "labelme" / "a.json")[0]) == {"a.jpg": [1, -1]}


def test_shapes_by_option_and_what_is_no_class(tmp_path):
    put(tmp_path, "a.json", {"wet": False, "__ignore__": True, " ": True}, shapes=["car", "car", "__ignore__"])
    put(tmp_path, "b.json", None, "b.jpg", shapes=["wet"])
    table, report = formats.read("labelme", tmp_path)
    assert (table.classes, rows(table)) == (("wet",), {"a.jpg": [-1], "b.jpg": [0]})
    assert "4 shapes are not read; shapes=present takes their labels in" in report.notes
    table, _ = formats.read("labelme", tmp_path, shapes="present")
    assert (table.classes, rows(table)) == (("wet", "car"), {"a.jpg": [-1, 1], "b.jpg": [1, 0]})
    table, _ = formats.read("labelme", tmp_path, shapes="present", not_listed="absent")
    assert rows(table) == {"a.jpg": [-1, 1], "b.jpg": [1, -1]}


def test_names_are_relative_to_the_folder_with_slashes(tmp_path):
    put(tmp_path, "notes/a.json", {"wet": True}, "..\\photos\\a.jpg")
    put(tmp_path, "notes/b.json", {"wet": True}, "b.jpg")
    table, _ = formats.read("labelme", tmp_path)
    assert table.images.to_pylist() == ["photos/a.jpg", "notes/b.jpg"]


def test_two_files_of_one_image_that_contradict_each_other(tmp_path):
    paths = [put(tmp_path, name, {"wet": value}) for name, value in (("1.json", True), ("2.json", False))]
    assert refuse(tmp_path).offenders == [f"a.jpg, wet: {paths[0]} present / {paths[1]} absent"]


def test_files_that_are_not_labelme(tmp_path):
    assert "no JSON files" in refuse(tmp_path).message
    put(tmp_path, "good.json", {"wet": True})
    (tmp_path / "bad.json").write_text('{"flags":\n{"wet": ]}')
    (tmp_path / "coco.json").write_text('{"images": []}')
    (tmp_path / "value.json").write_text('{"imagePath": "a", "flags": {"wet": "yes"}}')
    error = refuse(tmp_path)
    assert "3 files cannot be read" in error.message
    assert error.offenders[0].startswith(f"{tmp_path}/bad.json:2 ")
    assert "imagePath" in error.offenders[1]
    assert "true or false is expected" in error.offenders[2]
    assert "cannot be read" in str(refuse(tmp_path / "none.json"))


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_round_trip(data):
    """Random tables, written as flags, come back."""
    table = data.draw(tables())
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, line) in enumerate(rows(table).items()):
            flags = {c: v > 0 for c, v in zip(table.classes, line, strict=True) if v}
            put(folder, f"{number:04}.json", flags, name)
        again, _ = formats.read("labelme", folder, classes=list(table.classes))
    assert again.classes == table.classes
    if all(name == str(Path(name)) for name in table.images.to_pylist()):
        np.testing.assert_array_equal(again.dense(), table.dense())
