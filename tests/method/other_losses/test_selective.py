from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel.method.other_losses.selective import partial_asymmetric, selective
from tests.reference import rivals as reference


def test_by_hand() -> None:
    """p = 1/2: log 2 present, a half of it absent, a quarter unknown."""
    scores, labels = torch.zeros(1, 3, dtype=torch.float64), torch.tensor([[1, -1, 0]])
    assert partial_asymmetric(scores, labels).item() == pytest.approx(math.log(2) * (1 + 1 / 2 + 1 / 4) / 3)
    assert selective(scores, labels, likely=1).item() == pytest.approx(math.log(2) * (1 + 1 / 2) / 3)


def test_the_most_likely_unknown_labels_of_the_batch_are_left_out() -> None:
    """Both of the first row at one label a row; known labels with higher scores stay."""
    scores = torch.tensor([[3.0, 2.0, 5.0], [1.0, -1.0, 4.0]], requires_grad=True)
    labels = torch.tensor([[0, 0, -1], [0, 0, 1]])
    selective(scores, labels, likely=1.0).backward()
    assert scores.grad is not None
    assert (scores.grad != 0).tolist() == [[False, False, True], [True, True, True]]


@pytest.mark.parametrize("prior", [[0.05, 0.06], [0.5, 0.0]])
def test_unknown_labels_of_frequent_classes_are_left_out(prior: list[float]) -> None:
    scores = torch.zeros(2, 2, requires_grad=True)
    labels = torch.tensor([[0, 0], [-1, 1]])
    selective(scores, labels, likely=0, prior=torch.tensor(prior)).backward()
    assert scores.grad is not None
    assert (scores.grad[0] != 0).tolist() == [p <= 0.05 for p in prior]
    assert scores.grad[1].all()


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 9), st.floats(0, 3))
def test_priors_and_scores_together(seed: int, n: int, c: int, likely: float) -> None:
    rng = np.random.default_rng(seed)
    x, y, prior = rng.normal(size=(n, c)), rng.integers(-1, 2, (n, c)), rng.random(c) * 0.1
    found = selective(torch.from_numpy(x), torch.from_numpy(y), likely=likely, prior=torch.from_numpy(prior))
    assert found.item() == pytest.approx(np.real(reference.csl(x, y, likely=likely, prior=prior)), abs=1e-15)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 9))
def test_nothing_left_out_is_p_asl_and_all_left_out_are_the_known_labels(seed: int, n: int, c: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, c, generator=generator, dtype=torch.float64)
    labels = torch.randint(-1, 2, (n, c), generator=generator)
    assert selective(x, labels, likely=0) == partial_asymmetric(x, labels)
    known = partial_asymmetric(x, labels, weight=(labels != 0).double())
    torch.testing.assert_close(selective(x, labels, likely=c), known)
