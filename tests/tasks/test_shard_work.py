"""Shards predicted by processes that come and go: every image once, the same scores, and nothing else left behind."""

import importlib.util
import json
import shutil
import tarfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from partlabel import LabelTable
from partlabel.app.cli import main
from partlabel.core.errors import UserError
from partlabel.core.lease import Leases
from partlabel.models.model import Model
from partlabel.models.score_files import ScoreFile
from partlabel.models.scores import read_scores
from partlabel.tasks import shard_work
from partlabel.tasks.engines import predict_shards
from partlabel.tasks.evaluate import estimate, evaluate
from partlabel.tasks.next_labels import ask
from partlabel.tasks.predict import score, scorer
from partlabel.tasks.prediction_files import Keep
from partlabel.training.config import ModelConfig
from tests.pictures import CLASSES, make_pictures
from tests.processes import Started


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model in a folder, 25 images, and their labels."""
    folder = tmp_path_factory.mktemp("shards")
    torch.manual_seed(0)
    Model(ModelConfig(backbone="test_resnet", weights="none"), CLASSES, 32).save(folder / "model")
    return folder, make_pictures(folder / "photos", 25)


def union(folder: Path):
    files = [ScoreFile(path) for path in sorted(folder.glob("part-*.parquet"))]
    return [name for file in files for name in file.column("image").to_pylist()], read_scores(files).dense()


def test_shards_are_one_prediction_and_are_not_done_twice(made, tmp_path):
    folder, table = made
    done = predict_shards(folder / "model", folder / "photos", tmp_path / "out", size=10)
    assert (done.shards, done.images) == (3, 25)
    names, scores = union(tmp_path / "out")
    assert names == table.images.to_pylist()
    model = Model.load(folder / "model")
    np.testing.assert_allclose(scores, score(model, [folder / "photos" / name for name in names]), atol=1e-6)
    (tmp_path / "out" / "part-000001.parquet").unlink()
    assert predict_shards(folder / "model", folder / "photos", tmp_path / "out", size=10).shards == 1
    np.testing.assert_array_equal(union(tmp_path / "out")[1], scores)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "manifest.parquet",
        *(f"part-00000{i}.parquet" for i in range(3)),
    ]
    with pytest.raises(UserError, match="another keep"):
        predict_shards(folder / "model", folder / "photos", tmp_path / "out", keep=Keep(2))
    with pytest.raises(UserError, match="another source"):
        predict_shards(folder / "model", folder, tmp_path / "out")


def test_images_that_cannot_be_read(made, tmp_path):
    folder, table = made
    names = [str(folder / "photos" / name) for name in table.images.to_pylist()[:5]]
    (tmp_path / "bad.png").write_bytes(b"no image")
    names.insert(2, str(tmp_path / "bad.png"))
    with pytest.raises(UserError, match="1 images of shard 0") as caught:
        predict_shards(folder / "model", ".", tmp_path / "out", names=names)
    assert "bad.png" in caught.value.offenders[0]
    assert [path.name for path in (tmp_path / "out").iterdir() if not path.name.startswith(".")] == ["manifest.parquet"]
    done = predict_shards(folder / "model", ".", tmp_path / "left", names=names, on_bad="skip")
    assert (done.images, len(done.left_out)) == (5, 1)


def test_the_best_classes_and_those_that_are_present(made, tmp_path):
    folder, _ = made
    model = Model.load(folder / "model")
    scores = score(model, [folder / "photos" / "000.png"])[0]
    order = np.argsort(-scores)
    for limit, expected in ((1e9, order[:1]), (float(scores[order[1]]), order[:2])):
        model.thresholds = (limit,) * 3
        predict_shards(model, folder / "photos", tmp_path / f"{limit}", keep=Keep(1))
        row = pq.read_table(tmp_path / f"{limit}" / "part-000000.parquet").to_pylist()[0]
        assert row["class"] == [CLASSES[c] for c in expected]
        np.testing.assert_allclose(row["score"], scores[expected], rtol=1e-6)
        assert row["present"] == [limit < 1e9] * len(expected)


def test_a_shard_that_others_did_while_this_process_stood_still(made, tmp_path, monkeypatch):
    """They remove what it had begun to write; it goes on, finds the shard done, and ends well."""
    folder, _ = made
    predict_shards(folder / "model", folder / "photos", tmp_path / "done", size=25)

    @contextmanager
    def overtaken(model, device=None):
        with scorer(model, device) as (on, score):

            def late(pixels):
                shutil.copy(tmp_path / "done" / "part-000000.parquet", tmp_path / "out")
                for path in (tmp_path / "out").glob(".part-*.tmp"):
                    path.unlink()
                return score(pixels)

            yield on, late

    monkeypatch.setattr(shard_work, "scorer", overtaken)
    assert predict_shards(folder / "model", folder / "photos", tmp_path / "out", size=25).shards == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["manifest.parquet", "part-000000.parquet"]


def test_other_tasks_take_the_scores_instead_of_the_images(made, tmp_path):
    folder, table = made
    table = LabelTable.from_dense(table.images, CLASSES, np.where(np.arange(75).reshape(25, 3) % 4, table.dense(), 0))
    predict_shards(folder / "model", folder / "photos", tmp_path / "out", size=10)
    model = Model.load(folder / "model")
    of_images = evaluate(model, table, images=folder / "photos")
    assert evaluate(model, table, scores=tmp_path / "out").to_dict() == of_images.to_dict()
    assert estimate(model, table, scores=tmp_path / "out")[0].to_dict() == of_images.to_dict()
    asked = [ask(model, table, *where)[0] for where in ((folder / "photos", 9), (None, 9, None, 0, tmp_path / "out"))]
    np.testing.assert_array_equal(asked[0].image, asked[1].image)
    with pytest.raises(UserError, match="either the folder of the images"):
        evaluate(model, table)
    with pytest.raises(UserError, match="no scores lie there"):
        evaluate(model, table, scores=tmp_path)
    sheet = [name.upper() if row % 2 else name[:-4] for row, name in enumerate(table.images.to_pylist())]
    written = LabelTable.from_dense(sheet, CLASSES, table.dense())
    assert evaluate(model, written, scores=tmp_path / "out").to_dict() == of_images.to_dict()
    other = LabelTable.from_dense(["000.png", "gone.png"], CLASSES, [[1, 0, 0], [1, -1, 0]])
    with pytest.raises(UserError, match="1 of 2 images have no scores there"):
        evaluate(model, other, scores=tmp_path / "out")
    with torch.no_grad():
        next(model.head.parameters()).add_(1)
    with pytest.raises(UserError, match="of another model"):
        evaluate(model, table, scores=tmp_path / "out")


def test_the_command_predicts_tar_files_in_shards(made, tmp_path, capsys):
    folder, _ = made
    with tarfile.open(tmp_path / "photos.tar", "w") as tar:
        tar.add(folder / "photos", ".")
    output = str(tmp_path / "out")
    assert main(["predict", str(folder / "model"), str(tmp_path / "photos.tar"), "-o", output, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["shards"], said["pictures"]) == (1, 25)
    assert main(["predict", str(folder / "model"), str(folder / "photos"), "-o", output, "--top", "1"]) == 2
    assert "another keep and source" in capsys.readouterr().err
    assert main(["predict", str(folder / "model"), str(folder / "photos"), "-o", f"{output}.csv", "--top", "1"]) == 0
    rows = Path(f"{output}.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) >= 26


def predict_slowly(model, photos, out, seconds):
    """Predict shards of two images; each is named, and takes longer than it would."""
    one = shard_work.Work.one

    def slow(self, shard, *rest):
        print(shard, flush=True)
        time.sleep(seconds)
        one(self, shard, *rest)

    shard_work.Work.one = slow
    print(predict_shards(model, photos, out, size=2).images)


@pytest.mark.slow
@pytest.mark.linux
def test_processes_share_the_work_and_a_killed_one_leaves_nothing(made, tmp_path):
    folder, table = made
    words = (folder / "model", folder / "photos", tmp_path / "out")
    victim = Started(predict_slowly, (*words, 600.0), tmp_path / "victim")
    while not (tmp_path / "victim.out").exists() or not (held := (tmp_path / "victim.out").read_text().strip()):
        assert victim.poll() is None
        time.sleep(0.05)
    victim.kill()
    victim.communicate()
    assert (tmp_path / "out" / ".leases" / held).exists()
    both = [Started(predict_slowly, (*words, 0.1), tmp_path / f"both{number}") for number in range(2)]
    counts = [int(own.communicate(timeout=600)[0].splitlines()[-1]) for own in both]
    assert sum(counts) == 25
    names, _ = union(tmp_path / "out")
    assert names == table.images.to_pylist()
    assert not [path for path in (tmp_path / "out").iterdir() if path.suffix != ".parquet"]


def test_nobody_waits_for_a_manifest_that_its_maker_could_not_write(made, tmp_path, monkeypatch):
    folder, _ = made
    waited, done = threading.Event(), []
    monkeypatch.setattr(shard_work, "time", SimpleNamespace(sleep=lambda seconds: (waited.set(), time.sleep(0.01))))

    def predict():
        done.append(predict_shards(folder / "model", folder / "photos", tmp_path / "out", size=10).images)

    other = threading.Thread(target=predict, daemon=True)
    with Leases(tmp_path / "out" / ".leases").holding("manifest.parquet"):
        other.start()
        assert waited.wait(300)
    other.join(300)
    assert done == [25]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")
def test_ray_does_the_same(made, tmp_path):
    folder, _ = made
    predict_shards(folder / "model", folder / "photos", tmp_path / "plain", size=10)
    done = predict_shards(folder / "model", folder / "photos", tmp_path / "ray", size=10, engine="ray")
    assert (done.shards, done.images) == (3, 25)
    np.testing.assert_array_equal(union(tmp_path / "ray")[1], union(tmp_path / "plain")[1])


def test_an_upload_that_fails_leaves_the_shard_to_be_done(made, tmp_path, monkeypatch):
    """What a bucket does is not the disk's: a file appears when it is closed, or not at all."""
    folder, _ = made
    plain, failed = shard_work.write_whole, []

    def failing(target, write):
        if target.path.endswith("part-000001.parquet") and not failed:
            failed.append(target)
            raise UserError(f"{target.text}: cannot be written (the network is gone)")
        plain(target, write)

    monkeypatch.setattr(shard_work, "write_whole", failing)
    with pytest.raises(UserError, match="the network is gone"):
        predict_shards(folder / "model", folder / "photos", tmp_path / "out", size=10)
    predict_shards(folder / "model", folder / "photos", tmp_path / "out", size=10)
    assert len(union(tmp_path / "out")[0]) == 25
