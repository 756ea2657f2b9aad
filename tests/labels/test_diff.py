"""What changed between two tables, counted by hand."""

import numpy as np

from partlabel import LabelTable
from partlabel.labels.diff import diff

BEFORE = LabelTable.from_dense(["a", "b", "old"], ["cat", "dog", "cow"], [[1, 0, -1], [0, -1, 0], [1, 1, 1]])
#: dog and cat in another order; "cow" is gone, "hen" is new; "old" is gone, "new" is new
AFTER = LabelTable.from_dense(["new", "b", "a"], ["dog", "cat", "hen"], [[1, 0, 0], [1, -1, 0], [0, 1, 1]])


def test_counts_by_hand():
    found = diff(BEFORE, AFTER)
    assert found.images == (["old"], ["new"])
    assert found.classes == (["cow"], ["hen"])
    # new.dog, b.cat and a.hen are known now; b.dog was absent; a.cat stayed
    assert found.changes["added"].tolist() == [[0, 0, 1], [1, 1, -1], [2, 2, 1]]
    assert found.changes["turned"].tolist() == [[1, 0, 1]]
    assert found.changes["lost"].tolist() == found.changes["origin"].tolist() == []
    assert found.turned == [{"image": "b", "class": "dog", "before": "absent", "after": "present"}]
    assert found.per_class == {
        "dog": {"added_present": 1, "added_absent": 0, "lost": 0, "turned": 1, "origin": 0},
        "cat": {"added_present": 0, "added_absent": 1, "lost": 0, "turned": 0, "origin": 0},
        "hen": {"added_present": 1, "added_absent": 0, "lost": 0, "turned": 0, "origin": 0},
    }
    assert found.added_by == {"given": 3}
    text = found.text()
    assert "1 images only in the first table: old" in text
    assert "b, dog: absent -> present" in text


def test_model_labels_and_their_review():
    model = BEFORE.with_labels([0, 1], [1, 0], [1, 1], origin="model", score=[2.0, 3.0], round=1)
    assert diff(BEFORE, model).added_by == {"model": 2}
    reviewed = model.with_labels([0, 1], [1, 0], [1, -1], origin="review")
    found = diff(model, reviewed)
    assert found.changes["origin"].tolist() == [[0, 1, 1]]
    assert found.changes["turned"].tolist() == [[1, 0, -1]]
    assert diff(model, BEFORE).changes["lost"].tolist() == [[0, 1, 1], [1, 0, 1]]


def test_the_same_table():
    assert diff(BEFORE, BEFORE).same
    assert "same images, classes and labels" in diff(BEFORE, BEFORE).text()


def test_tables_without_anything():
    empty = LabelTable.from_dense([], [], np.zeros((0, 0), np.int8))
    assert diff(empty, empty).same
    assert diff(empty, BEFORE).images == ([], ["a", "b", "old"])
