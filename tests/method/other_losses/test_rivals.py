"""What all losses of the package have in common; their own numbers stand in the other files."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from partlabel.method.losses import LOSSES as registered
from partlabel.method.other_losses.assume_negative import (
    assume_negative,
    smoothed_assume_negative,
    weak_assume_negative,
)
from partlabel.method.other_losses.asymmetric import asymmetric
from partlabel.method.other_losses.entropy import entropy_maximization
from partlabel.method.other_losses.hill import hill
from partlabel.method.other_losses.large_loss import large_loss_correction, large_loss_rejection
from partlabel.method.other_losses.selective import partial_asymmetric, selective
from partlabel.method.other_losses.splc import splc
from partlabel.training.config import Config
from partlabel.training.optimizer import build_loss
from tests.reference import rivals as reference
from tests.reference.derivative import complex_step

OTHERS = [name for name, entry in registered.items() if not entry.leaves_out_unknown]

#: loss, its reference, options that both take
LOSSES: dict[str, tuple[Callable[..., Tensor], Callable[..., complex], dict[str, float]]] = {
    "an": (assume_negative, reference.an, {}),
    "wan": (weak_assume_negative, reference.wan, {}),
    "an-ls": (smoothed_assume_negative, reference.an_ls, {}),
    "an-ls-more": (smoothed_assume_negative, reference.an_ls, {"epsilon": 0.4}),
    "asl": (asymmetric, reference.asl, {}),
    "asl-other": (asymmetric, reference.asl, {"gamma_pos": 1.0, "gamma_neg": 2.0, "margin": 0.2}),
    "hill": (hill, reference.hill, {}),
    "hill-other": (hill, reference.hill, {"lam": 1.2, "margin": 0.5, "gamma": 1.0}),
    "splc-1": (splc, reference.splc, {"epoch": 1}),
    "splc-2": (splc, reference.splc, {"epoch": 2}),
    "splc-other": (splc, reference.splc, {"epoch": 3, "tau": 0.4, "margin": 0.5, "gamma": 1.0}),
    "ll-r-1": (large_loss_rejection, reference.ll_r, {"epoch": 1}),
    "ll-r-4": (large_loss_rejection, reference.ll_r, {"epoch": 4, "delta": 7.0}),
    "ll-ct-1": (large_loss_correction, reference.ll_ct, {"epoch": 1}),
    "ll-ct-4": (large_loss_correction, reference.ll_ct, {"epoch": 4, "delta": 7.0}),
    "em": (entropy_maximization, reference.em, {}),
    "em-more": (entropy_maximization, reference.em, {"alpha": 0.7}),
    "p-asl": (partial_asymmetric, reference.p_asl, {}),
    "p-asl-other": (partial_asymmetric, reference.p_asl, {"gamma_pos": 1.0, "gamma_neg": 2.0, "gamma_unknown": 3.0}),
    "csl": (selective, reference.csl, {}),
    "csl-fewer": (selective, reference.csl, {"likely": 0.6, "gamma_unknown": 3.0}),
}
#: what an unknown label costs at a score far below 0 where it is told to be uncertain
NOT_FREE = {"em": 0.1 * np.log(2), "em-more": 0.7 * np.log(2)}
EACH = pytest.mark.parametrize("name", LOSSES)


def call(name: str, scores: Tensor, labels: Tensor, **more: object) -> Tensor:
    loss, _, options = LOSSES[name]
    return loss(scores, labels, **options, **more)


def gradient(name: str, scores: Tensor, labels: Tensor, **more: object) -> tuple[float, Tensor]:
    scores = scores.clone().requires_grad_()
    value = call(name, scores, labels, **more)
    value.backward()
    assert scores.grad is not None
    return value.item(), scores.grad


@EACH
@settings(deadline=None, max_examples=12)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 9), st.sampled_from([0.0, 0.3, 1.0]), st.booleans())
def test_forward_and_gradient_of_the_loops(name: str, seed: int, n: int, c: int, known: float, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(scale=3, size=(n, c))
    y = np.where(rng.random((n, c)) < known, rng.choice([-1, 1], (n, c)), 0).astype(np.int8)
    w = rng.random((n, c)) * rng.integers(0, 2, (n, c)) if weighted else None
    _, loops, options = LOSSES[name]
    weight = None if w is None else torch.from_numpy(w)
    value, grad = gradient(name, torch.from_numpy(x), torch.from_numpy(y), weight=weight)
    assert value >= 0
    np.testing.assert_allclose(value, loops(x, y, w, **options), rtol=1e-9, atol=1e-15)
    expected = complex_step(lambda x: loops(x, y, w, **options), {"x": x}, "x")
    np.testing.assert_allclose(grad.numpy(), expected, rtol=1e-7, atol=1e-13)


@EACH
def test_gradient_check(name: str) -> None:
    torch.manual_seed(0)
    scores = torch.randn(4, 9, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(-1, 2, (4, 9), dtype=torch.int8)
    assert torch.autograd.gradcheck(lambda x: call(name, x, labels), scores)


@EACH
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [30.0, 100.0, 1e4])
def test_very_large_scores(name: str, dtype: torch.dtype, size: float) -> None:
    scores = torch.tensor([[size, -size] * 3], dtype=dtype)
    labels = torch.tensor([[1, 1, -1, -1, 0, 0]], dtype=torch.int8)
    value, grad = gradient(name, scores, labels)
    assert np.isfinite(value)
    assert value >= 0
    assert grad.isfinite().all()
    assert grad.dtype == dtype


@EACH
@pytest.mark.parametrize("known", [0, 1, -1])
def test_a_right_score_far_from_0_costs_nothing(name: str, known: int) -> None:
    """Present at 100, absent and unknown at -100; not smoothed labels, and not ``NOT_FREE``."""
    value, _ = gradient(name, torch.full((2, 3), 100.0 if known > 0 else -100.0), torch.full((2, 3), known))
    if name == "ll-ct-4" and known == 0:
        assert value == pytest.approx(200 / 6)  # 21 % of six labels, rounded up, are turned round
    elif name.startswith("an-ls"):
        assert value > 1
    else:
        assert value == pytest.approx(NOT_FREE.get(name, 0) if known == 0 else 0, rel=1e-6, abs=1e-30)


@EACH
def test_a_batch_without_known_labels(name: str) -> None:
    """It is learned from like any other, as unknown labels count; partial-BCE is 0 there."""
    torch.manual_seed(0)
    scores, unknown = torch.randn(3, 9, dtype=torch.float64), torch.zeros(3, 9, dtype=torch.int8)
    value, grad = gradient(name, scores, unknown)
    assert value == pytest.approx(np.real(LOSSES[name][1](scores.numpy(), unknown.numpy(), **LOSSES[name][2])))
    assert value > 0
    assert grad.isfinite().all()
    assert grad.abs().sum() > 0


@EACH
def test_an_empty_batch_is_zero_with_a_graph(name: str) -> None:
    value, grad = gradient(name, torch.zeros(0, 3), torch.zeros(0, 3, dtype=torch.int8))
    assert value == 0
    assert grad.shape == (0, 3)


@EACH
def test_sum_is_the_mean_times_the_rows(name: str) -> None:
    torch.manual_seed(0)
    scores, labels = torch.randn(7, 5, dtype=torch.float64), torch.randint(-1, 2, (7, 5))
    torch.testing.assert_close(call(name, scores, labels, reduction="sum"), 7 * call(name, scores, labels))


@EACH
def test_weights_of_zero_leave_nothing(name: str) -> None:
    scores, labels = torch.randn(3, 5), torch.randint(-1, 2, (3, 5))
    value, grad = gradient(name, scores, labels, weight=torch.zeros(3, 5))
    assert value == 0
    assert not grad.any()


@EACH
def test_labels_of_other_kinds_and_no_warning(name: str) -> None:
    """A batch of one present label a row is the normal case here, whatever its dtype."""
    scores = torch.randn(3, 5)
    labels = torch.zeros(3, 5, dtype=torch.int8)
    labels[:, 1] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = call(name, scores, labels)
        for dtype in (torch.float32, torch.int64, torch.bool, torch.uint8):
            assert call(name, scores, labels.to(dtype)) == expected


@EACH
@pytest.mark.parametrize(
    ("labels", "listed"),
    [
        (torch.tensor([[1, -1, 2]]), ["row 0 class 2: 2"]),
        (torch.tensor([[1.0, 0.5, 0.0]]), ["row 0 class 1: 0.5"]),
        (torch.tensor([[float("nan"), 0.0, -1.0]]), ["row 0 class 0: nan"]),
        (torch.tensor([[255, 0, 1]], dtype=torch.uint8), ["row 0 class 0: 255"]),
        (torch.full((5, 5), 7, dtype=torch.int8), ["row 0 class 0: 7", "; and 5 more"]),
    ],
)
def test_wrong_labels_are_all_named(name: str, labels: Tensor, listed: list[str]) -> None:
    with pytest.raises(ValueError, match=r"present.*absent.*unknown") as error:
        call(name, torch.zeros(labels.shape), labels)
    assert all(part in str(error.value) for part in listed)


@EACH
def test_wrong_arguments(name: str) -> None:
    scores, labels = torch.zeros(2, 3), torch.zeros(2, 3)
    for shape in ((2, 4), (3, 3), (2,)):
        with pytest.raises(ValueError, match=r"both \(N, C\)"):
            call(name, scores, torch.zeros(shape))
    with pytest.raises(ValueError, match=r"both \(N, C\)"):
        call(name, torch.zeros(2, 0), torch.zeros(2, 0))
    with pytest.raises(ValueError, match="reduction"):
        call(name, scores, labels, reduction="none")
    for weight in (torch.ones(2, 1), torch.tensor([[1.0, -0.1, 1.0], [1.0, float("nan"), 1.0]])):
        with pytest.raises(ValueError, match="weights of labels"):
            call(name, scores, labels, weight=weight)


@pytest.mark.parametrize(
    ("loss", "options"),
    [
        (smoothed_assume_negative, {"epsilon": 1.0}),
        (smoothed_assume_negative, {"epsilon": -0.1}),
        (asymmetric, {"gamma_neg": -1.0}),
        (asymmetric, {"margin": 1.0}),
        (hill, {"lam": 0.9}),
        (hill, {"gamma": -1.0}),
        (splc, {"epoch": 0}),
        (splc, {"epoch": 2, "tau": 1.1}),
        (large_loss_rejection, {"epoch": 0}),
        (large_loss_correction, {"epoch": 2, "delta": 101.0}),
        (entropy_maximization, {"alpha": -0.1}),
        (partial_asymmetric, {"gamma_unknown": -1.0}),
        (selective, {"gamma_neg": -1.0}),
        (selective, {"likely": -1.0}),
        (selective, {"prior": torch.zeros(2)}),
    ],
)
def test_settings_out_of_range(loss: Callable[..., Tensor], options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not "):
        loss(torch.zeros(2, 3), torch.zeros(2, 3), **options)


def test_every_loss_has_a_name_and_every_name_a_loss() -> None:
    assert {registered[name].load() for name in OTHERS} == {loss for loss, _, _ in LOSSES.values()}


@pytest.mark.parametrize("name", OTHERS)
def test_a_training_gets_the_loss_of_its_name(name: str) -> None:
    """In the second epoch, weights and all, as a sum over the rows."""
    torch.manual_seed(0)
    scores, labels, weight = torch.randn(3, 5), torch.randint(-1, 2, (3, 5)), torch.rand(3, 5)
    built = build_loss(Config().replace(loss__name=name).loss, 5)(scores, labels, weight=weight, epoch=2)
    loss = registered[name].load()
    if registered[name].by_epoch:
        assert built == loss(scores, labels, 2, reduction="sum", weight=weight)
        first = build_loss(Config().replace(loss__name=name).loss, 5)(scores, labels, weight=weight, epoch=1)
        assert first == loss(scores, labels, 1, reduction="sum", weight=weight)
    else:
        assert built == loss(scores, labels, reduction="sum", weight=weight)
