import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from partlabel.metrics import risk_control
from tests.reference import guarantee as reference


def test_the_smallest_sample():
    # 0.95^44 = 0.1047, 0.95^45 = 0.0994
    assert risk_control.smallest_sample(0.95, 0.1) == 45
    assert risk_control.smallest_sample(0.9, 0.1) == 22
    assert risk_control.smallest_sample(0.5, 0.25) == 2  # 0.5^2 is 0.25 exactly


@pytest.mark.parametrize(
    ("right", "tested", "level", "expected"),
    [
        (10, 10, 0.05, 0.05 ** (1 / 10)),  # all right: level^(1/n)
        (1, 2, 0.1, 1 - math.sqrt(0.9)),  # at least one of two: 1 - (1 - p)^2 = 0.1
        (0, 5, 0.1, 0.0),
    ],
)
def test_lower_bounds_written_by_hand(right, tested, level, expected):
    assert risk_control.lower_bound(right, tested, level) == pytest.approx(expected)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 200), st.data(), st.sampled_from([0.01, 0.05, 0.1]))
def test_lower_bounds_are_those_of_scipy_and_agree_with_the_test(tested, data, level):
    right = data.draw(st.integers(0, tested))
    bound = risk_control.lower_bound(right, tested, level)
    other = stats.binomtest(right, tested, alternative="greater").proportion_ci(1 - level, method="exact").low
    assert bound == pytest.approx(other, abs=1e-12)
    if bound > 0.01:  # the tail is exactly the level where the precision is the bound
        assert stats.binom.sf(right - 1, tested, bound) == pytest.approx(level, rel=1e-6)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 30), st.integers(1, 30), st.data(), st.sampled_from([0.6, 0.8, 0.9, 0.95]))
def test_p_values_equal_the_loop(tested, filled, data, precision):
    wrong = data.draw(st.integers(0, tested))
    expected = reference.p_value(wrong, tested, filled, precision)
    assert risk_control.p_values(wrong, tested, filled, precision) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_p_values_written_by_hand():
    # many to fill: 0.9^2; one to fill: of three labels one is wrong, and it is not among the two that are tested: 1/3,
    # which is less than 0.81, so the binomial one counts
    assert risk_control.p_values(0, 2, 10**9, 0.9) == pytest.approx(0.81)
    assert risk_control.p_values(0, 2, 1, 0.9) == pytest.approx(0.81)
    # 19 to fill at 0.95: not one may be wrong, 19 / (45 + 19), against 0.95^45 = 0.0994
    assert risk_control.p_values(0, 45, 19, 0.95) == pytest.approx(19 / 64)
    assert risk_control.p_values(0, 0, 5, 0.9) == 1


def sample(random, count, precision_at_0=0.6):
    """Labels whose chance to be right grows from ``precision_at_0`` at score 0 to 1 at score 1."""
    score = random.random(count).astype(np.float32)
    return score, random.random(count) < precision_at_0 + (1 - precision_at_0) * score


@pytest.mark.parametrize("precision", [0.8, 0.9])
def test_the_guarantee_holds_and_is_used(precision):
    random, missed, filled = np.random.default_rng(0), 0, 0
    for _ in range(300):
        unknown, truth = sample(random, 4000)
        held, right = sample(random, 600)
        found = risk_control.search(unknown, held, right, precision, 0.1)
        if found.threshold is not None:
            filled += 1
            missed += truth[unknown >= found.threshold].mean() < precision
    # at most 10 % of 300, and three standard deviations
    assert missed <= 30 + 3 * math.sqrt(27)
    assert filled > 150


def test_a_choice_by_the_best_looking_threshold_breaks_the_guarantee():
    """The same labels, with the threshold that fills the most among all that look good: what the search must not do."""
    random, missed, rounds = np.random.default_rng(1), 0, 200
    for _ in range(rounds):
        unknown, truth = sample(random, 4000)
        held, right = sample(random, 600)
        beyond = [t for t in np.unique(held) if right[held >= t].mean() >= 0.9]
        missed += truth[unknown >= min(beyond)].mean() < 0.9
    assert missed > 0.3 * rounds


def test_labels_that_are_not_missing_at_random_break_the_guarantee_and_the_check_sees_it():
    random, missed, seen = np.random.default_rng(2), 0, 0
    for _ in range(50):
        unknown, truth = sample(random, 4000)
        held, right = sample(random, 3000)
        known = right | (random.random(len(held)) < 0.2)  # mistakes are seldom known
        found = risk_control.search(unknown, held[known], right[known], 0.9, 0.1)
        missed += found.threshold is not None and truth[unknown >= found.threshold].mean() < 0.9
        seen += not risk_control.compare(held[known & (random.random(len(held)) < held)], unknown)[2]
    assert missed > 25
    assert seen == 50


def test_no_label_gets_a_sign_against_its_score():
    random = np.random.default_rng(3)
    score = random.normal(size=5000).astype(np.float32)
    found = risk_control.search(score, score[:1000], np.ones(1000, bool), 0.9, 0.1)
    assert found.threshold is not None
    assert 0 < found.threshold < 0.01
    assert found.filled == (score > 0).sum()


def test_one_early_mistake_does_not_end_everything():
    unknown = np.linspace(0.001, 1, 50_000, dtype=np.float32)
    held = np.linspace(0.001, 1, 5000, dtype=np.float32)
    right = np.ones(5000, bool)
    right[-3:] = False
    assert risk_control.search(unknown, held, right, 0.95, 0.1).filled == 50_000


def test_nothing_is_filled_without_labels_or_with_too_few():
    unknown = np.ones(10, np.float32)
    assert risk_control.search(unknown, np.ones(0, np.float32), np.ones(0, bool), 0.9, 0.1).threshold is None
    assert risk_control.search(unknown, np.ones(21, np.float32), np.ones(21, bool), 0.9, 0.1).threshold is None
    assert risk_control.search(-unknown, np.ones(30, np.float32), np.ones(30, bool), 0.9, 0.1).threshold is None


def test_classes_tested_alone_share_the_level_with_one_pool():
    # n(0.9, 0.05) = 29: with two classes and the pool 0.1 / 3 -> 33, three times 33 = 99
    alone, level = risk_control.tested_alone(np.array([150.0, 5.0, 99.0]), 0.9, 0.1)
    assert alone.tolist() == [True, False, True]
    assert level == pytest.approx(0.1 / 3)
    alone, level = risk_control.tested_alone(np.array([5.0, 5.0]), 0.9, 0.1)
    assert not alone.any()
    assert level == 0.1
    alone, level = risk_control.tested_alone(np.array([100.0, 100.0]), 0.9, 0.1)  # no pool is left
    assert alone.all()
    assert level == 0.05


def test_the_pool_is_mixed_like_the_unknown_labels():
    # rates 0.1, 0.2 and 0.001: all three at the lowest would leave 12 labels, two at 0.1 or one at 0.2 leave 200
    share = risk_control.share_kept(np.array([100, 200, 10]), np.array([1000, 1000, 10_000]))
    assert share.tolist() == pytest.approx([1, 0.5, 0])
    assert risk_control.share_kept(np.array([98, 103, 0]), np.array([1000, 1000, 5])).tolist() == [1, 1, 0]
    assert risk_control.share_kept(np.array([0, 0]), np.array([10, 10])).tolist() == [0, 0]


def test_design_effect():
    # two images, all right and all wrong: each sum is 2 * 0.5, so (1 + 1) / (4 * 0.25) = 2
    assert risk_control.design_effect(np.array([0, 0, 1, 1]), np.array([True, True, False, False])) == pytest.approx(2)
    # one right and one wrong in each: sums are 0
    assert risk_control.design_effect(np.array([0, 0, 1, 1]), np.array([True, False, True, False])) == pytest.approx(0)
    assert risk_control.design_effect(np.array([0]), np.array([True])) is None


def test_what_is_reachable_by_hand():
    """Ten held-out labels, all right, bear out 0.1^(1/10) = 79.4 %; for 95 % it takes 45, as 0.95^45 < 0.1."""
    held, unknown = np.arange(1, 11, dtype=np.float32), np.array([0.5, -1.0, 0.2], np.float32)
    found = risk_control.reachable(unknown, held, np.ones(10, bool), 0.95, 0.1)
    assert found is not None
    assert (found.filled, found.tested, found.wrong, found.more) == (2, 10, 0, 35)
    assert found.lower_bound == pytest.approx(0.1**0.1)
    wrong = risk_control.reachable(unknown, held, np.arange(10) != 3, 0.95, 0.1)
    assert wrong is not None
    assert (wrong.wrong, wrong.more) == (1, None)  # one in ten is wrong: no number of labels bears out 95 %
    assert risk_control.reachable(np.array([-1.0], np.float32), held, np.ones(10, bool), 0.95, 0.1) is None
    assert risk_control.reachable(unknown, -held, np.ones(10, bool), 0.95, 0.1) is None


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000), st.sampled_from([0.8, 0.9, 0.95]))
def test_as_many_more_labels_are_enough_and_one_fewer_is_not(seed, precision):
    random = np.random.default_rng(seed)
    held = random.random(60).astype(np.float32)
    found = risk_control.reachable(held[:30] + 0.01, held, random.random(60) < 0.97, precision, 0.1)
    assert found is not None
    if found.more is None or found.lower_bound >= precision:
        return
    rate, total = found.wrong / found.tested, found.tested + found.more

    def bound(n):
        return risk_control.lower_bound(n - int(np.ceil(rate * n - 1e-9)), n, 0.1)

    assert bound(total) >= precision


@pytest.mark.parametrize(
    ("p", "threshold"),
    [
        ([0.04, 0.2, 0.09, 0.01], 4.0),  # the level of the first is lost: the new start has its own 0.05 only
        ([0.04, 0.05, 0.2, 0.01], 3.0),
        ([0.2, 0.01, 0.05, 0.05], 1.0),  # a new start, which hands its level on
        ([0.04, 0.04, 0.1, 0.1], 1.0),  # both levels together
        ([0.06, 0.06, 0.06, 0.06], None),
    ],
)
def test_a_failure_loses_the_level_and_a_new_start_has_its_own(monkeypatch, p, threshold):
    """Four thresholds, with a start of level 0.05 at the first and at the third."""
    monkeypatch.setattr(risk_control, "_steps", lambda *_: (np.arange(1, 5), np.array([0.05, 0, 0.05, 0])))
    monkeypatch.setattr(risk_control, "p_values", lambda *_: np.array(p))
    scores = np.array([4, 3, 2, 1], np.float32)
    assert risk_control.search(scores, scores, np.ones(4, bool), 0.9, 0.1).threshold == threshold


@pytest.mark.parametrize(
    ("held", "unknown", "p"),
    [([1.0], [0.0], 1), ([3.0], [0.0, 1.0], 2 / 3), ([2.0, 3.0], [0.0, 1.0], 1 / 3), ([0.5], [0.0, 1.0], 1)],
)
def test_of_few_scores_no_order_is_rarer_than_the_rarest(held, unknown, p):
    """Of n + m scores in any order, 2 of the (n + m over n) orders have one sample beyond the other."""
    found = risk_control.compare(np.array(held, np.float32), np.array(unknown, np.float32))
    assert found[1] == pytest.approx(p)
    assert found[2]
