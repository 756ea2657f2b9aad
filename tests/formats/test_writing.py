"""What is written is read back as the same table."""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path
from unicodedata import is_normalized

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from partlabel import LabelTable, formats
from partlabel.core.errors import UserError

NAME = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=6)


@st.composite
def tables(draw):
    images = draw(st.lists(NAME, min_size=1, max_size=5, unique=True))
    classes = draw(st.lists(NAME.filter(partial(is_normalized, "NFC")), min_size=1, max_size=4, unique=True))
    labels = draw(arrays(np.int8, (len(images), len(classes)), elements=st.sampled_from([-1, 0, 1])))
    return LabelTable.from_dense(images, classes, labels)


@given(tables(), st.sampled_from(["csv", "coco"]))
@settings(max_examples=60)
def test_round_trip(table, name):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "labels"
        formats.write(name, table, path)
        options = {"coding": "native", "image_column": "#1", "separator": ","} if name == "csv" else {}
        again, _ = formats.read(name, path, **options)
    assert again.images.to_pylist() == table.images.to_pylist()
    assert again.classes == table.classes
    np.testing.assert_array_equal(again.dense(), table.dense())


def test_groups_and_awkward_names_in_csv(tmp_path):
    table = LabelTable.from_dense(['a,"b"\nc', "x"], ["Sauce, hot", '5"'], [[1, -1], [0, 0]], groups=["p1", None])
    formats.write("csv", table, tmp_path / "t.csv")
    again, _ = formats.read("csv", tmp_path / "t.csv", group="group")
    assert again.content_hash() == table.content_hash()


def test_coco_keeps_ids_where_they_are_numbers(tmp_path):
    path = tmp_path / "t.json"
    for ids, written in ((("7", "3"), [7, 3]), (("/m/1", "3"), [1, 2]), (("03", "3"), [1, 2]), (None, [1, 2])):
        table = LabelTable.from_dense(["a", "b"], ["cat", "dog"], [[1, -1], [0, 0]], class_ids=ids)
        formats.write("coco", table, path)
        content = json.loads(path.read_text())
        assert [entry["id"] for entry in content["categories"]] == written
        assert content["annotations"] == [{"id": 1, "image_id": 1, "category_id": written[0], "iscrowd": 0}]
        assert [entry["neg_category_ids"] for entry in content["images"]] == [[written[1]], []]


def test_many_images_are_written_in_parts(tmp_path):
    labels = np.random.default_rng(0).integers(-1, 2, (20_000, 2))
    table = LabelTable.from_dense([f"{n}.jpg" for n in range(20_000)], ["cat", "dog"], labels)
    for name in ("csv", "coco"):
        formats.write(name, table, tmp_path / name)
        options = {"coding": "native"} if name == "csv" else {}
        assert formats.read(name, tmp_path / name, **options)[0].content_hash() == table.content_hash()


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    table = LabelTable.from_dense(["a"], ["cat"], [[1]])
    (tmp_path / "t.csv").write_text("old")
    monkeypatch.setattr(LabelTable, "dense", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        formats.write("csv", table, tmp_path / "t.csv")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("t.csv", "old")]
    with pytest.raises(UserError, match="does not exist"):
        formats.write("csv", table, tmp_path / "none" / "t.csv")
