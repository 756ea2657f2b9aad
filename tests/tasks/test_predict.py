import csv
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from partlabel import LabelTable
from partlabel.core.errors import UserError
from partlabel.images import load
from partlabel.metrics.calibration import Calibration
from partlabel.models.model import Model
from partlabel.tasks.evaluate import evaluate
from partlabel.tasks.predict import predictions, score
from partlabel.training.config import ModelConfig
from tests.pictures import make_pictures


@pytest.fixture
def model():
    torch.manual_seed(0)
    config = ModelConfig(backbone="test_resnet", weights="none")
    return Model(config, ["red, dark", "green"], 32, thresholds=(0.1, -1.0)).eval()


def test_scores_are_the_models_one_by_one_for_any_number_of_workers(model, tmp_path):
    make_pictures(tmp_path, 70)
    paths = sorted(tmp_path.glob("*.png"))
    with torch.no_grad():
        expected = torch.cat([model(load(path, 32)[None]) for path in paths]).numpy()
    assert np.allclose(score(model, paths, workers=0), expected, atol=1e-5)
    assert np.array_equal(score(model, paths, workers=2), score(model, paths, workers=0))
    assert score(model, []).shape == (0, 2)


def test_mode_is_put_back(model, tmp_path):
    make_pictures(tmp_path, 1)
    model.train()
    score(model, list(tmp_path.glob("*.png")))
    assert model.training


def test_all_bad_pictures_of_a_batch_are_named(model, tmp_path):
    make_pictures(tmp_path, 3)
    for name in ("000.png", "002.png"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(UserError) as caught:
        score(model, sorted(tmp_path.glob("*.png")))
    assert len(caught.value.offenders) == 2


SCORES = np.array([[0.1, -2.0], [0.0, 3.0]], np.float32)


def test_csv_by_hand(model, tmp_path):
    predictions(model, ["a,1.jpg", "b.jpg"], SCORES).write(tmp_path / "p.csv")
    with open(tmp_path / "p.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(r["image"], r["class"], r["present"]) for r in rows] == [
        ("a,1.jpg", "red, dark", "1"),
        ("a,1.jpg", "green", "0"),
        ("b.jpg", "red, dark", "0"),
        ("b.jpg", "green", "1"),
    ]
    assert [float(r["score"]) for r in rows] == pytest.approx(SCORES.ravel().tolist())
    assert [float(r["probability"]) for r in rows] == pytest.approx([0.524979, 0.119203, 0.5, 0.952574])


def test_parquet_by_hand(model, tmp_path):
    predictions(model, ["a.jpg", "b.jpg"], SCORES).write(tmp_path / "p.parquet")
    table = pq.read_table(tmp_path / "p.parquet")
    assert json.loads(table.schema.metadata[b"classes"]) == ["red, dark", "green"]
    assert table["image"].to_pylist() == ["a.jpg", "b.jpg"]
    assert table["present"].to_pylist() == [[True, False], [False, True]]
    assert np.allclose(table["score"].to_pylist(), SCORES)


def test_other_endings_are_refused(model, tmp_path):
    with pytest.raises(UserError, match=r"\.xlsx or \.parquet"):
        predictions(model, ["a"], SCORES[:1]).write(tmp_path / "p.json")
    assert not list(tmp_path.iterdir())


def test_measure_uses_the_classes_of_the_table_and_the_thresholds_of_the_model(model, tmp_path):
    make_pictures(tmp_path, 6)
    names = [f"{i:03}.png" for i in range(6)]
    scores = score(model, [tmp_path / name for name in names])[:, 1]
    model.thresholds = (0.0, float(np.sort(scores)[2]))
    labels = np.where(np.argsort(np.argsort(scores)) >= 3, 1, -1).astype(np.int8)[:, None]
    labels[0] = 0
    measured = evaluate(model, LabelTable.from_dense(names, ["green"], labels), images=tmp_path)
    assert measured.class_names == ("green",)
    assert measured.mean_ap == 1.0
    wrong = 0 if scores[0] == np.sort(scores)[2] else 1  # the threshold takes in one absent image
    assert int(measured.false_positive.sum()) == wrong
    with pytest.raises(UserError, match="does not know 1"):
        evaluate(model, LabelTable.from_dense(names, ["blue"], labels), images=tmp_path)


def test_far_scores_give_no_warning(model, tmp_path, recwarn):
    predictions(model, ["a"], np.array([[-1e4, 1e4]], np.float32)).write(tmp_path / "p.csv")
    assert not recwarn
    assert "-10000,0,0" in (tmp_path / "p.csv").read_text()


def test_probabilities_are_calibrated_and_decisions_are_not_by_them(model, tmp_path):
    """Scores 0.1, -2, 0, 3 with slopes 2 and 1, offsets 0 and 1; the thresholds stay those on scores."""
    model.calibration = Calibration((2.0, 1.0), (0.0, 1.0))
    predictions(model, ["a.jpg", "b.jpg"], SCORES).write(tmp_path / "p.parquet")
    table = pq.read_table(tmp_path / "p.parquet")
    expected = [[0.549834, 0.268941], [0.5, 0.982014]]
    assert np.allclose(table["probability"].to_pylist(), expected, atol=1e-6)
    assert table["present"].to_pylist() == [[True, False], [False, True]]
