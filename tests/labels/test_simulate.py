from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from partlabel import simulate
from partlabel.core.errors import UserError
from partlabel.labels.table import LabelTable
from tests.reference import simulate as reference


def table_of(matrix: np.ndarray) -> LabelTable:
    images, classes = matrix.shape
    return LabelTable.from_dense([f"{i}.jpg" for i in range(images)], [f"c{j}" for j in range(classes)], matrix)


def full(images: int, classes: int, seed: int = 0) -> np.ndarray:
    return np.where(np.random.default_rng(seed).random((images, classes)) < 0.3, 1, -1).astype(np.int8)


matrices = arrays(np.int8, st.tuples(st.integers(1, 12), st.integers(1, 9)), elements=st.sampled_from([-1, 0, 1]))


@settings(deadline=None, max_examples=40)
@given(matrices, st.floats(0, 1), st.integers(0, 99))
def test_partial_keeps_the_exact_count_of_each_image_and_only_known_labels(matrix, proportion, seed):
    after = simulate.partial(table_of(matrix), proportion, seed).dense()
    assert (after != 0).sum(1).tolist() == reference.partial_counts(matrix, proportion)
    assert (after[after != 0] == matrix[after != 0]).all()


@settings(deadline=None, max_examples=40)
@given(matrices, st.integers(0, 99))
def test_noisy_plus_leaves_one_present_label(matrix, seed):
    after = simulate.noisy_plus(table_of(matrix), seed).dense()
    assert reference.is_noisy_plus(matrix, after)


def test_partial_by_hand():
    table = table_of(full(50, 20))
    known = simulate.partial(table, 0.1, 0)
    assert (known.dense() != 0).sum(1).tolist() == [2] * 50  # 10 % of 20 classes
    assert (simulate.partial(table, 0.124, 0).dense() != 0).sum(1).tolist() == [2] * 50
    assert (simulate.partial(table, 0.125, 0).dense() != 0).sum(1).tolist() == [3] * 50  # 2.5 goes up
    assert simulate.partial(table, 0, 0).num_known == 0


def test_partial_draws_every_label_equally_often():
    table = table_of(full(2000, 10))
    kept = simulate.partial(table, 0.3, 1).class_counts()
    assert np.abs(kept[0] + kept[1] - 600).max() < 5 * np.sqrt(2000 * 0.3 * 0.7)
    # and the known categories are different for each image
    assert len(np.unique(simulate.partial(table, 0.3, 1).dense() != 0, axis=0)) == 120  # all 10 over 3


def test_partial_bernoulli_varies_per_image_around_the_proportion():
    known = (simulate.partial(table_of(full(500, 40)), 0.25, 3, per_image="bernoulli").dense() != 0).sum(1)
    assert known.std() > 1.5
    assert abs(known.mean() - 10) < 5 * np.sqrt(40 * 0.25 * 0.75 / 500)


@pytest.mark.parametrize("per_image", ["exact", "bernoulli"])
def test_partial_at_one_changes_nothing(per_image):
    matrix = np.array([[1, 0, -1], [0, 0, 0], [1, 1, 1]], np.int8)
    assert (simulate.partial(table_of(matrix), 1.0, 5, per_image=per_image).dense() == matrix).all()


def test_dense_keeps_all_labels_of_a_share_of_the_images_and_all_rows():
    matrix = full(20, 6)
    table = simulate.dense(table_of(matrix), 0.25, 2)
    known = (table.dense() != 0).sum(1)
    assert sorted(known.tolist()) == [0] * 15 + [6] * 5
    assert table.num_images == 20
    assert (table.dense()[known == 6] == matrix[known == 6]).all()


def test_noisy_flips_the_exact_share_and_hides_nothing():
    matrix = full(25, 8)
    after = simulate.noisy(table_of(matrix), 0.8, 0).dense()
    assert (after != 0).all()
    assert (after != matrix).sum() == 40  # 20 % of 200
    assert (simulate.noisy(table_of(matrix), 1, 0).dense() == matrix).all()
    assert (simulate.noisy(table_of(matrix), 0, 0).dense() == -matrix).all()


def test_same_number_of_clean_labels_in_the_three_scenarios():
    table, matrix = table_of(full(40, 10)), full(40, 10)
    clean = [
        (strategy(table, 0.3, 0).dense() == matrix).sum()
        for strategy in (simulate.partial, simulate.dense, simulate.noisy)
    ]
    assert clean == [120, 120, 120]


def test_seed_decides_and_global_state_does_not():
    table = table_of(full(60, 12))
    strategies = [
        lambda seed: simulate.partial(table, 0.2, seed),
        lambda seed: simulate.partial(table, 0.2, seed, per_image="bernoulli"),
        lambda seed: simulate.dense(table, 0.2, seed),
        lambda seed: simulate.noisy(table, 0.2, seed),
        lambda seed: simulate.noisy_plus(table, seed),
    ]
    for strategy in strategies:
        np.random.seed(1)  # noqa: NPY002
        first = strategy(7).dense()
        np.random.seed(2)  # noqa: NPY002
        assert (strategy(7).dense() == first).all()
        assert (strategy(8).dense() != first).any()


def test_known_numbers_of_a_seed():
    """A change of the draw would change every published experiment; it must not happen unnoticed."""
    table = table_of(full(4, 10))
    assert simulate.partial(table, 0.2, 0).indices.tolist() == [2, 3, 1, 3, 0, 1, 2, 5]
    assert np.flatnonzero(np.diff(simulate.dense(table, 0.5, 0).indptr)).tolist() == [0, 2]


def test_history_says_what_was_done():
    table = simulate.noisy_plus(simulate.partial(table_of(full(4, 10)), 0.5, 3), 4)
    assert table.history[0] == {
        "operation": "simulate.partial", "proportion": 0.5, "seed": 3, "per_image": "exact", "kept": 20, "of": 40,
    }  # fmt: skip
    assert table.history[1]["operation"] == "simulate.noisy_plus"
    assert table.history[1]["seed"] == 4


@pytest.mark.parametrize("proportion", [-0.1, 1.1, float("nan"), 10])
def test_proportion_outside_0_to_1_is_refused(proportion):
    table = table_of(full(3, 3))
    for strategy in (simulate.partial, simulate.dense, simulate.noisy):
        with pytest.raises(UserError, match="between 0 and 1"):
            strategy(table, proportion, 0)


def test_unknown_way_to_draw_is_refused():
    with pytest.raises(UserError, match="exact or bernoulli"):
        simulate.partial(table_of(full(3, 3)), 0.5, 0, per_image="poisson")


def test_empty_tables():
    nothing = LabelTable.from_dense([], ["a"], np.zeros((0, 1), np.int8))
    unknown = table_of(np.zeros((3, 2), np.int8))
    for table in (nothing, unknown):
        for result in (
            simulate.partial(table, 0.5, 0), simulate.dense(table, 0.5, 0), simulate.noisy(table, 0.5, 0),
            simulate.noisy_plus(table, 0),
        ):  # fmt: skip
            assert result.num_known == 0
            assert result.num_images == table.num_images
