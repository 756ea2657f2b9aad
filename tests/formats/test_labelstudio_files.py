"""Label Studio: what is written is read back, in every kind of export, and damaged files are refused."""

from __future__ import annotations

import csv
import errno
import json
import math
import os
import tempfile
from contextlib import nullcontext
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel import LabelTable, formats
from partlabel.core.errors import UserError
from partlabel.formats.labelstudio.writing import interface_path
from partlabel.labels.pairs import MODEL
from tests.formats.cases import case, rows
from tests.formats.test_labelstudio import choice, file, refuse, task  # noqa: F401
from tests.formats.test_writing import tables


def test_tasks_to_check(tmp_path):
    table = LabelTable.from_pairs(
        ["pets/a b.jpg", "/data/upload/1/12345678-b.jpg", "s3://b/c.jpg", "d.jpg"],
        ["cat", 'dog & "co"'],
        [0, 0, 1, 2],
        [0, 1, 1, 0],
        [1, -1, 1, -1],
        origin=[1, 1, 0, 0],
        score=[3.0, -0.5, math.nan, math.nan],
        round=[1, 1, -1, -1],
    )
    path = tmp_path / "tasks.json"
    formats.write("labelstudio", table, path)
    tasks = json.loads(path.read_text(encoding="utf-8"))
    assert [entry["data"]["image"] for entry in tasks] == [
        "/data/local-files/?d=pets/a%20b.jpg",
        "/data/upload/1/12345678-b.jpg",
        "s3://b/c.jpg",
        "/data/local-files/?d=d.jpg",
    ]
    common = {"to_name": "image", "type": "choices"}
    assert tasks[0]["predictions"] == [
        {
            "model_version": "partlabel",
            "score": 0.6225,  # 1 / (1 + exp(-0.5)), the less sure of 3 and -0.5
            "result": [
                {"id": "1-present", "from_name": "present", **common, "value": {"choices": ["cat"]}},
                {"id": "1-absent", "from_name": "absent", **common, "value": {"choices": ['dog & "co"']}},
            ],
        }
    ]
    assert "score" not in tasks[1]["predictions"][0]
    assert "predictions" not in tasks[3]
    view = ElementTree.parse(tmp_path / "tasks.labeling.xml").getroot()
    controls = {c.get("name"): [choice.get("value") for choice in c] for c in view.iter("Choices")}
    assert controls == {control: list(table.classes) for control in ("present", "absent")}
    assert {c.get("toName") for c in view.iter("Choices")} == {view.find("Image").get("name")} == {"image"}
    again, _ = formats.read("labelstudio", path, answers="predictions")
    assert rows(again) == {"pets/a b.jpg": [1, -1], "b.jpg": [0, 1], "c.jpg": [-1, 0], "d.jpg": [0, 0]}


def test_tasks_that_were_checked_come_back(tmp_path):
    table = LabelTable.from_dense(["a.jpg", "b.jpg"], ["cat", "dog"], [[1, -1], [0, -1]])
    path = tmp_path / "tasks.json"
    formats.write("labelstudio", table, path)
    tasks = json.loads(path.read_text(encoding="utf-8"))
    for n, entry in enumerate(tasks):  # somebody submits the prediction as it is
        entry |= {"id": n, "annotations": [{"id": n, "result": entry["predictions"][0]["result"]}]}
    path.write_text(json.dumps(tasks))
    again, _ = formats.read("labelstudio", path)
    assert (again.classes, rows(again)) == (table.classes, rows(table))
    folder = tmp_path / "min.json"
    folder.write_text(
        json.dumps(
            [
                {"id": 0, "image": "a.jpg", "present": "cat", "absent": "dog"},
                {"id": 1, "image": "b.jpg", "absent": "dog"},
            ]
        )
    )
    assert rows(formats.read("labelstudio", folder)[0]) == rows(table)


def test_only_absent_labels_and_no_labels_at_all(tmp_path):
    path = tmp_path / "tasks.json"
    formats.write("labelstudio", LabelTable.from_dense(["a"], ["cat", "dog"], [[-1, 0]]), path)
    table, report = formats.read("labelstudio", path, answers="predictions")
    assert (table.classes, rows(table)) == (("cat",), {"a": [-1]})
    assert report.coding == "a choice of absent = absent"
    formats.write("labelstudio", LabelTable.from_dense(["a"], ["cat", "dog"], [[0, 0]]), path)
    assert "classes=NAME,NAME" in refuse(path, answers="predictions").message
    assert rows(formats.read("labelstudio", path, answers="predictions", classes="cat,dog")[0]) == {"a": [0, 0]}
    formats.write("labelstudio", LabelTable.from_dense([], ["cat"], np.zeros((0, 1))), path)
    assert json.loads(path.read_text()) == []


def test_a_place_that_cannot_be_written_to(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        formats.write("labelstudio", LabelTable.from_dense(["a"], ["cat"], [[1]]), tmp_path / "none" / "t.json")


@given(tables())
@settings(max_examples=25, deadline=None)
def test_round_trip(table):
    names = [name.replace("\\", "_") for name in table.images.to_pylist()]  # a folder mark in addresses of Windows
    if len(set(names)) < len(names) or any(n.startswith("/") or "://" in n for n in names):
        return
    table = LabelTable.from_dense(names, table.classes, table.dense())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "labels"
        formats.write("labelstudio", table, path)
        again, _ = formats.read("labelstudio", path, answers="predictions", classes=table.classes)
    assert (again.images.to_pylist(), rows(again)) == (names, rows(table))
    assert set(again.origin.tolist()) <= {MODEL}


def write_export(path: Path, table: LabelTable, kind: str, draw) -> None:
    """Write the present labels as Label Studio exports them, with the things that exports differ in."""
    chosen = [[table.classes[c] for c in np.flatnonzero(own > 0)] for own in table.dense()]
    images = table.images.to_pylist()
    if kind == "full":
        key = draw(st.sampled_from(["annotations", "completions"]))
        tasks = []
        for n, (image, names) in enumerate(zip(images, chosen, strict=True)):
            noise = [{"type": "relation"}, {"type": "textarea", "from_name": "t", "value": {"text": ["x"]}}]
            parts = draw(st.permutations([choice(*names), *noise]))
            entry = {"id": n, "result": parts, "was_cancelled": draw(st.sampled_from([False, None]))}
            tasks.append({"id": n, "data": {"image": image, "n": 3}, key: [entry], "drafts": [], "predictions": [7]})
        path.write_text(json.dumps(tasks, ensure_ascii=draw(st.booleans())), encoding="utf-8")
        return
    as_object = draw(st.booleans())  # one choice may be an object too, when another annotator made a tag of it
    values = [
        (names[0] if len(names) == 1 and not as_object else {"choices": names}) if names else None for names in chosen
    ]
    if kind == "min":
        records = [
            {"image": image, "id": n, "annotation_id": n, **({} if value is None else {"tag": value})}
            for n, (image, value) in enumerate(zip(images, values, strict=True))
        ]
        path.write_text(json.dumps(records, indent=draw(st.sampled_from([None, 1]))), encoding="utf-8")
        return
    escape = draw(st.booleans())
    with open(path, "w", newline="", encoding=draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))) as target:
        writer = csv.writer(target, delimiter=draw(st.sampled_from(",\t")), quoting=csv.QUOTE_ALL)
        writer.writerow(["annotation_id", "image", "tag"])
        for n, (image, value) in enumerate(zip(images, values, strict=True)):
            text = json.dumps(value, ensure_ascii=escape) if isinstance(value, dict) else value
            writer.writerow([n, image, "" if value is None else text])


@given(st.data(), st.sampled_from(["full", "min", "csv"]))
@settings(max_examples=45, deadline=None)
def test_exports_of_random_tables(data, kind):
    table = data.draw(tables())
    if any(name[0] in "[{" for name in table.classes) and kind == "csv":
        return
    options = {
        "control": "tag",
        "image_column": "image",
        "image_names": "url",
        "classes": table.classes,
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "export"
        write_export(path, table, kind, data.draw)
        again, _ = formats.read("labelstudio", path, **options)
        complete, _ = formats.read("labelstudio", path, **options, not_listed="absent")
    assert again.images.to_pylist() == table.images.to_pylist()
    np.testing.assert_array_equal(again.dense(), table.dense() > 0)
    np.testing.assert_array_equal(complete.dense(), np.where(table.dense() > 0, 1, -1))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"  \n ", "only blank lines"),
        (b"[]", "the list of tasks is empty"),
        (b'{"images": []}', "this is one object"),
        (b"[1, 2]", "2 records not as in an export"),
        (b'[{"id": 1, "image": "a", "tag": "cat"}', "not valid JSON"),
        (b'[{"id": 1, "image": "a", "tag": "\xe9"}]', "not as in an export"),
        (b'[{"id": 1, "image": "a", "tag": 7, "t": "x"}]', "cannot be choices"),
        (b'[{"id": 1, "image": ["a"], "tag": "x"}]', "1 record without the address"),
        (b'[{"id": 1, "data": {"image": 3}, "annotations": []}]', "no choices"),
        (b'[{"data": {"image": "a"}}, {"image": "a", "tag": "x"}]', "1 of 2 entries are tasks"),
        (b'[{"data": {"image": "a"}, "annotations": 3}]', "1 task not as in an export"),
        (b'[{"data": {"image": "a"}, "annotations": [{"result": [{"type": "choices", "value": {}}]}]}]', "1 task not"),
        (b"[" * 100_000, "inside each other"),
        (b'[{"image": ' + b"[" * 100_000 + b"]" * 100_000 + b"}]", "inside each other"),
        (b"image,tag\n", "no rows"),
        (b"image,tag,tag\na,b,c\n", "same name"),
        (b"image\na\n", "separator"),
        (b"image,id\na,1\n", "no column but the image"),
    ],
)
def test_files_that_are_no_exports(tmp_path, content, message):
    path = tmp_path / "export"
    path.write_bytes(content)
    options = {"control": "tag"} if message == "cannot be choices" else {}
    error = refuse(path, **options)
    assert str(path) in error.message
    assert message in error.message
    assert "cannot be read" in refuse(tmp_path / "none.json").message


def test_nan_in_the_data_of_a_task_is_no_hindrance(tmp_path):
    path = tmp_path / "export.json"
    tasks = [task(1, [choice("cat")])]
    tasks[0]["data"]["width"] = math.nan
    path.write_text(json.dumps(tasks))
    assert rows(formats.read("labelstudio", path)[0]) == {"1.png": [1]}
    path.write_text(json.dumps([{"image": "a", "tag": math.nan}, {"image": "b", "tag": "cat"}]))
    assert rows(formats.read("labelstudio", path)[0]) == {"a": [0], "b": [1]}


@given(st.data(), st.sampled_from(["min.json", "export.csv", "full"]))
@settings(max_examples=80, deadline=None)
def test_damaged_files_are_refused_or_read(data, name):
    content = (
        (case("LS-01")[0] / name).read_bytes() if name != "full" else json.dumps([task(1, [choice("é")])]).encode()
    )
    damaged = bytearray(content)
    if data.draw(st.booleans()):
        damaged = damaged[: data.draw(st.integers(0, len(damaged) - 1))]
    for _ in range(data.draw(st.integers(0, 3)) if damaged else 0):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=3))
        if not damaged:
            break
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "export"
        path.write_bytes(damaged)
        try:
            outcome = formats.read("labelstudio", path, control=data.draw(st.sampled_from([None, "tag"])))[1].source
        except UserError as error:
            outcome = str(error)
    assert str(path) in outcome


@pytest.mark.parametrize("fails", range(3))
def test_tasks_and_their_interface_are_never_of_two_exports(tmp_path, monkeypatch, fails):
    path = tmp_path / "tasks.json"
    formats.write("labelstudio", LabelTable.from_dense(["a.jpg"], ["cat"], [[1]]), path)
    moves = []

    def move(source, target, real=os.replace):
        moves.append(target)
        if len(moves) == fails + 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(source), None, str(target))
        real(source, target)

    monkeypatch.setattr(os, "replace", move)
    table = LabelTable.from_dense(["b.jpg"], ["dog"], [[1]])
    with pytest.raises(UserError, match="cannot be written") if fails < 2 else nullcontext():
        formats.write("labelstudio", table, path)
    interface = interface_path(path)
    name = "dog" if fails else "cat"
    assert name in path.read_text()
    assert interface.exists() == (fails != 1)
    assert fails == 1 or name in interface.read_text()
    assert len(list(tmp_path.iterdir())) == (1 if fails == 1 else 2)
