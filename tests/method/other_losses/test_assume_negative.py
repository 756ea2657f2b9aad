from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel.method.other_losses.assume_negative import (
    assume_negative,
    smoothed_assume_negative,
    weak_assume_negative,
)

LABELS = torch.tensor([[1, 0, -1, 0]], dtype=torch.int8)


def test_an_by_hand() -> None:
    """At score 0 every label has log 2; the gradient pulls the present one up and all others down."""
    scores = torch.zeros(1, 4, dtype=torch.float64, requires_grad=True)
    loss = assume_negative(scores, LABELS)
    loss.backward()
    assert loss.item() == pytest.approx(math.log(2))
    assert scores.grad is not None
    assert scores.grad.tolist() == [[-0.125, 0.125, 0.125, 0.125]]


def test_wan_by_hand() -> None:
    """C = 4: an unknown label has a third of log 2; a known absent one has all of it."""
    zero = torch.zeros(1, 4, dtype=torch.float64)
    assert weak_assume_negative(zero, LABELS).item() == pytest.approx((1 + 1 / 3 + 1 + 1 / 3) * math.log(2) / 4)
    single = torch.tensor([[0, 1, 0, 0]])  # as in the paper: the present label weighs as much as all others
    assert weak_assume_negative(zero, single).item() == pytest.approx(2 * math.log(2) / 4)
    assert weak_assume_negative(zero[:, :1], single[:, :1]).item() == pytest.approx(math.log(2))


def test_an_ls_by_hand() -> None:
    """p = 0.9: a present label is 0.95 present, any other one 0.05."""
    scores = torch.full((1, 2), math.log(9), dtype=torch.float64)
    present = -0.95 * math.log(0.9) - 0.05 * math.log(0.1)
    absent = -0.95 * math.log(0.1) - 0.05 * math.log(0.9)
    assert smoothed_assume_negative(scores, torch.tensor([[1, 0]])).item() == pytest.approx((present + absent) / 2)
    assert smoothed_assume_negative(scores, torch.tensor([[1, 1]])).item() == pytest.approx(present)
    program = -0.9 * math.log(0.9) - 0.1 * math.log(0.1)
    assert smoothed_assume_negative(scores, torch.tensor([[1, 1]]), 0.2).item() == pytest.approx(program)


def test_smoothed_labels_are_best_at_their_own_probability() -> None:
    best = torch.tensor([[math.log(0.95 / 0.05), math.log(0.05 / 0.95)]], dtype=torch.float64, requires_grad=True)
    smoothed_assume_negative(best, torch.tensor([[1, 0]])).backward()
    torch.testing.assert_close(best.grad, torch.zeros(1, 2, dtype=torch.float64))


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 9))
def test_what_an_unknown_label_is_taken_for(seed: int, n: int, c: int) -> None:
    """AN and AN-LS: absent, nothing else. WAN: absent with the weight 1/(C - 1)."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(n, c, generator=generator, dtype=torch.float64)
    labels = torch.randint(-1, 2, (n, c), generator=generator)
    filled = torch.where(labels == 0, -1, labels)
    assert assume_negative(scores, labels) == assume_negative(scores, filled)
    assert smoothed_assume_negative(scores, labels) == smoothed_assume_negative(scores, filled)
    weight = torch.where(labels == 0, 1 / max(c - 1, 1), 1.0)
    expected = assume_negative(scores, filled, weight=weight)
    torch.testing.assert_close(weak_assume_negative(scores, labels), expected)
    assert smoothed_assume_negative(scores, labels, 0.0) == assume_negative(scores, labels)
