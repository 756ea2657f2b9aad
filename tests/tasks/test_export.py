"""Exported files; each is written once for the whole module, as writing one takes seconds."""

import importlib.util
import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from partlabel import LabelTable
from partlabel.app.cli import main
from partlabel.core.errors import UserError
from partlabel.images import load
from partlabel.metrics.calibration import Calibration
from partlabel.models.model import Model
from partlabel.models.onnx import OPSET, OnnxModel
from partlabel.tasks import export as exporting
from partlabel.tasks.evaluate import Labelled, evaluate
from partlabel.tasks.predict import score
from partlabel.training.config import ModelConfig
from tests.pictures import CLASSES, make_pictures

pytestmark = pytest.mark.slow


#: two heads, each with WELDON pooling and a graph with learned rows; the paper's graph is in tests/models/test_onnx.py
ALL_PARTS = {"heads": 2, "pooling": "weldon", "graph": True, "graph_hidden": 2}


def make_model(**changes) -> Model:
    torch.manual_seed(0)
    config = ModelConfig(backbone="test_resnet", weights="none", **{"dropout": 0.5, **changes})
    model = Model(config, list(CLASSES), 32, class_ids=["/m/1", "/m/2", "/m/3"], thresholds=(0.1, -1, 2))
    model.calibration = Calibration((2.0, 1.0, 0.5), (0.0, 1.0, -1.0))
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Images with labels, and the folders of two models."""
    folder = tmp_path_factory.mktemp("export")
    make_pictures(folder / "pictures", 40).write_parquet(folder / "labels.parquet")
    make_model(**ALL_PARTS).save(folder / "graph")
    make_model(heads=2, pooling="average").save(folder / "heads")
    return folder


@pytest.fixture(scope="module")
def pictures(folder):
    return sorted((folder / "pictures").glob("*.png"))


@pytest.fixture(scope="module")
def files(folder, pictures):
    """The ONNX files of both, made from models in training mode; and what the exports said."""
    models = {"graph": make_model(**ALL_PARTS), "heads": make_model(heads=2, pooling="average")}
    return {
        name: exporting.export(model.train(), folder / f"{name}.onnx", pictures[:5]) for name, model in models.items()
    }


@pytest.fixture(scope="module")
def single(folder, files, monkeypatch_module):
    """Exports of "heads" take the file that is there already; everything else of them runs."""
    monkeypatch_module.setattr(
        exporting, "write_onnx", lambda model, pixels, path: shutil.copyfile(folder / "heads.onnx", path)
    )


@pytest.fixture(scope="module")
def monkeypatch_module():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def run(capsys, *words):
    code = main([str(word) for word in words])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def names_the_package(path):
    """Whether a file that goes to others tells where partlabel lies on this machine."""
    parts = [path.read_bytes()]
    if path.suffix == ".pt2":
        with zipfile.ZipFile(path) as file:
            parts = [file.read(name) for name in file.namelist()]
    return any(str(Path(exporting.__file__).parents[2]).encode() in part for part in parts)


@pytest.mark.parametrize("name", ["graph", "heads"])
def test_onnx_takes_any_batch_and_carries_its_description(name, folder, files, pictures):
    """ONX-01: with and without the label graph, WELDON and average pooling, one head and two."""
    import onnxruntime

    assert files[name].difference <= 1e-4
    assert set(files[name].milliseconds) == set(files[name].torch_milliseconds) == {1, 8}
    assert files[name].size == (folder / f"{name}.onnx").stat().st_size
    model = Model.load(folder / name)
    session = onnxruntime.InferenceSession(folder / f"{name}.onnx")
    assert session.get_inputs()[0].shape == ["batch", 3, 32, 32]
    pixels = torch.stack([load(picture, 32) for picture in pictures[:5]])
    for count in (1, 2, 5):
        with torch.no_grad():
            expected = model(pixels[:count]).numpy()
        found = session.run(None, {"images": pixels[:count].numpy()})[0]
        assert np.allclose(found, expected, atol=1e-4)
    stored = session.get_modelmeta().custom_metadata_map
    assert json.loads(stored["classes"]) == list(CLASSES)
    assert json.loads(stored["class_ids"]) == ["/m/1", "/m/2", "/m/3"]
    assert json.loads(stored["thresholds"]) == [0.1, -1, 2]
    assert json.loads(stored["coding"]) == {"present": 1, "absent": -1, "unknown": 0}
    preprocessing = json.loads(stored["preprocessing"])
    assert preprocessing["size"] == 32
    assert len(preprocessing["mean"]) == len(preprocessing["std"]) == 3
    assert preprocessing["orientation"] == "exif applied"
    assert json.loads(stored["partlabel"])["opset"] == OPSET == 18
    assert onnx.load(folder / f"{name}.onnx").opset_import[0].version == OPSET
    assert not names_the_package(folder / f"{name}.onnx")


def test_all_parts_of_a_head_at_once_as_a_program(pictures, tmp_path):
    assert exporting.export(make_model(**ALL_PARTS), tmp_path / "m.pt2", pictures[:5]).difference <= 1e-4


def test_another_models_scores_fail_the_check():
    model = exporting.model_scorer(make_model(graph=False).eval())
    pixels = np.zeros((5, 3, 32, 32), np.uint8)

    def scorer(batch):
        if len(batch) == 2:
            raise RuntimeError("baked in")
        return model(batch) + 2e-4 * (len(batch) == 5)

    with pytest.raises(UserError) as caught:
        exporting.check(scorer, model, pixels, "m.onnx")
    assert caught.value.offenders == ["batch of 2: does not run", "batch of 5: scores differ by 0.0002"]


def test_a_file_of_another_model_is_not_kept(single, pictures, tmp_path):
    """The file is that of a model with two heads."""
    with pytest.raises(UserError, match=r"m.onnx: .* was not kept"):
        exporting.export(make_model(heads=1, pooling="average"), tmp_path / "m.onnx", pictures)
    assert not list(tmp_path.iterdir())


def test_missing_extra_is_one_sentence(pictures, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"^ONNX files need onnx, onnxruntime, onnxscript: pip install"):
        exporting.export(make_model(graph=False), tmp_path / "m.onnx", pictures)


def test_command_writes_a_program(folder, tmp_path, capsys):
    words = ("export", folder / "heads", "-o", tmp_path / "m.pt2", "--images", folder / "pictures")
    code, out, _ = run(capsys, *words)
    assert code == 0
    assert "checked in batches of 1, 2, 5: scores differ from PyTorch by at most" in out
    assert "milliseconds an image, alone and in a batch of 8: " in out
    stored = {"partlabel": ""}
    torch.export.load(tmp_path / "m.pt2", extra_files=stored)
    assert json.loads(stored["partlabel"])["classes"] == list(CLASSES)
    assert not names_the_package(tmp_path / "m.pt2")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-o", "{tmp}/m.txt"), "exported as .onnx or .pt2"),
        (("-o", "{tmp}/m.pt2", "--int8"), "INT8 is for .onnx files"),
        (("-o", "{tmp}/m.onnx", "--labels", "{table}"), "belong to --int8"),
        (("-o", "{tmp}/m.onnx", "--int8", "--max-loss", "2"), "--max-loss needs --labels"),
        (("-o", "{tmp}/m.onnx", "--int8", "--max-loss", "-1", "--labels", "{table}"), "from 0 to 100, not -1"),
    ],
)
def test_command_explains_mistakes(words, said, folder, tmp_path, capsys):
    table = folder / "any.parquet"
    table.touch()
    named = [word.format(tmp=tmp_path, table=table) for word in words]
    code, out, err = run(capsys, "export", folder / "heads", *named, "--images", folder / "pictures")
    assert (code, out) == (2, "")
    assert said in err
    assert not list(tmp_path.iterdir())


def test_int8_by_command(single, folder, tmp_path, capsys):
    """The file is about a quarter of the size, close to the model, decides by the same thresholds; mAP is measured."""
    path = tmp_path / "m.onnx"
    words = ("export", folder / "heads", "-o", path, "--images", folder / "pictures", "--int8")
    code, out, _ = run(capsys, *words, "--labels", folder / "labels.parquet", "--max-loss", "100", "--json")
    assert code == 0
    result = json.loads(out)
    assert (result["int8"], result["calibrated"], result["change"]["pictures"]) == (True, 20, 20)
    assert result["size"] == path.stat().st_size < 0.6 * result["single"]["size"]
    small, model = OnnxModel.load(path), Model.load(folder / "heads")
    assert small.quantization["pictures"] == 20
    assert small.thresholds == (0.1, -1, 2)
    table = LabelTable.read_parquet(folder / "labels.parquet")
    odd = table.select(np.arange(1, 40, 2))  # every second image, from the first on, went into the ranges
    for key, one in (("map_before", model), ("map_after", small)):
        assert result[key] == pytest.approx(evaluate(one, odd, images=folder / "pictures").mean_ap)
    paths = [folder / "pictures" / name for name in odd.images.to_pylist()]
    before, after = score(model, paths), score(small, paths)
    difference = np.abs(after - before)
    assert 0 < difference.max() < 0.2 * np.ptp(before)
    assert result["change"]["largest"] == pytest.approx(difference.max(), abs=1e-4)
    assert result["change"]["mean"] == pytest.approx(difference.mean(), abs=1e-4)


def test_int8_quantises_the_backbone_only(single, folder, pictures, tmp_path):
    done = exporting.export_int8(Model.load(folder / "heads"), tmp_path / "m.onnx", pictures[:20], pictures[20:])
    assert (done.map_before, done.map_after) == (None, None)
    graph = onnx.load(tmp_path / "m.onnx").graph
    kinds = {value.name: value.data_type for value in graph.initializer}
    made = {output: node for node in graph.node for output in node.output}
    convolutions = [node for node in graph.node if node.op_type == "Conv"]
    quantised = [made[node.input[1]].op_type == "DequantizeLinear" for node in convolutions if node.input[1] in made]
    floats = [node for node in convolutions if kinds.get(node.input[1]) == onnx.TensorProto.FLOAT]
    assert all(quantised)
    assert len(quantised) > 5
    assert len(floats) == 2  # the two heads
    weights = [made[node.input[1]] for node in convolutions if node.input[1] in made]
    values = {value.name: onnx.numpy_helper.to_array(value) for value in graph.initializer}
    for node in weights:
        weight, scale = values[node.input[0]], values[node.input[1]]
        assert weight.dtype == np.int8
        assert np.abs(weight.astype(int)).max() <= 64  # sums of two products fit 16 bits
        assert scale.shape == weight.shape[:1]
    assert {node.domain for node in graph.node} <= {"", "ai.onnx"}


def test_int8_that_costs_too_much_is_not_kept(single, folder, pictures, tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "score", lambda model, paths: score(model, paths) * (-1) ** bool(model.quantization))
    model, table = Model.load(folder / "heads"), LabelTable.read_parquet(folder / "labels.parquet")
    scores = score(model, pictures)  # labels that the model gets all right, and the reversed scores all wrong
    right = np.where(scores >= np.median(scores, 0), 1, -1).astype(np.int8)
    labels = LabelTable.from_dense(table.images.to_pylist(), CLASSES, right)
    labelled = Labelled.of(model, labels, folder / "pictures", without=pictures[:20])
    with pytest.raises(UserError, match=r"INT8 takes mAP from 100.00 to .* at most 1 points may be lost"):
        exporting.export_int8(model, tmp_path / "m.onnx", pictures[:20], labelled)
    assert not list(tmp_path.iterdir())
    with pytest.raises(UserError, match="all images of the table"):
        Labelled.of(model, labels, folder / "pictures", without=pictures)


def test_int8_wants_some_pictures(folder, tmp_path, capsys):
    make_pictures(tmp_path / "few", 19)
    words = ("export", folder / "heads", "-o", tmp_path / "m.onnx", "--images", tmp_path / "few", "--int8")
    code, _, err = run(capsys, *words)
    assert code == 2
    assert "at least 20 images" in err
