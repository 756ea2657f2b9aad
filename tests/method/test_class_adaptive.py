from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from partlabel.method.curriculum import class_adaptive, class_prior
from tests.reference import curriculum as reference

NAN = math.nan


def _labels(rows: list[list[int]]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.int8)


def test_class_adaptive_by_hand() -> None:
    """A first class with five unknown pairs, all scores below 0, a quarter present: 1.25, so 1; of 3 it is 0.75, so 1.

    A second with three unknown pairs of one score, two thirds present; of the 1.8 that 0.6 means, 1; a third with none.
    """
    scores = torch.tensor([[-5.0, 1, 0], [-1, 1, 0], [-4, 9, 0], [-2, 1, 0], [9, -9, 0], [-3, -9, 0]])
    labels = _labels([[0, 0, 1], [0, 0, 1], [0, -1, 1], [0, 0, 1], [-1, 1, 1], [0, 1, -1]])
    prior = torch.tensor([0.25, 0.667, 0.5])
    everything = _labels([[-1, 1, 1], [1, 1, 1], [-1, -1, 1], [-1, -1, 1], [-1, 1, 1], [-1, 1, -1]])
    assert torch.equal(class_adaptive(scores, labels, prior), everything)
    some = _labels([[-1, 1, 1], [1, 0, 1], [-1, -1, 1], [0, 0, 1], [-1, 1, 1], [0, 1, -1]])
    assert torch.equal(class_adaptive(scores, labels, prior, 0.6), some)
    assert torch.equal(class_adaptive(scores[:, :1], labels[:, :1], prior[:1], 0.6), some[:, :1])


def test_class_adaptive_with_two_shares_by_hand() -> None:
    """Ten unknown pairs, three of them expected to be present: of theta 0.5, 1.5, so 2; of 0.8 for absent, 5.6, so 6.

    0.8 of ten pairs are 8, of which 2.4, so 2, would be present.
    """
    scores, labels = torch.arange(10.0).flip(0)[:, None], torch.zeros(10, 1, dtype=torch.int8)
    after = class_adaptive(scores, labels, torch.tensor([0.3]), 0.5, 0.8)
    assert after[:, 0].tolist() == [1, 1, 0, 0, -1, -1, -1, -1, -1, -1]
    assert class_adaptive(scores, labels, torch.tensor([0.3]), 0.0, 1.0)[:, 0].tolist() == [0] * 3 + [-1] * 7
    with pytest.raises(ValueError, match="theta is a share, 0 to 1"):
        class_adaptive(scores, labels, torch.tensor([0.3]), 0.5, 1.1)


@pytest.mark.parametrize("theta", [0.5, 1.0])
def test_class_adaptive_takes_the_quantile_at_the_prior(theta: float) -> None:
    scores = torch.from_numpy(np.random.default_rng(0).normal(-3, 1, (1000, 3)))
    prior = torch.tensor([0.02, 0.1, 0.5], dtype=torch.float64)
    after = class_adaptive(scores, torch.zeros(1000, 3, dtype=torch.int8), prior, theta)
    assert (after == 1).sum(0).tolist() == [20 * theta, 100 * theta, 500 * theta]
    assert (after == -1).sum(0).tolist() == [980 * theta, 900 * theta, 500 * theta]
    for c, share in enumerate(prior.tolist()):
        assert scores[after[:, c] == 1, c].min() >= torch.quantile(scores[:, c], 1 - theta * share)
        assert scores[after[:, c] == -1, c].max() <= torch.quantile(scores[:, c], theta * (1 - share))


def test_class_adaptive_leaves_the_share_present_that_it_expects() -> None:
    """With scores that rank every pair rightly, each of two rounds at one prior adds right labels only."""
    truth = torch.arange(400) < 80
    scores = torch.linspace(1, -1, 400).unsqueeze(1)
    labels, prior = torch.zeros(400, 1, dtype=torch.int8), torch.tensor([0.2])
    for left in (200, 100):
        labels = class_adaptive(scores, labels, prior, 0.5)
        unknown = labels[:, 0] == 0
        assert int(unknown.sum()) == left
        assert int((unknown & truth).sum()) == left // 5
    assert torch.equal(labels[:, 0] == 1, truth & (labels[:, 0] != 0))


def test_class_prior_by_hand() -> None:
    """8 of all 40 known labels are present, so that 10 more hold 2 present ones."""
    counts = torch.tensor([8, 0, 0]), torch.tensor([12, 20, 0])
    shares = torch.tensor([1 / 3, 1 / 15, 1 / 5], dtype=torch.float64)
    torch.testing.assert_close(class_prior(*counts), shares, rtol=1e-15, atol=0)
    assert class_prior(counts[0][:2], counts[1][:2], strength=0).tolist() == [0.4, 0]


def test_a_class_of_which_only_present_labels_are_known_expects_none() -> None:
    """Of 40 known labels 10 are present: one present label alone can be chance (0.25), three hardly are (0.016)."""
    found = class_prior(torch.tensor([6, 1, 3]), torch.tensor([30, 0, 0]))
    assert found.tolist() == pytest.approx([8.5 / 46, 3.5 / 11, 0], rel=1e-12)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6), st.sampled_from([1.0, 10.0]))
def test_class_prior_of_the_loops(counts: list[tuple[int, int]], strength: float) -> None:
    present, absent = ([row[i] for row in counts] for i in (0, 1))
    if sum(present) and sum(absent):
        found = class_prior(torch.tensor(present), torch.tensor(absent), strength)
        assert found.tolist() == pytest.approx(reference.class_prior(present, absent, strength))


def test_wrong_priors_and_counts_are_refused() -> None:
    scores, labels = torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.int8)
    with pytest.raises(ValueError, match=r"class 0: 1.5; class 2: nan$"):
        class_adaptive(scores, labels, torch.tensor([1.5, 0, NAN]))
    with pytest.raises(ValueError, match=r"one share per class, \(3,\), not \(2,\)"):
        class_adaptive(scores, labels, torch.zeros(2))
    some, none = torch.tensor([3, 0]), torch.tensor([0, 0])
    with pytest.raises(ValueError, match="no class has a known absent label"):
        class_prior(some, none)
    with pytest.raises(ValueError, match="no class has a known present label"):
        class_prior(none, some)
    with pytest.raises(ValueError, match=r"need a strength above 0: class 1$"):
        class_prior(some, some, strength=0)
    with pytest.raises(ValueError, match="0 or more"):
        class_prior(torch.tensor([-1, 2]), some)
    with pytest.raises(ValueError, match="strength is at least 0"):
        class_prior(some, some, strength=-1)
