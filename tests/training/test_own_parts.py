"""A network, a transform, a data set and callbacks of a user's own."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import nn

import partlabel.training.loop
from partlabel import Config, Run, evaluate, export, predict, suspects, train
from partlabel.app.cli import main
from partlabel.core.errors import UserError
from tests.pictures import CLASSES, make_pictures, tiny_config

STEPS = {"optim__name": "adamw", "optim__learning_rate": 1e-2}


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def table(tmp_path):
    return make_pictures(tmp_path / "pictures", 12)


class Plain(nn.Module):
    """A network that keeps its parts to itself, and does not take channels last."""

    def __init__(self, classes=3):
        super().__init__()
        torch.manual_seed(3)
        self.conv = nn.Conv2d(3, 8, 3, stride=4)
        self.linear = nn.Linear(8 * 8 * 8, classes)

    def forward(self, images):
        assert images.dtype == torch.float32
        return self.linear(self.conv(images).relu().view(len(images), -1))


class Staged(nn.Module):
    """Two stages and a head; the last stage gives no map but vectors."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.stages = nn.ModuleList(
            [
                nn.Sequential(nn.Conv2d(3, 8, 3, stride=4), nn.BatchNorm2d(8), nn.ReLU()),
                nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 16)),
            ]
        )
        self.head = nn.Linear(16, 3)


def weights(run, which="last"):
    return load_file(run / which / "model.safetensors")


def paths(tmp_path, table):
    return [tmp_path / "pictures" / name for name in table.images.to_pylist()]


@pytest.mark.parametrize("network", [Plain, Staged])
def test_a_network_of_ones_own_is_trained_and_used(tmp_path, table, network):
    own = network()
    before = {key: value.clone() for key, value in own.state_dict().items()}
    config = tiny_config(**STEPS, validation=0.3)
    run = train(table, tmp_path / "pictures", out=tmp_path / "run", config=config, model=own)
    assert all(torch.equal(value, before[key]) for key, value in own.state_dict().items()), "a copy is trained"
    assert run.config.model.backbone == f"own:{network.__module__}.{network.__qualname__}"
    again = Run(tmp_path / "run", model=network())
    scores = [predict(r, paths(tmp_path, table)).scores for r in (run, again)]
    np.testing.assert_array_equal(*scores)
    assert np.ptp(scores[0], 0).min() > 0
    metrics = evaluate(again, again.validation, images=tmp_path / "pictures")
    assert metrics.mean_ap == pytest.approx(run.metrics.mean_ap)
    net = run.model
    with torch.no_grad():
        images = net.normalise(torch.zeros(1, 3, 32, 32))
        expected = own_scores(own, net, images)
    torch.testing.assert_close(net(torch.zeros(1, 3, 32, 32)), expected)


def own_scores(own, net, images):
    """What the user's own class gives with the weights of the run."""
    parts = [module for module in (*net.backbone.stages, net.head.module) if list(module.parameters())]
    if isinstance(own, Plain):
        return parts[0](images)
    for part in net.backbone.stages:
        images = part(images)
    return net.head.module(images)


@pytest.mark.parametrize("freeze", ["1", "all"])
def test_stages_of_ones_own_are_frozen_and_stored(tmp_path, table, freeze):
    config = tiny_config(**STEPS, freeze=freeze, optim__layer_decay=0.5)
    train(table, tmp_path / "pictures", out=tmp_path / "run", config=config, model=Staged())
    start = Staged().state_dict()
    named = {key.removeprefix("backbone.").replace("head.module", "head"): key for key in weights(tmp_path / "run")}
    found = weights(tmp_path / "run")
    moved = {key for name, key in named.items() if not torch.equal(found[key], start[name])}
    first = {key for key in moved if key.startswith("backbone.stages.0")}
    second = {key for key in moved if key.startswith("backbone.stages.1")}
    assert (bool(first), bool(second)) == (False, freeze == "1")
    assert "head.module.weight" in moved


def test_a_resumed_run_with_everything_of_ones_own_equals_one_that_never_stopped(tmp_path, table, monkeypatch):
    config = tiny_config(**STEPS, optim__epochs=3, validation=0.3, optim__ema=0.9)
    own = {"config": config, "transform": shaken, "images": tmp_path / "kept"}
    train(table, out=tmp_path / "a", model=Staged(), dataset=pictures(tmp_path, table), **own)
    original = partlabel.training.loop.train_epoch

    def stopping(job, state, batches, epoch):
        if epoch == 1:
            raise KeyboardInterrupt
        return original(job, state, batches, epoch)

    with monkeypatch.context() as patched:
        patched.setattr(partlabel.training.loop, "train_epoch", stopping)
        with pytest.raises(KeyboardInterrupt):
            train(table, out=tmp_path / "b", model=Staged(), dataset=pictures(tmp_path, table), **own)
    with pytest.raises(UserError, match="other settings"):
        train(table, out=tmp_path / "b", model=Staged(), resume=True, **{**own, "transform": None})
    train(table, out=tmp_path / "b", model=Staged(), resume=True, **own)
    a, b = weights(tmp_path / "a"), weights(tmp_path / "b")
    assert all(torch.equal(a[key], b[key]) for key in a)


def shaken(image):
    """Some augmentation that draws from everywhere."""
    angle = random.uniform(-5, 5) + np.random.uniform(-5, 5) + float(torch.rand(()))  # noqa: NPY002
    return image.rotate(angle)


def pictures(tmp_path, table):
    """The images as a stream in another order."""
    for row in reversed(range(table.num_images)):
        yield Image.open(tmp_path / "pictures" / table.images[row].as_py()), row


def test_a_data_set_of_ones_own_trains_the_same_model(tmp_path, table):
    config = tiny_config(optim__epochs=1)
    train(table, tmp_path / "pictures", out=tmp_path / "files", config=config)
    train(table, tmp_path / "kept", out=tmp_path / "stream", config=config, dataset=pictures(tmp_path, table))
    a, b = weights(tmp_path / "files"), weights(tmp_path / "stream")
    assert all(torch.equal(a[key], b[key]) for key in a)
    images = [Image.open(path) for path in paths(tmp_path, table)]
    train(table, tmp_path / "kept2", out=tmp_path / "list", config=config, dataset=images)
    assert all(torch.equal(a[key], value) for key, value in weights(tmp_path / "list").items())


def test_a_transform_is_seen_in_training_alone(tmp_path, table):
    """All training images are grey; the model cannot learn, and validation images are as they are."""
    seen = []

    def grey(image):
        seen.append(image.size)
        return Image.new("RGB", (10, 10), (99, 99, 99))

    config = tiny_config(validation=0.4, optim__epochs=2)
    run = train(table, tmp_path / "pictures", out=tmp_path / "run", config=config, transform=grey)
    assert len(seen) == 2 * run.summary["images_trained"]
    assert set(seen) == {(32, 32)}
    assert np.ptp(run.held_out.scores, 0).min() > 0


def test_what_does_not_go_with_a_network_of_ones_own(tmp_path, table, capsys):
    def refused(match, **given):
        given = {"config": tiny_config(), "model": Plain()} | given
        with pytest.raises(UserError, match=match):
            train(table, tmp_path / "pictures", out=tmp_path / "no", **given)
        assert not (tmp_path / "no").exists()

    refused(r"own:.*Plain has to give a score for each of the 3 classes, \(N, 3\), not \(1, 5\)", model=Plain(5))
    refused("does not take a batch of one image of 24 px", config=tiny_config(images__size=24))
    refused("without `stages`", config=tiny_config(freeze="all"))
    refused("optim.name = 'sgd' or 'adamw'", config=Config.preset("small"))
    refused("a transform of your own", transform=shaken, config=tiny_config(augment__crop=0.5))
    refused("a callback has one of the methods", callbacks=[print])
    run = train(table, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config(validation=0.3), model=Staged())
    for use in (
        lambda: Run(tmp_path / "run").model,
        lambda: predict(tmp_path / "run", tmp_path / "pictures"),
        lambda: train(table, tmp_path / "pictures", out=tmp_path / "no", config=run.config),
    ):
        with pytest.raises(UserError, match="network of your own"):
            use()
    with pytest.raises(UserError, match="features of a timm backbone"):
        suspects(run, images=tmp_path / "pictures")
    code = main(["predict", str(tmp_path / "run"), str(tmp_path / "pictures"), "-o", str(tmp_path / "p.csv")])
    assert code == 2
    assert "partlabel.Run(folder, model=network)" in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_a_network_of_ones_own_is_exported(tmp_path, table):
    run = train(table, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config(), model=Staged())
    export(run, tmp_path / "model.onnx", images=tmp_path / "pictures")
    a, b = (predict(r, tmp_path / "pictures").scores for r in (run, tmp_path / "model.onnx"))
    np.testing.assert_allclose(a, b, atol=1e-4)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["config"]["model"]["weights"] == "none"
    assert run.model.classes == CLASSES


def test_the_example_of_the_guide_runs(tmp_path, table, monkeypatch, capsys):
    train(table, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config(validation=0.3, optim__epochs=1))
    (tmp_path / "pictures").rename(tmp_path / "photos")
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "docs" / "guide.md").read_text(encoding="utf-8")
    example = text[text.index("## Parts of your own") :].split("```python")[1].split("```")[0]
    exec(example.replace("Linear(16, 2)", "Linear(16, 3)"), {"__name__": "example"})
    assert "(12, 3)" in capsys.readouterr().out
