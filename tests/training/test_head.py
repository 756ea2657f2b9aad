"""The closed-form head in a training, from labels to a model that is saved, exported and measured."""

import json

import numpy as np
import pytest
import torch

import partlabel
from partlabel import Config, Model, simulate
from partlabel.core.errors import UserError
from partlabel.training.loop import train
from tests.pictures import CLASSES, make_pictures, tiny_config

CLOSED = {
    "optim__name": "closed-form",
    "freeze": "all",
    "model__pooling": "average",
    "model__dropout": 0.0,
    "model__square_root": True,
    "images__flip": False,
}


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))


def closed(**changes) -> Config:
    return tiny_config(**{**CLOSED, **changes})


def test_learns_colours_and_comes_back_from_disk(tmp_path):
    table = simulate.partial(make_pictures(tmp_path / "pictures", 96), 0.5, seed=0)
    test = make_pictures(tmp_path / "test", 60, seed=1)
    run = train(table, tmp_path / "pictures", out=tmp_path / "run", config=closed(validation=0.2))
    paths = [tmp_path / "test" / name for name in test.images.to_pylist()]
    scores = partlabel.predict(Model.load(tmp_path / "run"), paths)
    assert partlabel.metrics.evaluate(scores, test.dense()).mean_ap > 0.9
    assert run.summary["last"]["epoch"] == 1
    assert run.summary["last"]["head"]["learned_nothing"] == []
    assert set(run.summary["last"]["head"]["expected_present"]) == set(CLASSES)
    for name, (low, high) in run.summary["last"]["head"]["expected_interval"].items():
        assert low <= run.summary["last"]["head"]["expected_present"][name] <= high
    assert run.summary["last"]["validation"]["mean_ap"] > 0.8


def test_what_was_asked_for_is_no_random_sample(tmp_path):
    table = simulate.partial(make_pictures(tmp_path / "pictures", 60), 0.5, seed=0)
    image, cls = (place[:20] for place in np.nonzero(table.dense() == 0))
    more = table.with_labels(image, cls, np.ones(20, np.int8), origin="asked")
    shares = []
    for name, own in (("a", table), ("b", more)):
        run = train(own, tmp_path / "pictures", out=tmp_path / name, config=closed())
        shares.append(np.array(list(run.summary["last"]["head"]["expected_present"].values())))
    assert (shares[1] <= shares[0]).all()  # present labels that were asked for are found, not a sign of more


def test_a_head_on_maps_is_the_head_on_stored_features(tmp_path):
    table = make_pictures(tmp_path / "pictures", 24)
    train(table, tmp_path / "pictures", out=tmp_path / "run", config=closed())
    model = Model.load(tmp_path / "run")
    pixels = torch.randint(0, 256, (3, 3, 32, 32), dtype=torch.uint8)
    stages = model.backbone.num_stages
    with torch.inference_mode():
        maps = model.backbone(model.normalise(pixels))
        mean = maps.mean((2, 3))
        root = mean.sign() * mean.abs().clamp_min(1e-6).sqrt()
        expected = root @ model.head.classifier.weight.flatten(1).T + model.head.classifier.bias
        torch.testing.assert_close(model(pixels), expected, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(model(model.features(pixels, stages), stages), expected, atol=1e-4, rtol=1e-4)


def test_it_exports_to_onnx_with_the_same_scores(tmp_path):
    from partlabel.models.onnx import OnnxModel
    from partlabel.tasks.export import export

    table = make_pictures(tmp_path / "pictures", 24)
    train(table, tmp_path / "pictures", out=tmp_path / "run", config=closed())
    model = Model.load(tmp_path / "run")
    paths = [tmp_path / "pictures" / name for name in table.images.to_pylist()[:4]]
    export(model, tmp_path / "model.onnx", paths)
    exported = OnnxModel.load(tmp_path / "model.onnx")
    np.testing.assert_allclose(partlabel.predict(exported, paths), partlabel.predict(model, paths), atol=1e-3)


def test_the_same_twice(tmp_path):
    table = simulate.partial(make_pictures(tmp_path / "pictures", 30), 0.5, seed=0)
    heads = []
    for name in ("a", "b"):
        train(table, tmp_path / "pictures", out=tmp_path / name, config=closed())
        heads.append(Model.load(tmp_path / name).head.classifier.weight)
    torch.testing.assert_close(*heads, atol=1e-4, rtol=1e-4)


def test_classes_without_a_present_label_are_said(tmp_path, capsys):
    table = make_pictures(tmp_path / "pictures", 24)
    labels = table.dense()
    labels[:, 1][labels[:, 1] > 0] = 0
    known = partlabel.LabelTable.from_dense(table.images.to_pylist(), table.classes, labels)
    run = train(known, tmp_path / "pictures", out=tmp_path / "run", config=closed())
    assert run.summary["last"]["head"]["learned_nothing"] == [CLASSES[1]]
    row = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])
    assert row["head"]["learned_nothing"] == [CLASSES[1]]
    assert "no present label is known of 1 class" in capsys.readouterr().err


def test_what_does_not_go_with_it_is_listed():
    with pytest.raises(UserError) as caught:
        closed(freeze="none", model__graph=True, loss__name="asl")
    assert len(caught.value.offenders) == 3
    with pytest.raises(UserError, match="square_root"):
        tiny_config(model__square_root=True, model__pooling="weldon")


def test_the_preset_small_has_it():
    config = Config.preset("small")
    assert config.optim.name == "closed-form"
    assert config.epochs == 1
    assert config.model.square_root
