"""Questions worth asking, and their answers in the table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel.core.errors import UserError
from partlabel.labels.table import ORIGINS, LabelTable
from partlabel.metrics.calibration import Calibration
from partlabel.metrics.thresholds import NEVER
from partlabel.models.model import Model
from partlabel.tasks.next_labels import WHY, Answers, Mix, add_answers, ask, choose, describe, grow, spread
from partlabel.training.config import ModelConfig
from tests.pictures import make_pictures
from tests.reference import next_labels as reference

SEEK, UNCERTAIN, RANDOM = range(3)


def make(labels, origin="given") -> LabelTable:
    labels = np.asarray(labels, np.int8)
    names = [f"{i}.jpg" for i in range(labels.shape[0])]
    return LabelTable.from_dense(names, [f"c{i}" for i in range(labels.shape[1])], labels, origin=origin)


def drawn(n=40, c=5, known=0.3, seed=0) -> tuple[LabelTable, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.choice(np.array([-1, 1], np.int8), (n, c))
    labels[rng.random((n, c)) >= known] = 0
    return make(labels), rng.normal(size=(n, c)).astype(np.float32)


def origin_of(table: LabelTable, image: int, cls: int) -> str:
    at = table.indptr[image] + np.flatnonzero(table.indices[table.indptr[image] : table.indptr[image + 1]] == cls)[0]
    return ORIGINS[table.origin[at]]


@settings(max_examples=40)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(0, 60), st.randoms())
def test_spread_is_the_loop(capacity, total, random):
    rank = list(range(len(capacity)))
    random.shuffle(rank)
    found = spread(np.array(capacity), total, np.array(rank))
    assert found.tolist() == reference.spread(capacity, total, rank)


def test_spread_by_hand():
    assert spread(np.array([1, 9, 9, 0]), 8, np.array([0, 2, 1, 3])).tolist() == [1, 3, 4, 0]
    assert spread(np.array([1, 2]), 99, np.array([0, 1])).tolist() == [1, 2]


@settings(max_examples=25)
@given(st.integers(1, 250), st.floats(0, 1), st.floats(0, 1), st.integers(0, 2**20))
def test_budgets_are_exact_and_even_and_nothing_known_is_asked(budget, random, uncertain, seed):
    table, scores = drawn(seed=seed)
    mix = Mix(random=random, uncertain=(1 - random) * uncertain)
    unknown = int((table.dense() == 0).sum())
    for evenly in (False, True):
        found = choose(scores, table, budget, mix, seed=seed, evenly=evenly)
        assert len(found.image) == min(budget, unknown)
        assert found.open.all()
        assert (table.dense()[found.image, found.cls] == 0).all()
        assert len({*zip(found.image.tolist(), found.cls.tolist(), strict=True)}) == len(found.image)
        assert (found.why == RANDOM).sum() == round(mix.random * len(found.image))
        assert (np.diff(found.cls * 1000 + found.image) > 0).all()
    assert len(found.image) == min(budget, unknown)
    assert found.open.all()
    assert (table.dense()[found.image, found.cls] == 0).all()
    assert len({*zip(found.image.tolist(), found.cls.tolist(), strict=True)}) == len(found.image)
    count = np.bincount(found.cls, minlength=5)
    room = (table.dense() == 0).sum(0) > count
    assert not room.any() or count[room].max() - count[room].min() <= 1
    assert count[~room].max(initial=0) <= count[room].min(initial=1000) + 1
    total = len(found.image)
    assert (found.why == RANDOM).sum() == round(mix.random * total)
    assert (found.why == UNCERTAIN).sum() <= round(mix.uncertain * total)
    assert (np.diff(found.cls * 1000 + found.image) > 0).all()


def test_what_is_sought_by_hand():
    """Class 0: image 0 is known, so the highest unknown scores are 3 and 1; class 1: 2 and 0."""
    table = make([[1, 0], [0, 0], [0, 0], [0, -1]])
    scores = np.array([[9, 3], [5, -1], [-2, 4], [7, 8]], np.float32)
    found = choose(scores, table, 4, Mix(random=0))
    assert found.image.tolist() == [1, 3, 0, 2]
    assert found.cls.tolist() == [0, 0, 1, 1]
    assert (found.why == SEEK).all()


def test_what_grows_most_by_hand():
    """Class 0 has one present label: 0.9 / 2 = 0.45; class 1 has none: 0.5 / 1, then 0.5 / 1.5 = 0.33 and 0.5 / 2."""
    table = make([[1, 0], [0, 0], [0, 0], [0, 0]])
    scores = np.log(np.array([[9, 1], [9, 1], [9, 1], [1e-9, 1]])).astype(np.float32)
    order = [(1, 0.5), (0, 0.45), (1, 0.5 / 1.5), (0, 0.9 / 2.9), (1, 0.25), (1, 0.2)]
    assert [p for _, p in order] == sorted((p for _, p in order), reverse=True)
    assert grow(scores, table.dense(), 99)[1].tolist() == [*(c for c, _ in order), 0]
    found = choose(scores, table, 4, Mix(random=0))
    assert found.cls.tolist() == [0, 0, 1, 1]
    assert found.image[:2].tolist() == [1, 2]


@pytest.mark.parametrize("seed", range(10))
def test_growth_is_the_loop(seed):
    table, scores = drawn(n=12, c=4, seed=seed)
    labels = table.dense()
    image, cls = grow(scores, labels, 25)
    chance = 1 / (1 + np.exp(-scores.astype(np.float64)))
    assert list(zip(image.tolist(), cls.tolist(), strict=True)) == reference.grow(chance, labels.tolist(), 25)


def test_what_is_uncertain_is_near_the_threshold_of_its_class():
    table = make(np.zeros((4, 2)))
    scores = np.array([[9, 3], [5, -1], [-2, 4], [7, 8]], np.float32)
    found = choose(scores, table, 2, Mix(random=0, uncertain=1), thresholds=np.array([6.9, -1.2], np.float32))
    assert found.image.tolist() == [3, 1]
    assert (found.why == UNCERTAIN).all()


def test_the_class_that_knows_least_gets_what_does_not_divide():
    table = make([[1, 1, 0], [1, 0, 0], [0, 0, 0]])
    found = choose(np.zeros((3, 3), np.float32), table, 1, Mix(random=0))
    assert found.cls.tolist() == [2]


def test_equal_scores_are_drawn_and_seeds_decide():
    table = make(np.zeros((200, 1)))
    scores = np.zeros((200, 1), np.float32)
    first, again, other = (choose(scores, table, 20, Mix(random=0), seed=s).image for s in (1, 1, 2))
    assert first.tolist() == again.tolist() != other.tolist()
    assert first.max() > 100 > first.min()


@pytest.mark.slow
def test_the_random_part_is_uniform():
    """Each of 10 unknown pairs is drawn in 3 of 10 cases, whatever its score: 1200 +- 5 deviations of 29."""
    table, scores = make(np.zeros((10, 1))), np.arange(10, dtype=np.float32)[:, None]
    hits = np.zeros(10)
    for seed in range(4000):
        hits[choose(scores, table, 3, Mix(random=1), seed=seed).image] += 1
    assert np.abs(hits - 1200).max() < 145


def test_the_random_part_may_hit_what_was_asked_before_and_that_costs_nothing():
    """Nine of ten pairs were asked; the draw of one hits them in 9 of 10 cases, and then the budget seeks."""
    table = make(np.zeros((10, 1))).with_labels(range(9), [0] * 9, [1] * 9, origin="asked")
    scores = np.zeros((10, 1), np.float32)
    hits = 0
    for seed in range(300):
        found = choose(scores, table, 1, Mix(random=1), seed=seed)
        assert found.open.sum() == 1
        assert found.image[found.open].tolist() == [9]
        hits += len(found.image) - 1
        assert (found.answer[~found.open] == 1).all()
        assert (found.why[~found.open] == RANDOM).all()
    assert 240 <= hits <= 295


def test_a_random_sample_over_rounds_has_the_frequency_of_the_class():
    """Seeking finds the present ones first; the sampled labels must not look rarer or more frequent for that."""
    rng = np.random.default_rng(0)
    truth = np.where(rng.random((4000, 1)) < 0.1, 1, -1).astype(np.int8)
    scores = (truth + rng.normal(size=truth.shape)).astype(np.float32)
    table = make(np.zeros_like(truth))
    for seed in range(5):
        found = choose(scores, table, 400, Mix(random=0.5), seed=seed)
        value = truth[found.image, found.cls]
        names = table.images.take(found.image).to_pylist()
        why = [WHY[w] for w in found.why]
        places = [""] * len(why)
        table, _ = add_answers(table, Answers(names, ["c0"] * len(why), value, why, places))
    sampled = table.hide(table.origin == ORIGINS.index("sampled"))
    assert sampled.num_known == 1000
    present = int((truth > 0).sum()) / 4000
    assert (sampled.values > 0).mean() == pytest.approx(present, abs=4 * np.sqrt(0.1 * 0.9 / 1000))
    asked = table.hide(table.origin == ORIGINS.index("asked"))
    assert (asked.values > 0).mean() > 2 * present


def test_labels_of_a_model_are_unknown():
    table = make([[0], [-1]]).with_labels([0], [0], [1], origin="model", score=[3.0], round=1)
    found = choose(np.zeros((2, 1), np.float32), table, 9)
    assert (found.image.tolist(), found.answer.tolist()) == ([0], [0])


@pytest.mark.parametrize("budget", [0, -5])
def test_a_budget_of_nothing_is_refused(budget):
    with pytest.raises(UserError, match="at least 1"):
        choose(np.zeros((2, 1), np.float32), make([[0], [0]]), budget)


def test_scores_that_do_not_fit_are_refused():
    with pytest.raises(UserError, match="images, classes"):
        choose(np.zeros((2, 2), np.float32), make([[0], [0]]), 1)
    with pytest.raises(UserError, match="not finite"):
        choose(np.array([[np.nan], [0]], np.float32), make([[0], [0]]), 1)


@pytest.mark.parametrize("shares", [(-0.1, 0), (0.7, 0.4), (float("nan"), 0)])
def test_shares_that_are_none_are_refused(shares):
    with pytest.raises(UserError, match="shares"):
        Mix(*shares)


def test_a_fully_known_table_has_no_questions():
    assert len(choose(np.zeros((2, 1), np.float32), make([[1], [-1]]), 5).image) == 0


def test_description_is_the_loop():
    table = make([[1, 0], [1, 0], [0, 0], [0, 0]])
    scores = np.array([[0, 0.5], [0, -1], [2, 0], [-800, 0]], np.float32)
    found = choose(scores, table, 4, Mix(random=0), evenly=True)
    about = describe(found, table, scores)
    assert about["questions"] == about["seek"] == 4
    assert about["unknown_left"] == 2
    assert [row["questions"] for row in about["classes"]] == [2, 2]
    asked = [scores[found.image[found.cls == c], c].tolist() for c in range(2)]
    asked[0] = [max(x, -700) for x in asked[0]]
    assert about["expected_growth"] == pytest.approx(reference.growth([2, 0], asked))
    assert about["expected_gain_per_1000"] == pytest.approx(7 * about["expected_growth"] / 4 * 1000)
    assert about["worth_asking"]


def test_it_is_said_when_asking_is_hardly_worth_it():
    """Ten questions with chance 0.002 beside 99 known present labels: 7 log(100.02 / 100) = 0.0014 points."""
    table = make(np.concatenate([np.ones((99, 1)), np.zeros((10, 1))]))
    scores = np.full((109, 1), np.log(0.002 / 0.998), np.float32)
    about = describe(choose(scores, table, 10, Mix(random=0)), table, scores)
    assert about["expected_gain"] == pytest.approx(7 * np.log(100.02 / 100), rel=1e-4)
    assert about["worth_asking"]
    few = describe(choose(scores - 2, table, 10, Mix(random=0)), table, scores - 2)
    assert few["expected_gain_per_1000"] == pytest.approx(0.019, abs=0.001)
    assert not few["worth_asking"]


def answers(*rows) -> Answers:
    images, classes, values, why = zip(*rows, strict=True)
    return Answers(images, classes, np.array(values, np.int8), why, [f"a.csv:{i}" for i in range(2, 2 + len(rows))])


def test_answers_get_their_origin():
    table = make([[1, 0, 0], [0, 0, 0]])
    rows = (("0.jpg", "c1", -1, "random"), ("1.jpg", "c0", 1, "seek"), ("1.jpg", "c2", 1, "uncertain"))
    made, counts = add_answers(table, answers(*rows))
    assert made.dense().tolist() == [[1, -1, 0], [1, 0, 1]]
    found = [origin_of(made, *at) for at in ((0, 0), (0, 1), (1, 0), (1, 2))]
    assert found == ["given", "sampled", "asked", "asked"]
    assert counts["added"] == 3
    assert counts["random"] == {"answers": 1, "present": 0}
    again, repeated = add_answers(made, answers(*rows))
    assert again.content_hash() == made.content_hash()
    assert (repeated["added"], repeated["unchanged"]) == (0, 3)


def test_an_asked_label_that_is_drawn_becomes_sampled_and_a_label_of_a_model_gives_way():
    table = make([[0, 0, 1]]).with_labels([0], [0], [1], origin="asked")
    table = table.with_labels([0], [1], [1], origin="model", score=[2.0], round=1)
    made, counts = add_answers(
        table, answers(("0.jpg", "c0", 1, "random"), ("0.jpg", "c1", -1, "seek"), ("0.jpg", "c2", 1, "random"))
    )
    assert made.dense().tolist() == [[1, -1, 1]]
    assert [origin_of(made, 0, c) for c in range(3)] == ["sampled", "asked", "given"]
    assert (counts["resampled"], counts["replaced"], counts["unchanged"], counts["added"]) == (1, 1, 1, 0)


def test_wrong_answers_are_all_listed():
    table = make([[1, 0]])
    with pytest.raises(UserError) as caught:
        add_answers(table, answers(("x.jpg", "c0", 1, "seek"), ("0.jpg", "cow", 1, "seek"), ("0.jpg", "c1", 1, "seek")))
    assert caught.value.offenders == ["a.csv:2 x.jpg, c0", "a.csv:3 0.jpg, cow"]
    with pytest.raises(UserError, match="contradict") as caught:
        add_answers(
            table, answers(("0.jpg", "c0", -1, "seek"), ("0.jpg", "c1", 1, "seek"), ("0.jpg", "c1", -1, "random"))
        )
    assert caught.value.offenders == ["a.csv:2 0.jpg, c0", "a.csv:4 0.jpg, c1"]


def test_no_answers_change_nothing():
    table = make([[1, 0]])
    made, counts = add_answers(table, Answers([], [], np.empty(0, np.int8), [], []))
    assert made.content_hash() == table.content_hash()
    assert counts["added"] == 0


def test_a_class_that_is_never_called_present_asks_without_a_warning(tmp_path):
    table = make_pictures(tmp_path / "photos", 6)
    half = table.hide(np.arange(table.num_known) % 2 == 0)
    model = Model(ModelConfig(backbone="test_resnet", weights="none"), table.classes, 32).eval()
    model.thresholds, model.calibration = (0.0, NEVER, 0.0), Calibration((2.0,) * 3, (0.0,) * 3)
    with np.errstate(over="raise"):
        assert len(ask(model, half, tmp_path / "photos", 3)[0].image) == 3
