"""On a device that is not the CPU: nothing is mixed, and a step waits for nothing."""

from collections import Counter

import numpy as np
import pytest
import torch

from partlabel import simulate, train
from partlabel.method.losses import LOSSES
from partlabel.method.strategies import STRATEGIES
from partlabel.method.uncertainty import mc_dropout
from partlabel.models.model import Model
from partlabel.tasks import predict, suspects
from partlabel.training import batches, epoch
from partlabel.training.batches import Files
from partlabel.training.config import LossConfig, ModelConfig
from partlabel.training.engine import Engine
from partlabel.training.optimizer import build_loss
from tests.pictures import make_pictures, tiny_config
from tests.pretend import DEVICE, MixedDevicesError, counting, pinned

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


class Shared:
    """An optimizer as the engine gives it."""

    def __init__(self, optimizer):
        self.optimizer, self.param_groups = optimizer, optimizer.param_groups
        self.step, self.zero_grad = optimizer.step, optimizer.zero_grad


@pytest.fixture
def on_device(monkeypatch):
    """All that trains or scores does it on the pretend device, on which inference mode is not to be had."""
    read = Files.batches
    monkeypatch.setattr(torch, "inference_mode", torch.no_grad)
    monkeypatch.setattr(Engine, "device", DEVICE)
    monkeypatch.setattr(Engine, "set_up", lambda self, model, optimizer: (model, Shared(optimizer)))
    monkeypatch.setattr(batches, "pinned", pinned)
    monkeypatch.setattr(Files, "batches", lambda self, *given: map(pinned, read(self, *given)))
    for task in (predict, suspects):
        monkeypatch.setattr(task, "default_device", lambda: DEVICE)


def drawn(seed):
    """A training, drawn at random."""
    rng = np.random.default_rng(seed)

    def one_of(*these):
        return these[rng.integers(len(these))]

    pooling, strategy, loss = one_of("weldon", "average"), one_of(*STRATEGIES), one_of(*LOSSES)
    theta = None if STRATEGIES[strategy].theta is None else one_of(0.05, 0.5, 0.9)
    graph, dropout = one_of(True, False), one_of(0.2, 0.5)
    return tiny_config(
        loss__name=loss, assume_absent=loss in ("bce", "wan") and one_of(True, False),
        model__pooling=pooling, model__dropout=dropout, model__graph=graph,
        model__graph_hidden=one_of(None, 2) if graph else None, model__heads=1 if strategy == "uncertainty" else 2,
        model__square_root=pooling == "average" and one_of(True, False), freeze=one_of("none", "all", 1),
        optim__name=one_of("sgd", "adamw"), optim__clip_norm=one_of(None, 1.0), optim__accumulate=one_of(1, 2),
        optim__ema=one_of(0.0, 0.9), optim__layer_decay=one_of(1.0, 0.7),
        augment__mix=one_of("none", "mixup", "cutmix"), augment__crop=one_of(1.0, 0.5), validation=0.3,
        relabel__before=(2,), relabel__strategy=strategy, relabel__theta=theta, relabel__samples=8,
        relabel__ema=one_of(0.0, 0.9), relabel__weight=one_of(1.0, 0.5),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_no_step_of_a_training_waits(tmp_path, monkeypatch, on_device, seed):
    """From images to a relabelled run: the steps wait for nothing, a batch of relabelling and validation for itself."""
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    table = simulate.partial(make_pictures(tmp_path / "pictures", 12), 0.7, seed=seed)
    in_steps, calls = Counter(), Counter()

    def watched(name):
        function = getattr(epoch, name)

        def call(*given):
            before = counted.waits.copy()
            made = function(*given)
            in_steps.update(counted.waits - before)
            calls[name] += 1
            return made

        return call

    for name in ("step", "update"):
        monkeypatch.setattr(epoch, name, watched(name))
    with counting() as counted:
        run = train(table, tmp_path / "pictures", out=tmp_path / "run", config=drawn(seed))
        found = predict.predict(run.folder, tmp_path / "pictures")
    assert not in_steps
    assert calls["step"] >= calls["update"] >= 4
    assert run.rounds
    assert found.scores.shape == (12, 3)
    each = Counter(place for _, place in counted.waits.elements() if "curriculum.py" in place or "validate" in place)
    assert max(each.values()) <= 12 / 4, "once a batch"


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
