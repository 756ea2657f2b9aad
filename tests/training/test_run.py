import subprocess
import sys

import numpy as np
import pytest

from partlabel import simulate
from partlabel.core.errors import UserError
from partlabel.models.model import Model
from partlabel.tasks.predict import score
from partlabel.training.folder import write_scores
from partlabel.training.loop import train
from partlabel.training.run import Run
from tests.pictures import CLASSES, make_pictures, tiny_config


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))


def test_scores_are_those_of_the_best_model(tmp_path):
    table = make_pictures(tmp_path / "pictures", 20)
    run = tmp_path / "run"
    train(table, tmp_path / "pictures", out=run, config=tiny_config(validation=0.4, optim__epochs=4))
    found = Run(run).held_out
    assert found.table.num_images == 8
    pictures = [tmp_path / "pictures" / name for name in found.table.images.to_pylist()]
    np.testing.assert_allclose(found.scores, score(Model.load(run, which="best"), pictures), rtol=1e-4, atol=1e-5)


def test_runs_without_a_validation_part_and_damaged_files(tmp_path):
    table = make_pictures(tmp_path / "pictures", 12)
    train(table, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config(optim__epochs=1))
    with pytest.raises(UserError, match="without a validation part"):
        _ = Run(tmp_path / "run").held_out
    with pytest.raises(UserError, match="not a run folder"):
        Run(tmp_path)
    train(table, tmp_path / "pictures", out=tmp_path / "other", config=tiny_config(validation=0.5, optim__epochs=1))
    scores = tmp_path / "other" / "validation_scores.parquet"
    scores.write_bytes(scores.read_bytes()[:-20])
    with pytest.raises(UserError, match="damaged"):
        _ = Run(tmp_path / "other").held_out
    write_scores(tmp_path / "other", table.classes, np.zeros((3, 3), np.float32))
    with pytest.raises(UserError, match="does not belong"):
        _ = Run(tmp_path / "other").held_out


def test_labels_of_a_model_are_no_truth(tmp_path):
    """All validation labels are wrong ones of a model but one class: only that class is measured."""
    table = make_pictures(tmp_path / "pictures", 12)
    trained, part = table.select(np.arange(6)), table.select(np.arange(6, 12))
    people = part.hide(part.indices == 0)
    image, cls = np.nonzero(people.dense() == 0)
    weak = people.with_labels(
        image, cls, -part.dense()[image, cls], origin="model", score=np.zeros(len(image)), round=1
    )
    rows = {}
    for name, labels in (("people", people), ("weak", weak)):
        config = tiny_config(optim__epochs=1)
        summary = train(trained, tmp_path / "pictures", out=tmp_path / name, config=config, validation=labels).summary
        rows[name] = summary["last"]["validation"]
    assert rows["weak"] == rows["people"]


def test_a_run_reads_all_of_its_folder(tmp_path):
    table = make_pictures(tmp_path / "pictures", 20)
    config = tiny_config(validation=0.4, relabel__before=[2], relabel__strategy="all-at-once")
    known = simulate.partial(table, 0.67, 0)
    made = train(known, tmp_path / "pictures", out=tmp_path / "run", config=config)
    run = Run(tmp_path / "run")
    assert (run.name, run.config, run.is_finished, run.is_validated) == ("run", config, True, True)
    assert run.validation is not None
    assert run.labels.num_images + run.validation.num_images == 20
    assert run.all_labels.num_known == known.num_known
    assert run.relabelled is not None
    assert run.relabelled.num_known > run.labels.num_known
    assert [row["epoch"] for row in run.epochs] == [1, 2]
    assert [row["before_epoch"] for row in run.rounds] == [2]
    assert "classes" in run.rounds[0]
    assert run.summary == made.summary
    assert run.summary["best_epoch"] in (1, 2)
    assert run.metrics.class_names == CLASSES
    assert run.model.classes == CLASSES
    assert run.load_model("last").thresholds != ()
    assert run.description()["classes"] == list(CLASSES)
    assert run.thresholds["goal"] == "f1"
    assert Run(str(run.folder) + "/").name == "run"


def test_a_run_that_has_just_begun_says_what_is_missing(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    run = Run(tmp_path / "run", "mine")
    assert (run.name, run.history, run.rounds, run.thresholds, run.is_finished) == ("mine", [], [], {}, False)
    for part, said in (
        ("config", "config.toml"),
        ("labels", "labels.parquet"),
        ("summary", "not finished"),
        ("held_out", "without a validation part"),
        ("model", "holds no model"),
        ("metrics", "without a validation part"),
    ):
        with pytest.raises(UserError, match=said):
            getattr(run, part)
    (tmp_path / "run" / "metrics.jsonl").write_text('{"epoch": 1}\nnonsense\n')
    with pytest.raises(UserError, match="damaged") as caught:
        _ = Run(tmp_path / "run").history
    assert "metrics.jsonl:2" in caught.value.offenders[0]


def test_reading_a_run_loads_no_torch():
    code = "import sys, partlabel.training.run; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
