"""Scores that tasks share: computed once, found again by content, never stale, and kept when a pass is killed."""

import errno
import gc
import os
import tempfile

import numpy as np
import pytest
import torch

from partlabel.core.errors import UserError
from partlabel.models.model import Model
from partlabel.tasks import scoring
from partlabel.tasks.predict import score
from partlabel.training.config import ModelConfig
from tests.pictures import make_pictures


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model(ModelConfig(backbone="test_resnet", weights="none"), ["red", "green", "blue"], 32).eval()


@pytest.fixture
def paths(tmp_path, monkeypatch):
    """Twenty images, a cache of their own, and stores of three images a file."""
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(scoring, "FEW", 2)
    monkeypatch.setattr(scoring, "IN_FILE", 3)
    make_pictures(tmp_path / "photos", 20)
    return sorted((tmp_path / "photos").iterdir())


@pytest.fixture
def counted(monkeypatch):
    """The images that were scored."""
    seen, plain = [], scoring.score_batches

    def batches(model, paths, **options):
        for rows, values in plain(model, paths, **options):
            seen.extend(paths[i].name for i in rows)
            yield rows, values

    monkeypatch.setattr(scoring, "score_batches", batches)
    return seen


def test_nothing_is_scored_twice(model, paths, counted, tmp_path):
    expected = score(model, paths, workers=0)
    np.testing.assert_allclose(scoring.scored(model, paths, workers=0).dense(), expected, atol=1e-6)
    assert len(counted) == 20
    other = tmp_path / "moved"
    other.mkdir()
    for path in paths[::2]:
        os.link(path, other / f"x{path.name}")
    again = [other / f"x{path.name}" for path in paths[::2]] + paths[1::2] + paths[:1]
    found = scoring.scored(model, again, workers=0)
    np.testing.assert_array_equal(found.dense()[-1], found.dense()[0])
    np.testing.assert_allclose(found.dense(), expected[[*range(0, 20, 2), *range(1, 20, 2), 0]], atol=1e-6)
    assert len(counted) == 20


def test_an_image_that_was_exchanged_and_another_model_are_scored_anew(model, paths, counted):
    before = scoring.scored(model, paths, workers=0).dense()
    facts = paths[3].stat()
    paths[3].write_bytes(paths[4].read_bytes())
    os.utime(paths[3], ns=(facts.st_atime_ns, facts.st_mtime_ns))
    after = scoring.scored(model, paths, workers=0).dense()
    np.testing.assert_array_equal(after[3], before[4])  # known by its content
    assert len(counted) == 20
    model.thresholds = (1.0, 2.0, 3.0)  # decisions are not scores
    scoring.scored(model, paths, workers=0)
    assert len(counted) == 20
    with torch.no_grad():
        next(model.head.parameters()).add_(1)
    scoring.scored(model, paths, workers=0)
    assert len(counted) == 39  # two images hold the same now


def test_a_pass_that_is_stopped_loses_at_most_one_file(model, paths, counted, monkeypatch):
    plain = scoring.score_batches

    def stopped(model, paths, **options):
        for rows, values in plain(model, paths, **options):
            if rows[0] >= 12:
                raise KeyboardInterrupt
            yield rows, values

    with monkeypatch.context() as now:
        now.setattr(scoring, "score_batches", stopped)
        with pytest.raises(KeyboardInterrupt):
            scoring.scored(model, paths, workers=0)
    assert not list((paths[0].parents[1] / "cache").rglob("*.tmp"))
    counted.clear()
    scoring.scored(model, paths, workers=0)
    assert len(counted) == 8


def test_a_damaged_file_is_made_anew(model, paths, counted, tmp_path):
    scoring.scored(model, paths, workers=0)
    damaged = sorted((tmp_path / "cache").rglob("*.parquet"))[0]
    damaged.write_bytes(damaged.read_bytes()[:100])
    counted.clear()
    assert scoring.scored(model, paths, workers=0).shape == (20, 3)
    assert 2 <= len(counted) <= 3


def test_a_file_that_cannot_be_opened_at_this_moment_is_kept(model, paths, counted, tmp_path, monkeypatch):
    scoring.scored(model, paths, workers=0)
    files = sorted((tmp_path / "cache").rglob("*.parquet"))
    counted.clear()

    def refused(path):
        try:
            raise OSError(errno.EMFILE, "Too many open files")
        except OSError as error:
            raise UserError(f"{path}: is no whole file") from error

    with monkeypatch.context() as patch:
        patch.setattr(scoring, "ScoreFile", refused)
        assert scoring._stored(files[0].parent, np.zeros(1, "S32"))[1] == []
    assert all(file.is_file() for file in files)
    scoring.scored(model, paths, workers=0)
    assert not counted


def test_bad_images_are_all_named_and_an_image_that_changes_meanwhile_is_refused(model, paths, monkeypatch):
    plain = scoring.score_batches

    def changing(model, paths, **options):
        paths[1].write_bytes(paths[2].read_bytes())
        yield from plain(model, paths, **options)

    with monkeypatch.context() as now:
        now.setattr(scoring, "score_batches", changing)
        with pytest.raises(UserError, match="changed while they were scored"):
            scoring.scored(model, paths, workers=0)
    for path in paths[5:7]:
        path.write_bytes(b"no image")
    with pytest.raises(UserError, match="2 of") as caught:
        scoring.scored(model, paths, workers=0)
    assert len(caught.value.offenders) == 2


def test_scores_of_models_that_were_not_used_for_long_are_removed(model, paths, monkeypatch, tmp_path):
    scoring.scored(model, paths, workers=0)
    old = next((tmp_path / "cache" / "scores").glob("*/"))
    os.utime(old, (0, 0))
    monkeypatch.setattr(scoring, "LIMIT", 100)
    with torch.no_grad():
        next(model.head.parameters()).add_(1)
    scoring.scored(model, paths, workers=0)
    assert not old.exists()


@pytest.mark.parametrize("place", ["file", "/proc/partlabel"])
def test_without_a_cache_folder_it_goes_on_and_says_so(model, paths, counted, tmp_path, monkeypatch, capsys, place):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / place))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    expected = score(model, paths, workers=0)
    for _ in range(2):
        found = scoring.scored(model, paths, workers=0)
        np.testing.assert_allclose(found.take(np.arange(5, 9)).dense(), expected[5:9], atol=1e-6)
    assert len(counted) == 40
    assert capsys.readouterr().err.count("scores cannot be kept") == 2
    others = found.take(np.arange(5, 9))
    (folder,) = (tmp_path / "temporary").iterdir()  # that of the first ones went with them
    del found
    gc.collect()
    assert folder.is_dir()
    del others
    gc.collect()
    assert not folder.exists()
