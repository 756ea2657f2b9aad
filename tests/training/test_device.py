"""On a device that is not the CPU: nothing is mixed, and a step waits for nothing."""

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric

from partlabel.method.losses import LOSSES
from partlabel.method.uncertainty import mc_dropout
from partlabel.models.model import Model
from partlabel.training.config import LossConfig, ModelConfig, OptimConfig
from partlabel.training.engine import Engine
from partlabel.training.optimizer import RunningMean, build_loss, build_optimizer
from tests.pretend import DEVICE, MixedDevicesError, counting

CLASSES = ["a", "b", "c", "d", "e"]


def make_model(**changes) -> Model:
    torch.manual_seed(0)
    return Model(ModelConfig(**{"backbone": "test_resnet", "weights": "none", **changes}), CLASSES, 32)


def some_labels(count: int = 6) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(-1, 2, (count, len(CLASSES)), dtype=np.int8))


def test_the_pretend_device_finds_what_it_is_for():
    with counting() as counted:
        x = torch.ones(3).to(DEVICE)
        with pytest.raises(MixedDevicesError):
            x + torch.ones(3)
        assert float((x + 1).sum()) == 6
        assert counted.waits.total() == 2, "a copy that is waited for, and a value that is read"
        assert counted.kernels >= 2
        with pytest.raises(TypeError):
            x.numpy()
        assert x.cpu().numpy().tolist() == [1, 1, 1]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", list(LOSSES))
def test_losses_wait_for_nothing(name, weighted):
    loss = build_loss(LossConfig(name=name), len(CLASSES))
    with counting() as counted:
        scores = torch.randn(6, len(CLASSES)).to(DEVICE).requires_grad_()
        known = some_labels().to(DEVICE)
        weight = torch.ones(6, len(CLASSES)).to(DEVICE) if weighted else None
        counted.waits.clear()
        loss(scores, known, weight=weight, epoch=2).backward()
        assert scores.grad is not None
        assert scores.grad.device == DEVICE
    assert not counted.waits


NETWORKS = [
    {},
    {"graph": True},
    {"pooling": "average", "dropout": 0.2},
    {"heads": 2, "dropout": 0.2},
    {"graph": True, "graph_hidden": 2},
]


@pytest.mark.parametrize("network", NETWORKS, ids=lambda each: " ".join(each) or "plain")
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_step_waits_for_nothing(network, optimizer):
    """Forward, loss, backward, update, running mean; images and labels come from pinned memory."""
    loss = build_loss(LossConfig(), len(CLASSES))
    engine = Engine(Fabric(accelerator="cpu", devices=1))
    pixels = torch.randint(0, 256, (6, 3, 32, 32), dtype=torch.uint8)
    with counting() as counted:
        model = make_model(**network).to(DEVICE)
        model.train()
        made = build_optimizer(model, OptimConfig(name=optimizer))
        mean = RunningMean(model, 0.9)
        for _ in range(2):
            counted.waits.clear()
            scores = model(pixels.to(DEVICE, non_blocking=True))
            known = some_labels().to(DEVICE, non_blocking=True)
            heads = scores.unbind() if scores.ndim == 3 else (scores,)
            torch.stack([loss(head, known, weight=None, epoch=1) for head in heads]).sum().backward()
            engine.update(model, made, None)
            mean.update()
    assert not counted.waits


@pytest.mark.parametrize("network", [{}, {"graph": True}, {"pooling": "average"}], ids=["weldon", "graph", "average"])
@pytest.mark.parametrize("dropout", [0.5, 0.2])
def test_mc_dropout_takes_less_than_50_kernels_an_image(network, dropout):
    with counting() as counted:
        model = make_model(**network, dropout=dropout).to(DEVICE).eval()
        features = torch.rand(32, model.backbone.channels, 2, 2).to(DEVICE)
        counted.kernels = 0
        counted.waits.clear()
        with torch.no_grad():
            found = mc_dropout(model.head, features, samples=50)
        assert found.variance.device == DEVICE
        assert counted.kernels < 50 * 32
        assert all(what == "a copy that is waited for" for what, _ in counted.waits)
        kernels = counted.kernels / 32
    print(f"{kernels:.1f} kernels an image")
