"""The frozen part by onnxruntime: the same values, and PyTorch with a sentence where that cannot be."""

import importlib.util
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from partlabel.models import compiled
from partlabel.models.compiled import TOLERANCE, fast_features, identity, plain_features
from partlabel.models.config import ModelConfig
from partlabel.models.model import Model


def build(pooling="average", **changes):
    torch.manual_seed(0)
    config = ModelConfig(backbone="test_resnet", weights="none", pooling=pooling, **changes)
    model = Model(config, ["a", "b"], 32).eval()
    for module in model.modules():  # statistics that are not those of a new network
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.uniform_(-0.5, 0.5)
            module.running_var.uniform_(0.5, 2)
    return model


@pytest.fixture
def pixels():
    return torch.from_numpy(np.random.default_rng(1).integers(0, 256, (11, 3, 32, 32), dtype=np.uint8))


@pytest.fixture
def onnxruntime_is_faster(monkeypatch):
    """The clock says so, whatever this machine does at the moment: it runs while PyTorch is at work."""
    monkeypatch.setattr(compiled, "FEWEST", 1)
    original, clock = Model.features, [0.0]
    monkeypatch.setattr(compiled, "time", SimpleNamespace(perf_counter=lambda: clock[0]))

    def slow(self, images, stage):
        if not torch.compiler.is_exporting():
            clock[0] += 1
        return original(self, images, stage)

    monkeypatch.setattr(Model, "features", slow)


@pytest.mark.slow
@pytest.mark.parametrize(("pooling", "stage"), [("average", 5), ("average", 2), ("weldon", 5)])
def test_it_gives_what_pytorch_gives_for_any_number_of_images(
    tmp_path, pixels, onnxruntime_is_faster, monkeypatch, pooling, stage
):
    model, said = build(pooling), []
    way = fast_features(model, stage, pixels, 1000, tmp_path, said.append)
    calls = []
    monkeypatch.setattr(Model, "features", lambda *given: calls.append(given))
    with torch.inference_mode():
        found = [way(pixels[:n]) for n in (1, 3, 11)]
    assert not calls, "PyTorch was not asked"
    assert not said
    monkeypatch.undo()
    with torch.inference_mode():
        for n, values in zip((1, 3, 11), found, strict=True):
            wanted = model.features(pixels[:n], stage)
            assert values.dtype == wanted.dtype
            assert values.shape == wanted.shape
            assert float(((values - wanted).abs() / wanted.abs().clamp_min(1)).max()) <= TOLERANCE
    assert len(list(tmp_path.glob("*.onnx"))) == 1


@pytest.mark.slow
def test_a_written_network_is_used_again_and_another_one_is_not(tmp_path, pixels, onnxruntime_is_faster, monkeypatch):
    model = build()
    fast_features(model, 5, pixels, 1000, tmp_path)
    (file,) = tmp_path.glob("*.onnx")
    written = file.stat().st_mtime_ns
    fast_features(model, 5, pixels, 1000, tmp_path)
    assert file.stat().st_mtime_ns == written
    model.backbone.net.bn1.running_mean.add_(1)
    fast_features(model, 5, pixels, 1000, tmp_path)
    assert len(list(tmp_path.glob("*.onnx"))) == 2


@pytest.mark.slow
@pytest.mark.parametrize("first", ["onnxruntime", "PyTorch"])
def test_which_way_is_faster_is_found_once(tmp_path, pixels, monkeypatch, first):
    """A machine that is busy at the second time does the same as at the first; a damaged decision is made anew."""
    model = build()
    monkeypatch.setattr(compiled, "FEWEST", 1)

    def way(faster):
        original, clock = compiled.plain_features, [0.0]
        monkeypatch.setattr(compiled, "time", SimpleNamespace(perf_counter=lambda: clock[0]))

        def plain(*given):
            clock[0] += 1 if faster == "onnxruntime" else -1
            return original(*given)

        with monkeypatch.context() as patched:
            patched.setattr(compiled, "plain_features", plain)
            found = fast_features(model, 5, pixels, 1000, tmp_path)
        return "PyTorch" if getattr(found, "func", None) is plain else "onnxruntime"

    other = {"onnxruntime": "PyTorch", "PyTorch": "onnxruntime"}[first]
    assert way(first) == first
    assert way(other) == first
    (kept,) = tmp_path.glob("*.faster")
    kept.write_bytes(b"\xff")
    assert way(other) == other


@pytest.mark.slow
def test_other_values_a_damaged_file_and_what_cannot_be_written_leave_it_to_pytorch(
    tmp_path, pixels, onnxruntime_is_faster, monkeypatch
):
    model, said = build(), []
    fast_features(model, 5, pixels, 1000, tmp_path)
    (file,) = tmp_path.glob("*.onnx")
    other = build()
    other.backbone.net.bn1.running_mean.add_(1)
    fast_features(other, 5, pixels, 1000, tmp_path / "other")
    whole = file.read_bytes()
    for content, word in ((next((tmp_path / "other").glob("*.onnx")).read_bytes(), "differ"), (whole[:999], "damaged")):
        file.write_bytes(content)
        way = fast_features(model, 5, pixels, 1000, tmp_path, said.append)
        with torch.inference_mode():
            assert torch.equal(way(pixels), plain_features(model, 5, pixels))
        assert "PyTorch runs the backbone" in said[-1]
        assert word in said[-1]
    monkeypatch.setattr("partlabel.models.compiled.write_network", lambda *given: 1 / 0)
    fast_features(model, 4, pixels, 1000, tmp_path, said.append)
    assert "division by zero" in said[-1]


def test_it_is_left_to_pytorch_for_few_images_and_without_the_packages(tmp_path, pixels, monkeypatch):
    model, said = build(), []
    fast_features(model, 5, pixels, compiled.FEWEST - 1, tmp_path, said.append)
    assert not said
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name.startswith("onnx") else find(name))
    way = fast_features(model, 5, pixels, compiled.FEWEST, tmp_path, said.append)
    with torch.inference_mode():
        assert torch.equal(way(pixels), plain_features(model, 5, pixels))
    assert "pip install onnx onnxruntime onnxscript" in said[0]
    assert not list(tmp_path.iterdir())


def test_identity_changes_with_what_features_depend_on():
    known = identity(build(), 5)
    assert identity(build(), 5) == known
    assert identity(build("weldon"), 5) != known, "the average is not the map"
    assert identity(build("weldon"), 3) == identity(build(), 3)
    assert identity(build(), 4) != known
    other = build()
    other.head.classifier.weight.data.add_(1)
    assert identity(other, 5) == known, "the head is not part of it"
    other.backbone.net.bn1.running_mean.add_(1)
    assert identity(other, 5) != known
