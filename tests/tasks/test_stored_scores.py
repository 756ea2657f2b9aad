"""Relabelling, suspects and thresholds by scores in shards: what is that of the images, and what is refused."""

import json
import os
import shutil
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pytest

from partlabel import LabelTable, Run, relabel, simulate, suspects, thresholds, train
from partlabel.app.cli import main
from partlabel.core.errors import UserError
from partlabel.images.shards import Place
from partlabel.labels.holdout import shared_pairs
from partlabel.models.scores import Scores
from partlabel.tasks import scoring
from partlabel.tasks.engines import predict_shards
from partlabel.tasks.prediction_files import Keep
from partlabel.tasks.scoring import scores_of
from partlabel.tasks.suspects import _check, check_table
from partlabel.training import columns, curriculum
from partlabel.training.config import RelabelConfig
from partlabel.training.thresholds import fit_run
from tests.pictures import make_pictures, tiny_config


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run that was trained on half of the labels of 60 images and validated on some, and its scores in shards."""
    folder = tmp_path_factory.mktemp("stored")
    whole = make_pictures(folder / "photos", 60)
    table = simulate.partial(whole, 0.5, seed=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PARTLABEL_CACHE", str(folder / "cache"))
        config = tiny_config(optim__epochs=2, validation=0.4, model__dropout=0.2)
        train(table, folder / "photos", out=folder / "run", config=config)
    predict_shards(folder / "run", folder / "photos", folder / "scores", size=13)
    return folder, table, whole


@pytest.mark.parametrize(
    ("strategy", "theta"),
    [("score-threshold", 0.05), ("score-proportion", 0.3), ("class-adaptive", 0.5), ("all-at-once", None)],
)
def test_relabelling_is_that_of_the_images(made, strategy, theta, monkeypatch):
    folder, table, whole = made
    options = {"strategy": strategy, "theta": theta, "truth": whole}
    of_images = relabel(folder / "run", table, images=folder / "photos", **options)
    stored = relabel(folder / "run", table, scores=folder / "scores", **options)
    assert stored.labels.num_known > table.num_known
    np.testing.assert_array_equal(stored.labels.dense(), of_images.labels.dense())
    assert stored.report == of_images.report
    monkeypatch.setattr(curriculum, "_AT_ONCE", 3 * 16)  # 16 images at a time
    monkeypatch.setattr(curriculum, "_TOGETHER", 2)
    few = relabel(folder / "run", table, scores=folder / "scores", **options)
    added = few.labels.num_known - table.num_known
    if strategy == "score-proportion":  # other mini-batches, rounded down each
        assert abs(added - (stored.labels.num_known - table.num_known)) <= 4
    else:
        np.testing.assert_array_equal(few.labels.dense(), stored.labels.dense())


def test_what_scores_are_not_enough_for(made):
    folder, table, _ = made
    with pytest.raises(UserError, match="many times over each image"):
        relabel(folder / "run", table, scores=folder / "scores", strategy="uncertainty")
    with pytest.raises(UserError, match="those of one model"):
        relabel(folder / "run", table, scores=folder / "scores", also=[folder / "run"])
    with pytest.raises(UserError, match="either the folder of the images"):
        relabel(folder / "run", table)
    with pytest.raises(UserError, match="either the folder of the images"):
        suspects(folder / "run", table)


def test_thresholds_by_scores_in_shards(made, capsys):
    folder, _, _ = made
    held = Run(folder / "run").held_out
    stored = scores_of(Run(folder / "run").model, held.table.images, None, folder / "scores")
    np.testing.assert_allclose(stored.dense(), held.scores, atol=1e-5)
    found = fit_run(folder / "run", scores=Scores.of(held.scores))
    assert main(["thresholds", str(folder / "run"), "--by", "f1", "--scores", str(folder / "scores"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    np.testing.assert_allclose([row["threshold"] for row in said["classes"]], found.thresholds.values, atol=1e-5)
    assert [row["source"] for row in said["classes"]] == list(found.thresholds.sources)
    assert thresholds(folder / "run").thresholds.sources == found.thresholds.sources


def test_suspects_among_labels_that_are_new_to_the_run(made, capsys):
    folder, _, whole = made
    words = ["suspects", str(folder / "run"), "--scores", str(folder / "scores"), "-o", str(folder / "s.csv"), "--json"]
    assert main(words) == 0, "the validation part"
    validation = Run(folder / "run").validation
    assert validation is not None
    enough = np.minimum(*validation.class_counts()) >= 5
    said = json.loads(capsys.readouterr().out)
    assert said["checked"] == np.add(*validation.class_counts())[enough].sum() > 0
    assert len(said["not_checked"]) == np.count_nonzero(~enough)
    whole.write_parquet(folder / "new.parquet")
    assert main([*words[:2], str(folder / "new.parquet"), *words[2:]]) == 0
    trained = Run(folder / "run").labels
    new = whole.hide(~shared_pairs(trained, whole))
    enough = np.minimum(*new.class_counts()) >= 5
    assert json.loads(capsys.readouterr().out)["checked"] == np.add(*new.class_counts())[enough].sum() > 0
    trained.write_parquet(folder / "trained.parquet")
    assert main([*words[:2], str(folder / "trained.parquet"), *words[2:]]) == 2
    assert "prove nothing" in capsys.readouterr().err


def test_wrong_labels_are_found_by_scores_at_hand():
    random = np.random.default_rng(0)
    truth = np.where(random.random((400, 3)) < 0.3, 1, -1).astype(np.int8)
    scores = (3 * truth + random.normal(0, 1, truth.shape)).astype(np.float32)
    labels = truth.copy()
    wrong = random.choice(400, 12, replace=False)
    labels[wrong, 1] *= -1
    table = LabelTable.from_dense([f"{i}" for i in range(400)], "abc", labels)
    found = _check(table, scores.ravel())
    assert set(found.image[:12]) == set(wrong)
    assert (found.cls[:12] == 1).all()
    assert found.wrong is not None
    assert 6 < found.wrong.sum() < 15


def test_many_classes_are_checked_some_at_a_time(monkeypatch):
    random = np.random.default_rng(0)
    features = random.normal(size=(200, 12))
    labels = np.sign(features @ random.normal(size=(12, 20)) + random.normal(0, 0.3, (200, 20))).astype(np.int8)
    wrong = random.choice(200, 10, replace=False)
    labels[wrong, 7] *= -1
    labels[random.random(labels.shape) < 0.2] = 0
    table = LabelTable.from_dense([f"{i}" for i in range(200)], [f"c{i}" for i in range(20)], labels)
    whole = check_table(features, table)
    monkeypatch.setattr(columns, "_PAIRS", 200 * 9)
    parts = check_table(features, table)
    assert (parts.checked, parts.not_checked) == (whole.checked, whole.not_checked)
    flipped, among = {(i, 7) for i in wrong.tolist() if labels[i, 7]}, []
    for found in (whole, parts):
        first = zip(found.image[:60].tolist(), found.cls[:60].tolist(), strict=True)
        among.append(len(flipped & set(first)))
    assert abs(among[0] - among[1]) <= 1
    assert among[1] >= len(flipped) / 2


def test_images_of_a_folder_of_their_own(made):
    """In a run, validation images in their own folder are called after it; in their scores they are not."""
    folder, table, _ = made
    model = Run(folder / "run").model
    names = pa.array([f"held/{name}" for name in table.images.to_pylist()[:20]])
    found = scores_of(model, names, None, folder / "scores", ("held", folder / "photos"))
    bare = scores_of(model, table.images[:20], None, folder / "scores")
    np.testing.assert_array_equal(found.dense(), bare.dense())
    with pytest.raises(UserError, match="20 of 20 images have no scores there"):
        scores_of(model, names, None, folder / "scores")
    with pytest.raises(UserError, match="20 of 20 images have no scores there"):  # images of another folder, same names
        scores_of(model, names, None, folder / "scores", ("held", folder / "elsewhere"))


def test_scores_that_are_not_all_there(made, tmp_path):
    """A shard that is missing, one of another model, one of the best classes only: refused, never taken as 0."""
    folder, table, _ = made
    model = Run(folder / "run").model
    shutil.copytree(folder / "scores", tmp_path / "scores")
    (tmp_path / "scores" / "part-000003.parquet").unlink()
    with pytest.raises(UserError, match=r"13 of 60 images have no scores there; 1 of 5 shards are missing"):
        scores_of(model, table.images, None, tmp_path / "scores")
    predict_shards(folder / "run", folder / "photos", tmp_path / "best", size=13, keep=Keep(1))
    with pytest.raises(UserError, match="holds the scores of some classes of each image"):
        scores_of(model, table.images, None, tmp_path / "best")


def test_scores_in_a_bucket_are_copied_once(made, tmp_path, monkeypatch):
    folder, table, _ = made
    shutil.copytree(folder / "scores", tmp_path / "bucket" / "scores")
    files = pyarrow.fs.SubTreeFileSystem(str(tmp_path / "bucket"), pyarrow.fs.LocalFileSystem())
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(scoring.Place, "of", lambda given: Place(files, "scores", given))
    copied, copy = [], pyarrow.fs.copy_files

    def counted(source, *more):
        copied.append(source)
        copy(source, *more)

    monkeypatch.setattr(pyarrow.fs, "copy_files", counted)
    model = Run(folder / "run").model
    expected = scores_of(model, table.images, None, "s3://bucket/scores").dense()
    assert len(copied) == 6
    np.testing.assert_array_equal(scores_of(model, table.images, None, "s3://bucket/scores").dense(), expected)
    assert len(copied) == 6
    os.utime(tmp_path / "bucket" / "scores" / "part-000001.parquet", (1, 1))
    (tmp_path / "bucket" / "scores" / "part-000004.parquet").unlink()
    with pytest.raises(UserError, match=r"s3://bucket/scores: 8 of 60 images have no scores there; 1 of 5"):
        scores_of(model, table.images, None, "s3://bucket/scores")
    assert copied[6:] == ["scores/part-000001.parquet"]

    def refused(*_):
        raise OSError("AWS Error NETWORK_CONNECTION")

    os.utime(tmp_path / "bucket" / "scores" / "part-000001.parquet", (2, 2))
    monkeypatch.setattr(pyarrow.fs, "copy_files", refused)
    with pytest.raises(
        UserError, match=r"s3://bucket/scores/part-000001.parquet: cannot be read \(the service refuses"
    ):
        scores_of(model, table.images, None, "s3://bucket/scores")


def test_a_strategy_by_class_over_several_processes_gathers_some_batches_at_a_time(monkeypatch):
    """Two processes, one after the other: what each gathers is replayed, as many times as the other."""
    from tests.training.test_curriculum import SCORES, TABLE, Fixed, Rows

    config = RelabelConfig(strategy="class-adaptive", theta=0.5)
    batches = [np.array([i]) for i in (2, 0, 3)]
    monkeypatch.setattr(curriculum, "_SENT", 1)
    alone = curriculum.choose([(Fixed(), Rows(SCORES))], TABLE, batches, config)
    sent: list[list] = [[], []]

    def record(rank):
        def gather(own):
            sent[rank].append(own)
            return [own]

        return gather

    for rank in range(2):
        with suppress(UserError):  # alone, one of them has too few labels
            curriculum.choose(
                [(Fixed(), Rows(SCORES))], TABLE, batches, config, rank=rank, world=2, gather=record(rank)
            )
    assert len(sent[0]) == len(sent[1])
    replay = iter(zip(*sent, strict=True))
    options = {"rank": 0, "world": 2, "gather": lambda own: list(next(replay))}
    together = curriculum.choose([(Fixed(), Rows(SCORES))], TABLE, batches, config, **options)
    for name in vars(alone):
        np.testing.assert_array_equal(getattr(together, name), getattr(alone, name))
