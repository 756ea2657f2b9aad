"""The presets: their names everywhere, and a step of the large ones at their real size."""

import json
import re
from pathlib import Path

import pytest

from partlabel import Config, train
from partlabel.app.cli.settings import Settings, make_config
from partlabel.training.optimizer import build_optimizer
from partlabel.training.presets import PRESETS, in_words
from tests.pictures import make_pictures

ROOT = Path(__file__).resolve().parents[2]


def test_every_preset_is_a_whole_configuration_and_named_where_people_choose():
    words = re.sub(r"\s+", " ", (ROOT / "docs" / "commands" / "train.md").read_text(encoding="utf-8").replace("│", " "))
    for name, preset in PRESETS.items():
        assert isinstance(Config.preset(name), Config)
        assert f"`{name}` {preset.what.split(';')[0]}" in in_words()
        assert f"{name} {preset.what.split(';')[0]}".replace("`", "") in words


def test_another_rate_keeps_the_proportion_of_backbone_and_head():
    config = make_config("paper", None, Settings(learning_rate=0.002), None)
    assert (config.optim.learning_rate, config.optim.head_learning_rate) == (0.002, pytest.approx(0.02))
    plain = make_config("small", None, Settings(learning_rate=0.2), None)
    assert (plain.optim.learning_rate, plain.optim.head_learning_rate) == (0.2, None)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["paper", "paper-full"])
def test_the_papers_presets_take_steps_at_their_real_size(tmp_path, name, monkeypatch):
    """ResNet-101 at 448 px with random weights: one step of two images, and a round of relabelling before a second."""
    table = make_pictures(tmp_path / "pictures", 2, size=448)
    known = table.hide([True, True, False, True, False, True], "test")
    full = name == "paper-full"
    changes = {"optim__epochs": 2, "relabel__before": [2], "relabel__theta": 100.0} if full else {"optim__epochs": 1}
    config = Config.preset(name).replace(
        model__weights="none", optim__batch_size=2, optim__step_after=[1], validation=0.0, workers=0, **changes
    )
    rates = []

    def spy(model, optim):
        found = build_optimizer(model, optim)
        rates.extend(group["lr"] for group in found.param_groups)
        return found

    monkeypatch.setattr("partlabel.training.state.build_optimizer", spy)
    run = train(known, tmp_path / "pictures", out=tmp_path / "run", config=config)
    assert rates == [0.001, 0.001, 0.01, 0.01]
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert all(row["loss"] > 0 for row in rows if "loss" in row)
    model = run.load_model("last")
    assert (model.preprocessing.size, model.backbone.channels) == (448, 2048)
    assert (model.head.graph is not None) is full
    if full:
        assert run.summary["labels_added"] == 2  # all that were unknown


@pytest.mark.slow
def test_the_preset_gpu_trains_a_small_network_on_a_cpu(tmp_path):
    """All its settings go together, bf16 and the solved head included, on a network of its family."""
    table = make_pictures(tmp_path / "pictures", 40)
    config = Config.preset("gpu").replace(
        model__backbone="test_convnext",
        model__weights="none",
        images__size=32,
        optim__epochs=2,
        optim__batch_size=8,
        validation=0.3,
        workers=0,
    )
    run = train(table, tmp_path / "pictures", out=tmp_path / "run", config=config)
    assert run.is_finished
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows if "loss" in row] == [1, 2]
    assert config.optim.head_learning_rate == config.optim.learning_rate, "the head is solved already"
