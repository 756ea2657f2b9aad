from __future__ import annotations

import json
import math
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from partlabel.method import checks
from partlabel.method import loss as module
from partlabel.method.loss import PartialBCE, partial_bce, solve_g
from tests.method import ddp
from tests.processes import run_ranks
from tests.reference import loss as reference
from tests.reference.derivative import complex_step

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases"
GAMMAS = (-3.0, -1.0, -0.5, 0.5, 1.0, 3.0)


def case(name: str) -> tuple[dict, dict]:
    vectors, expected = (json.loads((CASES / name / f"{part}.json").read_text()) for part in ("vectors", "expected"))
    return vectors, expected


@pytest.fixture(params=["known", "all", "chosen"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test on the known labels only, on all labels, and as the density decides."""
    if request.param != "chosen":
        monkeypatch.setattr(module, "SPARSE_WORDS", 2.0 if request.param == "known" else -1.0)
    return request.param


def gradient(scores: Tensor, labels: Tensor, **options: object) -> tuple[float, Tensor]:
    scores = scores.clone().requires_grad_()
    value = partial_bce(scores, labels, **options)
    value.backward()
    assert scores.grad is not None
    return value.item(), scores.grad


def test_by_hand(path: str) -> None:
    """Two of four labels known: g(1/2) = 49/9 - 20/9; each known label has -log 1/2."""
    labels = torch.tensor([[1, 0, -1, 0], [0, 0, 0, 0]], dtype=torch.int8)
    value, grad = gradient(torch.zeros(2, 4, dtype=torch.float64), labels)
    assert value == pytest.approx(29 / 9 / 4 * 2 * math.log(2) / 2, rel=1e-15)
    weight = 29 / 9 / 4 / 2
    torch.testing.assert_close(grad[0], torch.tensor([-weight / 2, 0, weight / 2, 0], dtype=torch.float64))
    assert torch.equal(grad[1], torch.zeros(4, dtype=torch.float64))
    assert gradient(torch.zeros(2, 4), labels, reduction="sum")[0] == pytest.approx(2 * value)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 19), st.sampled_from(GAMMAS),
    st.sampled_from([0.0, 0.05, 0.3, 0.9, 1.0]), st.sampled_from([-1.0, 0.35, 2.0]),
)  # fmt: skip
def test_forward_and_gradient_of_the_loops(
    seed: int, n: int, c: int, gamma: float, density: float, sparse: float
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(scale=4, size=(n, c))
    y = np.where(rng.random((n, c)) < density, rng.choice([-1, 1], (n, c)), 0).astype(np.int8)
    alpha, beta = solve_g(gamma)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(module, "SPARSE_WORDS", sparse)
        value, grad = gradient(torch.from_numpy(x), torch.from_numpy(y), gamma=gamma)
    assert value >= 0
    constants = (alpha, beta, gamma)
    np.testing.assert_allclose(value, reference.partial_bce(x, y, *constants), rtol=1e-9, atol=1e-15)
    expected = complex_step(lambda x: reference.partial_bce(x, y, *constants), {"x": x}, "x")
    np.testing.assert_allclose(grad, expected, rtol=1e-9, atol=1e-15)


def test_gradient_check(path: str) -> None:
    torch.manual_seed(0)
    scores = torch.randn(4, 9, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(-1, 2, (4, 9), dtype=torch.int8)
    assert torch.autograd.gradcheck(lambda x: partial_bce(x, labels, gamma=-1.0), scores)


def test_layouts(path: str) -> None:
    """Transposed, sliced and oddly aligned tensors, and more than one word of labels."""
    torch.manual_seed(0)
    scores, labels = torch.randn(7, 50), torch.randint(-1, 2, (7, 50), dtype=torch.int8)
    whole, expected = gradient(scores, labels)
    value, grad = gradient(scores.t().contiguous().t(), labels.t().contiguous().t())
    assert value == pytest.approx(whole, rel=1e-6)
    torch.testing.assert_close(grad, expected)
    shifted = torch.cat([torch.zeros(3, dtype=torch.int8), labels.flatten()])[3:].view(7, 50)
    assert shifted.storage_offset() == 3
    assert gradient(scores, shifted)[0] == pytest.approx(whole, rel=1e-6)
    part, _ = gradient(scores[2:5, 1:30], labels[2:5, 1:30])
    assert part == pytest.approx(gradient(scores[2:5, 1:30].clone(), labels[2:5, 1:30].clone())[0], rel=1e-6)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_scores_of_unknown_labels_do_not_matter(path: str, odd: float) -> None:
    labels = torch.tensor([[1, 0, -1, 0]], dtype=torch.int8)
    value, grad = gradient(torch.tensor([[0.5, odd, 1.0, odd]]), labels)
    assert value == gradient(torch.tensor([[0.5, 0.0, 1.0, 0.0]]), labels)[0]
    assert grad.isfinite().all()
    assert grad[0, 1] == grad[0, 3] == 0


def test_rows_and_batches_without_known_labels(path: str) -> None:
    """LOSS-02."""
    vectors, expected = case("LOSS-02")
    x, y = torch.tensor(vectors["x"], dtype=torch.float64), torch.tensor(vectors["y"], dtype=torch.int8)
    paper = {"alpha": -4.45, "beta": 5.45, "gamma": 1.0}
    mean = {"alpha": 1.0, "beta": 0.0, "gamma": -1.0}
    for constants, rows, batch in (
        (paper, "row_losses gamma=1 alpha=-4.45 beta=5.45", "batch_mean_over_rows"),
        (mean, "row_losses gamma=-1 alpha=1 beta=0", "batch_mean gamma=-1"),
    ):
        losses = [gradient(x[i : i + 1], y[i : i + 1], **constants)[0] for i in range(2)]
        assert losses == pytest.approx(expected[rows], abs=1e-9)
        assert gradient(x, y, **constants)[0] == pytest.approx(expected[batch], abs=1e-9)
    for gamma in GAMMAS:
        value, grad = gradient(x, torch.zeros_like(y), gamma=gamma)
        assert value == expected["all_unknown_batch"]
        assert torch.equal(grad, torch.zeros_like(x))


def test_an_empty_batch_is_zero_with_a_graph() -> None:
    value, grad = gradient(torch.zeros(0, 3), torch.zeros(0, 3, dtype=torch.int8))
    assert value == 0
    assert grad.shape == (0, 3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_very_large_scores(path: str, dtype: torch.dtype) -> None:
    """LOSS-03."""
    vectors, expected = case("LOSS-03")
    tolerance = {"rel": expected["relative_tolerance"], "abs": expected["absolute_tolerance"]}
    for (x, y), bce, slope in zip(vectors["pairs_x_y"], expected["bce"], expected["gradient"], strict=True):
        value, grad = gradient(torch.tensor([[x]], dtype=dtype), torch.tensor([[y]], dtype=torch.int8))
        near = {"rel": 1e-2, "abs": 1e-30} if dtype == torch.bfloat16 else tolerance
        assert value == pytest.approx(bce, **near)
        assert grad.dtype == dtype
        assert grad.item() == pytest.approx(slope, **({"abs": 1e-7} if dtype == torch.float16 else near))


def test_a_perfect_score_has_loss_zero(path: str) -> None:
    assert gradient(torch.tensor([[1e4, -1e4]]), torch.tensor([[1, -1]], dtype=torch.int8))[0] == 0


@pytest.mark.parametrize(
    ("labels", "listed"),
    [
        (torch.tensor([[1, -1, 2]]), ["row 0 class 2: 2"]),
        (torch.tensor([[1.0, 0.5, 0.0]]), ["row 0 class 1: 0.5"]),
        (torch.tensor([[255, 0, 1]], dtype=torch.uint8), ["row 0 class 0: 255"]),
        (torch.tensor([[0, -1], [256, -3]]), ["row 1 class 0: 256", "row 1 class 1: -3"]),
        (torch.tensor([[math.nan, math.inf, -1.0]]), ["row 0 class 0: nan", "row 0 class 1: inf"]),
        (torch.full((5, 5), 7, dtype=torch.int8), ["row 3 class 4: 7; and 5 more"]),
    ],
)
def test_wrong_labels_are_all_named(labels: Tensor, listed: list[str]) -> None:
    """LOSS-04."""
    with pytest.raises(ValueError, match=r"present.*absent.*unknown") as error:
        partial_bce(torch.zeros(labels.shape), labels)
    assert all(place in str(error.value) for place in listed)
    assert str(error.value).count("row ") <= checks.SHOWN


def test_a_zero_one_target_is_warned_about() -> None:
    """LOSS-04."""
    target = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    with pytest.warns(UserWarning, match="is 0 meant as absent"):
        partial_bce(torch.zeros(2, 2), target)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for fine in (target[:1], -target, torch.zeros(2, 2), torch.tensor([[1.0, -1.0], [0.0, 0.0]])):
            partial_bce(torch.zeros(fine.shape), fine)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.float16, torch.bfloat16])
def test_other_dtypes_of_labels(dtype: torch.dtype) -> None:
    scores, labels = torch.randn(3, 7), torch.tensor([[1, -1, 0, 0, 1, 0, -1]] * 3, dtype=torch.int8)
    assert gradient(scores, labels.to(dtype))[0] == gradient(scores, labels)[0]


def test_mixed_precision_step() -> None:
    """LOSS-05."""
    torch.manual_seed(0)
    layer, features = torch.nn.Linear(8, 40), torch.randn(4, 8)
    labels = torch.randint(-1, 2, (4, 40), dtype=torch.int8)
    exact = partial_bce(layer(features), labels)
    with torch.autocast("cpu", torch.bfloat16):
        scores = layer(features)
        value = partial_bce(scores, labels)
    assert scores.dtype == torch.bfloat16
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(exact.item(), rel=1e-2)
    value.backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.isfinite().all()
    assert layer.weight.grad.abs().sum() > 0


def test_solved_constants() -> None:
    """LOSS-07."""
    vectors, expected = case("LOSS-07")
    p, value = vectors["constraint"]["p"], vectors["constraint"]["g"]
    for gamma in vectors["gammas"]:
        if expected[f"gamma={gamma}"] == "error":
            with pytest.raises(ValueError, match="no solution"):
                solve_g(gamma, p, value)
            continue
        alpha, beta = solve_g(gamma, p, value)
        assert [alpha, beta] == pytest.approx(expected[f"gamma={gamma}"], abs=1e-8)
        assert reference.g(p, alpha, beta, gamma) == pytest.approx(value)
        assert reference.g(1, alpha, beta, gamma) == pytest.approx(1)
    printed = expected["paper_rounded"]
    assert reference.g(0.1, printed["alpha"], printed["beta"], 1) == pytest.approx(printed["g(0.1)"])
    assert solve_g() == pytest.approx((-40 / 9, 49 / 9), rel=1e-15)
    assert solve_g(0, 0.1, 1) == (0.0, 1.0)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_all_known_is_plain_bce(path: str, gamma: float) -> None:
    """LOSS-07."""
    torch.manual_seed(0)
    scores = torch.randn(6, 11, dtype=torch.float64, requires_grad=True)
    labels = torch.where(torch.rand(6, 11) < 0.5, 1, -1).to(torch.int8)
    value, grad = gradient(scores.detach(), labels, gamma=gamma)
    plain = F.binary_cross_entropy_with_logits(scores, (labels == 1).double())
    plain.backward()
    assert value == pytest.approx(plain.item(), rel=1e-12)
    torch.testing.assert_close(grad, scores.grad)


def test_mean_over_the_known_labels(path: str) -> None:
    """LOSS-07."""
    torch.manual_seed(0)
    scores, labels = torch.randn(6, 11, dtype=torch.float64), torch.randint(-1, 2, (6, 11), dtype=torch.int8)
    means = [F.softplus(-labels[i] * scores[i])[labels[i] != 0].mean() for i in range(6)]
    value, _ = gradient(scores, labels, alpha=1.0, beta=0.0, gamma=-1.0)
    assert value == pytest.approx(torch.stack(means).mean().item(), rel=1e-12)


def test_value_one_is_plain_bce_over_the_known(path: str) -> None:
    torch.manual_seed(0)
    scores, labels = torch.randn(6, 11), torch.randint(-1, 2, (6, 11), dtype=torch.int8)
    masked = F.binary_cross_entropy_with_logits(scores, (labels == 1).float(), weight=(labels != 0).float())
    assert PartialBCE(gamma=0, value=1)(scores, labels).item() == pytest.approx(masked.item(), rel=1e-6)


def test_module_and_function_agree() -> None:
    scores, labels = torch.randn(3, 7), torch.randint(-1, 2, (3, 7), dtype=torch.int8)
    loss = PartialBCE(gamma=-1.0, p0=0.2, value=3.0, reduction="sum")
    assert loss(scores, labels) == partial_bce(scores, labels, -1.0, 0.2, 3.0, reduction="sum")
    assert "gamma=-1" in repr(loss)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 0.0}, "no solution"),
        ({"p0": 1.0}, "p0"),
        ({"value": -1.0}, "value"),
        ({"gamma": math.nan}, "gamma"),
        ({"gamma": -1e6}, "overflows"),
        ({"alpha": 1.0}, "together"),
        ({"alpha": math.inf, "beta": 0.0}, "finite"),
        ({"alpha": 2.0, "beta": -1.0}, "is -0.5 at p = 0.25"),
        ({"gamma": -1.0, "value": 0.5, "p0": 0.5}, "is -0.5 at p = 0.25"),
        ({"gamma": -800.0, "p0": 0.5}, "is inf at p = 0.25"),
        ({"alpha": 1.0, "beta": -2.0, "gamma": -1.0}, "is -1 at p = 1;"),
        ({"reduction": "none"}, "reduction"),
    ],
)
def test_arguments_out_of_range(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        partial_bce(torch.zeros(1, 4), torch.zeros(1, 4, dtype=torch.int8), **options)


@pytest.mark.parametrize(("scores", "labels"), [((2, 3), (2, 4)), ((3,), (3,)), ((2, 0), (2, 0))])
def test_shapes(scores: tuple[int, ...], labels: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"both \(N, C\)"):
        partial_bce(torch.zeros(scores), torch.zeros(labels, dtype=torch.int8))


@pytest.mark.slow
def test_two_processes_have_the_gradient_of_one(tmp_path: Path) -> None:
    """TR-09: one process holds only unknown labels; and both hold some."""
    run_ranks(2, ddp.main, str(tmp_path))
    results = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2)]

    single = ddp.model()
    features, labels = ddp.rows()
    whole = partial_bce(single(features), labels)
    whole.backward()
    for split in ddp.SPLITS:
        assert whole.item() == pytest.approx(sum(result[split]["loss"].item() for result in results) / 2, rel=1e-12)
        for result in results:
            for own, parameter in zip(result[split]["gradients"], single.parameters(), strict=True):
                torch.testing.assert_close(own, parameter.grad, rtol=1e-9, atol=1e-12)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 9), st.sampled_from(GAMMAS))
def test_weights_of_single_labels(seed: int, n: int, c: int, gamma: float) -> None:
    """Against the loops; p_i counts a label as one whatever its weight; what is unknown may be NaN."""
    rng = np.random.default_rng(seed)
    x = rng.normal(scale=4, size=(n, c))
    y = rng.choice([-1, 0, 1], (n, c)).astype(np.int8)
    w = rng.random((n, c)) * rng.integers(0, 2, (n, c))
    constants = (*solve_g(gamma), gamma)
    scores = torch.from_numpy(np.where(y == 0, np.nan, x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value, grad = gradient(scores, torch.from_numpy(y), gamma=gamma, weight=torch.from_numpy(w))
    np.testing.assert_allclose(value, reference.partial_bce(x, y, *constants, w), rtol=1e-9, atol=1e-15)
    expected = complex_step(lambda x: reference.partial_bce(x, y, *constants, w), {"x": x}, "x")
    np.testing.assert_allclose(grad.numpy(), expected, rtol=1e-9, atol=1e-15)


def test_weights_of_one_change_nothing_and_half_of_them_half() -> None:
    scores, labels = torch.tensor([[1.0, -2.0, 0.5]]), torch.tensor([[1, -1, 0]])
    plain = partial_bce(scores, labels)
    torch.testing.assert_close(partial_bce(scores, labels, weight=torch.ones(1, 3)), plain)
    torch.testing.assert_close(partial_bce(scores, labels, weight=torch.full((1, 3), 0.5)), plain / 2)


@pytest.mark.parametrize("nothing", [float("nan"), float("inf")])
def test_a_weight_at_an_unknown_label_does_not_reach_the_loss(nothing: float) -> None:
    scores, labels = torch.tensor([[1.0, -2.0, 0.5]], requires_grad=True), torch.tensor([[1, -1, 0]])
    loss = partial_bce(scores, labels, weight=torch.tensor([[0.5, 2.0, nothing]]))
    torch.testing.assert_close(loss, partial_bce(scores, labels, weight=torch.tensor([[0.5, 2.0, 1.0]])))
    loss.backward()
    assert scores.grad is not None
    assert scores.grad[0, 2] == 0
    with pytest.raises(ValueError, match="weights of labels"):
        partial_bce(scores, labels, weight=torch.tensor([[float("nan"), 2.0, 1.0]]))


@pytest.mark.parametrize("weight", [torch.ones(1, 2), torch.tensor([[1.0, -0.1, 1.0]])])
def test_wrong_weights_are_refused(weight: Tensor) -> None:
    with pytest.raises(ValueError, match="weights of labels"):
        partial_bce(torch.zeros(1, 3), torch.zeros(1, 3, dtype=torch.int8), weight=weight)
