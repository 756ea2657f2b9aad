"""Validation labels that are trained on are refused; shared images are counted."""

import json
import shutil

import numpy as np
import pytest

from partlabel import LabelTable
from partlabel.app.cli import main
from partlabel.core.errors import UserError
from partlabel.images import content_hash
from partlabel.labels.holdout import hold_out, shared_pairs
from partlabel.training.card import FILE
from partlabel.training.leaks import check_leaks
from partlabel.training.loop import train
from tests.pictures import make_pictures, tiny_config


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))


def test_pairs_by_hand():
    first = LabelTable.from_dense(["a", "b"], ["cat", "dog"], np.array([[1, 0], [-1, 1]], np.int8))
    other = LabelTable.from_dense(["b", "c", "a"], ["dog", "cat"], np.array([[-1, 0], [1, 1], [1, 0]], np.int8))
    # b dog: known in both; c: no such image; a dog: unknown in the first
    assert shared_pairs(first, other).tolist() == [True, False, False, False]


def test_the_same_table_for_both_is_refused(tmp_path):
    table = make_pictures(tmp_path / "pictures", 8)
    with pytest.raises(UserError, match="24 of the 24 validation labels are trained on too") as caught:
        train(table, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config(), validation=table)
    assert caught.value.offenders[:2] == ["000.png: red", "000.png: green"]
    assert not (tmp_path / "run").exists()


def test_the_same_bytes_under_another_name_are_the_same_image(tmp_path):
    table = make_pictures(tmp_path / "pictures", 8)
    shutil.copy(tmp_path / "pictures" / "002.png", tmp_path / "pictures" / "copy.png")
    names = ["copy.png"]
    labels = table.dense()[2:3].copy()
    contents = np.array([content_hash(tmp_path / "pictures" / name) for name in table.images.to_pylist()], "S32")
    own = contents[2:3]
    with pytest.raises(UserError, match="3 of the 3 validation labels") as caught:
        check_leaks(table, contents, LabelTable.from_dense(names, table.classes, labels), own)
    assert caught.value.offenders == ["copy.png: red", "copy.png: green", "copy.png: blue"]
    open_ = table.hide(np.arange(table.num_known) != 6)  # red of image 2 is unknown now
    labels[0, 1:] = 0
    found = check_leaks(open_, contents, LabelTable.from_dense(names, table.classes, labels), own)
    assert (found.by_name, found.by_content) == (0, 1)


def test_labels_put_aside_are_allowed_and_the_card_says_what_they_are(tmp_path, capsys):
    table = make_pictures(tmp_path / "pictures", 20)
    kept, aside = hold_out(table, 0.3, 0)
    run = train(kept, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config(), validation=aside)
    text = (tmp_path / "run" / "best" / FILE).read_text(encoding="utf-8")
    shared = aside.num_images
    assert run.summary["validation_images_trained_on"] == shared
    assert "trained on these images with other labels, but on none of these labels" in text
    assert f"{shared} validation images are trained on with other labels" in capsys.readouterr().err


def test_a_split_of_one_table_is_said_to_be_unseen(tmp_path):
    table = make_pictures(tmp_path / "pictures", 20)
    train(table, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config(validation=0.4))
    text = (tmp_path / "run" / "best" / FILE).read_text(encoding="utf-8")
    assert "The model was not trained on these images." in text


def test_evaluate_says_that_labels_were_trained_on(tmp_path, capsys):
    table = make_pictures(tmp_path / "pictures", 12)
    train(table, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config())
    table.write_parquet(tmp_path / "labels.parquet")
    words = [str(tmp_path / "run"), str(tmp_path / "labels.parquet"), "--images", str(tmp_path / "pictures")]
    assert main(["evaluate", *words]) == 0
    assert "trained on 36 of these labels, so the numbers prove nothing" in capsys.readouterr().out
    assert main(["evaluate", *words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["trained_on"] == {"images": 12, "labels": 36}
    assert "mean_ap" in found["headline"]["metrics"]
