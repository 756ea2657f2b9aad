import numpy as np
import pytest

from partlabel.core.errors import UserError
from partlabel.models.model import Model
from partlabel.tasks.predict import predict
from partlabel.training import held_out
from partlabel.training.loop import train
from tests.pictures import make_pictures, tiny_config


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))


def test_scores_are_those_of_the_best_model(tmp_path):
    table = make_pictures(tmp_path / "pictures", 20)
    run = tmp_path / "run"
    train(tiny_config(validation=0.4, optim__epochs=4), table, tmp_path / "pictures", run)
    found = held_out.read(run)
    assert found.table.num_images == 8
    pictures = [tmp_path / "pictures" / name for name in found.table.images.to_pylist()]
    np.testing.assert_allclose(found.scores, predict(Model.load(run, which="best"), pictures), rtol=1e-4, atol=1e-5)


def test_runs_without_a_validation_part_and_damaged_files(tmp_path):
    table = make_pictures(tmp_path / "pictures", 12)
    train(tiny_config(optim__epochs=1), table, tmp_path / "pictures", tmp_path / "run")
    with pytest.raises(UserError, match="without a validation part"):
        held_out.read(tmp_path / "run")
    with pytest.raises(UserError, match="not a run folder"):
        held_out.read(tmp_path)
    train(tiny_config(validation=0.5, optim__epochs=1), table, tmp_path / "pictures", tmp_path / "other")
    scores = tmp_path / "other" / "validation_scores.parquet"
    scores.write_bytes(scores.read_bytes()[:-20])
    with pytest.raises(UserError, match="damaged"):
        held_out.read(tmp_path / "other")
    held_out.write_scores(tmp_path / "other", table.classes, np.zeros((3, 3), np.float32))
    with pytest.raises(UserError, match="does not belong"):
        held_out.read(tmp_path / "other")


def test_labels_of_a_model_are_no_truth(tmp_path):
    """All validation labels are wrong ones of a model but one class: only that class is measured."""
    table = make_pictures(tmp_path / "pictures", 12)
    people = table.hide(table.indices == 0)
    image, cls = np.nonzero(people.dense() == 0)
    weak = people.with_labels(
        image, cls, -table.dense()[image, cls], origin="model", score=np.zeros(len(image)), round=1
    )
    rows = {}
    for name, labels in (("people", people), ("weak", weak)):
        config = tiny_config(optim__epochs=1)
        summary = train(config, people, tmp_path / "pictures", tmp_path / name, validation=labels)
        rows[name] = summary["last"]["validation"]
    assert rows["weak"] == rows["people"]
