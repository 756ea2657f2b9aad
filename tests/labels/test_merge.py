from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel.core.errors import UserError
from partlabel.labels.table import LabelTable
from tests.reference import labels as reference
from tests.tables import hand, matrices, offenders


@settings(deadline=None, max_examples=60)
@given(matrices, matrices, st.sampled_from(["unknown", "present", "absent", "first"]), st.integers(0, 3))
def test_merge_against_dicts(first, second, policy, shift):
    def named(matrix, by):
        images, classes = [f"i{i + by}" for i in range(len(matrix))], [f"c{j + by}" for j in range(matrix.shape[1])]
        pairs = {(n, c): int(matrix[i, j]) for i, n in enumerate(images) for j, c in enumerate(classes) if matrix[i, j]}
        return LabelTable.from_dense(images, classes, matrix), pairs

    (one, known_one), (two, known_two) = named(first, 0), named(second, shift)
    merged = one.merge(two, policy)
    matrix = merged.dense()
    known = {
        (str(merged.images[i]), merged.classes[j]): int(matrix[i, j]) for i, j in zip(*np.nonzero(matrix), strict=True)
    }
    assert known == reference.merge(known_one, known_two, policy)
    assert merged.images.to_pylist() == list(dict.fromkeys([*one.images.to_pylist(), *two.images.to_pylist()]))
    assert merged.classes == tuple(dict.fromkeys([*one.classes, *two.classes]))


def test_merge_refuses_contradictions_by_default_and_names_them():
    other = LabelTable.from_dense(["c", "a"], ["car", "cat"], [[1, -1], [1, 1]])
    with pytest.raises(UserError, match="2 labels contradict") as error:
        hand().merge(other)
    assert offenders(error) == ["c, cat: present and absent", "c, car: present and absent"]
    with pytest.raises(UserError, match="policy 'majority' is not known"):
        hand().merge(other, "majority")
    assert hand().merge(other, "first").history[-1]["settled"] == 2


def test_merge_prefers_a_persons_label_to_an_equal_one_of_a_model():
    model = LabelTable.from_pairs(["a"], ["x"], [0], [0], [1], origin="model", score=[2.0], round=[1])
    given_ = LabelTable.from_dense(["a"], ["x"], [[1]])
    for merged in (model.merge(given_), given_.merge(model)):
        assert merged.origin.tolist() == [0]
        assert np.isnan(merged.score).all()


def test_one_id_is_never_that_of_two_classes():
    one = LabelTable.from_dense(["a"], ["cat"], [[1]], class_ids=["7"])
    two = LabelTable.from_dense(["a"], ["dog"], [[1]], class_ids=["7"])
    assert one.merge(two).class_ids is None
    assert one.merge([one, LabelTable.from_dense(["b"], ["owl"], [[1]], class_ids=["8"])]).class_ids == ("7", "8")


@settings(deadline=None, max_examples=40)
@given(st.lists(matrices, min_size=3, max_size=3), st.sampled_from(["unknown", "present", "absent", "first"]))
def test_many_tables_are_settled_at_once(many, policy):
    """A pair that two tables contradict each other about stays as settled, whatever a third table says of it."""
    tables, known = [], []
    for k, matrix in enumerate(many):
        images, classes = [f"i{i + k}" for i in range(len(matrix))], [f"c{j}" for j in range(matrix.shape[1])]
        tables.append(LabelTable.from_dense(images, classes, matrix))
        known.append({(images[i], classes[j]): int(matrix[i, j]) for i, j in zip(*np.nonzero(matrix), strict=True)})
    merged = tables[0].merge(tables[1:], policy)
    matrix = merged.dense()
    expected = {}
    for pair in {pair for table in known for pair in table}:
        said = [table[pair] for table in known if pair in table]
        other = {"unknown": 0, "present": 1, "absent": -1, "first": said[0]}[policy]
        if value := said[0] if len(set(said)) == 1 else other:
            expected[pair] = value
    found = {
        (str(merged.images[i]), merged.classes[j]): int(matrix[i, j]) for i, j in zip(*np.nonzero(matrix), strict=True)
    }
    assert found == expected


def test_merge_of_ids_groups_and_words():
    one = LabelTable.from_dense(["a", "b"], ["x"], [[1], [0]], class_ids=["7"], groups=["p", None], coding="1 present")
    two = LabelTable.from_dense(["b", "c"], ["y"], [[1], [1]], class_ids=["8"], groups=["q", "r"], coding="yes present")
    merged = one.merge(two)
    assert merged.class_ids == ("7", "8")
    assert merged.groups.to_pylist() == ["p", "q", "r"]
    assert merged.coding == "1 present; yes present"
    assert one.merge(LabelTable.from_dense(["c"], ["y"], [[1]])).class_ids is None
    assert one.merge(LabelTable.from_dense(["c"], ["y"], [[1]])).groups.to_pylist() == ["p", None, None]
    with pytest.raises(UserError, match="different groups") as error:
        one.merge(LabelTable.from_dense(["a"], ["x"], [[1]], groups=["z"]))
    assert offenders(error) == ["a: p and z"]
    with pytest.raises(UserError, match="different ids") as error:
        one.merge(LabelTable.from_dense(["c"], ["x"], [[1]], class_ids=["9"]))
    assert offenders(error) == ["x: 7 and 9"]
