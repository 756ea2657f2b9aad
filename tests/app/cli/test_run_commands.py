"""Commands that make a run and use it: train, evaluate, predict."""

from __future__ import annotations

import json

import numpy as np
import pytest

from partlabel.app.cli import main
from partlabel.labels.table import LabelTable
from tests.app.cli.calling import refused, run


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """Images, a half-filled table and a run trained on them: red or dark, blue or dark, 24 images of 64 x 64."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("job")
    (folder / "photos").mkdir()
    rows = ["image,red,blue"]
    for i in range(24):
        red, blue = i % 2, i // 2 % 2
        Image.new("RGB", (64, 64), (200 * red + i, 20, 200 * blue)).save(folder / "photos" / f"{i:02}.png")
        rows.append(f"{i:02}.png,{red if i % 3 else ''},{blue if i % 4 else ''}")
    (folder / "labels.csv").write_text("\n".join(rows) + "\n")
    labels, images = str(folder / "labels.parquet"), str(folder / "photos")
    settings = ["--backbone", "test_resnet", "--weights", "none", "--freeze", "none", "--size", "64", "--epochs", "2"]
    settings += ["--batch-size", "8", "--workers", "0", "--validation", "0.25"]
    coding = "1=present,0=absent,blank=unknown"
    words = ["import", "csv", str(folder / "labels.csv"), "--coding", coding, "--images", images, "-o", labels]
    assert main(words) == 0
    assert main(["train", labels, "--images", images, "-o", str(folder / "run"), *settings]) == 0
    return folder


def test_train_writes_a_run(capsys, job):
    assert (job / "run" / "config.toml").is_file()
    assert (job / "run" / "best").is_dir()
    err = refused(capsys, "train", job / "labels.parquet", "--images", job / "photos", "-o", job / "run")
    assert "run" in err


def test_train_flags_reach_the_settings(job):
    from partlabel.training.config import Config

    config = Config.read(job / "run" / "config.toml")
    assert (config.model.weights, config.freeze, config.images.size) == ("none", "none", 64)
    assert (config.optim.epochs, config.optim.batch_size, config.validation) == (2, 8, 0.25)


def test_every_flag_of_train_is_a_setting():
    from partlabel.app.cli.settings import Settings, make_config
    from partlabel.training.config import Config

    config = make_config("small", None, Settings(), None)
    assert config == Config.preset("small")
    values = {
        "on_bad": "skip",
        "assume_absent": True,
        "backbone": "resnet18",
        "weights": "none",
        "freeze": "2",
        "size": 64,
        "loss": "bce",
        "gamma": 2.0,
        "graph": True,
        "dropout": 0.5,
        "relabel_before": "10,15",
        "strategy": "all-at-once",
        "theta": 0.25,
        "optimizer": "adamw",
        "epochs": 3,
        "batch_size": 5,
        "learning_rate": 0.5,
        "weight_decay": 0.25,
        "precision": "bf16",
        "workers": 3,
        "seed": 9,
    }
    assert set(values) == set(vars(Settings()))
    for name, value in values.items():
        others = {"dropout": 0.5} if name == "relabel_before" else {}  # its strategy needs some
        changed = make_config("paper", None, Settings(**{name: value}, **others), None)
        plain = make_config("paper", None, Settings(**others), None)
        assert changed != plain, f"--{name} changes nothing"


def test_train_takes_a_preset_or_a_file(capsys, job):
    words = ("train", job / "labels.parquet", "--images", job / "photos", "-o", job / "other")
    assert "--preset" in refused(capsys, *words, "--preset", "small", "--config", job / "run" / "config.toml")
    assert "epochs" in refused(capsys, *words, "--epochs", "0")
    assert "nowhere" in refused(capsys, *words, "--validation", job / "nowhere")
    assert not (job / "other").exists()


def test_evaluate(capsys, job):
    code, out, _ = run(capsys, "evaluate", job / "run", job / "labels.parquet", "--images", job / "photos", "--json")
    assert code == 0
    result = json.loads(out)
    assert 0 <= result["metrics"]["mean_ap"] <= 1
    assert [row["class"] for row in result["per_class"]] == ["red", "blue"]
    assert result["images"]["evaluated"] == 22  # two of the 24 images have no known label
    code, out, _ = run(capsys, "evaluate", job / "run", job / "labels.parquet", "--images", job / "photos")
    assert code == 0
    assert "red" in out


def test_evaluate_says_when_its_estimate_is_from_a_draw(capsys, job, monkeypatch):
    said = "estimated on 12 of the 24 images, drawn at random"
    words = ("evaluate", job / "run", job / "labels.parquet", "--images", job / "photos")
    assert said not in run(capsys, *words)[1]
    classes = LabelTable.read_parquet(job / "labels.parquet").num_classes
    monkeypatch.setattr("partlabel.training.evidence.HEADLINE_PAIRS", 12 * classes)
    assert said in run(capsys, *words)[1].splitlines()
    assert json.loads(run(capsys, *words, "--json")[1])["headline"]["images"] == 12


def test_evaluate_names_classes_that_the_model_does_not_know(capsys, job):
    other = job / "other.parquet"
    LabelTable.from_dense(["00.png"], ["red", "green"], np.array([[1, 1]], np.int8)).write_parquet(other)
    assert "green" in refused(capsys, "evaluate", job / "run", other, "--images", job / "photos")


def test_predict_a_folder(capsys, job):
    code, out, _ = run(capsys, "predict", job / "run", job / "photos", "-o", job / "predictions.csv", "--json")
    assert code == 0
    assert json.loads(out)["pictures"] == 24
    rows = (job / "predictions.csv").read_text().splitlines()
    assert len(rows) == 1 + 24 * 2
    assert rows[1].startswith('"00.png","red",')


def test_predict_a_list_gives_what_the_folder_gives(capsys, job):
    import pyarrow.parquet

    (job / "some.txt").write_text("07.png\n03.png\n")
    assert run(capsys, "predict", job / "run", job / "photos", "-o", job / "all.parquet")[0] == 0
    words = ("predict", job / "run", job / "some.txt", "--images", job / "photos", "-o", job / "some.parquet")
    assert run(capsys, *words)[0] == 0
    all_, some = (pyarrow.parquet.read_table(job / f"{name}.parquet").to_pydict() for name in ("all", "some"))
    assert some["image"] == ["07.png", "03.png"]
    for name, score in zip(some["image"], some["score"], strict=True):
        assert score == pytest.approx(all_["score"][all_["image"].index(name)], rel=1e-5)


def test_predict_lists_every_bad_picture_or_leaves_it_out(capsys, job, tmp_path):
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(b"not an image")
    (tmp_path / "c.png").write_bytes((job / "photos" / "00.png").read_bytes())
    words = ("predict", job / "run", tmp_path, "-o", tmp_path / "out.csv")
    err = refused(capsys, *words)
    assert "a.png" in err
    assert "b.png" in err
    assert not (tmp_path / "out.csv").exists()
    code, out, _ = run(capsys, *words, "--on-bad", "skip", "--json")
    assert code == 0
    assert json.loads(out)["pictures"] == 1
    assert len(json.loads(out)["skipped"]) == 2


def test_predict_refuses_what_it_cannot_write_or_find(capsys, job, tmp_path):
    assert ".parquet" in refused(capsys, "predict", job / "run", job / "photos", "-o", tmp_path / "out.json")
    assert "no image" in refused(capsys, "predict", job / "run", tmp_path, "-o", tmp_path / "out.csv")
    assert "folder" in refused(
        capsys, "predict", job / "run", job / "photos", "--images", tmp_path, "-o", tmp_path / "out.csv"
    )
