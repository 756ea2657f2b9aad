"""Thresholds per class: the real-world case, hand-written numbers, naive loops, and what a run gets from them."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel import LabelTable
from partlabel.app.cli import main
from partlabel.core.errors import UserError
from partlabel.metrics.calibration import sigmoid
from partlabel.metrics.expected import expected_labels
from partlabel.metrics.thresholds import calibrate, choose, cross_validate, cuts, fit_thresholds
from partlabel.models.model import Model
from partlabel.training.config import Config, ModelConfig
from partlabel.training.folder import create_folder, write_history, write_scores
from partlabel.training.thresholds import fit_run
from tests.formats.cases import case
from tests.reference import thresholds as naive

CLASSES = ("common", "rare", "never")


def matrix(path) -> tuple[list[str], np.ndarray]:
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    return rows[0][1:], np.array([row[1:] for row in rows[1:]], float)


def test_case_thr_01():
    folder, expected = case("THR-01")
    classes, scores = matrix(folder / "scores.csv")
    labels = matrix(folder / "labels.csv")[1].astype(np.int8)
    found = fit_thresholds(scores, labels, tuple(classes), calibration=calibrate(scores, labels))
    for name in ("cat", "dog"):
        c = classes.index(name)
        low, high = (float(text.split()[-1]) for text in expected[name]["threshold_in"])
        assert low < found.values[c] <= high
        assert found.at_default.f1[c] == expected[name]["F1_at_0"]
        assert found.after.f1[c] == expected[name]["best_F1"]
    assert (found.sources[2], found.values[2]) == ("default", 0)
    assert expected["car"] == "default kept, no known positive"


def test_choices_by_hand():
    """Scores 4, 3, 3, 2, 1 with present, absent, present, present, absent; the two of score 3 cannot be told apart."""
    x, y = np.array([1.0, 3, 4, 3, 2]), np.array([0.0, 1, 1, 0, 1])
    found = cuts(x, y, 1 - y)
    assert found.score.tolist() == [4, 3, 2, 1]
    assert found.hits.tolist() == [1, 2, 3, 3]
    assert found.alarms.tolist() == [0, 1, 1, 2]
    assert choose(found, "f1") == (1.5, True)  # F1 2/4, 4/6, 6/7, 6/8
    assert choose(found, "precision", 0.9) == (3.5, True)
    assert choose(found, "precision", 0.75) == (1.5, True)
    assert choose(found, "recall", 0.5) == (2.5, True)
    assert choose(found, "recall", 1.0) == (1.5, True)


def test_a_precision_out_of_reach_gives_the_highest_and_says_so():
    x = np.array([3.0, 2, 1])
    assert choose(cuts(x, np.array([0.0, 1, 0]), np.array([1.0, 0, 1])), "precision", 0.9) == (1.5, False)


def test_the_lowest_score_is_a_threshold_too():
    assert choose(cuts(np.array([-2.0, -1]), np.array([1.0, 1]), np.zeros(2)), "f1") == (-2.0, True)


def test_neighbouring_floats_stay_apart():
    high = np.float32(1)
    low = np.nextafter(high, np.float32(0))
    limit, _ = choose(cuts(np.array([high, low]), np.array([1.0, 0]), np.array([0.0, 1])), "f1")
    assert np.float32(low) < np.float32(limit) <= high


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(-4, 4), st.booleans()), min_size=1, max_size=12).filter(
        lambda pairs: any(y for _, y in pairs)
    ),
    st.sampled_from([0.3, 0.5, 0.8, 1.0]),
)
def test_choices_are_those_of_the_loops(pairs, wanted):
    x = [float(x) for x, _ in pairs]
    y, n = [float(y) for _, y in pairs], [float(not y) for _, y in pairs]
    found = cuts(np.array(x), np.array(y), np.array(n))
    assert naive.f1(x, y, n, choose(found, "f1")[0]) == pytest.approx(naive.best_f1(x, y, n))
    limit, reached = choose(found, "precision", wanted)
    best = naive.best_recall(x, y, n, wanted)
    assert reached == (best is not None)
    if best is not None:
        hits, alarms = naive.counts(x, y, n, limit)
        assert hits / (hits + alarms) >= wanted
        assert hits / sum(y) == pytest.approx(best)
    limit, _ = choose(found, "recall", wanted)
    assert naive.counts(x, y, n, limit)[0] / sum(y) >= wanted
    assert sum(v >= limit for v in x) == naive.fewest_present(x, y, n, wanted)


def sample(images=600, known=0.3, seed=0):
    """Scores and labels: class 0 common, class 1 rare, class 2 never present; P = sigmoid(x + 2)."""
    rng = np.random.default_rng(seed)
    scores = rng.normal([-2, -6, -9], 1.5, (images, 3)).astype(np.float32)
    truth = np.where(rng.random(scores.shape) < sigmoid(scores.astype(float) + 2), 1, -1).astype(np.int8)
    truth[:, 2] = -1
    labels = np.where(rng.random(scores.shape) < known, truth, 0).astype(np.int8)
    labels[:3, 1] = [1, 1, -1]
    scores[:2, 1] = [-2, -3]
    return scores, labels, truth


def test_each_class_says_where_its_threshold_came_from():
    scores, labels, _ = sample()
    labels[3:, 1] = np.minimum(labels[3:, 1], 0)  # two present ones are too few to say anything of the unknown ones
    calibration = calibrate(scores, labels)
    found = fit_thresholds(scores, labels, CLASSES, calibration=calibration)
    assert found.sources == ("all", "calibrated", "default")
    assert calibration is not None
    likely = expected_labels(scores, labels)[:, 0]
    x, y, n = scores[:, 0].tolist(), likely.tolist(), (1 - likely).tolist()
    assert naive.f1(x, y, n, float(found.values[0])) == pytest.approx(naive.best_f1(x, y, n))
    p = calibration.of(1, scores[:, 1])
    expected = naive.best_f1(scores[:, 1].tolist(), p.tolist(), (1 - p).tolist())
    limit = float(found.values[1])
    assert naive.f1(scores[:, 1].tolist(), p.tolist(), (1 - p).tolist(), limit) == pytest.approx(expected)
    assert fit_thresholds(scores, labels, CLASSES).sources == ("all", "default", "default")


def test_where_all_labels_are_known_they_alone_count():
    scores, labels, truth = sample()
    labels[:, 0] = truth[:, 0]
    found = fit_thresholds(scores, labels, CLASSES)
    assert found.sources[0] == "own"
    x, y = scores[:, 0].tolist(), (labels[:, 0] > 0).astype(float).tolist()
    assert found.after.f1[0] == pytest.approx(naive.best_f1(x, y, [1 - v for v in y]))


def test_cross_validation_is_less_flattering_and_close_to_the_truth():
    scores, labels, truth = sample(2000)
    chosen = fit_thresholds(scores, labels, CLASSES, calibration=calibrate(scores, labels))
    crossed, calibrated = cross_validate(scores, labels, CLASSES)
    assert crossed.present.tolist() == chosen.after.present.tolist()
    assert crossed.f1[0] <= chosen.after.f1[0]
    right = truth[:, 0] == np.where(scores[:, 0] >= chosen.values[0], 1, -1)
    known = labels[:, 0] != 0
    wrong = crossed.false_positive[0] + crossed.false_negative[0]
    assert 1 - wrong / known.sum() == pytest.approx(right.mean(), abs=0.05)
    assert calibrated is not None
    assert calibrated.error < 0.03


@pytest.mark.parametrize(
    ("goal", "wanted"), [("precision", None), ("precision", 0.0), ("recall", 1.1), ("recall", np.nan), ("f1", 0.5)]
)
def test_goals_that_make_no_sense(goal, wanted):
    with pytest.raises(UserError):
        fit_thresholds(*sample()[:2], CLASSES, goal, wanted)


@pytest.fixture
def run(tmp_path):
    """A run folder with a model of three classes and its held-out labels, some of them asked for."""
    scores, labels, _ = sample()
    images = [f"{i}.jpg" for i in range(len(scores))]
    table = LabelTable.from_dense(images, CLASSES, labels)
    unknown = np.argwhere(labels == 0)[:5]
    table = table.with_labels(unknown[:, 0], unknown[:, 1], np.ones(5, np.int8), origin="asked")
    create_folder(tmp_path, {"config": Config().to_dict()})
    write_history(tmp_path, [])
    table.write_parquet(tmp_path / "labels.parquet")
    table.write_parquet(tmp_path / "validation.parquet")
    write_scores(tmp_path, CLASSES, scores)
    torch.manual_seed(0)
    Model(ModelConfig(backbone="test_resnet", weights="none"), CLASSES, 32).save(tmp_path / "best")
    return tmp_path


def test_a_run_keeps_thresholds_and_calibration_in_its_model(run):
    weights = (run / "best" / "model.safetensors").read_bytes()
    fitted = fit_run(run, "precision", 0.8)
    model = Model.load(run)
    assert model.thresholds == tuple(fitted.thresholds.values.tolist())
    assert model.threshold_sources == fitted.thresholds.sources
    assert model.threshold_goal == "precision at least 0.8"
    assert model.calibration == fitted.calibration
    assert fitted.left_out == 5
    assert (run / "best" / "model.safetensors").read_bytes() == weights
    stored = json.loads((run / "thresholds.json").read_text())
    assert [row["source"] for row in stored["classes"]] == list(model.threshold_sources)
    assert stored["classes"][2]["f1_at_default"] is None
    x = np.array([[-2.0, -6, -9]])
    assert fitted.calibration is not None
    assert np.allclose(model.probabilities(x), fitted.calibration.probabilities(x))
    model.save(run / "again")
    assert Model.load(run / "again").describe() == model.describe()


def test_choosing_again_says_what_was_there_before(run):
    first = fit_run(run)
    second = fit_run(run, "recall", 0.9)
    assert second.before.tolist() == first.thresholds.values.tolist()
    assert second.thresholds.after.recall[0] >= 0.9


def test_labels_of_one_sign_leave_the_plain_sigmoid(run):
    table = LabelTable.read_parquet(run / "validation.parquet")
    table.hide(table.values < 0).write_parquet(run / "validation.parquet")
    fitted = fit_run(run)
    assert fitted.calibration is None
    assert set(fitted.thresholds.sources) == {"default"}
    assert Model.load(run).probabilities(np.zeros((1, 3))).tolist() == [[0.5] * 3]


def test_nothing_known_is_no_failure(run):
    table = LabelTable.read_parquet(run / "validation.parquet")
    table.hide(np.zeros(table.num_known, bool)).write_parquet(run / "validation.parquet")
    fitted = fit_run(run)
    assert fitted.thresholds.values.tolist() == [0, 0, 0]


def test_what_cannot_be_measured_is_a_dash_and_names_stay_as_they_are(run, capsys):
    names, scores = ("banana", "nan", "x"), sample()[0]
    nothing = LabelTable.from_dense([f"{i}.jpg" for i in range(len(scores))], names, np.zeros(scores.shape, np.int8))
    nothing.write_parquet(run / "validation.parquet")
    write_scores(run, names, scores)
    Model(ModelConfig(backbone="test_resnet", weights="none"), names, 32).save(run / "best")
    assert main(["thresholds", str(run), "--by", "f1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == list(names)
    assert all(line.split()[-2:] == ["-", "-"] for line in lines[1:4])
    assert "cross-validated" not in "\n".join(lines)


def test_damaged_decisions_are_one_error(run):
    path = run / "best" / "model.toml"
    fit_run(run)
    text = path.read_text()
    changed = text.replace("slope = [", "slope = [1.0,")
    path.write_text(changed)
    with pytest.raises(UserError, match="does not fit its checksum"):
        Model.load(run)
    path.write_text(re.sub("checksum = .*\n", "", changed))  # as an earlier version wrote it
    with pytest.raises(UserError, match=r"model\.toml: is damaged \(not all its lists are of 3 classes\)"):
        Model.load(run)
    path.unlink()
    with pytest.raises(UserError, match="holds no model"):
        fit_run(run)


def test_the_command_says_what_changed(run, capsys):
    assert main(["thresholds", str(run), "--by", "f1"]) == 0
    text = capsys.readouterr().out
    assert "thresholds by best F1; 2 of 3 changed" in text
    assert "1 default (score 0, as no held-out label is known present" in text
    assert "5 held-out labels did not count" in text
    assert "| common |" in (run / "best" / "MODEL_CARD.md").read_text()
    assert main(["thresholds", str(run), "--precision", "1.0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["goal"], found["wanted"]) == ("precision", 1.0)
    assert found["classes"][0]["precision"] == 1.0 or not found["classes"][0]["reached"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give one of"),
        (["--by", "f1", "--recall", "0.5"], "give one of"),
        (["--precision", "90"], "above 0 and at most 1, found 90"),
        (["--recall", "0"], "above 0 and at most 1, found 0"),
        (["--by", "accuracy"], "accuracy"),
    ],
)
def test_the_command_refuses_what_makes_no_sense(run, capsys, words, said):
    before = (run / "best" / "model.toml").read_bytes()
    assert main(["thresholds", str(run), *words]) == 2
    assert said in capsys.readouterr().err
    assert (run / "best" / "model.toml").read_bytes() == before


def test_the_command_needs_held_out_labels(run, capsys):
    (run / "validation.parquet").unlink()
    assert main(["thresholds", str(run), "--by", "f1"]) == 2
    assert "without a validation part" in capsys.readouterr().err
