from __future__ import annotations

import math

import pytest
import torch

from partlabel.method.other_losses.entropy import entropy_maximization


def test_by_hand() -> None:
    """Known labels at 0 cost log 2; an unknown one at log 3 has p = 3/4 and entropy log 4 - 3/4 log 3."""
    scores = torch.tensor([[0.0, 0.0, math.log(3), 0.0]], dtype=torch.float64)
    loss = entropy_maximization(scores, torch.tensor([[1, -1, 0, 0]]), alpha=0.5)
    lacking = math.log(2) - (math.log(4) - 0.75 * math.log(3))
    assert loss.item() == pytest.approx((2 * math.log(2) + 0.5 * lacking) / 4)


def test_the_pull_on_an_unknown_label() -> None:
    """alpha x p (1 - p): none at 0, towards 0 on both sides, weak far away."""
    scores = torch.linspace(-12, 12, 25, dtype=torch.float64)[None].requires_grad_()
    entropy_maximization(scores, torch.zeros(1, 25)).backward()
    x = scores.detach()
    p = torch.sigmoid(x)
    torch.testing.assert_close(scores.grad, 0.1 * x * p * (1 - p) / 25)


def test_alpha_0_leaves_unknown_labels_out() -> None:
    scores = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([[1, 0, -1, 0, 0]] * 3)
    entropy_maximization(scores, labels, alpha=0.0).backward()
    assert scores.grad is not None
    assert not scores.grad[labels == 0].any()
    assert scores.grad[labels != 0].all()
