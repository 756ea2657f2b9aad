"""The losses inside a training."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from partlabel import Config, LabelTable, train
from partlabel.core.errors import PartlabelWarning, UserError
from partlabel.method.losses import LOSSES
from tests.pictures import CLASSES, make_pictures, tiny_config


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def single(tmp_path: Path) -> LabelTable:
    """12 images with one known label each, a present one."""
    whole = make_pictures(tmp_path / "pictures", 12)
    labels = np.zeros((12, 3), np.int8)
    labels[np.arange(12), np.arange(12) % 3] = 1
    return LabelTable.from_dense(whole.images, CLASSES, labels)


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "last" / "model.safetensors")


def test_present_labels_alone_are_enough_for_them(tmp_path: Path, single: LabelTable) -> None:
    """AN is BCE with every unknown label taken as absent, and there is nothing to warn about."""
    config = tiny_config(freeze="all")
    with warnings.catch_warnings():
        warnings.simplefilter("error", PartlabelWarning)
        train(single, tmp_path / "pictures", out=tmp_path / "an", config=config.replace(loss__name="an"))
        train(
            single,
            tmp_path / "pictures",
            out=tmp_path / "bce",
            config=config.replace(loss__name="bce", assume_absent=True),
        )
    with pytest.warns(PartlabelWarning, match="no class has a known absent"):
        train(single, tmp_path / "pictures", out=tmp_path / "ignored", config=config.replace(loss__name="bce"))
    an, bce, ignored = (weights(tmp_path / name) for name in ("an", "bce", "ignored"))
    assert all(torch.allclose(an[key], bce[key], atol=1e-6) for key in an)
    assert not all(torch.allclose(an[key], ignored[key], atol=1e-4) for key in an)
    card = (tmp_path / "an" / "last" / "MODEL_CARD.md").read_text()
    assert "every unknown label was trained as absent" in card


@pytest.mark.parametrize("name", ["splc", "ll-r", "ll-ct"])
def test_the_loss_is_told_the_epoch(
    tmp_path: Path, single: LabelTable, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted from 1, and also after a stop."""
    epochs = []
    entry = LOSSES[name]
    original = entry.load()

    def watched(*arguments: torch.Tensor, epoch: int, **more: object) -> torch.Tensor:
        if len(arguments[0]) > 1:  # not the check of the settings
            epochs.append(epoch)
        return original(*arguments, epoch, **more)

    config = tiny_config(freeze="all", loss__name=name, optim__epochs=3, optim__batch_size=6)
    monkeypatch.setattr(sys.modules[entry.function.split(":")[0]], entry.function.split(":")[1], watched)
    train(single, tmp_path / "pictures", out=tmp_path / "whole", config=config)
    assert epochs == [1, 1, 2, 2, 3, 3]
    with monkeypatch.context() as patched:
        patched.setattr(torch.optim.SGD, "step", stop_at(epochs, 9))
        with pytest.raises(KeyboardInterrupt):
            train(single, tmp_path / "pictures", out=tmp_path / "stopped", config=config)
    train(single, tmp_path / "pictures", out=tmp_path / "stopped", config=config, resume=True)
    assert epochs[6:] == [1, 1, 2, 2, 2, 3, 3]
    a, b = (weights(tmp_path / run) for run in ("whole", "stopped"))
    assert all(torch.equal(a[key], b[key]) for key in a)


def stop_at(epochs: list[int], number: int):
    original = torch.optim.SGD.step

    def step(self: torch.optim.SGD, *arguments: object, **more: object) -> object:
        if len(epochs) == number:
            raise KeyboardInterrupt
        return original(self, *arguments, **more)

    return step


@pytest.mark.parametrize("name", ["wan", "an-ls", "asl", "hill", "splc", "ll-r", "ll-ct", "em", "p-asl", "csl"])
def test_each_trains(tmp_path: Path, single: LabelTable, name: str) -> None:
    config = tiny_config(freeze="all", loss__name=name, optim__epochs=4, optim__learning_rate=0.02)
    train(single, tmp_path / "pictures", out=tmp_path / "run", config=config)
    losses = [json.loads(line)["loss"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert all(np.isfinite(losses))
    assert losses[-1] < losses[0]
    assert Config.read(tmp_path / "run" / "config.toml").loss.name == name


def test_assume_absent_would_hide_what_is_unknown() -> None:
    with pytest.raises(UserError, match="assume_absent hides from the loss splc"):
        Config().replace(loss__name="splc", assume_absent=True)
    assert Config().replace(loss__name="splc").unknown_as_absent
    assert Config().replace(assume_absent=True).unknown_as_absent
    assert not Config().unknown_as_absent


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UserError, match="'focal'"):
        Config().replace(loss__name="focal")


def test_present_labels_alone_choose_no_best_epoch(tmp_path: Path, single: LabelTable) -> None:
    """Their mAP is 1 whatever the model, so that the first epoch would be the best one; the last one is kept."""
    config = tiny_config(freeze="all", loss__name="an", optim__epochs=3, validation=0.3)
    summary = train(single, tmp_path / "pictures", out=tmp_path / "run", config=config).summary
    assert summary["best_epoch"] == 3
    assert summary["last"]["validation"]["mean_ap"] is None
    best, last = (load_file(tmp_path / "run" / which / "model.safetensors") for which in ("best", "last"))
    assert all(torch.equal(best[key], last[key]) for key in best)
