"""Labels added class by class make the table that adding them at once makes."""

import numpy as np
import pytest

from partlabel import LabelTable
from partlabel.labels.growing import add_by_class

FIELDS = ("indptr", "indices", "values", "origin", "score", "round")


@pytest.mark.parametrize("seed", range(8))
def test_it_is_the_table_of_with_labels(seed):
    random = np.random.default_rng(seed)
    images, classes = random.integers(1, 40, 2)
    labels = random.choice(np.array([-1, 0, 0, 1], np.int8), (images, classes))
    table = LabelTable.from_dense([f"{i}" for i in range(images)], [f"c{c}" for c in range(classes)], labels)
    for round in (1, 2):
        chosen = (table.dense() == 0) & (random.random(labels.shape) < random.random(classes))
        value = random.choice(np.array([-1, 1], np.int8), labels.shape)
        score = random.normal(size=labels.shape).astype(np.float32)

        def columns(chosen=chosen, value=value, score=score):
            for c in np.flatnonzero(chosen.any(0)).tolist():
                rows = np.flatnonzero(chosen[:, c])
                yield c, rows, value[rows, c], score[rows, c]

        image, cls = np.nonzero(chosen)
        at = value[image, cls], score[image, cls]
        made = add_by_class(table, columns, round)
        if not len(image):
            assert made is table
            continue
        expected = table.with_labels(image, cls, at[0], origin="model", score=at[1], round=round)
        for name in FIELDS:
            found, wanted = getattr(made, name), getattr(expected, name)
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)
        assert made.history == expected.history
        table = made
