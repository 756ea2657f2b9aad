from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from partlabel.method.graph import LARGE_HIDDEN, MAX_PAPER_CLASSES, LabelGraph
from tests.reference.derivative import complex_step
from tests.reference.graph import label_graph

NAMES = {
    "W": "message.weight", "b": "message.bias", "W_i": "gru.weight_ih", "W_h": "gru.weight_hh", "b_i": "gru.bias_ih",
    "b_h": "gru.bias_hh", "e": "embedding", "r": "readout",
}  # fmt: skip


def randomised(num_classes: int, hidden: int | None = None, steps: int = 3, seed: int = 0) -> LabelGraph:
    """A float64 graph with weights and biases as large as after training."""
    torch.manual_seed(seed)
    graph = LabelGraph(num_classes, hidden, steps).double()
    for parameter in graph.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return graph


def plain(graph: LabelGraph, scores: Tensor) -> Tensor:
    """Algorithm 2 for d = C as it is usually written, with the graph's own GRUCell."""
    n, c = scores.shape
    h0 = h = torch.diag_embed(scores)
    for _ in range(graph.steps):
        f = torch.relu(graph.message(h))
        m = (f.sum(1, keepdim=True) - f) / (c - 1)
        h = graph.gru(m.flatten(0, 1), h.flatten(0, 1)).view(n, c, c)
    return torch.diagonal(h0 + h, dim1=1, dim2=2)


@settings(deadline=None, max_examples=8)
@given(st.integers(0, 2**32 - 1), st.sampled_from([(1, 1), (2, 2), (4, 4), (3, 1), (5, 2)]), st.integers(1, 3))
def test_forward_and_gradient_of_the_loops(seed: int, sizes: tuple[int, int], steps: int) -> None:
    """The double loop over nodes and neighbours; CUR-05 for five classes."""
    num_classes, hidden = sizes
    graph = randomised(num_classes, hidden, steps, seed % 1000)
    rng = np.random.default_rng(seed)
    x, weight = rng.normal(size=(2, num_classes)), rng.normal(size=(2, num_classes))
    named = dict(graph.named_parameters())
    arrays = {key: named[name].detach().numpy() for key, name in NAMES.items() if name in named}
    fixed = {} if "e" in arrays else {"e": np.eye(num_classes), "r": np.eye(num_classes)}
    arrays["x"] = x

    scores = torch.from_numpy(x).requires_grad_()
    output = graph(scores)
    (output * torch.from_numpy(weight)).sum().backward()
    np.testing.assert_allclose(output.detach(), label_graph(**arrays, **fixed, T=steps), rtol=1e-9, atol=1e-12)

    def objective(**arguments: np.ndarray) -> complex:
        return (label_graph(**arguments, **fixed, T=steps) * weight).sum()

    for key in arrays:
        own = scores.grad if key == "x" else named[NAMES[key]].grad
        own = torch.zeros(arrays[key].shape) if own is None else own  # not reached: no message with one class
        np.testing.assert_allclose(own, complex_step(objective, arrays, key), rtol=1e-9, atol=1e-12, err_msg=key)


@pytest.mark.parametrize("sizes", [(4, 4), (6, 2)])
@pytest.mark.parametrize("steps", [1, 3])
def test_gradient_check(sizes: tuple[int, int], steps: int) -> None:
    graph = randomised(*sizes, steps)
    scores = torch.randn(3, sizes[0], dtype=torch.float64, requires_grad=True)
    parameters = [p for p in graph.parameters() if p.requires_grad]
    assert torch.autograd.gradcheck(lambda x, *_: graph(x), (scores, *parameters))


def test_by_hand_without_weights() -> None:
    """All weights 0: r = z = 1/2, n = 0, so that each step halves the state: x + x/8."""
    graph = LabelGraph(3)
    for parameter in graph.parameters():
        torch.nn.init.zeros_(parameter)
    assert graph(torch.tensor([[8.0, -16.0, 0.0]])).tolist() == [[9.0, -18.0, 0.0]]


def test_by_hand_two_classes() -> None:
    """One step: the message is the other node's ReLU(W h + b); update gate at 1/2, candidate tanh(m_v)."""
    graph = LabelGraph(2, steps=1)
    for parameter in graph.parameters():
        torch.nn.init.zeros_(parameter)
    with torch.no_grad():
        graph.message.weight.copy_(torch.tensor([[0.0, 0.5], [0.25, 0.0]]))
        graph.message.bias.copy_(torch.tensor([0.1, -1.0]))
        graph.gru.weight_ih[4:].copy_(torch.eye(2))
    output = graph(torch.tensor([[2.0, 4.0]]))
    # node 1: h_2 = (0, 4), f = ReLU(0.5 * 4 + 0.1, 0 - 1) = (2.1, 0);   node 2: h_1 = (2, 0), f = (0.1, 0)
    expected = [2 + 0.5 * math.tanh(2.1) + 0.5 * 2, 4 + 0.5 * math.tanh(0.0) + 0.5 * 4]
    assert output.tolist() == [pytest.approx(expected, rel=1e-6)]


@pytest.mark.parametrize(("num_classes", "steps"), [(2, 1), (7, 2), (80, 3)])
def test_same_as_the_plain_version_with_gru_cell(num_classes: int, steps: int) -> None:
    torch.manual_seed(0)
    graph = LabelGraph(num_classes, steps=steps)
    scores = 3 * torch.randn(5, num_classes)
    ours, theirs = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    output, expected = graph(ours), plain(graph, theirs)
    torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-5)
    weight = torch.randn_like(output)
    parameters = list(graph.parameters())
    for own, other in zip(
        torch.autograd.grad((output * weight).sum(), [ours, *parameters]),
        torch.autograd.grad((expected * weight).sum(), [theirs, *parameters]),
        strict=True,
    ):
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-5)


def test_learned_rows_equal_to_the_identity_give_the_paper_graph() -> None:
    graph = randomised(6)
    learned = randomised(6, 5)
    learned.message, learned.gru = graph.message, graph.gru
    learned.embedding = torch.nn.Parameter(torch.eye(6, dtype=torch.float64))
    learned.readout = torch.nn.Parameter(torch.eye(6, dtype=torch.float64))
    scores = torch.randn(3, 6, dtype=torch.float64)
    torch.testing.assert_close(learned(scores), graph(scores), rtol=1e-12, atol=1e-12)


def test_one_class_has_no_message() -> None:
    """CUR-05."""
    graph = randomised(1)
    scores = torch.tensor([[0.7], [-2.0]], dtype=torch.float64, requires_grad=True)
    before = graph(scores)
    before.sum().backward()
    assert before.isfinite().all()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
    torch.nn.init.normal_(graph.message.weight)
    assert torch.equal(graph(scores), before)


def saved_bytes(num_classes: int) -> int:
    """Bytes that forward keeps for backward, then checks the backward."""
    torch.manual_seed(0)
    graph = LabelGraph(num_classes, hidden=8)
    scores = torch.randn(2, num_classes, requires_grad=True)
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = graph(scores)
    output.sum().backward()
    assert output.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in [scores, *graph.parameters()])
    return sum(kept.values())


def test_memory_is_linear_in_the_classes() -> None:
    """CUR-05."""
    few, many = saved_bytes(80), saved_bytes(9605)
    assert many < 1.1 * 9605 / 80 * few
    assert many < 100e6


def test_start_is_close_to_the_scores_of_the_convnet() -> None:
    torch.manual_seed(0)
    for graph in (LabelGraph(20), LabelGraph(80), LabelGraph(1000, hidden=8), LabelGraph(5000)):
        scores = (3 * torch.randn(8, graph.num_classes)).requires_grad_()
        output = graph(scores)
        correlation = torch.corrcoef(torch.stack([scores.flatten(), output.flatten()]))[0, 1]
        assert correlation > 0.99, graph
        assert 0.9 < output.std() / scores.std() < 1.5, graph
        output.sum().backward()
        assert scores.grad is not None
        assert 0.8 < scores.grad.mean() < 1.6, graph
        assert graph(torch.zeros(1, graph.num_classes)).abs().max() == 0


def test_default_hidden_size() -> None:
    assert LabelGraph(3).embedding is None
    assert LabelGraph(3, hidden=3).embedding is None
    assert LabelGraph(MAX_PAPER_CLASSES + 1).hidden == LARGE_HIDDEN
    assert set(LabelGraph(4).gru.state_dict()) == set(torch.nn.GRUCell(4, 4).state_dict())


def test_autocast_does_not_change_the_result() -> None:
    torch.manual_seed(0)
    graph, scores = LabelGraph(6), torch.randn(2, 6)
    with torch.autocast("cpu", torch.bfloat16):
        output = graph(scores)
        half = graph(scores.bfloat16())
    assert torch.equal(output, graph(scores))
    assert half.dtype == torch.float32


@pytest.mark.slow
@pytest.mark.parametrize("hidden", [None, 2])
def test_exports_for_any_number_of_images(hidden: int | None) -> None:
    torch.manual_seed(0)
    graph = LabelGraph(5, hidden).eval()
    program = torch.export.export(graph, (torch.randn(3, 5),), dynamic_shapes=({0: torch.export.Dim("n")},))
    scores = torch.randn(7, 5)
    torch.testing.assert_close(program.module()(scores), graph(scores))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0,), "at least 1"), ((3, None, 0), "at least 1"), ((3, 4), "1 to num_classes"), ((3, 0), "1 to num_classes")],
)
def test_sizes_out_of_range(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LabelGraph(*arguments)


@pytest.mark.parametrize("shape", [(2, 4), (3,), (2, 3, 1)])
def test_shape_of_the_scores(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"\(N, 3\)"):
        LabelGraph(3)(torch.zeros(shape))


def test_no_images() -> None:
    assert LabelGraph(3)(torch.zeros(0, 3)).shape == (0, 3)
