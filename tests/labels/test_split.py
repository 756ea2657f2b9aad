from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel.core.errors import UserError
from partlabel.labels.table import LabelTable

CASES = Path(__file__).parents[1] / "cases"


def random_table(images: int, classes: int, known: float, seed: int = 0, **optional) -> LabelTable:
    """Classes from frequent (half of the images) to rare."""
    random = np.random.default_rng(seed)
    chance = 0.5 / np.arange(1, classes + 1)
    matrix = np.where(random.random((images, classes)) < chance, 1, -1)
    matrix[random.random((images, classes)) >= known] = 0
    return LabelTable.from_dense(
        [f"i{i}" for i in range(images)], [f"c{j}" for j in range(classes)], matrix, **optional
    )


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 60),
    st.integers(1, 6),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from([[1.0], [0.5, 0.5], [0.8, 0.2], [0.7, 0.2, 0.1], [0.4, 0.3, 0.2, 0.1]]),
    st.integers(0, 9),
)
def test_parts_are_disjoint_complete_and_of_the_exact_size(images, classes, known, fractions, seed):
    table = random_table(images, classes, known, seed)
    if images < len(fractions):
        with pytest.raises(UserError, match="cannot be split"):
            table.split(fractions, seed)
        return
    parts = table.split(fractions, seed)
    assert sorted(np.concatenate(parts).tolist()) == list(range(images))
    assert all((np.diff(part) > 0).all() for part in parts)
    sizes = [len(part) for part in parts]
    exact = np.array(fractions) * images
    assert min(sizes) >= 1
    if exact.min() >= 1:
        assert np.abs(sizes - exact).max() < 1


def deviations(table: LabelTable, parts, fractions) -> np.ndarray:
    """Distance of each count from its share, (parts, 2 signs, C)."""
    whole = np.stack(table.class_counts())
    counts = [np.stack(table.select(part).class_counts()) for part in parts]
    return np.abs([count - fraction * whole for count, fraction in zip(counts, fractions, strict=True)])


def test_fully_known_classes_are_shared_out_in_proportion():
    table, fractions = random_table(3000, 40, 1.0), [0.8, 0.15, 0.05]
    assert deviations(table, table.split(fractions, 1), fractions).max() <= 3  # a random split: about 50


def test_partly_known_classes_are_shared_out_in_proportion_for_both_signs():
    table, fractions = random_table(3000, 40, 0.1), [0.8, 0.15, 0.05]
    found = deviations(table, table.split(fractions, 1), fractions)
    random = np.random.default_rng(0).permutation(3000)
    chance = deviations(table, np.split(random, [2400, 2850]), fractions)
    assert (found.mean((0, 2)) < 0.6 * chance.mean((0, 2))).all()
    rare = np.stack(table.class_counts()) < 60
    assert found[:, rare].max() <= 2


def test_rare_classes_are_in_each_part_where_there_are_enough():
    matrix = -np.ones((200, 5), np.int8)
    for column, present in enumerate([1, 2, 3, 4, 50]):
        matrix[10 * column : 10 * column + present, column] = 1
    table = LabelTable.from_dense([f"i{i}" for i in range(200)], list("abcde"), matrix)
    for seed in range(5):
        present = np.stack([table.select(part).class_counts()[0] for part in table.split([0.9, 0.1], seed)])
        assert present[:, 0].tolist() in ([1, 0], [0, 1])  # one image cannot be in both
        assert (present[:, 1:] >= 1).all()
        assert present[:, 4].tolist() == [45, 5]


def test_a_tiny_part_is_not_flooded_by_many_rare_classes():
    matrix = np.eye(40, dtype=np.int8).repeat(2, axis=0) * 2 - 1  # 40 classes, 2 images each
    table = LabelTable.from_dense([f"i{i}" for i in range(80)], [f"c{j}" for j in range(40)], matrix)
    assert [len(part) for part in table.split([0.95, 0.05], 0)] == [76, 4]


def test_seed_decides():
    table = random_table(100, 5, 0.5)
    first, again, other = (table.split([0.5, 0.5], seed)[0].tolist() for seed in (3, 3, 4))
    assert first == again
    assert first != other


@settings(deadline=None, max_examples=30)
@given(st.integers(3, 60), st.integers(0, 99), st.booleans())
def test_groups_stay_together(images, seed, own):
    random = np.random.default_rng(seed)
    groups = [None if g == 0 else f"g{g}" for g in random.integers(0, 12, images)]
    count = len({g for g in groups if g}) + groups.count(None)
    table = random_table(images, 4, 0.5, seed, groups=groups if own else None)
    if count < 2:
        with pytest.raises(UserError, match="1 group cannot be split into 2 parts"):
            table.split([0.6, 0.4], seed, None if own else groups)
        return
    first, second = table.split([0.6, 0.4], seed, None if own else groups)
    assert len(first) + len(second) == images
    assert min(len(first), len(second)) >= 1
    assert not {groups[i] for i in first} & {groups[i] for i in second} - {None}


def test_groups_are_shared_out_in_proportion():
    random = np.random.default_rng(0)
    table = random_table(3000, 20, 1.0, groups=[f"g{g}" for g in random.integers(0, 600, 3000)])
    whole = table.class_counts()[0]
    test = table.split([0.8, 0.2], 0)[1]
    assert abs(len(test) - 600) <= 5
    deviation = np.abs(table.select(test).class_counts()[0] - 0.2 * whole)
    by_chance = np.sqrt(0.2 * 0.8 * whole * 5)  # whole groups of about five, drawn at random
    assert deviation.mean() < 0.5 * by_chance.mean()


def test_patients_stay_in_one_part():
    """SPL-02: three patients with two images each."""
    with open(CASES / "SPL-02" / "labels.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    expected = json.loads((CASES / "SPL-02" / "expected.json").read_text())["groups"]
    table = LabelTable.from_dense(
        [row["image"] for row in rows],
        ["cat", "dog"],
        [[int(row["cat"]), int(row["dog"])] for row in rows],
        groups=[row["patient"] for row in rows],
    )
    for seed in range(10):
        parts = [set(table.images.take(part).to_pylist()) for part in table.split([0.5, 0.5], seed)]
        assert sorted(map(len, parts)) == [2, 4]
        for images in expected.values():
            assert any(set(images) <= part for part in parts)
        one_each = table.split([1 / 3, 1 / 3, 1 / 3], seed)
        assert sorted(sorted(table.images.take(part).to_pylist()) for part in one_each) == sorted(expected.values())


@pytest.mark.parametrize("fractions", [[], [0.5], [0.5, 0.6], [1.2, -0.2], [1.0, 0.0], [float("nan"), 1]], ids=str)
def test_wrong_fractions_are_refused(fractions):
    with pytest.raises(UserError, match="above 0 and sum to 1"):
        random_table(10, 2, 1.0).split(fractions, 0)


def test_wrong_groups_are_refused():
    with pytest.raises(UserError, match="3 groups for 10 images"):
        random_table(10, 2, 1.0).split([0.5, 0.5], 0, ["a", "b", "c"])
