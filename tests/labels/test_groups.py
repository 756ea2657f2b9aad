"""Copies of one image are one group, whatever groups they were in."""

import numpy as np
import pyarrow as pa

from partlabel.labels.groups import tie


def tied(groups, first):
    images = pa.array([f"{i}.png" for i in range(len(first))])
    given = None if groups is None else pa.array(groups, pa.string())
    found = tie(images, given, np.array(first))
    return None if found is None else found.to_pylist()


def test_by_hand():
    assert tied(None, [0, 1, 2]) is None
    assert tied(["p", None, "q"], [0, 1, 2]) == ["p", None, "q"]
    assert tied(None, [0, 1, 0, 1, 4]) == ["copies of 0.png", "copies of 1.png"] * 2 + [None]
    # 3 is a copy of 1: it comes into the group of 1, with all others of its own
    assert tied(["p", "q", "p", "r", "r", None], [0, 1, 2, 1, 4, 5]) == ["p", "q", "p", "q", "q", None]
    assert tied([None, "q", None], [0, 1, 1]) == [None, "q", "q"]
    assert tied([None, None, "q"], [0, 0, 1]) == ["q", "q", "q"]  # a chain


def test_against_a_naive_closure():
    random = np.random.default_rng(0)
    for _ in range(200):
        count = int(random.integers(1, 12))
        groups = [None if random.random() < 0.5 else f"g{random.integers(4)}" for _ in range(count)]
        first = [int(random.integers(i + 1)) if random.random() < 0.3 else i for i in range(count)]
        together = np.eye(count, dtype=bool)
        for i in range(count):
            together[i, first[i]] = together[first[i], i] = True
            for j in range(count):
                together[i, j] |= groups[i] is not None and groups[i] == groups[j]
        for _ in range(count):
            together = (together.astype(int) @ together) > 0
        found = tied(groups, first)
        if first == list(range(count)):
            assert found == groups
            continue
        for i in range(count):
            for j in range(count):
                assert (i == j or (found[i] is not None and found[i] == found[j])) == together[i, j]
