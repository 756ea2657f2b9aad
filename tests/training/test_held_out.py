import numpy as np
import pytest

from partlabel.core.errors import UserError
from partlabel.models.model import Model
from partlabel.tasks.predict import score
from partlabel.training.folder import write_scores
from partlabel.training.loop import train
from partlabel.training.run import Run
from tests.pictures import make_pictures, tiny_config


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
