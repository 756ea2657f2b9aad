from types import SimpleNamespace

import numpy as np
import pytest

from partlabel import LabelTable
from partlabel.core.errors import UserError
from partlabel.labels.match import match


def table(classes, labels):
    return LabelTable.from_dense([f"{i}.png" for i in range(len(labels))], classes, np.array(labels, np.int8))


def model(*classes):
    return SimpleNamespace(classes=classes)


def test_classes_of_the_table_in_the_order_of_the_model():
    found = match(table(["b", "a"], [[1, -1], [0, 1]]), model("a", "x", "b"), every="table")
    assert found.table.classes == ("a", "b")
    assert found.table.dense().tolist() == [[-1, 1], [1, 0]]
    assert found.of_model.tolist() == [0, 2]
    assert found.of_table.tolist() == [1, 0]


def test_classes_of_the_model_among_others_of_the_table():
    found = match(table(["z", "b", "a"], [[1, 0, -1]]), model("a", "b"), every="model")
    assert found.table.classes == ("a", "b")
    assert found.of_table.tolist() == [2, 1]
    assert found.of_model.tolist() == [0, 1]


def test_equal_classes_give_the_same_table():
    given = table(["a", "b"], [[1, 0]])
    assert match(given, model("a", "b"), every="model").table is given


def test_what_is_lacking_is_listed():
    given = table(["a", "b", "c"], [[1, 0, 1]])
    with pytest.raises(UserError, match="does not know 2 of the 3 classes") as caught:
        match(given, model("a"), every="table")
    assert caught.value.offenders == ["b", "c"]
    with pytest.raises(UserError, match="lacks 1 of the 2 classes of the model") as caught:
        match(given, model("d", "a"), every="model")
    assert caught.value.offenders == ["d"]
    match(given, model("a"), every="model")


def test_random_tables_and_models():
    rng = np.random.default_rng(0)
    names = [f"c{i}" for i in range(12)]
    for _ in range(50):
        inside = list(rng.choice(names, rng.integers(1, 13), replace=False))
        outside = list(rng.permutation(names))
        labels = rng.integers(-1, 2, (5, len(inside)))
        found = match(table(inside, labels), model(*outside), every="table")
        assert [outside[c] for c in found.of_model] == list(found.table.classes)
        assert [inside[c] for c in found.of_table] == list(found.table.classes)
        assert (found.table.dense() == labels[:, found.of_table]).all()
