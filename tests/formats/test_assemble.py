"""Statements to labels: repeats, contradictions and pairs that are not listed, against a naive reading."""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel import formats
from partlabel.core.errors import UserError
from partlabel.formats import source
from tests.reference import formats as naive

WORDS = {"1": "present", "0": "absent", "-1": "uncertain"}
CELLS = st.sampled_from(["1", "0", "-1", ""])
NAMES = ["a.png", "b.png", "c.png"]


def write(folder: str, rows) -> Path:
    path = Path(folder) / "labels.csv"
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


@given(
    st.lists(st.tuples(st.sampled_from(NAMES), CELLS, CELLS), min_size=1, max_size=12),
    st.sampled_from(["unknown", "present", "absent", "majority"]),
    st.sampled_from(["unknown", "absent"]),
)
@settings(max_examples=60)
def test_wide_and_long_agree_with_the_naive_reading(rows, policy, not_listed):
    cells = [(image, name, cell) for image, *values in rows for name, cell in zip(("cat", "dog"), values, strict=True)]
    settled = naive.settle([(i, c, WORDS[v]) for i, c, v in cells if v], policy)
    images = list(dict.fromkeys(row[0] for row in rows))
    expected = naive.matrix(images, ["cat", "dog"], settled, not_listed)
    options = {"coding": "chexpert", "conflicts": policy, "not_listed": not_listed}
    with tempfile.TemporaryDirectory() as folder:
        for table_rows in ([("image", "cat", "dog"), *rows], [("image", "label", "value"), *cells]):
            table, report = formats.read("csv", write(folder, table_rows), **options)
            assert table.images.to_pylist() == images
            assert table.dense().tolist() == expected
            assert report.known == sum(value != 0 for row in expected for value in row)


def test_majority_and_its_tie(tmp_path):
    rows = [("image", "cat", "dog"), ("a", 1, 1), ("a", -1, -1), ("a", 1, "")]
    table, report = formats.read("csv", write(str(tmp_path), rows), conflicts="majority")
    assert table.dense().tolist() == [[1, 0]]
    assert [(c.class_name, c.settled) for c in report.conflicts] == [("cat", "present"), ("dog", "unknown")]
    assert [place.rsplit(":", 1)[1] for place in report.conflicts[0].places] == ["2 present", "3 absent", "4 present"]
    assert (table.history[0]["conflicts"], table.history[0]["settled"]) == ("majority", 2)


def test_all_contradictions_are_listed(tmp_path):
    rows = [("image", "cat", "dog"), ("a", 1, 1), ("b", 1, ""), ("a", -1, -1), ("b", -1, 1)]
    with pytest.raises(UserError, match="3 labels stated both") as caught:
        formats.read("csv", write(str(tmp_path), rows))
    assert [line.split(":")[0] for line in caught.value.offenders] == ["a, cat", "a, dog", "b, cat"]


def test_too_many_pairs_to_fill_in(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "MOST_FILLED", 3)
    path = write(str(tmp_path), [("image", "cat", "dog"), ("a", 1, ""), ("b", "", 1)])
    with pytest.raises(UserError, match=r"would write 4 labels \(2 images x 2 classes\)"):
        formats.read("csv", path, not_listed="absent")


def test_groups(tmp_path):
    path = write(
        str(tmp_path), [("image", "patient", "cat"), ("a", "p1", 1), ("b", "", -1), ("a", "p1", ""), ("c", "p2", 1)]
    )
    table, _ = formats.read("csv", path, group="patient")
    assert table.groups is not None
    assert table.groups.to_pylist() == ["p1", None, "p2"]
    path = write(str(tmp_path), [("image", "patient", "cat"), ("a", "p1", 1), ("b", "p1", -1), ("a", "p2", "")])
    with pytest.raises(UserError, match="more than one group") as caught:
        formats.read("csv", path, group="patient")
    assert caught.value.offenders == [f"a: {path}:2, {path}:4"]


def test_missing_images(tmp_path):
    (tmp_path / "A.JPG").touch()
    (tmp_path / "c.png").touch()
    path = write(str(tmp_path), [("image", "cat"), ("a.jpg", 1), ("b.jpg", -1), ("c", -1), ("d", 1)])
    with pytest.raises(UserError, match="2 of 4 images missing") as caught:
        formats.read("csv", path, images=tmp_path)
    assert caught.value.offenders == ["b.jpg", "d"]
    table, report = formats.read("csv", path, images=tmp_path, missing="skip")
    assert (table.images.to_pylist(), table.dense().tolist()) == (["a.jpg", "c"], [[1], [-1]])
    assert report.missing == ["b.jpg", "d"]
    assert (report.images, report.known) == (2, 2)
    assert "2 images without a file: b.jpg, d" in report.text()
    (tmp_path / "c.jpg").touch()
    with pytest.raises(UserError, match="more than one file") as caught:
        formats.read("csv", path, images=tmp_path)
    assert caught.value.offenders == ["c: c.jpg, c.png"]
    with pytest.raises(UserError, match="not a folder"):
        formats.read("csv", path, images=tmp_path / "none")
