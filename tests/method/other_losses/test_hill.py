from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel.method.other_losses.hill import hill


def test_by_hand() -> None:
    """p = 1/2 of a label that is not present: (1.5 - 0.5) / 4. Present at the margin: p_m = 1/2, so log(2) / 4."""
    scores = torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64)
    loss = hill(scores, torch.tensor([[0, -1, 1]]))
    assert loss.item() == pytest.approx((0.25 + 0.25 + math.log(2) / 4) / 3)


def test_the_hill() -> None:
    """The pull on a label that is not present is 3 p^2 (1 - p)^2: most at p = 1/2, nothing at both ends."""
    scores = torch.linspace(-12, 12, 25, dtype=torch.float64)[None].requires_grad_()
    hill(scores, torch.zeros(1, 25)).backward()
    p = torch.sigmoid(scores.detach())
    torch.testing.assert_close(scores.grad, 3 * p**2 * (1 - p) ** 2 / 25)
    assert scores.grad is not None
    assert int(scores.grad.argmax()) == 12


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 9))
def test_an_unknown_label_is_absent(seed: int, n: int, c: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(n, c, generator=generator, dtype=torch.float64)
    labels = torch.randint(-1, 2, (n, c), generator=generator)
    assert hill(scores, labels) == hill(scores, torch.where(labels == 0, -1, labels))
