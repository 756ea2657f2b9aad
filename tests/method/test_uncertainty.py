from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from partlabel.method import uncertainty
from partlabel.method.uncertainty import Uncertainty, mc_dropout, summarise
from partlabel.models.model import Head
from partlabel.training.config import ModelConfig
from tests.reference.graph import label_graph
from tests.reference.pooling import weldon
from tests.reference.uncertainty import mask, measures, splitmix

KINDS = [("average", False), ("average", True), ("weldon", False), ("weldon", True)]


def make_head(
    pooling: str = "average", graph: bool = False, dropout: float = 0.5, channels: int = 5, classes: int = 3
) -> Head:
    torch.manual_seed(0)
    config = ModelConfig(pooling=pooling, graph=graph, dropout=dropout, k_max=0.4, k_min=0.3)  # type: ignore[bad-argument-type]
    head = Head(channels, classes, config)
    for parameter in head.parameters():
        nn.init.normal_(parameter, std=0.7)
    head.standardise(torch.rand(channels), 0.5 + torch.rand(channels))
    return head.eval()


def by_loops(head: Head, features: Tensor, number: int, samples: int, seed: int) -> np.ndarray:
    """(T, C) scores of the passes of one image, (D, h, w)."""
    x = features.double()
    if head.pool is None:
        x = x.mean((1, 2), keepdim=True)
    x = ((x - head.shift[:, None, None].double()) * head.scale[:, None, None].double()).numpy()
    weight, bias = (p.detach().double().numpy() for p in (head.classifier.weight[..., 0, 0], head.classifier.bias))
    p = round(head.dropout.p * 2**16) / 2**16
    scores = []
    for t in range(samples):
        dropped = mask(head.dropout.p, seed, number, t, x.size).reshape(x.shape) * x / (1 - p)
        maps = np.einsum("cd,dhw->chw", weight, dropped) + bias[:, None, None]
        pool = head.pool
        scores.append(maps[:, 0, 0] if pool is None else weldon(maps[None], pool.k_max, pool.k_min)[0])
    if head.graph is None:
        return np.array(scores)
    graph = {name: value.detach().double().numpy() for name, value in head.graph.named_parameters()}
    names = ("message.weight", "message.bias", "gru.weight_ih", "gru.weight_hh", "gru.bias_ih", "gru.bias_hh")
    one_hot = np.eye(len(weight))
    return label_graph(np.array(scores), *(graph[name] for name in names), one_hot, one_hot, head.graph.steps)


def test_random_numbers_are_those_of_splitmix() -> None:
    """The generator's published numbers for the seed 1234567."""
    assert splitmix(1234567, 3) == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@settings(deadline=None, max_examples=12)
@given(
    st.sampled_from(KINDS), st.sampled_from([0.5, 0.25, 0.1, 0.9]), st.integers(0, 2**31), st.integers(0, 2**40),
    st.integers(2, 70),
)  # fmt: skip
def test_scores_of_the_loops(kind: tuple[str, bool], p: float, seed: int, number: int, samples: int) -> None:
    head = make_head(*kind, dropout=p)
    features = torch.rand(1, 5, 2, 3)
    found = mc_dropout(head, features, torch.tensor([number]), samples=samples, seed=seed)
    expected = measures(by_loops(head, features[0], number, samples, seed))
    if kind == ("average", False):
        expected["mean"], expected["variance"] = (v[0].double().numpy() for v in exact(head, features))
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(found, name)[0], value, rtol=2e-4, atol=2e-6, err_msg=name)


def exact(head: Head, features: Tensor) -> tuple[Tensor, Tensor]:
    x = (features.mean((2, 3)) - head.shift) * head.scale
    weight, p = head.classifier.weight.detach()[..., 0, 0], head.dropout.p
    return x @ weight.T + head.classifier.bias.detach(), p / (1 - p) * x.square() @ weight.square().T


def test_exact_mean_and_variance_by_hand() -> None:
    head = Head(2, 1, ModelConfig(pooling="average", dropout=0.5))
    with torch.no_grad():
        head.classifier.weight.copy_(torch.tensor([[3.0, -1.0]]).view(1, 2, 1, 1))
        head.classifier.bias.fill_(0.5)
    found = mc_dropout(head, torch.tensor([1.0, 2.0]).view(1, 2, 1, 1), samples=2)
    # 0.5 + 2 (3 m_1 - 2 m_2) with m in {0, 1}: 0.5, 6.5, -3.5, 2.5
    assert found.mean.tolist() == [[1.5]]
    assert found.variance.tolist() == [[13.0]]
    assert found.deviation.tolist() == [[pytest.approx(math.sqrt(13))]]
    head.dropout.p = 0.2
    assert mc_dropout(head, torch.tensor([1.0, 2.0]).view(1, 2, 1, 1)).variance.tolist() == [[pytest.approx(3.25)]]


def test_measures_by_hand() -> None:
    found = summarise(torch.tensor([[math.log(3)], [-math.log(3)]], dtype=torch.float64))  # probabilities 3/4 and 1/4
    of_a_pass = 0.75 * math.log(4 / 3) + 0.25 * math.log(4)
    assert found.mean.item() == pytest.approx(0, abs=1e-12)
    assert found.variance.item() == pytest.approx(2 * math.log(3) ** 2)
    assert found.probability_variance.item() == pytest.approx(0.125)
    assert found.entropy.item() == pytest.approx(math.log(2))
    assert found.mutual_information.item() == pytest.approx(math.log(2) - of_a_pass)


def test_sure_and_extreme_scores() -> None:
    same = summarise(torch.full((4, 1), 2.0))
    assert same.variance.item() == same.probability_variance.item() == 0
    assert same.mutual_information.item() == pytest.approx(0, abs=1e-6)
    assert same.entropy.item() == pytest.approx(0.365332, abs=1e-5)  # of the probability 0.880797
    far = summarise(torch.tensor([[200.0], [-200.0]]))
    assert far.entropy.item() == far.mutual_information.item() == pytest.approx(math.log(2))
    assert all(value.isfinite().all() for value in far)
    assert summarise(torch.full((2, 1), 1e4)).entropy.item() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_any_batch_order_and_process_to_the_bit(kind: tuple[str, bool]) -> None:
    head = make_head(*kind, dropout=0.3, channels=40, classes=6)
    features, index = torch.rand(7, 40, 3, 3), torch.tensor([4, 0, 9, 2, 1, 100, 3])
    features = features.contiguous(memory_format=torch.channels_last)
    whole = mc_dropout(head, features, index)
    order = torch.randperm(7)
    for size in (1, 3):
        parts = [mc_dropout(head, features[rows], index[rows]) for rows in order.split(size)]
        for name, values in zip(Uncertainty._fields, zip(*parts, strict=True), strict=True):
            assert torch.equal(torch.cat(values), getattr(whole, name)[order]), name


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_of_any_size(kind: tuple[str, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    head, features = make_head(*kind), torch.rand(2, 5, 2, 3)
    whole = mc_dropout(head, features, samples=70)
    for piece in (1, 5 * 6 * 5):
        monkeypatch.setitem(uncertainty._PIECE, "cpu", piece)
        for one, other in zip(mc_dropout(head, features, samples=70), whole, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_autocast_changes_nothing() -> None:
    head, features = make_head(), torch.rand(2, 5, 2, 3)
    with torch.autocast("cpu", torch.bfloat16):
        inside = mc_dropout(head, features)
    assert all(torch.equal(a, b) for a, b in zip(inside, mc_dropout(head, features), strict=True))


def test_seed_and_number_choose_the_masks() -> None:
    head = make_head("weldon")
    features = torch.rand(1, 5, 2, 3).expand(2, -1, -1, -1)
    first = mc_dropout(head, features)
    assert not torch.equal(first.variance[0], first.variance[1])
    assert torch.equal(first.variance, mc_dropout(head, features, torch.tensor([0, 1])).variance)
    assert not torch.equal(first.variance, mc_dropout(head, features, seed=1).variance)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("p", [0.5, 0.3])
def test_the_same_distribution_as_dropout_in_training(kind: tuple[str, bool], p: float) -> None:
    head = make_head(*kind, dropout=p, channels=40, classes=4)
    features = torch.rand(1, 40, 3, 3)
    own = mc_dropout(head, features, samples=4000)
    with torch.no_grad():
        theirs = head.train()(features.expand(4000, -1, -1, -1))
    error = (theirs.var(0) / 2000).sqrt()
    assert ((own.mean[0] - theirs.mean(0)).abs() < 5 * error).all()
    torch.testing.assert_close(own.variance[0], theirs.var(0), rtol=0.2, atol=0)


def test_masks_of_inputs_passes_and_images_are_independent() -> None:
    a, b = (torch.tensor(np.array([mask(0.3, 0, number, t, 100) for t in range(48)])).float() for number in (0, 1))
    assert abs(a.mean() - 0.7) < 5 * math.sqrt(0.21 / a.numel())
    for one, other in ((a, b), (a[1:], a[:-1]), (a[:, 1:], a[:, :-1]), (a[32:], a[:-32])):
        correlation = torch.corrcoef(torch.stack([one.flatten(), other.flatten()]))[0, 1]
        assert abs(correlation) < 5 / math.sqrt(one.numel())


def test_neither_the_head_nor_the_random_state_changes() -> None:
    head = make_head("weldon", True).train()
    head.dropout.eval()
    before = {name: value.clone() for name, value in head.state_dict().items()}
    features, state = torch.rand(2, 5, 2, 3), torch.get_rng_state()
    found = mc_dropout(head, features)
    assert head.training
    assert not head.dropout.training
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in head.state_dict().items())
    assert not found.mean.requires_grad


def test_half_features_and_double_heads() -> None:
    features = torch.rand(2, 5, 2, 3)
    head = make_head("weldon")
    single = mc_dropout(head, features)
    double = mc_dropout(head.double(), features.double())
    assert single.mean.dtype == torch.float32
    assert double.mean.dtype == torch.float64
    torch.testing.assert_close(single.variance.double(), double.variance, rtol=1e-4, atol=1e-5)


def test_no_image() -> None:
    assert mc_dropout(make_head(), torch.empty(0, 5, 1, 1)).variance.shape == (0, 3)


def test_no_dropout_is_an_error() -> None:
    """CUR-01."""
    head, features = make_head(dropout=0.0), torch.rand(1, 5, 1, 1)
    with pytest.raises(ValueError, match="no dropout, uncertainty would be 0"):
        mc_dropout(head, features)
    head.dropout.p = 1.0
    with pytest.raises(ValueError, match="keeps nothing"):
        mc_dropout(head, features)
    head.dropout = nn.Identity()  # type: ignore[bad-assignment]
    with pytest.raises(ValueError, match="no dropout, uncertainty would be 0"):
        mc_dropout(head, features)


def test_samples_and_index_out_of_range() -> None:
    head, features = make_head(), torch.rand(2, 5, 1, 1)
    with pytest.raises(ValueError, match="at least 2"):
        mc_dropout(head, features, samples=1)
    with pytest.raises(ValueError, match="one number for each of 2 images"):
        mc_dropout(head, features, torch.arange(3))
