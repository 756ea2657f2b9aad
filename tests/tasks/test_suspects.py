"""Known labels that are contradicted: by given probabilities, by folds, in a run and on the command line."""

import csv
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from partlabel import LabelTable
from partlabel.app.cli import main
from partlabel.core.errors import UserError
from partlabel.tasks.suspects import (
    check_table,
    find_suspects,
    write_suspects,
)
from partlabel.training.folds import FOLDS, calibrated, out_of_fold
from partlabel.training.loop import train
from tests.formats.cases import case
from tests.pictures import make_pictures, tiny_config
from tests.reference import suspects as reference


def table_of(labels, **more):
    labels = np.asarray(labels, np.int8)
    classes = [f"c{c}" for c in range(labels.shape[1])]
    return LabelTable.from_dense([f"{i}.png" for i in range(len(labels))], classes, labels, **more)


def separable(count=60, seed=0):
    """Features of which column c tells class c, and labels with two thirds known."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(np.array([-1, 1], np.int8), (count, 2))
    features = truth * 2.0 + rng.normal(0, 0.3, (count, 2))
    return features, truth, truth * (rng.random((count, 2)) < 0.67)


def test_qc_01(tmp_path):
    folder, expected = case("QC-01")
    matrices = []
    for name in ("labels.csv", "probs.csv"):
        with open(folder / name, encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        matrices.append(np.array([row[1:] for row in rows], float))
    table = LabelTable.from_dense([row[0] for row in rows], header[1:], matrices[0].astype(np.int8))
    found = find_suspects(table, matrices[1])
    assert [table.classes[c] for c in found.not_checked] == expected["not_checked"]
    write_suspects(tmp_path / "suspects.csv", table, found)
    with open(tmp_path / "suspects.csv", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["image", "class", "label", "probability", "wrong"]
    assert [[i, c, int(y), float(p)] for i, c, y, p, _ in rows] == expected["suspects"]


def test_numbers_by_hand():
    table = table_of([[1, -1], [-1, 1], [1, 0], [-1, -1]])
    found = find_suspects(table, np.array([[0.2, 0.9], [0.5, 0.5], [0.1, 1.0], [0.8, 0.6]]))
    # doubts: 0.8 of (0, c0), 0.9 of (0, c1) and (2, c0), 0.8 of (3, c0), 0.6 of (3, c1); 0.5 contradicts nothing
    assert list(zip(found.image, found.cls, strict=True)) == [(0, 1), (2, 0), (0, 0), (3, 0), (3, 1)]
    assert found.label.tolist() == [-1, 1, 1, -1, -1]
    assert found.checked == 7


@settings(max_examples=50)
@given(st.data())
def test_only_known_labels_and_as_the_loop_says(data):
    shape = data.draw(st.tuples(st.integers(1, 8), st.integers(1, 4)))
    labels = data.draw(arrays.arrays(np.int8, shape, elements=st.sampled_from([-1, 0, 1])))
    # multiples of 1/8: doubts are exact, so that ties are ties
    p = data.draw(arrays.arrays(np.float64, shape, elements=st.integers(0, 8).map(lambda k: k / 8)))
    found = find_suspects(table_of(labels), p)
    rows, not_checked = reference.suspects(labels.tolist(), p.tolist())
    assert list(zip(found.image, found.cls, found.label, found.probability, strict=True)) == rows
    assert list(found.not_checked) == not_checked
    assert all(labels[found.image, found.cls])
    p[labels == 0] = np.nan
    again = find_suspects(table_of(labels), p)
    np.testing.assert_array_equal(again.image, found.image)


def test_wrong_probabilities_are_named():
    table = table_of([[1], [-1]])
    with pytest.raises(UserError, match="2 probabilities") as error:
        find_suspects(table, np.array([[np.nan], [1.5]]))
    assert error.value.offenders == ["0.png, c0: nan", "1.png, c0: 1.5"]
    with pytest.raises(UserError, match="expected"):
        find_suspects(table, np.zeros((1, 2)))


def test_flipped_labels_come_first_and_a_class_without_enough_is_not_checked():
    features, _, labels = separable()
    rows = [np.flatnonzero(labels[:, 0])[3], np.flatnonzero(labels[:, 0])[20]]
    labels[rows, 0] *= -1
    third = np.zeros((len(labels), 1), np.int8)
    third[:4] = [[1], [1], [-1], [-1]]
    found = check_table(features, table_of(np.hstack([labels, third])))
    assert set(zip(found.image[:2], found.cls[:2], strict=True)) == {(rows[0], 0), (rows[1], 0)}
    assert found.not_checked == (2,)
    assert found.checked == np.count_nonzero(labels)


def test_a_label_is_not_judged_by_a_head_that_has_seen_it():
    """Each image has a feature of its own, which would let a head remember any label that it saw."""
    rng = np.random.default_rng(1)
    labels = rng.choice(np.array([-1, 1], np.int8), (50, 1))
    scores = out_of_fold(np.eye(50) * 10, table_of(labels)).dense()
    assert ((scores > 0) == (labels > 0)).mean() < 0.8


def test_groups_stay_together_and_signs_are_spread(monkeypatch):
    features, _, labels = separable(80)
    groups = [f"g{i // 2}" for i in range(80)]
    table = table_of(labels, groups=groups)
    seen = []

    def watched(self, *arguments, _split=LabelTable.split):
        seen.append(_split(self, *arguments))
        return seen[-1]

    monkeypatch.setattr(LabelTable, "split", watched)
    out_of_fold(features, table, seed=3)
    (parts,) = seen
    assert len(parts) == FOLDS
    fold = np.empty(80, int)
    for number, part in enumerate(parts):
        fold[part] = number
        for sign in (1, -1):
            share = (labels[part] == sign).sum(0) / (labels == sign).sum(0)
            assert (share > 0.1).all(), "a fifth each, give or take a group"
            assert (share < 0.35).all()
    assert (fold[::2] == fold[1::2]).all()


def test_a_class_whose_labels_are_all_in_one_group_is_not_checked():
    features, _, labels = separable(40)
    labels[:, 0] = 0
    labels[:12, 0] = [1, -1] * 6
    table = table_of(labels, groups=["one"] * 12 + [f"g{i}" for i in range(28)])
    assert check_table(features, table).not_checked == (0,)


def test_seeds():
    features, _, labels = separable()
    table = table_of(labels)
    first, again, other = (out_of_fold(features, table, seed=seed).dense() for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_doubts_are_calibrated():
    """Scores twice as large, or shifted in one class, make the same suspects."""
    rng = np.random.default_rng(0)
    labels = rng.choice(np.array([-1, 0, 1], np.int8), (300, 2))
    scores = (labels + rng.normal(0, 1.5, labels.shape)).astype(np.float32)
    table = table_of(labels)
    p = calibrated(scores, table)
    known = labels[:, 0] != 0
    assert abs(p[known, 0].mean() - (labels[known, 0] > 0).mean()) < 0.02
    np.testing.assert_allclose(calibrated(scores * 2 + [0, 1], table), p, atol=0.03)
    scores[:, 1] = np.nan
    assert np.isnan(calibrated(scores, table)).all(0).tolist() == [False, True]
    assert np.isnan(calibrated(scores * np.nan, table)).all()


@pytest.fixture
def trained(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    table = make_pictures(tmp_path / "pictures", 40)
    table.write_parquet(tmp_path / "labels.parquet")

    def run(name, **changes):
        train(table, tmp_path / "pictures", out=tmp_path / name, config=tiny_config(optim__epochs=1, **changes))
        return tmp_path / name

    return run


def words(run, *more):
    folder = run.parent
    return ["suspects", str(run), *more, "--images", str(folder / "pictures"), "-o", str(folder / "s.csv"), "--json"]


@pytest.mark.slow
@pytest.mark.parametrize("freeze", ["all", "none"])
@pytest.mark.parametrize("pooling", ["average", "weldon"])
def test_command(trained, capsys, tmp_path, freeze, pooling):
    run = trained("run", freeze=freeze, model__pooling=pooling, validation=0.25)
    stored = len(list((tmp_path / "cache").glob("*.npy")))
    capsys.readouterr()
    assert main(words(run, str(tmp_path / "labels.parquet"))) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["checked"] == 120
    assert result["not_checked"] == []
    assert result["backbone_has_seen"] is (freeze == "none")
    rows = (tmp_path / "s.csv").read_text().splitlines()
    assert len(rows) == len(result["suspects"]) + 1
    if freeze == "all":
        assert len(list((tmp_path / "cache").glob("*.npy"))) == stored, "the stored features of the run are used"
    assert main(words(run)) == 0, "labels of the run, training and validation part"
    assert json.loads(capsys.readouterr().out)["checked"] == 120


def test_model_labels_are_not_checked(trained, capsys, tmp_path):
    run = trained("run", freeze="all")
    table = LabelTable.read_parquet(tmp_path / "labels.parquet")
    half = table.hide(table.pair_images() < 30)
    image, cls = np.nonzero(half.dense() == 0)
    filled = half.with_labels(
        image, cls, np.ones(len(image), np.int8), origin="model", score=np.ones(len(image)), round=1
    )
    filled.write_parquet(tmp_path / "filled.parquet")
    capsys.readouterr()
    assert main(words(run, str(tmp_path / "filled.parquet"))) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["checked"] == 90
    assert all(int(row["image"][:3]) < 30 for row in result["suspects"])


def test_mistakes(trained, capsys, tmp_path):
    run = trained("run")
    capsys.readouterr()
    assert main(["suspects", str(tmp_path), "--images", str(tmp_path), "-o", str(tmp_path / "s.csv")]) == 2
    assert "not a run folder" in capsys.readouterr().err
    assert main(["suspects", str(run), "--images", str(tmp_path), "-o", str(tmp_path / "s.txt")]) == 2
    assert "written as .csv" in capsys.readouterr().err
    table_of([[1], [-1]]).write_parquet(tmp_path / "other.parquet")
    assert main(words(run, str(tmp_path / "other.parquet"))) == 2
    assert "c0" in capsys.readouterr().err
    few = LabelTable.read_parquet(tmp_path / "labels.parquet").select(slice(0, 3))
    few.write_parquet(tmp_path / "few.parquet")
    assert main(words(run, str(tmp_path / "few.parquet"))) == 2
    assert "3 images cannot be split into 5 parts" in capsys.readouterr().err
    assert not (tmp_path / "s.csv").exists()
