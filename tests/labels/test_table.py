from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel.core.errors import UserError
from partlabel.labels import arrays
from partlabel.labels import names as name_module
from partlabel.labels.table import ORIGINS, LabelTable
from tests.reference import labels as reference
from tests.tables import HAND, hand, matrices, offenders, table_of

# -------------------------------------------------------------------- building


def test_arrays_by_hand():
    table = hand()
    assert table.indptr.tolist() == [0, 2, 2, 5]
    assert table.indices.tolist() == [0, 1, 0, 1, 2]
    assert table.values.tolist() == [1, -1, 1, 1, -1]
    assert table.origin.tolist() == [0] * 5
    assert (table.num_images, table.num_classes, table.num_known) == (3, 3, 5)
    dtypes = [array.dtype for array in (table.indptr, table.indices, table.values, table.origin)]
    assert dtypes == [np.int64, np.int32, np.int8, np.uint8]
    assert repr(table) == "LabelTable(3 images, 3 classes, 5 known labels)"


def test_pairs_in_any_order_make_the_same_table():
    table = LabelTable.from_pairs(
        ["a", "b", "c"], ["cat", "dog", "car"], [2, 0, 2, 0, 2], [2, 1, 0, 0, 1], [-1, -1, 1, 1, 1]
    )
    assert table.dense().tolist() == HAND
    assert table.content_hash() == hand().content_hash()


def test_scores_rounds_and_origins_follow_their_pair():
    table = LabelTable.from_pairs(
        ["a", "b"], ["x", "y"], [1, 0, 0], [0, 1, 0], [1, -1, 1],
        origin=[1, 0, 1], score=[2.5, np.nan, -1.5], round=[3, -1, 1],
    )  # fmt: skip
    assert table.indices.tolist() == [0, 1, 0]
    assert [ORIGINS[code] for code in table.origin] == ["model", "given", "model"]
    np.testing.assert_equal(table.score, np.array([-1.5, np.nan, 2.5], np.float32))
    assert table.round.tolist() == [1, -1, 3]


def test_a_table_cannot_be_changed():
    table = hand()
    for array in (table.indptr, table.indices, table.values, table.origin):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError):
        table.coding = "other"
    source = np.array([1, -1], np.int8)
    LabelTable(pa.array(["a"]), ("x", "y"), np.array([0, 2]), np.array([0, 1], np.int32), source, np.zeros(2, np.uint8))
    source[0] = -1  # the caller's own array stays the caller's


def test_wrong_values_are_all_listed():
    with pytest.raises(UserError, match="2 labels are neither 1") as error:
        LabelTable.from_dense(["a", "b"], ["cat", "dog"], [[1, 0.5], [2, -1]])
    assert offenders(error) == ["a, dog: 0.5", "b, cat: 2.0"]
    with pytest.raises(UserError, match="neither 1") as error:
        LabelTable.from_dense(["a"], ["cat"], [[np.nan]])
    assert offenders(error) == ["a, cat: nan"]
    with pytest.raises(UserError, match="neither 1"):
        LabelTable.from_pairs(["a"], ["cat"], [0], [0], [0])


def test_numbers_out_of_range_are_all_listed():
    with pytest.raises(UserError, match=r"image outside 0 \.\. 1") as error:
        LabelTable.from_pairs(["a", "b"], ["cat"], [0, 2, -1], [0, 0, 0], [1, 1, 1])
    assert offenders(error) == ["label 1: image 2", "label 2: image -1"]
    with pytest.raises(UserError, match=r"class outside 0 \.\. 0") as error:
        LabelTable.from_pairs(["a", "b"], ["cat"], [0, 1], [1, -1], [1, 1])
    assert offenders(error) == ["a: class 1", "b: class -1"]
    with pytest.raises(UserError, match="whole numbers"):
        LabelTable.from_pairs(["a"], ["cat"], [0.5], [0], [1])
    assert LabelTable.from_pairs(["a"], ["cat"], [], [], []).num_known == 0
    with pytest.raises(UserError, match="origin code"):
        LabelTable.from_pairs(["a"], ["cat"], [0], [0], [1], origin=[5])
    with pytest.raises(UserError, match="origin 'modell' is not known"):
        LabelTable.from_pairs(["a"], ["cat"], [0], [0], [1], origin="modell")


def test_repeats_and_contradictions_are_all_listed():
    rows, columns, values = [0, 1, 0, 1, 1], [0, 1, 0, 1, 0], [1, 1, 1, -1, 1]
    with pytest.raises(UserError, match="2 labels contradict") as error:
        LabelTable.from_pairs(["a", "b"], ["cat", "dog"], rows, columns, values)
    assert offenders(error) == ["a, cat: listed 2 times", "b, dog: present and absent"]
    with pytest.raises(UserError, match="1 labels contradict") as error:
        LabelTable.from_pairs(["a", "b"], ["cat", "dog"], rows, columns, values, duplicates="same")
    assert offenders(error) == ["b, dog: present and absent"]


@pytest.mark.parametrize(("policy", "expected"), [("unknown", 0), ("present", 1), ("absent", -1), ("first", -1)])
def test_contradictions_by_policy(policy, expected):
    table = LabelTable.from_pairs(
        ["a", "b"], ["cat", "dog"], [1, 0, 1, 0], [1, 0, 1, 0], [-1, 1, 1, 1], duplicates=policy
    )
    assert table.dense().tolist() == [[1, 0], [0, expected]]
    assert table.history[-1] == {"operation": "contradictions", "policy": policy, "settled": 1}


def test_names_are_checked():
    with pytest.raises(UserError, match="2 images are listed more than once") as error:
        LabelTable.from_dense(["a", "b", "a", "c", "b", "a"], ["x"], np.zeros((6, 1)))
    assert offenders(error) == ["a: 3 times", "b: 2 times"]
    with pytest.raises(UserError, match="1 classes are listed") as error:
        LabelTable.from_dense(["a"], ["x", "y", "x"], np.zeros((1, 3)))
    assert offenders(error) == ["x"]
    with pytest.raises(UserError, match="have no name") as error:
        LabelTable.from_dense(["a", None], ["x"], np.zeros((2, 1)))
    assert offenders(error) == ["image number 1"]
    with pytest.raises(UserError, match="2 class ids for 1 classes"):
        hand().select_classes(["cat"]).from_dense(["a"], ["x"], [[1]], class_ids=["1", "2"])
    with pytest.raises(UserError, match="3 groups for 1 images"):
        LabelTable.from_dense(["a"], ["x"], [[1]], groups=["p", "q", "r"])
    with pytest.raises(UserError, match="must be text"):
        LabelTable.from_dense([1, 2], ["x"], np.zeros((2, 1)))


def test_wrong_arrays_are_refused():
    def build(indptr, indices, values=(1, -1), origin=(0, 0)):
        return LabelTable(
            pa.array(["a", "b"]), ("x", "y"), np.array(indptr), np.array(indices, np.int32),
            np.array(values, np.int8), np.array(origin, np.uint8),
        )  # fmt: skip

    assert build([0, 1, 2], [1, 0]).dense().tolist() == [[0, 1], [-1, 0]]
    with pytest.raises(UserError, match="rise strictly") as error:
        build([0, 0, 2], [1, 0])
    assert offenders(error) == ["b"]
    with pytest.raises(UserError, match="rise strictly"):
        build([0, 2, 2], [1, 1])
    for indptr in ([0, 2, 1], [1, 1, 2], [0, 1, 1], [0, 1, 3]):
        with pytest.raises(UserError, match="indptr"):
            build(indptr, [1, 0])
    with pytest.raises(UserError, match="class outside"):
        build([0, 1, 2], [1, 2])
    with pytest.raises(UserError, match="neither 1"):
        build([0, 1, 2], [1, 0], values=(1, 0))
    with pytest.raises(UserError, match="neither 1"):
        build([0, 1, 2], [1, 0], values=(1, -127))
    with pytest.raises(UserError, match="unknown origin") as error:
        build([0, 1, 2], [1, 0], origin=(0, 9))
    assert offenders(error) == ["b, x: 9"]
    with pytest.raises(UserError, match="expected int8"):
        build([0, 1, 2], [1, 0], values=(1, -1, 1))


# -------------------------------------------------------------------- looking up and counting


@settings(deadline=None, max_examples=40)
@given(matrices)
def test_counts_against_loops(matrix):
    table = table_of(matrix)
    assert (table.dense() == matrix).all()
    assert [a.tolist() for a in table.image_counts()] == list(reference.counts(matrix, "image"))
    assert [a.tolist() for a in table.class_counts()] == list(reference.counts(matrix, "class"))
    assert table.proportion().tolist() == [np.mean(row != 0) for row in matrix]
    arrays.CHUNK, chunk = 5, arrays.CHUNK  # many pieces
    try:
        assert (table.cooccurrence() == reference.cooccurrence(matrix)).all()
    finally:
        arrays.CHUNK = chunk
    assert (table.cooccurrence() == reference.cooccurrence(matrix)).all()


@pytest.mark.parametrize(
    "rows",
    [[2, 0], [1], [], slice(None), slice(1, 3), slice(2, 0, -1), slice(5, 9), [-1, 0, -1], [0, 0],
     [True, False, True], None, np.array([2], np.uint8)],
    ids=str,
)  # fmt: skip
def test_dense_takes_rows_as_numpy_does(rows):
    full = np.array(HAND, np.int8)
    expected = full if rows is None else full[np.array(rows, int) if isinstance(rows, list) and not rows else rows]
    result = hand().dense(rows)
    assert result.dtype == np.int8
    assert (result == expected).all()
    assert result.shape == expected.shape


@pytest.mark.parametrize("rows", [[3], [-4], [True, False]], ids=str)
def test_dense_refuses_rows_that_do_not_exist(rows):
    with pytest.raises(IndexError):
        hand().dense(rows)


def test_look_up():
    table = hand()
    assert table.image_index(["c", "nothing", "a"]).tolist() == [2, -1, 0]
    assert table.image_index([]).tolist() == []
    assert table.class_index("car") == 2
    with pytest.raises(UserError) as error:
        table.class_index("doog")
    assert offenders(error) == ["doog (did you mean dog?)"]


def test_content_hash_changes_with_what_is_trained():
    base = hand()
    assert base.content_hash() == hand(coding="other words", class_ids=["1", "2", "3"]).content_hash()
    others = [
        base.hide(np.arange(5) != 3),
        LabelTable.from_dense(["a", "b", "d"], ["cat", "dog", "car"], HAND),
        LabelTable.from_dense(["ab", "", "c"], ["cat", "dog", "car"], HAND),
        LabelTable.from_dense(["a", "b", "c"], ["cat", "dog", "bus"], HAND),
        LabelTable.from_dense(["a", "b", "c"], ["cat", "dog", "car"], -np.array(HAND)),
        hand(groups=["p", "p", "q"]),
        hand(groups=["p", "q", "q"]),
        hand(origin="sampled"),
    ]
    assert len({table.content_hash() for table in (base, *others)}) == 9
    sliced = LabelTable.from_dense(pa.array(["z", "a", "b", "c", "z"]).slice(1, 3), ["cat", "dog", "car"], HAND)
    assert sliced.content_hash() == base.content_hash()


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=30))
def test_repeated_names_are_found(names):
    name_module.CHUNK, chunk = 4, name_module.CHUNK
    try:
        found = name_module.repeats(pa.array(names, pa.string()))
    finally:
        name_module.CHUNK = chunk
    assert sorted(found) == sorted(f"{name}: {names.count(name)} times" for name in set(names) if names.count(name) > 1)


def test_names_with_one_hash_are_not_repeats(monkeypatch):
    monkeypatch.setattr(name_module, "hashes", lambda names: np.zeros(len(names), np.uint64))
    assert hand().num_images == 3


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_pairs_in_any_order_keep_their_value_and_origin(seed, with_scores):
    """Each label is where the lists say, whatever their order and whichever of the five origins it has."""
    rng = np.random.default_rng(seed)
    images, classes = rng.integers(1, 9, 2)
    key = rng.permutation(images * classes)[: rng.integers(0, images * classes + 1)]
    value, origin = rng.choice([-1, 1], len(key)), rng.integers(0, len(ORIGINS), len(key))
    score = {"score": rng.random(len(key))} if with_scores else {}
    names = ([f"{i}.jpg" for i in range(images)], [f"c{c}" for c in range(classes)])
    table = LabelTable.from_pairs(*names, key // classes, key % classes, value, origin=origin, **score)
    found = table.pair_images() * classes + table.indices
    assert found.tolist() == sorted(key.tolist())
    order = np.argsort(key)
    assert table.values.tolist() == value[order].tolist()
    assert table.origin.tolist() == origin[order].tolist()


# -------------------------------------------------------------------- new tables


@settings(deadline=None, max_examples=30)
@given(matrices, st.randoms(use_true_random=False))
def test_select_and_select_classes_against_numpy(matrix, random):
    table = table_of(matrix, groups=[f"g{i % 3}" for i in range(len(matrix))])
    rows = random.sample(range(len(matrix)), k=random.randint(0, len(matrix)))
    part = table.select(rows)
    assert (part.dense() == matrix[np.array(rows, int)]).all()
    assert part.images.to_pylist() == [f"i{r}" for r in rows]
    assert part.groups.to_pylist() == [f"g{r % 3}" for r in rows]
    columns = random.sample(range(matrix.shape[1]), k=random.randint(1, matrix.shape[1]))
    assert (table.select_classes([f"c{c}" for c in columns]).dense() == matrix[:, columns]).all()


def test_select_refuses_repeats_and_unknown_names():
    with pytest.raises(UserError, match="more than once") as error:
        hand().select([0, 2, 0, 2])
    assert offenders(error) == ["a", "c"]
    with pytest.raises(UserError, match="2 class names are not in the table") as error:
        hand().select_classes(["dgo", "cat", "zebra"])
    assert offenders(error) == ["dgo (did you mean dog?)", "zebra"]
    with pytest.raises(UserError, match="listed more than once"):
        hand().select_classes(["cat", "cat"])
    assert hand(class_ids=["10", "20", "30"]).select_classes(["car", "cat"]).class_ids == ("30", "10")


def test_hide_keeps_images_and_the_other_labels():
    table = hand().hide([True, False, False, True, True])
    assert table.dense().tolist() == [[1, 0, 0], [0, 0, 0], [0, 1, -1]]
    assert table.history == ({"operation": "hide", "kept": 3, "of": 5},)
    with pytest.raises(UserError, match=r"expected bool\(5,\)"):
        hand().hide([1, 0, 0, 1, 1])
    with pytest.raises(UserError, match=r"expected bool\(5,\)"):
        hand().hide([True])


def test_labels_are_added_to_unknown_pairs_only():
    table = hand().with_labels([0, 1], [2, 0], [-1, 1], origin="model", score=[-2.0, 3.0], round=1)
    assert table.dense().tolist() == [[1, -1, -1], [1, 0, 0], [1, 1, -1]]
    assert [ORIGINS[code] for code in table.origin] == ["given", "given", "model", "model", "given", "given", "given"]
    np.testing.assert_equal(table.score[[0, 2, 3]], np.array([np.nan, -2, 3], np.float32))
    assert table.round.tolist() == [-1, -1, 1, 1, -1, -1, -1]
    assert table.history[-1] == {"operation": "with_labels", "origin": "model", "added": 2, "round": 1}
    for origin in ("model", "asked", "sampled", "review"):
        with pytest.raises(UserError, match="2 labels are already known") as error:
            hand().with_labels([2, 0, 1], [2, 0, 1], [1, 1, 1], origin=origin)
        assert offenders(error) == ["a, cat", "c, car"]


@pytest.mark.parametrize("origin", ORIGINS)
def test_review_replaces_labels_of_a_model_or_an_earlier_review_and_no_others(origin):
    table = LabelTable.from_dense(["a"], ["x"], [[1]], origin=origin)
    if origin in ("model", "review"):
        after = table.with_labels([0], [0], [-1], origin="review")
        assert after.dense().tolist() == [[-1]]
        assert after.origin.tolist() == [ORIGINS.index("review")]
        assert after.history[-1] == {"operation": "with_labels", "origin": "review", "added": 0, "replaced": 1}
    else:
        with pytest.raises(UserError, match="already known"):
            table.with_labels([0], [0], [-1], origin="review")


def test_review_drops_score_and_round():
    table = hand().with_labels([1], [0], [1], origin="model", score=[3.0], round=2)
    after = table.with_labels([1], [0], [-1], origin="review")
    assert after.dense()[1].tolist() == [-1, 0, 0]
    assert np.isnan(after.score).all()
    assert (after.round == -1).all()


def test_with_labels_refuses_what_makes_no_sense():
    with pytest.raises(UserError, match="merge"):
        hand().with_labels([1], [0], [1], origin="given")
    with pytest.raises(UserError, match="only labels of origin model"):
        hand().with_labels([1], [0], [1], origin="asked", score=[1.0])
    with pytest.raises(UserError, match="listed more than once") as error:
        hand().with_labels([1, 1], [0, 0], [1, 1], origin="model")
    assert offenders(error) == ["b, cat: listed 2 times"]
    with pytest.raises(UserError, match="one entry for each of the 1 labels"):
        hand().with_labels([1], [0], [1], origin="model", score=[1.0, 2.0])


def test_labels_of_a_model_can_be_taken_back():
    first = hand().with_labels([1], [0], [1], origin="model", score=[3.0], round=1)
    second = first.with_labels([1], [1], [-1], origin="model", score=[-3.0], round=2)
    assert second.without_origin("model", since_round=2).content_hash() == first.content_hash()
    assert second.without_origin("model").content_hash() == hand().content_hash()
    assert second.without_origin("review").content_hash() == second.content_hash()
    assert hand(origin="model").without_origin("model", since_round=0).num_known == 5  # no rounds: none is later
