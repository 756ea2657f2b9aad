"""Label tables from and to data frames."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from partlabel import LabelTable
from partlabel.core.errors import UserError


def test_a_frame_with_names_in_the_index():
    frame = pd.DataFrame({"cat": [1, -1, None], "dog": [np.nan, 1.0, 0]}, index=["a.jpg", "b.jpg", "c.jpg"])
    table = LabelTable.from_pandas(frame)
    assert table.images.to_pylist() == ["a.jpg", "b.jpg", "c.jpg"]
    assert table.classes == ("cat", "dog")
    assert table.dense().tolist() == [[1, 0], [-1, 1], [0, 0]]


def test_a_frame_with_a_column_of_names_keeps_zeros_in_front():
    frame = pd.DataFrame({"cat": pd.array([1, None], "Int8"), "image": ["007", "1e5"]})
    assert LabelTable.from_pandas(frame).images.to_pylist() == ["007", "1e5"]


@given(arrays.arrays(np.int8, st.tuples(st.integers(0, 6), st.integers(1, 4)), elements=st.sampled_from([1, -1, 0])))
def test_there_and_back(labels):
    names = [f"{i}.jpg" for i in range(len(labels))]
    table = LabelTable.from_dense(names, [f"c{c}" for c in range(labels.shape[1])], labels)
    frame = table.to_pandas()
    assert frame.index.name == "image"
    assert LabelTable.from_pandas(frame).content_hash() == table.content_hash()
    assert LabelTable.from_pandas(frame.reset_index()).content_hash() == table.content_hash()


def test_values_that_are_no_labels_are_all_named():
    frame = pd.DataFrame({"cat": [1, 2], "dog": ["yes", None], "car": [True, False], "sun": [1, -1]})
    with pytest.raises(UserError) as error:
        LabelTable.from_pandas(frame)
    assert error.value.offenders == ["cat: 2", "dog: 'yes'", "car: True, False"]


def test_zero_that_could_mean_absent_is_refused():
    with pytest.raises(UserError, match="0 could mean absent or unknown") as error:
        LabelTable.from_pandas(pd.DataFrame({"cat": [1, 0], "dog": [1, 1]}))
    assert error.value.offenders == ["cat"]


def test_without_pandas(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(UserError, match="pip install pandas"):
        LabelTable.from_dense(["a"], ["cat"], [[1]]).to_pandas()


def test_length_and_rows():
    table = LabelTable.from_dense(["a", "b", "c"], ["cat"], [[1], [0], [-1]])
    assert len(table) == 3
    assert table[1:].images.to_pylist() == ["b", "c"]
    assert table[-1].images.to_pylist() == ["c"]
    assert table[np.array([True, False, True])].dense().tolist() == [[1], [-1]]
    with pytest.raises(IndexError):
        table[3]
