"""What several processes need of a network: parameters that idle, batch normalisation over all of them."""

import numpy as np
import pytest
import torch
from torch import nn

from partlabel import Config, LabelTable, Run, train
from partlabel.core.errors import PartlabelWarning, UserError
from partlabel.models.model import Model
from partlabel.training.config import ModelConfig
from partlabel.training.optimizer import batch_of_one, freezes_batch_norm, images_at_once, synchronise, unused
from tests.pictures import make_pictures, tiny_config
from tests.processes import run_ranks


class Idle(nn.Module):
    """A network with a layer that no score depends on, as some of timm have."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.idle = nn.Conv2d(3, 4, 3, 2), nn.BatchNorm2d(4), nn.Linear(4, 4)
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        return self.last(self.norm(self.first(x)).relu().mean((2, 3)))


def test_parameters_that_no_score_depends_on_are_found_and_nothing_is_changed():
    torch.manual_seed(0)
    model = Model(ModelConfig(backbone="test_resnet", weights="none", dropout=0.5), ["a", "b"], 32)
    assert unused(model) == []
    model.backbone.idle = nn.Linear(2, 2)
    model.backbone.frozen = nn.Linear(2, 2).requires_grad_(False)
    model.train()
    before, random = {key: value.clone() for key, value in model.state_dict().items()}, torch.get_rng_state()
    assert [id(p) for p in unused(model)] == [id(p) for p in model.backbone.idle.parameters()]
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random)
    assert model.training
    assert all(p.grad is None for p in model.parameters())


def train_rank(rank, folder):
    torch.manual_seed(0)
    config = Config.read(folder / "config.toml")
    table = LabelTable.read_parquet(folder / "labels.parquet")
    run = train(table, folder / "photos", out=folder / "run", config=config, model=Idle())
    assert (run.folder / "best").is_dir() or rank


@pytest.mark.slow
def test_two_processes_train_a_network_with_a_layer_that_idles(tmp_path, monkeypatch):
    """The scores of the validation part, of which the first process alone has all, are those of the saved model."""
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    make_pictures(tmp_path / "photos", 14).write_parquet(tmp_path / "labels.parquet")
    config = Config.preset("gpu").replace(
        **{"model": tiny_config().model, "images__size": 32, "optim__start": "random", "optim__epochs": 2},
        **{"augment__mix": "none", "validation": 0.4, "precision": "32", "workers": 0, "optim__batch_size": 4},
        **{"optim__patience": None, "optim__ema": 0.0, "optim__layer_decay": 1.0},
    )
    config.write(tmp_path / "config.toml")
    run_ranks(2, train_rank, tmp_path)
    run = Run(tmp_path / "run", model=Idle())
    held = run.held_out
    model = run.model
    from partlabel.tasks.predict import score

    paths = [tmp_path / "photos" / name for name in held.table.images.to_pylist()]
    np.testing.assert_allclose(score(model, paths), held.scores, atol=1e-4)


def test_batch_normalisation_over_all_processes():
    torch.manual_seed(0)
    model = Model(ModelConfig(backbone="test_resnet", weights="none"), ["a", "b"], 32)
    keys, norms = list(model.state_dict()), sum(isinstance(m, nn.BatchNorm2d) for m in model.modules())
    with pytest.raises(UserError, match="sync_batch_norm needs GPUs"):
        synchronise(model, torch.device("cpu"), 2)
    synchronise(model, torch.device("cpu"), 1)
    assert not any(isinstance(m, nn.SyncBatchNorm) for m in model.modules())
    synchronise(model, torch.device("cuda"), 2)
    assert sum(isinstance(m, nn.SyncBatchNorm) for m in model.modules()) == norms > 0
    assert list(model.state_dict()) == keys
    model.train()
    with batch_of_one(model, True):  # the others would wait for the statistics of this process
        assert all(m.training for m in model.modules() if isinstance(m, nn.SyncBatchNorm))
    with pytest.raises(UserError, match=r"sync_batch_norm takes optim\.accumulate = 1"):
        Config().replace(sync_batch_norm=True, optim__accumulate=2)


def test_images_that_statistics_are_taken_from():
    paper = Config.preset("paper")
    assert [images_at_once(paper, world) for world in (1, 4, 8)] == [16, 4, 2]
    assert images_at_once(paper.replace(sync_batch_norm=True), 8) == 16
    assert freezes_batch_norm(paper, 8)
    assert not freezes_batch_norm(paper.replace(sync_batch_norm=True), 8)


def test_few_images_on_many_processes_are_warned_of():
    from types import SimpleNamespace
    from typing import Any

    from partlabel.training.state import _tell_of_few

    said: list[str] = []
    job: Any = SimpleNamespace(
        config=Config.preset("paper"), engine=SimpleNamespace(world=8), report=SimpleNamespace(line=said.append)
    )
    with pytest.warns(PartlabelWarning, match="each of the 8 processes has 2 images of a batch of 16 at once"):
        _tell_of_few(job)
    job.engine.world = 1
    _tell_of_few(job)
    assert len(said) == 1
