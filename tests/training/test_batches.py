import threading
import time

import numpy as np
import pytest
import torch

from partlabel.core.errors import UserError
from partlabel.models.model import Model
from partlabel.training.batches import Files, Stored, open_source
from partlabel.training.config import ModelConfig
from tests.pictures import make_pictures


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model(ModelConfig(backbone="test_resnet", weights="none"), ["a", "b", "c"], 32).eval()


@pytest.fixture
def paths(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    make_pictures(tmp_path / "pictures", 7)
    return sorted((tmp_path / "pictures").iterdir())


def open_(model, stage, paths, flip=True, **changes):
    return open_source(model, stage, paths, flip=flip, workers=0, max_pixels=10**6, **changes)


ROWS = [np.array([4, 1]), np.array([6])]
FLIPS = [np.array([True, False]), np.array([True])]


@pytest.mark.parametrize("flips", [None, FLIPS])
def test_stored_pixels_equal_decoded_files(model, paths, flips):
    stored = list(open_(model, 0, paths).batches(ROWS, flips))
    files = open_(model, 0, paths, store=False)
    assert isinstance(files, Files)
    decoded = list(files.batches(ROWS, flips))
    assert [len(x) for x in stored] == [2, 1]
    assert all(torch.equal(a, b) for a, b in zip(stored, decoded, strict=True))
    if flips is not None:
        plain = list(open_(model, 0, paths).batches(ROWS, None))
        assert torch.equal(stored[0][0], plain[0][0].flip(2))
        assert torch.equal(stored[0][1], plain[0][1])


@pytest.mark.parametrize("stage", [1, 3, 5])
def test_stored_features_are_those_of_the_picture_and_its_mirror_image(model, paths, stage):
    source = open_(model, stage, paths)
    assert isinstance(source, Stored)
    assert source.array.dtype == np.float16
    pixels = list(open_(model, 0, paths).batches(ROWS, FLIPS))
    with torch.no_grad():
        for got, picture in zip(source.batches(ROWS, FLIPS), pixels, strict=True):
            assert torch.allclose(got, model.features(picture, stage), atol=2e-3, rtol=2e-3)


def test_average_pooling_stores_one_vector(paths):
    model = Model(ModelConfig(backbone="test_resnet", weights="none", pooling="average"), ["a"], 64).eval()
    assert open_(model, 5, paths).array.shape == (7, 2, model.backbone.channels, 1, 1)
    assert open_(model, 4, paths, flip=False).array.shape[-2:] == (4, 4)


def test_key_holds_weights_preprocessing_and_file_contents(model, paths, tmp_path):
    def files():
        return len(list((tmp_path / "cache").glob("*.npy")))

    open_(model, 5, paths)
    open_(model, 5, paths)
    assert files() == 1
    renamed = paths[0].rename(paths[0].with_name("renamed.png"))
    open_(model, 5, [renamed, *paths[1:]])
    assert files() == 1, "a new name is not a new image"
    open_(model, 4, [renamed, *paths[1:]])
    open_(model, 5, [renamed, *paths[1:]], flip=False)
    assert files() == 3
    with torch.no_grad():
        model.backbone.net.layer1[0].conv1.weight[0, 0, 0, 0] += 1
    open_(model, 5, [renamed, *paths[1:]])
    assert files() == 4
    renamed.write_bytes(paths[1].read_bytes())
    open_(model, 5, [renamed, *paths[1:]])
    assert files() == 5


def test_killed_while_filling_goes_on(model, tmp_path, monkeypatch):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("partlabel.training.batches.inference_batch", lambda device: 2)
    monkeypatch.setattr("partlabel.training.batches._NOTED", 32)
    make_pictures(tmp_path / "pictures", 40)
    paths = sorted((tmp_path / "pictures").iterdir())

    def kill(done, total):
        if done >= 34:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_(model, 5, paths, progress=kill)
    assert not list((tmp_path / "cache").glob("*.npy"))
    seen = []
    resumed = open_(model, 5, paths, progress=lambda done, total: seen.append(done))
    assert seen[0] == 34, "32 images were stored"
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "other"))
    assert np.array_equal(resumed.array, open_(model, 5, paths).array)
    assert sorted(p.suffix for p in (tmp_path / "cache").iterdir()) == [".lock", ".npy"]


def test_full_disk_is_one_sentence_or_no_cache_of_pixels(model, paths, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10})())
    with pytest.raises(UserError, match="set PARTLABEL_CACHE"):
        open_(model, 5, paths)
    assert isinstance(open_(model, 0, paths), Files)


def test_two_runs_fill_one_cache(model, tmp_path, monkeypatch):
    """The second waits for the first instead of writing into its file."""
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    make_pictures(tmp_path / "pictures", 20)
    paths = sorted((tmp_path / "pictures").iterdir())
    monkeypatch.setattr("partlabel.training.batches.inference_batch", lambda device: 2)
    inside, filled, second = threading.Event(), [], []

    def slow(done, total):
        filled.append(done)
        inside.set()
        time.sleep(0.02)

    other = threading.Thread(
        target=lambda: second.append(open_(model, 5, paths, progress=lambda d, t: filled.append(0)))
    )
    first = threading.Thread(target=lambda: second.append(open_(model, 5, paths, progress=slow)))
    first.start()
    inside.wait(30)
    other.start()
    first.join()
    other.join()
    assert filled == list(range(2, 21, 2)), "filled once"
    assert np.array_equal(second[0].array, second[1].array)
    assert np.abs(second[0].array).reshape(20, -1).sum(1).all()


def test_count_of_a_file_that_is_gone_is_not_trusted(model, paths, tmp_path):
    whole = open_(model, 5, paths)
    path = next((tmp_path / "cache").glob("*.npy"))
    expected = np.array(whole.array)
    path.unlink()
    path.with_suffix(".done").write_text("6")
    assert np.array_equal(open_(model, 5, paths).array, expected)
    assert not path.with_suffix(".done").exists()


def test_values_beyond_half_precision_are_refused(model, paths):
    with torch.no_grad():
        model.backbone.net.layer4[-1].bn2.bias.fill_(1e6)
    with pytest.raises(UserError, match="65504"):
        open_(model, 5, paths)
