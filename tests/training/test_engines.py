"""Stored features are the same, whichever engine made them."""

import numpy as np
import pytest
import torch

from partlabel.models import compiled
from partlabel.models.config import ModelConfig
from partlabel.models.model import Model
from partlabel.training.batches import open_source
from tests.pictures import make_pictures


@pytest.mark.slow
@pytest.mark.parametrize(("pooling", "tolerance"), [("average", 1e-4), ("weldon", 1e-3)])  # maps are in half precision
def test_features_of_onnxruntime_are_those_of_pytorch(tmp_path, monkeypatch, pooling, tolerance):
    torch.manual_seed(0)
    model = Model(ModelConfig(backbone="test_resnet", weights="none", pooling=pooling), ["a"], 32).eval()
    make_pictures(tmp_path / "pictures", 20)
    paths = sorted((tmp_path / "pictures").iterdir())
    stored, compared = {}, compiled.compared
    for engine, fewest in (("PyTorch", 10**6), ("onnxruntime", 1)):
        monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / engine))
        monkeypatch.setattr(compiled, "FEWEST", fewest)
        monkeypatch.setattr(compiled, "compared", lambda *ways: compared(*ways) or None)  # whichever is faster today
        source = open_source(model, 5, paths, flip=True, workers=0, max_pixels=10**6)
        stored[engine] = np.asarray(source.array, np.float32)
    assert not (tmp_path / "PyTorch" / "engines").exists()
    assert len(list((tmp_path / "onnxruntime" / "engines").glob("*.onnx"))) == 1
    wanted, found = stored.values()
    assert not np.array_equal(wanted, np.zeros_like(wanted))
    assert (np.abs(found - wanted) / np.maximum(1, np.abs(wanted))).max() <= tolerance
