import errno
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from partlabel import LabelTable, formats
from partlabel.app.cli import main
from partlabel.core.errors import UserError
from partlabel.labels.holdout import hold_out
from partlabel.metrics import risk_control
from partlabel.models.scores import Scores
from partlabel.tasks.complete import complete_run
from partlabel.tasks.completion import complete
from partlabel.training.loop import train
from tests.pictures import make_pictures, tiny_config

CLASSES = ("often", "seldom", "never asked")


def world(seed, images=4000, known=0.4, prevalence=(0.5, 0.3, 0.4)):
    """True labels, scores that tell them with some mistakes, and labels known at random (of the last class none)."""
    random = np.random.default_rng(seed)
    true = np.where(random.random((images, 3)) < prevalence, 1, -1).astype(np.int8)
    scores = (2 * true + random.normal(0, 1.5, true.shape)).astype(np.float32)
    labels = np.where(random.random(true.shape) < known, true, 0).astype(np.int8)
    labels[:, 2] = 0
    return true, scores, LabelTable.from_dense([f"{i}.jpg" for i in range(images)], CLASSES, labels)


def split(table, seed):
    kept, held = hold_out(table, 0.5, seed)
    return kept.merge(held), held


def test_what_is_filled_in_and_what_is_said():
    true, scores, table = world(0)
    table, held = split(table, 0)
    made, report = complete(table, scores, held, scores, precision=0.95)
    before, after = table.dense(), made.dense()
    assert (after[before != 0] == before[before != 0]).all()  # labels that are known never change
    new = (before == 0) & (after != 0)
    assert (np.sign(scores[new]) == after[new]).all()
    for name, sign in (("present", 1), ("absent", -1)):
        filled = new & (after == sign)
        assert filled.sum() == report[name]["filled"] > 500
        assert (true[filled] == sign).mean() >= 0.95
        for c, row in enumerate(report["classes"]):
            assert row[name]["filled"] == filled[:, c].sum()
        assert "often" in [test["class"] for test in report[name]["tests"] if test["filled"]]
        assert "only 0 held-out labels" in report["classes"][2][name]["reason"]
    assert not new[:, 2].any()
    added = made.origin == 1
    np.testing.assert_array_equal(made.score[added], scores[made.pair_images()[added], made.indices[added]])
    assert set(made.round[added]) == {1}
    assert set(made.round[~added]) == {-1}
    json.dumps(report, allow_nan=False)
    again, second = complete(made, scores, held, scores, precision=0.9)
    assert second["round"] == 2
    assert (again.dense()[after != 0] == after[after != 0]).all()


def test_the_promise_holds_over_many_draws():
    missed = {"present": 0, "absent": 0}
    for seed in range(60):
        true, scores, table = world(seed, images=1500)
        table, held = split(table, seed)
        after = complete(table, scores, held, scores, precision=0.9)[0].dense()
        for name, sign in (("present", 1), ("absent", -1)):
            new = (table.dense() == 0) & (after == sign)
            missed[name] += new.any() and (true[new] == sign).mean() < 0.9
    assert max(missed.values()) <= 6 + 3 * np.sqrt(60 * 0.1 * 0.9)


def test_labels_that_the_model_learned_are_found_out_and_would_break_the_promise(monkeypatch):
    """Held-out labels that were trained on: their scores know the label, those of the unknown ones do not."""
    missed = 0
    for seed in range(12):
        true, scores, table = world(seed, images=1500)
        table, held = split(table, seed)
        weak = scores - 1.2 * true
        learned = scores + 1.2 * held.dense()
        report = complete(table, weak, held, learned, precision=0.95)[1]
        assert [row["like_a_random_sample"] for row in report["classes"]] == [False, False, True]
        assert report["present"]["filled"] == 0
        with monkeypatch.context() as blind:
            blind.setattr(risk_control, "compare", lambda *arguments: (0.0, 1.0, True))
            blind.setattr(risk_control, "compare_counts", lambda *arguments: (0.0, 1.0, True))
            new = complete(table, weak, held, learned, precision=0.95)[0].dense()
        filled = (table.dense() == 0) & (new == 1)
        missed += filled.any() and (true[filled] == 1).mean() < 0.95
    assert missed > 8


def test_few_labels_to_fill_in_need_more_than_the_bound():
    labels = np.ones((26, 2), np.int8)
    labels[:4, 0] = 0
    labels[:, 1] = -1
    table = LabelTable.from_dense([str(i) for i in range(26)], ("a", "b"), labels)
    report = complete(table, np.full((26, 2), 3, np.float32), table, np.full((26, 2), 3, np.float32), precision=0.9)[1]
    # 22 right of 22 bear out 0.1 ** (1 / 22) = 90.06 %, but one of 4 would be too many: 4 / 26 is more than 0.1
    assert "90.1% in the long run, but not 90.0% of so few labels" in report["classes"][0]["present"]["reason"]
    assert report["classes"][1]["present"]["reason"] == "no label is unknown"


def test_classes_with_few_held_out_labels_share_a_test():
    random = np.random.default_rng(0)
    true = np.where(random.random((3000, 30)) < 0.5, 1, -1).astype(np.int8)
    scores = (3 * true + random.normal(0, 1.5, true.shape)).astype(np.float32)
    labels = np.where(random.random(true.shape) < 0.02, true, 0).astype(np.int8)
    table = LabelTable.from_dense([str(i) for i in range(3000)], [f"c{c}" for c in range(30)], labels)
    made, report = complete(table, scores, table, scores, precision=0.95)
    assert [test["class"] for test in report["present"]["tests"]] == [None]
    assert report["classes"][0]["present"]["by"] == "pool"
    new = (labels == 0) & (made.dense() == 1)
    assert new.sum() > 10_000
    assert (true[new] == 1).mean() >= 0.95
    assert report["present"]["tests"][0]["design_effect"] == pytest.approx(1, abs=0.3)


def test_a_class_whose_known_labels_are_chosen_stays_unknown_and_is_named():
    _, scores, table = world(1)
    labels = table.dense()
    labels[(scores[:, 0] < 1), 0] = 0  # only asked where the score was high
    table = LabelTable.from_dense(table.images, CLASSES, labels)
    _, report = complete(table, scores, table, scores)
    assert not report["classes"][0]["like_a_random_sample"]
    assert "differ" in report["classes"][0]["present"]["reason"]
    assert "often" in report["warnings"][0]
    assert report["classes"][1]["absent"]["filled"] > 0


def test_only_labels_of_a_random_sample_count():
    _, scores, table = world(2)
    asked = LabelTable.from_dense(table.images, CLASSES, table.dense(), origin="asked")
    with pytest.raises(UserError, match="none was given, or asked at random"):
        complete(table, scores, asked, scores)
    sampled = LabelTable.from_dense(table.images, CLASSES, table.dense(), origin="sampled")
    assert complete(table, scores, sampled, scores)[1]["present"]["filled"] > 0


def test_mistakes():
    _, scores, table = world(3, images=50)
    with pytest.raises(UserError, match="precision lies between"):
        complete(table, scores, table, scores, precision=1.0)
    with pytest.raises(UserError, match="confidence lies between"):
        complete(table, scores, table, scores, confidence=0.3)
    with pytest.raises(UserError, match="none known as absent was given"):
        complete(table, scores, table.hide(table.values > 0), scores)
    with pytest.raises(UserError, match="other classes"):
        complete(table, scores, table.select_classes(CLASSES[:2]), scores)


def test_labels_are_put_aside_class_by_class():
    _, _, table = world(4, images=300)
    kept, held = hold_out(table, 0.25, 0)
    assert kept.num_known + held.num_known == table.num_known
    assert (kept.merge(held).dense() == table.dense()).all()
    known = np.add(*table.class_counts())
    np.testing.assert_array_equal(np.add(*held.class_counts()), np.floor(0.25 * known + 0.5))
    assert (hold_out(table, 0.25, 0)[1].dense() == held.dense()).all()
    assert (hold_out(table, 0.25, 1)[1].dense() != held.dense()).any()
    with pytest.raises(UserError, match="between 0 and 1"):
        hold_out(table, 1.0, 0)
    with pytest.raises(UserError, match="enough labels"):
        hold_out(table.hide(table.pair_images() == -1), 0.5, 0)


@pytest.fixture
def trained(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    truth = make_pictures(tmp_path / "pictures", 60)
    labels = truth.hide(np.random.default_rng(0).random(truth.num_known) < 0.8)
    kept, held = hold_out(labels, 0.5, 0)
    train(kept, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config(optim__epochs=1), validation=held)
    return labels


@pytest.mark.slow
def test_a_run_is_completed_by_command_in_every_format(trained, tmp_path, capsys, monkeypatch):

    # the tiny network has learned nothing; scores of the truth stand in for it, and a low bar for the few labels
    monkeypatch.setattr(risk_control, "compare", lambda *arguments: (0.0, 1.0, True))
    truth = make_pictures(tmp_path / "again", 60).dense()
    monkeypatch.setattr(
        sys.modules["partlabel.tasks.scoring"],
        "scored",
        lambda model, paths: Scores.of(3 * truth[[int(p.stem) for p in paths]].astype(np.float32)),
    )
    words = ["complete", str(tmp_path / "run"), "--images", str(tmp_path / "pictures"), "--precision", "0.6"]
    assert main([*words, "-o", str(tmp_path / "full.parquet"), "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert done["held_out"] == "labels"
    assert done["present"]["filled"] > 0
    assert json.loads((tmp_path / "run" / "completion.json").read_text())["present"] == done["present"]
    made = LabelTable.read_parquet(tmp_path / "full.parquet")
    assert made.num_known == trained.num_known + done["present"]["filled"] + done["absent"]["filled"]
    row = made.image_index(trained.images)
    assert (made.dense(row)[trained.dense() != 0] == trained.dense()[trained.dense() != 0]).all()
    turned = trained.select_classes(trained.classes[::-1])
    turned.write_parquet(tmp_path / "turned.parquet")
    other = [words[0], words[1], str(tmp_path / "turned.parquet"), *words[2:], "-o", str(tmp_path / "turned.parquet")]
    assert main(other) == 0
    after = LabelTable.read_parquet(tmp_path / "turned.parquet")
    assert after.classes == turned.classes
    assert (after.dense(after.image_index(made.images))[:, ::-1] == made.dense()).all()
    for name, entry in formats.FORMATS.items():
        if entry.write:
            target = tmp_path / f"written.{name}"
            assert main([*words, "-o", str(target), "--format", name]) == 0, name
            assert target.exists()
    assert "filled in as present" in capsys.readouterr().out


@pytest.mark.slow
def test_mistakes_of_a_run(trained, tmp_path, capsys):
    pictures, run = tmp_path / "pictures", tmp_path / "run"
    train(trained, pictures, out=tmp_path / "seen", config=tiny_config(optim__epochs=1, validation=0.3))
    held = (tmp_path / "seen" / "validation.parquet").read_bytes()  # as if its labels had been trained on
    (tmp_path / "seen" / "labels.parquet").write_bytes(held)
    with pytest.raises(UserError, match="validation labels were trained on too"):
        complete_run(tmp_path / "seen", pictures)
    train(trained, pictures, out=tmp_path / "none", config=tiny_config(optim__epochs=1))
    with pytest.raises(UserError, match="without a validation part"):
        complete_run(tmp_path / "none", pictures)
    with pytest.raises(UserError, match="lacks 1 of the 3 classes"):
        complete_run(run, pictures, trained.select_classes(trained.classes[:2]))
    guesses = tiny_config(optim__epochs=1, assume_absent=True, validation=0.5)
    train(trained, pictures, out=tmp_path / "guesses", config=guesses)
    own = LabelTable.read_parquet(tmp_path / "guesses" / "labels.parquet")
    with pytest.raises(UserError, match="trained on guesses"):
        complete_run(tmp_path / "guesses", pictures, own)
    words = ["complete", str(run), "--images", str(pictures)]
    assert main([*words, "-o", str(tmp_path / "x.xml"), "--format", "cvat"]) == 2
    assert "cannot be written; these can: csv" in capsys.readouterr().err
    assert main([*words, "-o", str(tmp_path / "absent" / "x.parquet")]) == 2
    assert main([*words, "-o", str(tmp_path / "x.parquet"), "--precision", "95"]) == 2
    assert "between 0.5 and 1, both excluded, not 95; 95 % is 0.95" in capsys.readouterr().err
    assert not (tmp_path / "x.parquet").exists()


def test_labels_are_put_aside_by_command(tmp_path, capsys):
    _, _, table = world(5, images=100)
    table.write_parquet(tmp_path / "all.parquet")
    words = ["labels", "hold-out", str(tmp_path / "all.parquet"), "-o", str(tmp_path / "train.parquet")]
    assert main([*words, "--held-out", str(tmp_path / "held.parquet"), "--share", "0.5", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert done["kept"] + done["put_aside"] == table.num_known
    assert LabelTable.read_parquet(tmp_path / "held.parquet").num_known == done["put_aside"]
    assert main([*words, "--held-out", str(tmp_path / "held.parquet"), "--share", "20"]) == 2


@pytest.mark.parametrize("fails", [0, 1])
def test_both_tables_of_a_hold_out_are_of_one_draw(tmp_path, monkeypatch, capsys, fails):
    """A disk that refuses one of them leaves no table beside one of another draw."""
    _, _, table = world(5, images=100)
    table.write_parquet(tmp_path / "all.parquet")
    paths = [tmp_path / "train.parquet", tmp_path / "held.parquet"]
    words = ["labels", "hold-out", str(tmp_path / "all.parquet"), "-o", str(paths[0]), "--held-out", str(paths[1])]
    assert main([*words, "--seed", "0"]) == 0
    old = [path.read_bytes() for path in paths]
    rename, moved = os.replace, []

    def move(source, target):
        if Path(target) in paths:
            if len(moved) == fails:
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(source))
            moved.append(target)
        rename(source, target)

    monkeypatch.setattr(os, "replace", move)
    assert main([*words, "--seed", "1"]) == 2
    assert "cannot be written" in capsys.readouterr().err
    if fails:
        assert paths[0].read_bytes() != old[0]
        assert not paths[1].exists()
    else:
        assert [path.read_bytes() for path in paths] == old
