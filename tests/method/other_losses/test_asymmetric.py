from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel.method.other_losses.assume_negative import assume_negative
from partlabel.method.other_losses.asymmetric import asymmetric


def test_by_hand() -> None:
    """p = 1/2: a present label has log 2; another one has q = 0.45, so 0.45^4 (-log 0.55) = 0.0245149..."""
    zero = torch.zeros(1, 2, dtype=torch.float64)
    other = 0.04100625 * 0.5978370007556204
    assert asymmetric(zero, torch.tensor([[1, 1]])).item() == pytest.approx(math.log(2))
    assert asymmetric(zero, torch.tensor([[0, -1]])).item() == pytest.approx(other)
    assert asymmetric(zero, torch.tensor([[1, 0]])).item() == pytest.approx((math.log(2) + other) / 2)
    assert asymmetric(zero, torch.tensor([[1, 1]]), gamma_pos=1.0).item() == pytest.approx(math.log(2) / 2)


def test_very_easy_absent_labels_are_left_out() -> None:
    """sigmoid(-3) = 0.0474 lies below the margin of 0.05, sigmoid(-2.9) = 0.0522 above."""
    scores = torch.tensor([[-3.0, -2.9]], requires_grad=True)
    asymmetric(scores, torch.tensor([[0, -1]])).backward()
    assert scores.grad is not None
    assert scores.grad[0, 0] == 0
    assert scores.grad[0, 1] > 0


def test_a_very_sure_wrong_score_pulls_less() -> None:
    """The paper's second effect of the margin: near p = 1 the gradient falls again."""
    scores = torch.tensor([[2.0, 8.0]], requires_grad=True)
    asymmetric(scores, torch.tensor([[0, 0]])).backward()
    assert scores.grad is not None
    assert 0 < scores.grad[0, 1] < scores.grad[0, 0] / 10


def test_at_a_probability_of_1() -> None:
    """q = 0.95 is the most: 0.95^4 (-log 0.05); without a margin the loss grows with the score."""
    sure = torch.full((1, 1), 1e3)
    assert asymmetric(sure, torch.zeros(1, 1)).item() == pytest.approx(0.95**4 * -math.log(0.05), rel=1e-6)
    assert math.isfinite(asymmetric(sure, torch.zeros(1, 1), margin=0.0).item())


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 9))
def test_an_unknown_label_is_absent(seed: int, n: int, c: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(n, c, generator=generator, dtype=torch.float64)
    labels = torch.randint(-1, 2, (n, c), generator=generator)
    filled = torch.where(labels == 0, -1, labels)
    assert asymmetric(scores, labels) == asymmetric(scores, filled)
    plain = asymmetric(scores, labels, 0.0, 0.0, 0.0)
    torch.testing.assert_close(plain, assume_negative(scores, labels), rtol=1e-9, atol=0)
