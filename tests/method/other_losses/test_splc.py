from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel.method.other_losses.splc import splc


def focal(p: float) -> float:
    """The focal loss of a label whose right answer has the probability p."""
    return (1 - p) ** 2 * -math.log(p)


def value(score: float, label: int, epoch: int) -> float:
    return splc(torch.tensor([[score]], dtype=torch.float64), torch.tensor([[label]]), epoch).item()


def test_by_hand() -> None:
    """p = 2/3 is above tau = 0.6: absent in the first epoch, present from the second on; p = 1/2 stays absent."""
    two_thirds = math.log(2)
    assert value(two_thirds, 0, 1) == pytest.approx(focal(1 / 3))
    assert value(two_thirds, 0, 2) == value(two_thirds, 0, 20) == pytest.approx(focal(2 / 3))
    assert value(0.0, 0, 1) == value(0.0, 0, 2) == pytest.approx(math.log(2) / 4)


def test_known_labels_keep_their_sign() -> None:
    """A known absent label with p = 2/3 stays absent; a present one at the margin has log(2) / 4 in every epoch."""
    assert value(math.log(2), -1, 2) == pytest.approx(focal(1 / 3))
    assert value(1.0, 1, 1) == value(1.0, 1, 2) == pytest.approx(math.log(2) / 4)


def test_the_threshold_itself_is_not_above_it() -> None:
    zero = torch.zeros(1, 1, dtype=torch.float64)
    assert splc(zero, zero, 2, tau=0.5).item() == pytest.approx(math.log(2) / 4)
    above = torch.full((1, 1), 1e-9, dtype=torch.float64, requires_grad=True)
    splc(above, zero, 2, tau=0.5).backward()
    assert above.grad is not None
    assert above.grad.item() < 0


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 9))
def test_what_an_unknown_label_is_taken_for(seed: int, n: int, c: int) -> None:
    """First epoch: absent. Later: absent where p <= tau, else present without a margin."""
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(n, c, generator=generator, dtype=torch.float64)
    labels = torch.randint(-1, 2, (n, c), generator=generator)
    absent = torch.where(labels == 0, -1, labels)
    assert splc(scores, labels, 1) == splc(scores, absent, 1) == splc(scores, absent, 9)
    likely = (labels == 0) & (torch.sigmoid(scores) > 0.6)
    moved = torch.where(likely, scores + 1, scores)  # the margin of 1 takes it back
    torch.testing.assert_close(splc(scores, labels, 2), splc(moved, torch.where(likely, 1, absent), 2))
