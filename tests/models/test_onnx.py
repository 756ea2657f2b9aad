"""ONNX files that `partlabel export` wrote, through the commands, and files that it did not write."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pyarrow.parquet as pq
import pytest
import torch

from partlabel.app.cli import main
from partlabel.core.errors import UserError
from partlabel.images import load
from partlabel.metrics.calibration import Calibration
from partlabel.models.model import Model
from partlabel.models.onnx import OnnxModel
from partlabel.tasks import export as exporting
from partlabel.tasks.predict import score
from partlabel.training.config import ModelConfig
from tests.pictures import CLASSES, make_pictures

pytestmark = pytest.mark.slow

SIZE = 64


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run, its ONNX file, and images with labels."""
    folder = tmp_path_factory.mktemp("onnx")
    torch.manual_seed(0)
    config = ModelConfig(backbone="test_resnet", weights="none", pooling="average")
    model = Model(config, CLASSES, SIZE, ["1", "2", "3"], thresholds=(0.1, -0.1, 0.0))
    model.calibration = Calibration((2.0, 1.0, 0.5), (0.0, 1.0, -1.0))
    model.threshold_goal, model.threshold_sources = "best F1", ("own", "calibrated", "default")
    with torch.no_grad():
        model.head.classifier.weight.mul_(30)  # scores of some size
    model.save(folder / "run")
    make_pictures(folder / "pictures", 11, size=SIZE).write_parquet(folder / "labels.parquet")
    exporting.export(model, folder / "m.onnx", [folder / "pictures" / "000.png"])
    return folder


@pytest.fixture
def altered(folder, tmp_path):
    """Write the file with a change and give its path."""

    def write(alter):
        proto = onnx.load(folder / "m.onnx")
        alter(proto)
        onnx.save(proto, tmp_path / "altered.onnx")
        return tmp_path / "altered.onnx"

    return write


def run(capsys, *words):
    code = main([str(word) for word in words])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_it_knows_what_the_model_knows(folder):
    model, file = Model.load(folder / "run"), OnnxModel.load(folder / "m.onnx")
    for name in ("classes", "class_ids", "thresholds", "threshold_goal", "threshold_sources", "calibration"):
        assert getattr(file, name) == getattr(model, name)
    assert file.preprocessing == model.preprocessing
    assert file.quantization is None


def test_predict_gives_what_the_run_gives(folder, capsys):
    """Scores, probabilities and decisions; with eleven images the last batch is a smaller one."""
    results = []
    for source, name in (("run", "torch"), ("m.onnx", "onnx")):
        words = ("predict", folder / source, folder / "pictures", "-o", folder / f"{name}.parquet", "--json")
        code, out, _ = run(capsys, *words)
        assert code == 0
        results.append(json.loads(out))
        del results[-1]["output"]
        assert results[-1].pop("next").startswith(f"partlabel predict {folder / source} ")
    assert results[0] == results[1]
    expected, found = (pq.read_table(folder / f"{name}.parquet").to_pydict() for name in ("torch", "onnx"))
    assert found["image"] == expected["image"]
    assert np.ptp(expected["score"]) > 0.5
    for column in ("score", "probability"):
        assert np.allclose(found[column], expected[column], atol=1e-4)
    near = np.abs(np.array(expected["score"]) - (0.1, -0.1, 0)) < 1e-4
    assert np.all((np.array(found["present"]) == np.array(expected["present"])) | near)


def test_the_example_without_partlabel_decides_alike(folder, altered):
    """The script of the documentation, in a process that cannot import partlabel or torch."""
    script = Path(__file__).parents[2] / "examples" / "onnx_without_partlabel.py"
    images = sorted((folder / "pictures").iterdir())
    hidden = "import sys; sys.modules['partlabel'] = sys.modules['torch'] = None; import runpy; del sys.argv[0]; "
    scores = OnnxModel.load(folder / "m.onnx")(np.stack([load(path, SIZE).numpy() for path in images]))
    middle = [float(np.sort(column)[4:6].mean()) for column in scores.T]
    path = altered(lambda proto: set_metadata(proto, lambda known: known.update(thresholds=middle)))
    command = [sys.executable, "-c", hidden + "runpy.run_path(sys.argv[0])", script, path, *images]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    file, expected = OnnxModel.load(path), []
    for path, row in zip(images, scores, strict=True):
        present = [name for name, s, t in zip(file.classes, row, file.thresholds, strict=True) if s >= t]
        expected.append(f"{path}: {', '.join(present) or 'nothing'}")
    assert done.stdout.splitlines() == expected
    assert len({line.partition(": ")[2] for line in expected}) > 1


def test_evaluate_takes_it_too(folder, capsys):
    numbers = []
    for source in ("run", "m.onnx"):
        words = ("evaluate", folder / source, folder / "labels.parquet", "--images", folder / "pictures", "--json")
        code, out, _ = run(capsys, *words)
        assert code == 0
        numbers.append(json.loads(out)["metrics"])
    assert numbers[0] == numbers[1]


@pytest.mark.shared_data
def test_real_pictures(folder, shared):
    """Photographs of many sizes, decoded and shrunk."""
    paths = sorted((shared / "data" / "coco-mini" / "images").rglob("*.jpg"))[:100]
    assert len(paths) == 100
    expected = score(Model.load(folder / "run"), paths, workers=0)
    assert np.abs(score(OnnxModel.load(folder / "m.onnx"), paths, workers=0) - expected).max() <= 1e-4
    assert np.ptp(expected) > 0.1


@pytest.mark.slow
@pytest.mark.shared_data
def test_real_pictures_and_a_real_backbone(shared, tmp_path):
    paths = sorted((shared / "data" / "coco-mini" / "images").rglob("*.jpg"))[:24]
    torch.manual_seed(0)
    model = Model(ModelConfig(pooling="weldon", graph=True), [str(c) for c in range(20)], 224)
    exporting.export(model, tmp_path / "m.onnx", paths[:5])
    expected = score(model, paths, workers=0)
    assert np.abs(score(OnnxModel.load(tmp_path / "m.onnx"), paths, workers=0) - expected).max() <= 1e-4


def set_metadata(proto, change):
    values = {entry.key: entry.value for entry in proto.metadata_props}
    described = json.loads(values["partlabel"])
    change(described)
    onnx.helper.set_model_props(proto, {"partlabel": json.dumps(described)})


def fix_batch(proto):
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 3


ALTERED = {
    "no metadata": (lambda p: p.ClearField("metadata_props"), "lacks the classes and settings"),
    "not JSON": (lambda p: onnx.helper.set_model_props(p, {"partlabel": "{"}), "metadata are damaged"),
    "very deep JSON": (
        lambda p: onnx.helper.set_model_props(p, {"partlabel": "[" * 100_000 + "]" * 100_000}),
        "metadata are damaged",
    ),
    "not an object": (lambda p: onnx.helper.set_model_props(p, {"partlabel": "[]"}), "metadata are damaged"),
    "a list of another length": (
        lambda p: set_metadata(p, lambda d: d["thresholds"].append(0.0)),
        "not all lists are of 3 classes",
    ),
    "a wrong type": (lambda p: set_metadata(p, lambda d: d.update(classes=[1, 2, 3])), "metadata are damaged"),
    "a newer version": (lambda p: set_metadata(p, lambda d: d.update(version=2)), "version 2; this partlabel reads"),
    "another size": (
        lambda p: set_metadata(p, lambda d: d["preprocessing"].update(size=48)),
        "input or output is not what its metadata say",
    ),
    "other classes": (
        lambda p: set_metadata(
            p,
            lambda d: d.update(
                classes=["a"], class_ids=["1"], thresholds=[0.0], threshold_sources=["own"], calibration=None
            ),
        ),
        "input or output is not what its metadata say",
    ),
    "a fixed batch": (fix_batch, "input or output is not what its metadata say"),
    "an unknown opset": (
        lambda p: setattr(p.opset_import[0], "version", 999),
        "is of opset 999; onnxruntime",
    ),
    "an unknown operator": (lambda p: setattr(p.graph.node[3], "op_type", "Convolve"), "is damaged, or no ONNX file"),
}


@pytest.mark.parametrize("name", ALTERED)
def test_files_that_are_not_ours_are_refused_in_one_sentence(name, altered, folder, tmp_path, capsys):
    alter, said = ALTERED[name]
    path = altered(alter)
    code, out, err = run(capsys, "predict", path, folder / "pictures", "-o", tmp_path / "p.csv")
    assert (code, out) == (2, "")
    assert err.startswith(f"partlabel: {path}: ")
    assert said in err
    assert "Traceback" not in err
    assert len(err.splitlines()) <= 3
    assert "/onnxruntime_src/" not in err
    assert not (tmp_path / "p.csv").exists()


#: where a file may say that its weights lie -> offset and length there, or None for all of it
ELSEWHERE = {
    "{folder}/secret": None,
    "../secret": None,
    "link": None,
    "missing": None,
    "": None,
    "beside": (4096, None),
    "beside ": (2**62, 2**62),
    "beside  ": (-8, None),
    "beside   ": (0, 5),
}


@pytest.mark.parametrize("where", ELSEWHERE)
def test_weights_outside_the_file_are_refused(where, folder, tmp_path, capsys):
    """Of `export` no file has any; the content is right here, so that whoever read it would go on."""
    (tmp_path / "own").mkdir()
    proto = onnx.load(folder / "m.onnx")
    weight = next(tensor for tensor in proto.graph.initializer if tensor.raw_data)
    for name in ("secret", "own/beside"):
        (tmp_path / name).write_bytes(weight.raw_data)
    (tmp_path / "own" / "link").symlink_to(tmp_path / "secret")
    offset, length = ELSEWHERE[where] or (None, None)
    named = {"location": where.strip().format(folder=tmp_path), "offset": offset, "length": length}
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.extend(
        onnx.StringStringEntryProto(key=key, value=str(value)) for key, value in named.items() if value is not None
    )
    path = tmp_path / "own" / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    code, out, err = run(capsys, "predict", path, folder / "pictures", "-o", tmp_path / "p.csv")
    assert (code, out) == (2, "")
    assert err.startswith(f"partlabel: {path}: is damaged, or no ONNX file")
    assert len(err.splitlines()) == 2
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.parametrize("kept", [0, 100, -1000])
def test_damaged_files_are_refused(kept, folder, tmp_path, capsys):
    path = tmp_path / "cut.onnx"
    path.write_bytes((folder / "m.onnx").read_bytes()[:kept])
    code, out, err = run(capsys, "predict", path, folder / "pictures", "-o", tmp_path / "p.csv")
    assert (code, out) == (2, "")
    sentence, where = err.splitlines()
    assert sentence.startswith(f"partlabel: {path}: is damaged, or no ONNX file")
    assert where.startswith("  what the library said is in ")


def test_a_missing_file_and_a_missing_package(folder, tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"nowhere\.onnx: there is no such file"):
        OnnxModel.load(tmp_path / "nowhere.onnx")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"^ONNX files need onnxruntime: pip install onnxruntime$"):
        OnnxModel.load(folder / "m.onnx")


def test_pictures_that_it_cannot_take(folder):
    model = OnnxModel.load(folder / "m.onnx")
    assert model(np.stack([load(folder / "pictures" / "000.png", SIZE).numpy()])).shape == (1, 3)
    with pytest.raises(UserError, match=r"m\.onnx: onnxruntime fails on 2 images"):
        model(np.zeros((2, 3, 32, 32), np.uint8))
