"""The demo in tiny form: what it writes, that its numbers are those of the runs, and that its commands work."""

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
from partlabel.app.demo import job, words
from partlabel.app.demo.digits import CLASSES, draw_scenes
from partlabel.core.errors import UserError
from partlabel.tasks.evaluate import evaluate
from partlabel.training.config import Config

pytestmark = pytest.mark.slow
KEYS = ["unknown-as-absent", "unknown", "asked", "random", "every-label"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], str]:
    """A tiny demo: its folder, its results, and what it printed."""
    folder = tmp_path_factory.mktemp("demo") / "out"
    patch = pytest.MonkeyPatch()
    patch.setenv("PARTLABEL_CACHE", str(folder.parent / "cache"))
    patch.setattr(job, "PROPORTION", 0.4)
    patch.setattr(job, "PATIENCE", float("inf"))
    lines: list[str] = []
    patch.setattr("builtins.print", lambda *parts, **_: lines.append(" ".join(map(str, parts))))
    try:
        results = job.run(folder, job.Size(train=80, test=30, epochs=1))
    finally:
        patch.undo()
    return folder, results, "\n".join(lines)


def read(folder: Path, name: str) -> LabelTable:
    return LabelTable.read_parquet(folder / "labels" / f"{name}.parquet")


def test_the_folder_holds_everything(small: tuple[Path, dict[str, Any], str]) -> None:
    folder, results, _ = small
    assert json.loads((folder / "results.json").read_text(encoding="utf-8")) == results
    assert [model["run"] for model in results["models"]] == [f"runs/{key}" for key in KEYS]
    for key in KEYS:
        assert Config.read(folder / "runs" / key / "config.toml").to_dict()
        assert Model.load(folder / "runs" / key).classes == CLASSES
    assert len(list((folder / "scenes" / "train").glob("*.jpg"))) == 80
    assert len(list((folder / "scenes" / "test").glob("*.jpg"))) == 30
    with open(folder / "predictions.csv", newline="", encoding="utf-8") as file:
        assert len(list(csv.reader(file))) == 1 + 30 * len(CLASSES)
    with Image.open(folder / "picture.png") as image:
        assert image.width > 1000
    assert (folder / "picture.png").stat().st_size < 300_000


def test_labels_are_those_of_the_scenes(small: tuple[Path, dict[str, Any], str]) -> None:
    folder, results, _ = small
    for part, name in (("train", "truth"), ("test", "test")):
        table = read(folder, name)
        drawn = np.stack([scene.labels() for scene in draw_scenes(part, table.num_images, seed=0)])  # type: ignore[arg-type]
        assert np.array_equal(table.dense(), drawn)
    train, held, truth = (read(folder, name) for name in ("train", "held", "truth"))
    known = train.merge(held).dense()
    assert 0.3 < np.mean(known != 0) < 0.5
    assert np.array_equal(known[known != 0], truth.dense()[known != 0])
    assert not np.any((train.dense() != 0) & (held.dense() != 0))
    assert results["labels"] == {"known": int((known != 0).sum()), "of": 800, "held_out": held.num_known}
    empty = (folder / "labels" / "known.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert sum(line.split(",").count("") for line in empty) == 800 - results["labels"]["known"]


def test_asked_and_random_learn_from_equally_many_labels(small: tuple[Path, dict[str, Any], str]) -> None:
    folder, results, _ = small
    train, held, truth = (read(folder, name) for name in ("train", "held", "truth"))
    known = train.num_known + held.num_known
    for key in ("asked", "random"):
        own = LabelTable.read_parquet(folder / "runs" / key / "labels.parquet")
        more = own.dense() != 0
        assert more.sum() == train.num_known + known
        assert not np.any(more & (held.dense()[held.image_index(own.images)] != 0))
        assert np.array_equal(own.dense()[more], truth.dense()[truth.image_index(own.images)][more])
    with open(folder / "labels" / "questions.csv", newline="", encoding="utf-8") as file:
        answers = [row["answer"] for row in csv.DictReader(file)]
    assert results["asked"] == {"questions": len(answers), "present": answers.count("present")}
    every = LabelTable.read_parquet(folder / "runs" / "every-label" / "labels.parquet")
    assert every.num_known == 800 - held.num_known


def test_models_differ_only_in_what_their_name_says() -> None:
    configs = {training.key: training.config for training in job.trainings(epochs=3, seed=0)}
    assert list(configs) == KEYS
    unknown = configs["unknown"]
    assert configs["unknown-as-absent"] == unknown.replace(assume_absent=True)
    assert all(configs[key] == unknown for key in ("asked", "random", "every-label"))
    assert not unknown.images.flip
    assert not unknown.assume_absent


def test_the_tables_show_what_the_models_reach(small: tuple[Path, dict[str, Any], str]) -> None:
    folder, results, printed = small
    test = read(folder, "test")
    lines = printed.splitlines()
    for model in results["models"]:
        found = evaluate(Model.load(folder / model["run"]), test, images=folder / "scenes")
        assert model["metrics"]["mean_ap"] == pytest.approx(found.mean_ap, abs=1e-6)
        line = next(line for line in lines if line.startswith(f"   {model['name']} "))
        assert line.split()[-3:] == [f"{100 * v:.1f}" for v in (found.mean_ap, found.macro_f1, found.zero_one)]
    before = next(line for line in lines if line.startswith("   none, as above "))
    assert before.split()[-3:] == next(line for line in lines if "left unknown  " in line).split()[-3:]
    assert (folder / "results.txt").read_text(encoding="utf-8").strip() in printed


def test_what_was_filled_in_is_counted_against_the_truth(small: tuple[Path, dict[str, Any], str]) -> None:
    folder, results, _ = small
    done, truth = read(folder, "completed"), read(folder, "truth")
    filled, own = results["filled_in"], LabelTable.read_parquet(folder / "runs" / "asked" / "labels.parquet")
    known = own.merge(read(folder, "held"))
    before, after = known.dense()[known.image_index(done.images)], done.dense()
    right = truth.dense()[truth.image_index(done.images)]
    assert filled["of"] == int((before == 0).sum())
    for name, sign in (("present", 1), ("absent", -1)):
        new = (before == 0) & (after == sign)
        assert filled[name]["labels"] == new.sum()
        assert filled[name]["right"] == (pytest.approx((right[new] == sign).mean()) if new.any() else None)


def test_words_of_what_was_filled_in() -> None:
    assert words._filled("present", {"labels": 1802, "right": 0.97059}).split() == ["present", "1,802", "97.1"]
    assert words._filled("absent", {"labels": 0, "right": None}).split() == ["absent", "0", "-"]


def test_the_printed_commands_do_the_same(
    small: tuple[Path, dict[str, Any], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _, printed = small
    commands = [line.strip() for line in printed.splitlines() if line.startswith("  partlabel ")]
    said = [shlex.split(command)[1] for command in commands]
    assert said == ["import", "labels", "train", "next", "labels", "train", "evaluate", "complete"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PARTLABEL_CACHE", str(folder.parent / "cache"))
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0
    for name in ("train", "held"):
        assert LabelTable.read_parquet(f"{name}.parquet").content_hash() == read(folder, name).content_hash()
    asked = (Path("questions.csv"), folder / "labels" / "questions.csv")
    ours, theirs = (
        [line.rpartition(",")[0] for line in path.read_text(encoding="utf-8").splitlines()] for path in asked
    )
    assert ours == theirs
    for run, key in (("run", "unknown"), ("run2", "asked")):
        ours_, theirs_ = Model.load(run).state_dict(), Model.load(folder / "runs" / key).state_dict()
        assert all(bool((ours_[name] == theirs_[name]).all()) for name in theirs_)
    assert LabelTable.read_parquet("completed.parquet").content_hash() == read(folder, "completed").content_hash()


def test_a_slow_machine_skips_what_can_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(job, "PATIENCE", -1.0)
    monkeypatch.setattr(job, "PROPORTION", 0.4)
    results = job.run(tmp_path / "out", job.Size(train=60, test=20, epochs=1))
    assert [model["key"] for model in results["models"]] == KEYS[:3]
    said = capsys.readouterr().out
    assert "Left out, as this machine is slow: as many at random" in said
    assert "Left out, as this machine is slow: every label known" in said


def test_only_a_folder_of_the_demo_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "runs").write_text("mine")
    with pytest.raises(UserError, match="no earlier demo wrote it"):
        job._open_folder(tmp_path / "photos")
    assert (tmp_path / "photos" / "runs").read_text(encoding="utf-8") == "mine"
    with pytest.raises(UserError, match="is a file"):
        job._open_folder(tmp_path / "photos" / "runs")
    job._open_folder(tmp_path / "own")
    (tmp_path / "own" / "scenes").mkdir()
    (tmp_path / "own" / "notes.txt").write_text("kept")
    job._open_folder(tmp_path / "own")
    assert sorted(p.name for p in (tmp_path / "own").iterdir()) == ["README.txt", "notes.txt"]
