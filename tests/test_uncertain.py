import numpy as np
import pytest
import torch

from partlabel import predict
from partlabel.config import ModelConfig
from partlabel.errors import UserError
from partlabel.features import open_source
from partlabel.images import load
from partlabel.method.uncertainty import mc_dropout
from partlabel.model import Model
from partlabel.uncertain import uncertainty, uncertainty_from
from tests.pictures import make_pictures


def make_model(dropout=0.3, **options):
    torch.manual_seed(0)
    config = ModelConfig(backbone="test_resnet", weights="none", dropout=dropout, **options)
    return Model(config, ["red", "green", "blue"], 32).eval()


@pytest.fixture
def paths(tmp_path):
    make_pictures(tmp_path, 4)
    return sorted(tmp_path.glob("*.png"))


@pytest.mark.parametrize("pooling", ["average", "weldon"])
def test_only_dropout_is_switched_on(paths, pooling):
    """CUR-01: batch norm untouched, modes put back, variance above 0, same seed same variances."""
    model = make_model(pooling=pooling, graph=True).train()
    model.backbone.eval()
    norms = [m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert norms
    modes = [m.training for m in model.modules()]
    buffers = {name: value.clone() for name, value in model.named_buffers()}
    found = uncertainty(model, paths, samples=10)
    assert all(torch.equal(value, buffers[name]) for name, value in model.named_buffers())
    assert [m.training for m in model.modules()] == modes
    assert (found.variance > 0).all()
    again = uncertainty(model, paths, samples=10)
    assert all(torch.equal(a, b) for a, b in zip(found, again, strict=True))
    assert not torch.equal(found.variance, uncertainty(model, paths, samples=10, seed=1).variance)


def test_no_dropout_is_an_error_before_a_picture_is_read():
    """CUR-01."""
    with pytest.raises(UserError, match="no dropout, uncertainty would be 0"):
        uncertainty(make_model(dropout=0.0), ["missing.jpg"])


def test_several_heads_are_an_ensemble_instead():
    with pytest.raises(UserError, match="one head, not 2"):
        uncertainty(make_model(heads=2), [])


def test_too_few_samples():
    with pytest.raises(UserError, match="at least 2"):
        uncertainty(make_model(), [], samples=1)


def test_modes_are_put_back_after_an_error(tmp_path):
    (tmp_path / "bad.png").write_bytes(b"")
    model = make_model().train()
    with pytest.raises(UserError):
        uncertainty(model, [tmp_path / "bad.png"])
    assert model.training
    assert model.head.training


def test_mean_of_a_linear_head_is_the_score(paths):
    model = make_model(pooling="average")
    assert np.allclose(uncertainty(model, paths).mean, predict(model, paths), atol=1e-5)


def test_pictures_in_more_than_one_batch_are_those_one_by_one(tmp_path):
    make_pictures(tmp_path, 70)
    paths = sorted(tmp_path.glob("*.png"))
    model = make_model()
    found = uncertainty(model, paths, samples=5, workers=1)
    with torch.no_grad():
        for i in (0, 7, 8, 69):
            features = model.backbone(model.normalise(load(paths[i], 32)[None]))
            one = mc_dropout(model.head, features, torch.tensor([i]), samples=5)
            for a, b in zip(found, one, strict=True):
                assert torch.allclose(a[i], b[0], rtol=1e-3, atol=1e-5)
    assert uncertainty(model, []).variance.shape == (0, 3)


@pytest.mark.parametrize("pooling", ["average", "weldon"])
def test_stored_features_by_rows_in_any_order(paths, tmp_path, monkeypatch, pooling):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    model = make_model(pooling=pooling)
    source = open_source(model, model.backbone.num_stages, paths, flip=True, workers=0, max_pixels=10**6)
    whole = uncertainty_from(model, source, np.arange(4))
    part = uncertainty_from(model, source, np.array([3, 1]))
    assert all(torch.equal(a[[3, 1]], b) for a, b in zip(whole, part, strict=True))
    direct = uncertainty(model, paths)
    for a, b in zip(whole, direct, strict=True):
        assert torch.allclose(a, b, rtol=0.02, atol=1e-3)  # features are stored in half precision
