from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from partlabel.method.other_losses.assume_negative import assume_negative
from partlabel.method.other_losses.large_loss import large_loss_correction, large_loss_rejection

BOTH = pytest.mark.parametrize("loss", [large_loss_rejection, large_loss_correction])


def softplus(x: float) -> float:
    return math.log1p(math.exp(x))


def test_by_hand() -> None:
    """A quarter of 4 labels an epoch: in epoch 2 the unknown one with score 2, though the known absent one has 3."""
    scores = torch.tensor([[2.0, 1.0, -1.0, 3.0]], dtype=torch.float64)
    labels = torch.tensor([[0, 0, 0, -1]])
    one, two, low, known = softplus(1), softplus(2), softplus(-1), softplus(3)
    for loss, turned in ((large_loss_rejection, [0, 0, 0]), (large_loss_correction, [softplus(-2), low, one])):
        values = [4 * loss(scores, labels, epoch, 25.0).item() for epoch in range(1, 6)]
        expected = [
            two + one + low + known,
            turned[0] + one + low + known,
            turned[0] + turned[1] + low + known,
            sum(turned) + known,
            sum(turned) + known,  # 100 %, but no known label
        ]
        assert values == pytest.approx(expected)


@BOTH
def test_the_first_epoch_is_an(loss: Callable[..., Tensor]) -> None:
    torch.manual_seed(0)
    scores, labels = torch.randn(4, 9), torch.randint(-1, 2, (4, 9))
    assert loss(scores, labels, 1, 50.0) == assume_negative(scores, labels)
    assert loss(scores, labels, 9, 0.0) == assume_negative(scores, labels)


@BOTH
@pytest.mark.parametrize(
    ("epoch", "delta", "count"), [(2, 0.1, 1), (4, 0.1, 3), (4, 0.11, 4), (8, 0.1, 7), (11, 0.3, 30)]
)
def test_the_share_is_of_all_labels_and_rounded_up(
    loss: Callable[..., Tensor], epoch: int, delta: float, count: int
) -> None:
    """Of 1,000 labels of which 100 are unknown; 0.1 % times 3 is 3.0000000000000004 in floats."""
    torch.manual_seed(0)
    scores = torch.randn(10, 100, dtype=torch.float64, requires_grad=True)
    labels = torch.ones(10, 100, dtype=torch.int8)
    labels[:, :10] = 0
    loss(scores, labels, epoch, delta).backward()
    assert scores.grad is not None
    assert int((scores.grad[:, :10] <= 0).sum()) == count
    assert bool((scores.grad[:, 10:] < 0).all())


@BOTH
def test_equal_scores_are_not_all_taken(loss: Callable[..., Tensor]) -> None:
    scores = torch.zeros(10, 10, requires_grad=True)
    loss(scores, torch.zeros(10, 10), 2, 1.0).backward()
    assert scores.grad is not None
    assert int((scores.grad <= 0).sum()) == 1


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 9), st.integers(1, 6))
def test_what_an_unknown_label_is_taken_for(seed: int, n: int, c: int, epoch: int) -> None:
    """Absent; but the largest ones have no loss (LL-R) or are present (LL-Ct)."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(n, c, generator=generator, dtype=torch.float64)
    labels = torch.randint(-1, 2, (n, c), generator=generator)
    count = min(math.ceil(n * c * (epoch - 1) / 5), int((labels == 0).sum()))
    order = torch.where(labels == 0, scores, -torch.inf).flatten().argsort(descending=True)
    large = torch.zeros(n * c, dtype=torch.bool)
    large[order[:count]] = True
    large = large.view(n, c)
    rejected = assume_negative(scores, labels, weight=(~large).double())
    torch.testing.assert_close(large_loss_rejection(scores, labels, epoch, 20.0), rejected)
    turned = assume_negative(scores, torch.where(large, 1, labels))
    torch.testing.assert_close(large_loss_correction(scores, labels, epoch, 20.0), turned)
