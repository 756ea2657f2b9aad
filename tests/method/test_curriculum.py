from __future__ import annotations

import inspect
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from partlabel.method import curriculum
from partlabel.method.curriculum import (
    all_at_once,
    class_adaptive,
    ensemble_mean,
    ensemble_threshold,
    objective,
    pair_losses,
    positive_only,
    score_proportion,
    score_threshold,
    self_paced_term,
    uncertainty_threshold,
)
from partlabel.method.loss import partial_bce
from tests.reference import curriculum as reference

NAN, INF = math.nan, math.inf
#: every strategy as a function of scores, labels and theta
STRATEGIES: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "a": score_threshold,
    "b": score_proportion,
    "c": positive_only,
    "d": lambda x, y, theta: ensemble_threshold([x, x], y, theta),
    "e": lambda x, y, theta: uncertainty_threshold(x, x.abs(), y, theta),
    "2-step": lambda x, y, theta: all_at_once(x, y),
    "class-adaptive": lambda x, y, theta: class_adaptive(x, y, torch.full(y.shape[1:], 0.3), theta),
}


def labels_of(rows: list[list[int]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.int8)


def problem(seed: int, n: int, c: int, known: float, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Return scores of which many are equal, and labels."""
    rng = np.random.default_rng(seed)
    x = rng.normal(scale=3, size=(n, c))
    x = np.where(rng.random((n, c)) < 0.5, np.round(x), x)
    y = np.where(rng.random((n, c)) < known, rng.choice([-1, 1], (n, c)), 0).astype(np.int8)
    return torch.from_numpy(x).to(dtype), torch.from_numpy(y)


def test_score_threshold_by_hand() -> None:
    scores = torch.tensor([[2.0, 1.0, 0.5], [-1.0, -1.5, 3.0]])
    labels = labels_of([[0, 0, 0], [0, 0, -1]])
    assert torch.equal(score_threshold(scores, labels, 1), labels_of([[1, 1, 0], [0, -1, -1]]))
    assert torch.equal(labels, labels_of([[0, 0, 0], [0, 0, -1]]))  # those passed in stay


def test_positive_only_by_hand() -> None:
    scores = torch.tensor([[2.0, 1.0, 0.5], [-1.0, -1.5, 3.0]])
    assert torch.equal(positive_only(scores, labels_of([[0, 0, 0], [0, 0, -1]]), 1), labels_of([[1, 1, 0], [0, 0, -1]]))


def test_score_proportion_by_hand() -> None:
    """Seven unknown pairs with |x| = 3, 2, 2, 2, 1, 0.5, 0; half of 7 is 3.5, so 3; ties in the order of rows."""
    scores = torch.tensor([[-2.0, 1.0, 4.0, 2.0], [0.5, -3.0, 2.0, 0.0]])
    labels = labels_of([[0, 0, -1, 0], [0, 0, 0, 0]])
    expected = {
        0: [[0, 0, -1, 0], [0, 0, 0, 0]],
        0.1: [[0, 0, -1, 0], [0, 0, 0, 0]],
        0.3: [[-1, 0, -1, 0], [0, -1, 0, 0]],
        0.5: [[-1, 0, -1, 1], [0, -1, 0, 0]],
        1: [[-1, 1, -1, 1], [1, -1, 1, 1]],
    }
    for theta, rows in expected.items():
        assert torch.equal(score_proportion(scores, labels, theta), labels_of(rows)), theta


def test_score_proportion_takes_the_share_as_it_is_written() -> None:
    """0.29 * 100 = 29, which floats make 28.999999999999996."""
    added = score_proportion(torch.ones(5, 20), torch.zeros(5, 20, dtype=torch.int8), 0.29)
    assert torch.equal(added.flatten(), labels_of([[1] * 29 + [0] * 71])[0])


def test_ensemble_by_hand() -> None:
    """Means 1, -1.5 and 1.5, where the first model alone says otherwise."""
    members = [torch.tensor([[5.0, 0.0, 1.0]]), torch.tensor([[-3.0, -3.0, 2.0]])]
    labels = labels_of([[0, 0, 0]])
    assert torch.equal(ensemble_mean(members), torch.tensor([[1.0, -1.5, 1.5]]))
    for given_as in (members, torch.stack(members)):
        assert torch.equal(ensemble_threshold(given_as, labels, 1.2), labels_of([[0, -1, 1]]))
    assert torch.equal(ensemble_threshold(members[:1], labels, 1.2), labels_of([[1, 0, 0]]))


def test_uncertainty_by_hand() -> None:
    scores = torch.tensor([[0.1, -9.0, -0.1, 9.0, 0.0]])
    uncertainty = torch.tensor([[0.3, 0.31, 0.0, 0.1, 0.2]])
    labels = labels_of([[0, 0, 0, -1, 0]])
    assert torch.equal(uncertainty_threshold(scores, uncertainty, labels, 0.3), labels_of([[1, 0, -1, -1, 1]]))


def test_all_at_once_by_hand() -> None:
    """Zero and minus zero are present."""
    scores = torch.tensor([[0.0, -0.0, -1e-30, INF, -INF, 1.0]])
    assert torch.equal(all_at_once(scores, labels_of([[0, 0, 0, 0, 0, -1]])), labels_of([[1, 1, -1, 1, -1, -1]]))


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**32 - 1), st.integers(0, 6), st.integers(1, 7), st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.8, 1.0]), st.sampled_from([torch.float64, torch.float32, torch.float16]),
)  # fmt: skip
def test_strategies_of_the_loops(seed: int, n: int, c: int, known: float, theta: float, dtype: torch.dtype) -> None:
    scores, labels = problem(seed, n, c, known, dtype)
    x, y = scores.double().numpy(), labels.numpy()
    score = round(4 * theta)  # whole, so that many scores equal it
    prior = np.random.default_rng(seed).random(c).round(2)
    u = (scores * scores.roll(1, 1)).abs()
    expected = {
        "a": (score_threshold(scores, labels, score), reference.score_threshold(x, y, score)),
        "b": (score_proportion(scores, labels, theta), reference.score_proportion(x, y, theta)),
        "c": (positive_only(scores, labels, score), reference.positive_only(x, y, score)),
        "e": (
            uncertainty_threshold(scores, u, labels, score),
            reference.uncertainty_threshold(x, u.double().numpy(), y, score),
        ),
        "2-step": (all_at_once(scores, labels), reference.score_threshold(x, y, 0)),
        "class-adaptive": (
            class_adaptive(scores, labels, torch.from_numpy(prior), theta),
            reference.class_adaptive(x, y, prior.tolist(), theta),
        ),
        "class-adaptive, two shares": (
            class_adaptive(scores, labels, torch.from_numpy(prior), theta, 0.8),
            reference.class_adaptive(x, y, prior.tolist(), theta, 0.8),
        ),
    }
    for name, (found, loops) in expected.items():
        assert found.dtype == torch.int8
        np.testing.assert_array_equal(found.numpy(), loops, err_msg=name)
    double = torch.stack([scores.double(), 2 * scores.double(), -scores.double()])
    mean = reference.score_threshold(x * 2 / 3, y, 1.1)
    np.testing.assert_array_equal(ensemble_threshold(double, labels, 1.1).numpy(), mean)


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("seed", range(5))
def test_rounds_add_up_and_known_labels_stay(name: str, seed: int) -> None:
    """Three rounds with new scores, NaN where a label is known: what was known before a round is the same after it."""
    labels = problem(seed, 20, 6, 0.2)[1]
    given = labels.clone()
    for number in range(3):
        fresh = problem(seed + 100 + number, 20, 6, 0)[0]
        fresh = torch.where(labels == 0, fresh, NAN)
        before = labels.clone()
        after = STRATEGIES[name](fresh, labels, 0.5)
        assert torch.equal(labels, before)
        assert torch.equal(after[before != 0], before[before != 0])
        assert after.data_ptr() != labels.data_ptr()
        labels = after
    assert int((labels != 0).sum()) > int((given != 0).sum())
    assert torch.equal(labels[given != 0], given[given != 0])


@pytest.mark.parametrize(
    ("theta", "proportion"),
    [(0.1, 26.70), (0.2, 42.09), (0.3, 55.63), (0.4, 67.41), (0.5, 77.40), (0.6, 85.37), (0.7, 91.69), (0.8, 96.24)],
)
def test_label_proportions_of_the_paper(theta: float, proportion: float) -> None:
    """Column "label prop." of the paper: [b], two rounds, 2 of the 20 labels of VOC known, batches of 16 images.

    Rounding to the nearest instead of down is off by up to 0.5.
    """
    rng = np.random.default_rng(1)
    known = 0
    for _ in range(10):
        labels = torch.from_numpy(rng.permuted(np.tile(np.int8([1, -1] + [0] * 18), (16, 1)), axis=1))
        for _ in range(2):
            labels = score_proportion(torch.from_numpy(rng.normal(size=(16, 20))), labels, theta)
        known += int((labels != 0).sum())
    assert 100 * known / (10 * 16 * 20) == pytest.approx(proportion, abs=0.2)


def test_objective_by_hand() -> None:
    """One image: unknown x = 2 (log(1 + e^-2) = 0.126928), known present x = -0.5 (log(1 + e^0.5) = 0.974077).

    theta = 1: log(1 + e^-1) = 0.313262.
    """
    scores, labels = torch.tensor([[2.0, -0.5]]), labels_of([[0, 1]])
    torch.testing.assert_close(pair_losses(scores, labels), torch.tensor([[0.126928, 0.974077]]), atol=1e-6, rtol=0)
    both, known = torch.tensor([[1, 1]]), torch.tensor([[False, True]])
    assert self_paced_term(both, 1).item() == pytest.approx(-0.313262, abs=1e-6)
    assert self_paced_term(known, 1).item() == pytest.approx(-0.156631, abs=1e-6)
    assert objective(scores, labels, both, 1).item() == pytest.approx(0.237241, abs=1e-6)
    assert objective(scores, labels, known, 1).item() == pytest.approx(0.330408, abs=1e-6)
    assert objective(scores, labels, both, 1, beta=0.1, squared_norm=30).item() == pytest.approx(3.237241, abs=1e-6)


def test_objective_is_the_loss_of_training_without_its_weight() -> None:
    """All pairs selected, all known: J - G is plain BCE."""
    scores, labels = problem(3, 5, 4, 1.0)
    v = torch.ones(5, 4)
    without = objective(scores, labels, v, 2) - self_paced_term(v, 2)
    torch.testing.assert_close(without, partial_bce(scores, labels, value=1))


@pytest.mark.parametrize("theta", [0.5, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("seed", range(6))
def test_strategies_minimise_the_objective(seed: int, theta: float) -> None:
    """Against every v: [a] over all, [c] over those without x < 0, [b] over those of its size."""
    scores, labels = problem(seed, 3, 4, 0.3)
    x, y = scores.numpy(), labels.numpy()
    every = reference.selections(y)
    values = np.array([objective(scores, labels, torch.from_numpy(v), theta).item() for v in every])
    np.testing.assert_allclose(values, [reference.J(x, y, v, theta) for v in every], atol=1e-12)

    def value(new: Tensor) -> float:
        return objective(scores, labels, new != 0, theta).item()

    assert value(score_threshold(scores, labels, theta)) == pytest.approx(values.min(), abs=1e-12)
    assert values.min() < values.max()
    without = [j for j, v in zip(values, every, strict=True) if not ((v == 1) & (y == 0) & (x < 0)).any()]
    assert value(positive_only(scores, labels, theta)) == pytest.approx(min(without), abs=1e-12)
    half = score_proportion(scores, labels, 0.5)
    alike = [j for j, v in zip(values, every, strict=True) if v.sum() == int((half != 0).sum())]
    assert value(half) == pytest.approx(min(alike), abs=1e-12)


def test_objective_as_printed_does_not_give_the_strategy() -> None:
    """With a loss of at least 0 the printed G selects nothing; with the loss as printed, not what the strategy does."""
    scores, labels = problem(1, 2, 4, 0.0)
    x, y, theta = scores.numpy(), labels.numpy(), 1.0
    every = reference.selections(y)
    by_strategy = (score_threshold(scores, labels, theta) != 0).numpy()
    assert 0 < by_strategy.sum() < by_strategy.size

    def best(loss_sign: int) -> np.ndarray:
        return min(every, key=lambda v: reference.J_as_printed(x, y, v, theta, loss_sign))

    assert best(1).sum() == 0
    assert not np.array_equal(best(-1), by_strategy)


def test_the_threshold_on_the_score_is_one_on_the_loss() -> None:
    scores, labels = torch.tensor([[0.5, 2.0, -2.0, -2.5, 1.99, 7.0]]).double(), labels_of([[0] * 6])
    below = pair_losses(scores, labels) <= math.log1p(math.exp(-2.0)) + 1e-15
    assert below.tolist() == [[False, True, True, True, False, True]]
    strategy = score_threshold(scores, labels, 2) != 0
    assert strategy.tolist() == [[False, True, False, True, False, True]]  # x = -theta is the one tie that stays out


@pytest.mark.parametrize("name", STRATEGIES)
def test_nan_scores_are_refused(name: str) -> None:
    scores, labels = torch.zeros(3, 2), labels_of([[0, 0], [1, 0], [0, 0]])
    scores[1, 1] = scores[2, 0] = scores[1, 0] = NAN  # the last is known
    with pytest.raises(ValueError, match=r"NaN: row 1 class 1; row 2 class 0$"):
        STRATEGIES[name](scores, labels, 0.5)


def test_many_nan_scores_are_counted() -> None:
    with pytest.raises(ValueError, match=r"row 0 class 0; .*row 1 class 9; and 10 more$"):
        score_threshold(torch.full((3, 10), NAN), torch.zeros(3, 10, dtype=torch.int8), 1)


def test_nan_of_an_ensemble_and_of_an_uncertainty() -> None:
    fine, labels = torch.zeros(1, 2), labels_of([[0, 1]])
    bad = torch.tensor([[NAN, 1.0]])
    with pytest.raises(ValueError, match="model 1 of the ensemble: scores of unknown labels are NaN: row 0 class 0"):
        ensemble_threshold([fine, bad], labels, 1)
    with pytest.raises(ValueError, match="scores of unknown labels are NaN: row 0 class 0"):
        ensemble_threshold([fine + INF, fine - INF], labels, 1)
    with pytest.raises(ValueError, match="uncertainty of unknown labels are NaN: row 0 class 0"):
        uncertainty_threshold(fine, bad, labels, 1)
    with pytest.raises(ValueError, match="at least one model"):
        ensemble_threshold([], labels, 1)


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize(
    ("scores", "labels", "message"),
    [
        (torch.zeros(2, 3), torch.zeros(3, 2, dtype=torch.int8), r"\(2, 3\) and \(3, 2\)"),
        (torch.zeros(2), torch.zeros(2, dtype=torch.int8), r"\(N, C\)"),
        (torch.zeros(1, 2), torch.zeros(1, 2), "labels are int8, not torch.float32"),
        (torch.zeros(1, 2, dtype=torch.int64), labels_of([[0, 0]]), "floats, not torch.int64"),
        (torch.zeros(1, 3), labels_of([[2, 0, -128]]), "row 0 class 0: 2; row 0 class 2: -128$"),
    ],
)
def test_wrong_input_is_refused(name: str, scores: Tensor, labels: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        STRATEGIES[name](scores, labels, 0.5)


@pytest.mark.parametrize("name", sorted(set(STRATEGIES) - {"2-step"}))
@pytest.mark.parametrize("theta", [-0.1, NAN, INF, 80.0])
def test_theta_out_of_range_is_refused(name: str, theta: float) -> None:
    scores, labels = torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.int8)
    share = name in ("b", "class-adaptive")
    if theta == 80 and not share:
        STRATEGIES[name](scores, labels, theta)
        return
    with pytest.raises(ValueError, match="theta is a share, 0 to 1" if share else "theta is at least 0 and finite"):
        STRATEGIES[name](scores, labels, theta)


def test_wrong_v_is_refused() -> None:
    scores, labels = torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.int8)
    with pytest.raises(ValueError, match="v is"):
        self_paced_term(torch.full((2, 3), 0.5), 1)
    with pytest.raises(ValueError, match=r"\(3, 2\) and \(2, 3\)"):
        objective(scores, labels, torch.ones(3, 2), 1)


@pytest.mark.parametrize("name", STRATEGIES)
def test_scores_of_training_have_no_say_in_gradients(name: str) -> None:
    scores = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert not STRATEGIES[name](scores, torch.zeros(4, 3, dtype=torch.int8), 0.5).requires_grad


def test_every_public_function_says_what_it_takes() -> None:
    for name, value in vars(curriculum).items():
        if inspect.isfunction(value) and value.__module__ == curriculum.__name__ and not name.startswith("_"):
            assert inspect.getdoc(value)
