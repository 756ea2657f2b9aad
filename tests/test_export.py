import importlib.util
import json

import numpy as np
import onnxruntime
import pytest
import torch

from partlabel import export as exporting
from partlabel.cli import main
from partlabel.config import ModelConfig
from partlabel.errors import UserError
from partlabel.images import load
from partlabel.model import Model
from tests.pictures import make_pictures


def make_model(**changes) -> Model:
    torch.manual_seed(0)
    config = ModelConfig(backbone="test_resnet", weights="none", dropout=0.5, **changes)
    return Model(config, ["red", "grün", "blue"], 32, class_ids=["/m/1", "/m/2", "/m/3"], thresholds=(0.1, -1, 2))


@pytest.fixture
def pictures(tmp_path):
    make_pictures(tmp_path / "pictures", 5)
    return sorted((tmp_path / "pictures").glob("*.png"))


@pytest.mark.parametrize("changes", [{"graph": False, "heads": 2}, {"graph": True, "pooling": "weldon"}])
def test_onnx_takes_any_batch_and_carries_its_description(changes, pictures, tmp_path):
    """ONX-01: with and without the label graph."""
    model = make_model(**changes).train()
    path = tmp_path / "model.onnx"
    assert exporting.export(model, path, pictures).difference <= 1e-4
    session = onnxruntime.InferenceSession(path)
    assert session.get_inputs()[0].shape == ["batch", 3, 32, 32]
    pixels = torch.stack([load(picture, 32) for picture in pictures])
    for count in (1, 2, 5):
        with torch.no_grad():
            expected = model(pixels[:count]).numpy()
        found = session.run(None, {"images": pixels[:count].numpy()})[0]
        assert np.allclose(found, expected, atol=1e-4)
    stored = session.get_modelmeta().custom_metadata_map
    assert json.loads(stored["classes"]) == ["red", "grün", "blue"]
    assert json.loads(stored["class_ids"]) == ["/m/1", "/m/2", "/m/3"]
    assert json.loads(stored["thresholds"]) == [0.1, -1, 2]
    assert json.loads(stored["coding"]) == {"present": 1, "absent": -1, "unknown": 0}
    preprocessing = json.loads(stored["preprocessing"])
    assert preprocessing["size"] == 32
    assert len(preprocessing["mean"]) == len(preprocessing["std"]) == 3
    assert preprocessing["orientation"] == "exif applied"
    assert json.loads(stored["partlabel"])["opset"] == exporting.OPSET == 18


def test_another_models_scores_fail_the_check():
    model = make_model(graph=False).eval()
    pixels = np.zeros((5, 3, 32, 32), np.uint8)

    def scorer(batch):
        if len(batch) == 2:
            raise RuntimeError("baked in")
        return model(torch.from_numpy(batch)).detach().numpy() + 2e-4 * (len(batch) == 5)

    with pytest.raises(UserError) as caught:
        exporting.check(scorer, model, pixels, "m.onnx")
    assert caught.value.offenders == ["batch of 2: does not run (baked in)", "batch of 5: scores differ by 0.0002"]


def test_a_tampered_file_is_not_kept(pictures, tmp_path, monkeypatch):
    path = tmp_path / "model.pt2"
    opened = exporting._program_scorer
    monkeypatch.setattr(exporting, "_program_scorer", lambda p: lambda x: opened(p)(x) + 1)
    with pytest.raises(UserError, match="was not kept"):
        exporting.export(make_model(graph=False), path, pictures)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["pictures"]


def test_missing_extra_is_one_sentence(pictures, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"^ONNX files need onnx, onnxruntime, onnxscript: pip install"):
        exporting.export(make_model(graph=False), tmp_path / "m.onnx", pictures)


def test_command(pictures, tmp_path, capsys):
    make_model(graph=False).save(tmp_path / "run")
    words = ["export", str(tmp_path / "run"), "-o", str(tmp_path / "m.pt2"), "--images", str(tmp_path / "pictures")]
    assert main(words) == 0
    assert "scores differ from PyTorch by at most" in capsys.readouterr().out
    stored = {"partlabel": ""}
    torch.export.load(tmp_path / "m.pt2", extra_files=stored)
    assert json.loads(stored["partlabel"])["classes"] == ["red", "grün", "blue"]
    assert main([*words[:3], str(tmp_path / "m.txt"), *words[4:]]) == 2
    assert "exported as .onnx or .pt2" in capsys.readouterr().err
