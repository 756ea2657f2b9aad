"""Inspection: counts against hand-counted numbers and naive loops; text, JSON and image."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from partlabel.core.errors import UserError
from partlabel.labels.inspect import inspect
from partlabel.labels.inspect_figure import draw
from partlabel.labels.inspect_text import text
from partlabel.labels.table import LabelTable

CLASSES = ("cat", "dog", "Dog", "eel")
LABELS = np.array(
    [
        [1, 1, 0, -1],
        [1, 1, 0, -1],
        [1, -1, 0, 0],
        [-1, -1, 0, -1],
        [0, 0, 0, 0],
    ],
    np.int8,
)


def table(labels=LABELS, classes=CLASSES, **optional) -> LabelTable:
    return LabelTable.from_dense([f"{i}.jpg" for i in range(len(labels))], classes, labels, **optional)


def test_counts_by_hand():
    found = inspect(table())
    assert (found.images, found.known) == (5, 11)
    assert found.present.tolist() == [3, 2, 0, 0]
    assert found.absent.tolist() == [1, 2, 0, 3]
    assert found.overall_proportion == 11 / 20
    assert found.proportion.tolist() == [0.75, 0.75, 0.5, 0.75, 0.0]
    assert (found.without_known, found.without_present, found.fully_known) == (1, 2, 0)
    assert found.origins == {"given": 11}
    assert found.histogram() == [1, 0, 0, 0, 0, 1, 0, 3, 0, 0]


def test_pairs_by_hand():
    found = inspect(table())
    (pair,) = found.pairs
    assert (found.classes[pair.first], found.classes[pair.second]) == ("cat", "dog")
    # both known in 4 images; there, cat in 3 of 4 and dog in 2 of 4
    assert (pair.together, pair.known, pair.expected) == (2, 4, 4 * (3 / 4) * (2 / 4))


def test_share_given_the_other_class_counts_known_labels_only():
    found = inspect(table())
    cat, dog, upper, eel = (found.matrix_classes.tolist().index(i) for i in range(4))
    assert found.matrix[cat, dog] == found.matrix[dog, cat] == 2
    assert found.given[cat, dog] == 2 / 3
    assert found.given[dog, cat] == 1.0
    assert found.given[cat, eel] == 0.0  # eel is known in two of the three images with a cat
    assert np.isnan(found.given[cat, upper])  # the other spelling is never known


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(0, 12), st.integers(1, 7))
def test_cooccurrence_equals_a_loop(seed, images, classes):
    labels = np.random.default_rng(seed).integers(-1, 2, (images, classes)).astype(np.int8)
    found = inspect(table(labels, [f"c{i}" for i in range(classes)]))
    expected = {}
    for a in range(classes):
        for b in range(a + 1, classes):
            both = sum(1 for row in labels if row[a] == 1 and row[b] == 1)
            known = [row for row in labels if row[a] != 0 and row[b] != 0]
            if both:
                chance = sum(r[a] == 1 for r in known) * sum(r[b] == 1 for r in known) / len(known)
                expected[a, b] = (both, len(known), pytest.approx(chance))
    got = {tuple(sorted((p.first, p.second))): (p.together, p.known, p.expected) for p in found.pairs}
    assert got == expected
    assert [p.together for p in found.pairs] == sorted((p.together for p in found.pairs), reverse=True)
    json.dumps(found.to_dict(), allow_nan=False)
    assert text(found)


def test_warnings_name_classes_and_images():
    text = "\n".join(inspect(table()).warnings)
    assert "1 class without any known label, which cannot be learned: Dog." in text
    assert "1 class known only as absent, whose average precision is undefined: eel." in text
    assert "2 classes with fewer than 10 known present labels: cat, dog." in text
    assert "1 of 5 images have no known label" in text
    assert "look alike: dog / Dog." in text


@pytest.mark.parametrize(
    ("labels", "warning"),
    [
        ([[1, 0], [0, 1]], "No label is known to be absent"),
        ([[-1, 0], [0, -1]], "No label is known to be present"),
        ([[0, 0], [0, 0]], "No label is known"),
    ],
)
def test_one_sided_tables_are_named_first(labels, warning):
    assert inspect(table(np.array(labels, np.int8), ("a", "b"))).warnings[0].startswith(warning)


def test_a_good_table_has_no_warning():
    labels = np.tile(np.array([[1, -1], [-1, 1], [1, 1]], np.int8), (10, 1))
    found = inspect(table(labels, ("cat", "dog")))
    assert found.warnings == []
    assert "Warnings" not in text(found)


def test_json_holds_every_class_in_table_order():
    result = inspect(table(class_ids=("7", "8", "9", "10"), coding="1 = present")).to_dict()
    assert result["per_class"] == [
        {"name": "cat", "id": "7", "present": 3, "absent": 1, "unknown": 1},
        {"name": "dog", "id": "8", "present": 2, "absent": 2, "unknown": 1},
        {"name": "Dog", "id": "9", "present": 0, "absent": 0, "unknown": 5},
        {"name": "eel", "id": "10", "present": 0, "absent": 3, "unknown": 2},
    ]
    assert result["look_alikes"] == [["dog", "Dog"]]
    assert result["coding"] == "1 = present"
    assert result["cooccurrence"]["pairs"][0]["classes"] == ["cat", "dog"]


def test_text_lists_classes_most_often_present_first():
    lines = text(inspect(table())).splitlines()
    rows = [line.split()[0] for line in lines if line.split()[:1] and line.split()[0] in CLASSES]
    assert rows == ["cat", "dog", "Dog", "eel"]


def test_text_of_many_classes_is_cut_in_the_middle():
    labels = np.where(np.arange(300)[:, None] >= np.arange(150)[None, :], 1, -1).astype(np.int8)
    shown = text(inspect(table(labels, [f"class {i}" for i in range(150)])))
    assert "class 0 " in shown
    assert "class 149" in shown
    assert "class 75 " not in shown
    assert "90 more classes" in shown


@pytest.mark.slow
@pytest.mark.parametrize("classes", [1, 3, 120])
def test_picture_fits_its_classes(tmp_path, classes):
    labels = np.random.default_rng(0).integers(-1, 2, (30, classes)).astype(np.int8)
    path = tmp_path / "labels.png"
    draw(inspect(table(labels, [f"class {i}" for i in range(classes)])), path)
    with Image.open(path) as picture:
        picture.load()
        assert picture.width == 1386
        # a row of its own for each class, up to 100
        assert picture.height >= min(classes, 100) * 18
        assert picture.height < 2600


def test_picture_of_an_empty_table(tmp_path):
    draw(inspect(table(np.zeros((0, 2), np.int8), ("a", "b"))), tmp_path / "empty.png")
    assert (tmp_path / "empty.png").stat().st_size > 0


def test_picture_into_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        draw(inspect(table()), tmp_path / "no" / "labels.png")
    assert list(tmp_path.iterdir()) == []


def test_copies_are_named():
    groups = ["copies of a", "patient 7", "copies of a", "patient 7", None]
    found = inspect(LabelTable.from_dense(list("abcde"), ["cat"], [[1], [-1], [1], [1], [-1]], groups=groups))
    assert found.warnings[-1] == "2 images are copies of one another: a = c."
