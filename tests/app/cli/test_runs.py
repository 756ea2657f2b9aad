"""Trainings that go on from others, or read what lies in several places."""

from __future__ import annotations

import json
import shutil

import pytest
from PIL import Image

from partlabel import LabelTable, Run
from partlabel.app.cli import main
from tests.pictures import make_pictures, tiny_config


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A folder with images, their table, and the settings of a tiny training."""
    monkeypatch.chdir(tmp_path)
    make_pictures(tmp_path / "photos", 12).write_parquet("labels.parquet")
    tiny_config(optim__epochs=1).write("tiny.toml")
    return tmp_path


def train(*words: str) -> int:
    return main(["train", *words, "--config", "tiny.toml"])


def test_more_epochs_after_the_end_want_another_folder(job, capsys):
    """EPOCH-01: the message names the way."""
    assert train("labels.parquet", "--images", "photos", "-o", "run") == 0
    assert train("labels.parquet", "--images", "photos", "-o", "run", "--epochs", "3", "--resume") == 2
    said = capsys.readouterr().err
    assert "optim.epochs: 1 -> 3" in said
    assert "--weights run -o ANOTHER" in said
    assert train("labels.parquet", "--images", "photos", "-o", "run2", "--epochs", "3", "--weights", "run") == 0
    assert len(Run("run2").epochs) == 3


def test_one_class_more_goes_on_from_an_earlier_run(job, capsys):
    """NEWCLASS-01: rows of the head are matched by name, and it is said."""
    assert train("labels.parquet", "--images", "photos", "-o", "run") == 0
    table = LabelTable.read_parquet("labels.parquet")
    more = LabelTable.from_dense(["000.png", "001.png"], ["zebra"], [[1], [-1]])
    table.select_classes(["blue", "red", "green"]).merge(more).write_parquet("more.parquet")
    assert train("more.parquet", "--images", "photos", "-o", "run2", "--weights", "run") == 0
    assert "going on from run: 3 classes as there, 1 new: zebra" in capsys.readouterr().err
    assert Run("run2").model.classes == ("blue", "red", "green", "zebra")


def test_validation_with_its_classes_in_another_order(job):
    table = LabelTable.read_parquet("labels.parquet")
    table.select(range(8)).write_parquet("train.parquet")
    table.select(range(8, 12)).select_classes(["blue", "green", "red"]).write_parquet("valid.parquet")
    assert train("train.parquet", "--images", "photos", "-o", "run", "--validation", "valid.parquet") == 0
    assert Run("run").validation.content_hash() == table.select(range(8, 12)).content_hash()


def test_validation_with_other_classes_names_them(job, capsys):
    LabelTable.from_dense(["000.png"], ["red", "zebra"], [[1, 1]]).write_parquet("valid.parquet")
    assert train("labels.parquet", "--images", "photos", "-o", "run", "--validation", "valid.parquet") == 2
    said = capsys.readouterr().err
    assert "green: only in the training labels" in said
    assert "zebra: only in the validation labels" in said


def test_a_csv_is_not_a_label_table_yet(job, capsys):
    (job / "my labels.csv").write_text("image,red\n000.png,1\n")
    assert train("my labels.csv", "--images", "photos", "-o", "run") == 2
    assert "partlabel import csv 'my labels.csv' -o 'my labels.parquet'" in capsys.readouterr().err


def lay_out(case, folder):
    """Copy a case, which nobody may write to; its images are all the same, and get a colour each."""
    for path in sorted(path for path in case.rglob("*") if path.is_file()):
        own = folder / path.relative_to(case)
        own.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, own)
    for number, path in enumerate(sorted(folder.rglob("*.jpg"))):
        Image.new("RGB", (32, 32), (60 * number, 0, 0)).save(path)


@pytest.mark.shared_data
def test_training_and_validation_images_in_two_folders(shared, tmp_path, monkeypatch, capsys):
    """VAL-01: the folder above both finds the images of both, in training and in what comes after."""
    monkeypatch.chdir(tmp_path)
    lay_out(shared / "cases" / "VAL-01" / "roboflow", tmp_path / "roboflow")
    for part in ("train", "valid"):
        folder = f"roboflow/{part}"
        words = ["import", "csv", f"{folder}/_classes.csv", "--coding", "zero-absent", "--images", folder]
        assert main([*words, "-o", f"{part}.parquet"]) == 0
    tiny_config(optim__epochs=1).write("tiny.toml")
    assert train("train.parquet", "--images", "roboflow", "--validation", "valid.parquet", "-o", "run") == 0
    capsys.readouterr()
    assert main(["evaluate", "run", "valid.parquet", "--images", "roboflow", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["images"]["evaluated"] == 1


@pytest.mark.shared_data
def test_validation_images_in_a_folder_of_their_own(shared, tmp_path, monkeypatch, capsys):
    """VAL-01: two folders, two label files; no folder above them has to be named."""
    monkeypatch.chdir(tmp_path)
    lay_out(shared / "cases" / "VAL-01" / "roboflow", tmp_path / "roboflow")
    for part in ("train", "valid"):
        folder = f"roboflow/{part}"
        words = ["import", "csv", f"{folder}/_classes.csv", "--coding", "zero-absent", "--images", folder]
        assert main([*words, "-o", f"{part}.parquet"]) == 0
    tiny_config(optim__epochs=1).write("tiny.toml")
    words = ["train.parquet", "--images", "roboflow/train", "--validation", "valid.parquet", "-o", "run"]
    capsys.readouterr()
    assert train(*words, "--validation-images", "roboflow/valdi") == 2
    assert "--validation-images: not a folder: roboflow/valdi" in capsys.readouterr().err
    assert train(*words, "--validation-images", "roboflow/valid") == 0
    assert main(["suspects", "run", "--images", "roboflow/train", "-o", "suspects.csv"]) in (0, 2)  # 3 images: too few
    said = capsys.readouterr().err
    assert "missing" not in said
    assert main(["report", "run", "-o", "report.html", "--images", "roboflow/train"]) == 0
