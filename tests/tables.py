"""Small label tables for tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from partlabel.labels.table import LabelTable

matrices = arrays(np.int8, st.tuples(st.integers(0, 12), st.integers(1, 8)), elements=st.sampled_from([-1, 0, 1]))
#            cat  dog  car
HAND = [
    [+1, -1, 0],  # a
    [0, 0, 0],  # b
    [+1, +1, -1],  # c
]


def table_of(matrix, **optional) -> LabelTable:
    matrix = np.asarray(matrix, np.int8)
    images = [f"i{i}" for i in range(len(matrix))]
    return LabelTable.from_dense(images, [f"c{j}" for j in range(matrix.shape[1])], matrix, **optional)


def hand(**optional) -> LabelTable:
    return LabelTable.from_dense(["a", "b", "c"], ["cat", "dog", "car"], HAND, **optional)


def offenders(error) -> list[str]:
    return error.value.offenders
