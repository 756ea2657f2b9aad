"""The job job in tiny form: what it writes, that its numbers are those of the runs, and that its commands work."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from partlabel import LabelTable, Model
from partlabel.app.cli import main
from partlabel.app.demo import job
from partlabel.app.demo.digits import CLASSES, draw_scenes
from partlabel.core.errors import UserError
from partlabel.tasks.evaluate import evaluate
from partlabel.training.config import Config

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], str]:
    """A tiny job: its folder, its results, and what it printed."""
    folder = tmp_path_factory.mktemp("demo") / "out"
    patch = pytest.MonkeyPatch()
    patch.setenv("PARTLABEL_CACHE", str(folder.parent / "cache"))
    lines: list[str] = []
    patch.setattr("builtins.print", lambda *parts, **_: lines.append(" ".join(map(str, parts))))
    try:
        results = job.run(folder, job.Size(train=60, test=30, epochs=1))
    finally:
        patch.undo()
    return folder, results, "\n".join(lines)


def test_the_folder_holds_everything(small: tuple[Path, dict[str, Any], str]) -> None:
    folder, results, _ = small
    assert json.loads((folder / "results.json").read_text()) == results
    keys = ["bce", "partial-bce", "partial-bce-graph", "bce-5x", "every-label"]
    assert [model["run"] for model in results["models"]] == [f"runs/{key}" for key in keys]
    for key in keys:
        assert Config.read(folder / "runs" / key / "config.toml").to_dict()
        assert Model.load(folder / "runs" / key).classes == CLASSES
    assert len(list((folder / "scenes" / "train").glob("*.jpg"))) == 60
    assert len(list((folder / "scenes" / "test").glob("*.jpg"))) == 30
    with open(folder / "predictions.csv", encoding="utf-8", newline="") as file:
        assert len(list(csv.reader(file))) == 1 + 30 * len(CLASSES)
    with Image.open(folder / "picture.png") as image:
        assert image.width > 1000
    assert (folder / "picture.png").stat().st_size < 300_000


def test_the_text_speaks_of_the_rows_that_are_there(
    small: tuple[Path, dict[str, Any], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    assert "the row with 5 x learning rate shows what remains" in small[2]
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(job, "PATIENCE", 0)
    results = job.run(tmp_path / "demo", job.Size(train=60, test=30, epochs=1))
    assert [model["run"] for model in results["models"]] == ["runs/bce", "runs/partial-bce", "runs/partial-bce-graph"]
    said = capsys.readouterr().out
    assert "Left out, as this machine is slow: BCE, 5 x learning rate" in said
    assert "5 x learning rate, left out here, would show what remains" in said


def test_labels_are_those_of_the_scenes(small: tuple[Path, dict[str, Any], str]) -> None:
    folder, results, _ = small
    tables = {
        name: LabelTable.read_parquet(folder / "labels" / f"{name}.parquet") for name in ("train", "known", "test")
    }
    for part in ("train", "test"):
        drawn = np.stack([scene.labels() for scene in draw_scenes(part, tables[part].num_images, seed=0)])  # type: ignore[arg-type]
        assert np.array_equal(tables[part].dense(), drawn)
    known, every = tables["known"].dense(), tables["train"].dense()
    assert np.array_equal(known[known != 0], every[known != 0])
    assert 0.05 < np.mean(known != 0) < 0.16
    assert results["labels"] == {
        "known": int(np.sum(known != 0)),
        "of": 600,
        "scenes_with_known_labels": int((known != 0).any(1).sum()),
    }
    # the reference with every label has the same scenes as the others
    assert LabelTable.read_parquet(folder / "runs" / "every-label" / "labels.parquet").num_known == 10 * int(
        (known != 0).any(1).sum()
    )


def test_models_differ_only_in_what_their_name_says() -> None:
    configs = {training.key: training.config for training in job.trainings(epochs=3, seed=0)}
    bce = configs["bce"]
    assert configs["every-label"] == bce
    assert configs["partial-bce"] == bce.replace(loss__name="partial-bce")
    assert configs["partial-bce-graph"] == bce.replace(loss__name="partial-bce", model__graph=True)
    assert configs["bce-5x"] == bce.replace(optim__learning_rate=5 * bce.optim.learning_rate)
    assert not bce.images.flip


def test_the_table_shows_what_the_models_reach(small: tuple[Path, dict[str, Any], str]) -> None:
    folder, results, printed = small
    test = LabelTable.read_parquet(folder / "labels" / "test.parquet")
    for model in results["models"]:
        found = evaluate(Model.load(folder / model["run"]), test, images=folder / "scenes")
        assert model["metrics"]["mean_ap"] == pytest.approx(found.mean_ap, abs=1e-6)
        line = next(line for line in printed.splitlines() if line.startswith(f"{model['name']:28}"))
        shown = line[28:].split()[:4]
        reached = (found.mean_ap, found.zero_one, found.macro_f1, found.micro_f1)
        assert shown == [f"{100 * value:.1f}" for value in reached]
    ranked = [model for model in results["models"] if not model["every_label"]]
    assert results["best"] == max(ranked, key=lambda m: m["metrics"]["mean_ap"])["run"].removeprefix("runs/")
    assert (folder / "results.txt").read_text().strip() in printed


def test_the_printed_commands_do_the_same(
    small: tuple[Path, dict[str, Any], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, results, printed = small
    commands = [line.strip() for line in printed.splitlines() if line.startswith("  partlabel ")]
    assert [shlex.split(command)[1] for command in commands] == ["import", "simulate", "train", "evaluate", "predict"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PARTLABEL_CACHE", str(folder.parent / "cache"))
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0
    assert LabelTable.read_parquet("known.parquet").content_hash() == (
        LabelTable.read_parquet(folder / "labels" / "known.parquet").content_hash()
    )
    if results["best"] in ("partial-bce", "partial-bce-graph", "bce", "bce-5x"):
        assert Path("predictions.csv").read_text(encoding="utf-8").count("\n") == (
            folder / "predictions.csv"
        ).read_text().count("\n")
        ours, theirs = Model.load("run").state_dict(), Model.load(folder / "runs" / results["best"]).state_dict()
        assert all(bool((ours[name] == theirs[name]).all()) for name in theirs)


def test_a_slow_machine_skips_what_can_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(job, "PATIENCE", -1.0)
    first, *_, last = job.trainings(epochs=1, seed=0)
    assert (first.optional, last.optional) == (False, True)
    monkeypatch.setattr(job, "trainings", lambda *_: [first, last])
    results = job.run(tmp_path / "out", job.Size(train=30, test=20, epochs=1))
    assert [model["run"] for model in results["models"]] == ["runs/bce"]
    assert "Left out, as this machine is slow: BCE, every label known" in capsys.readouterr().out


def test_only_a_folder_of_the_demo_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "runs").write_text("mine")
    with pytest.raises(UserError, match="no earlier demo wrote it"):
        job._open_folder(tmp_path / "photos")
    assert (tmp_path / "photos" / "runs").read_text() == "mine"
    with pytest.raises(UserError, match="is a file"):
        job._open_folder(tmp_path / "photos" / "runs")
    job._open_folder(tmp_path / "own")
    (tmp_path / "own" / "scenes").mkdir()
    (tmp_path / "own" / "notes.txt").write_text("kept")
    job._open_folder(tmp_path / "own")
    assert sorted(p.name for p in (tmp_path / "own").iterdir()) == ["README.txt", "notes.txt"]
