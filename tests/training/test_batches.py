import subprocess
import sys
import threading
import time
from functools import partial

import numpy as np
import pytest
import torch

from partlabel.core.errors import PartlabelWarning, UserError
from partlabel.core.sealed import open_sealed, write_sealed
from partlabel.models.model import Model
from partlabel.training import shards
from partlabel.training.batches import Files, Stored, ahead, open_source
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


def shards_of(tmp_path):
    return sorted((tmp_path / "cache").glob("features-2/*/*.shard"))


def computed(model, stage, paths, **changes):
    """The source, and how many images were run for it."""
    seen = []
    source = open_(model, stage, paths, progress=lambda done, total: seen.append(done), **changes)
    return source, seen


def test_key_holds_weights_preprocessing_and_file_contents(model, paths, tmp_path):
    def files():
        return len(shards_of(tmp_path))

    open_(model, 5, paths)
    assert computed(model, 5, paths)[1] == []
    assert files() == 1
    renamed = paths[0].rename(paths[0].with_name("renamed.png"))
    assert computed(model, 5, [renamed, *paths[1:]])[1] == [], "a new name is not a new image"
    open_(model, 4, [renamed, *paths[1:]])
    open_(model, 5, [renamed, *paths[1:]], flip=False)
    assert files() == 3
    with torch.no_grad():
        model.backbone.net.layer1[0].conv1.weight[0, 0, 0, 0] += 1
    open_(model, 5, [renamed, *paths[1:]])
    assert files() == 4
    renamed.write_bytes(paths[1].read_bytes())
    assert computed(model, 5, [renamed, *paths[1:]])[1] == [], "the same bytes twice are one image"
    model.precision = "bf16"
    assert computed(model, 5, paths[1:])[1] == [6]


def test_a_table_that_grows_costs_its_new_images_only(model, tmp_path, monkeypatch):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    make_pictures(tmp_path / "pictures", 30)
    paths = sorted((tmp_path / "pictures").iterdir())
    first = open_(model, 5, paths[4:20]).array
    second, seen = computed(model, 5, paths[::-1])
    assert seen == [24, 30], "16 were there, 14 are new, in batches of 8"
    assert np.array_equal(second.array[::-1][4:20], first)
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "other"))
    anew = open_(model, 5, paths).array
    np.testing.assert_allclose(second.array[::-1], anew, rtol=2e-3, atol=2e-3)
    twice = open_(model, 5, [paths[3], paths[1], paths[3]]).array
    assert np.array_equal(twice, anew[[3, 1, 3]])


def test_killed_while_filling_goes_on(model, tmp_path, monkeypatch):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("partlabel.training.batches.inference_batch", lambda device: 2)
    monkeypatch.setattr(shards, "IMAGES", 16)
    make_pictures(tmp_path / "pictures", 40)
    paths = sorted((tmp_path / "pictures").iterdir())

    def kill(done, total):
        if done >= 34:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_(model, 5, paths, progress=kill)
    assert len(shards_of(tmp_path)) == 2
    resumed, seen = computed(model, 5, paths)
    assert seen == [34, 36, 38, 40], "32 images were stored"
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "other"))
    assert np.array_equal(resumed.array, open_(model, 5, paths).array)


@pytest.mark.parametrize("stage", [0, 5])
@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "text"])
def test_a_damaged_shard_is_made_anew(model, paths, tmp_path, stage, damage):
    expected = open_(model, stage, paths).array
    (path,) = shards_of(tmp_path)
    data = bytearray(path.read_bytes())
    data[np.random.default_rng(0).integers(len(data))] ^= 8
    path.write_bytes({"flip": bytes(data), "cut": bytes(data[:-9]), "empty": b"", "text": b"hello world"}[damage])
    source, seen = computed(model, stage, paths)
    assert seen == [7]
    assert np.array_equal(source.array, expected)
    assert computed(model, stage, paths)[1] == []


def test_a_shard_of_another_kind_is_not_read(model, paths, tmp_path):
    """Say of another version, that has put another shape under the same name."""
    expected = open_(model, 5, paths).array
    (path,) = shards_of(tmp_path)
    names, rows = (np.array(part) for part in open_sealed(path))
    write_sealed(path, [names, rows[..., 0]])
    assert np.array_equal(open_(model, 5, paths).array, expected)


def test_full_disk_is_a_sentence_and_memory_or_no_cache_of_pixels(model, paths, tmp_path, monkeypatch):
    expected = open_(model, 5, paths).array
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "other"))
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10})())
    with pytest.warns(PartlabelWarning, match=r"0.0 GiB are needed.*stay in memory.*set PARTLABEL_CACHE"):
        source = open_(model, 5, paths)
    assert np.array_equal(source.array, expected)
    assert not list((tmp_path / "other").rglob("*.shard"))
    assert isinstance(open_(model, 0, paths), Files)
    monkeypatch.setattr(shards, "memory", lambda: 100)
    with pytest.raises(UserError, match="too many for the memory; set PARTLABEL_CACHE"):
        open_(model, 5, paths)


SMALL_FILES = """
import resource, sys, warnings
from pathlib import Path
import numpy as np
import torch
torch.manual_seed(0)
from partlabel.models.model import Model
from partlabel.training.batches import Files, open_source
from partlabel.training.config import ModelConfig
from partlabel.training import shards
shards.IMAGES = 16
model = Model(ModelConfig(backbone="test_resnet", weights="none"), ["a", "b", "c"], 32).eval()
paths = sorted(Path(sys.argv[1]).iterdir())
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    found = [open_source(model, stage, paths, flip=True, workers=0, max_pixels=10**6) for stage in (5, 0)]
print([str(each.message) for each in said], type(found[1]).__name__, len(found[0]))
"""


@pytest.mark.slow
@pytest.mark.linux
def test_a_disk_that_takes_no_more_while_it_is_written(tmp_path, monkeypatch):
    """One sentence and the features stay in memory, where a mapped file would end the process by a signal."""
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    make_pictures(tmp_path / "pictures", 40)
    script = [sys.executable, "-c", SMALL_FILES, str(tmp_path / "pictures")]
    ran = subprocess.run(script, capture_output=True, text=True, check=True)
    assert ran.stdout.count("stay in memory") == 1
    assert "File too large" in ran.stdout
    assert "Files 40" in ran.stdout
    assert not list((tmp_path / "cache").rglob("*.shard"))


def test_pixels_beyond_the_limit_are_not_stored_and_features_are(model, paths, monkeypatch, tmp_path):
    monkeypatch.setenv("PARTLABEL_CACHE_LIMIT", "1000")
    assert isinstance(open_(model, 0, paths), Files)
    assert isinstance(open_(model, 5, paths), Stored)
    assert len(shards_of(tmp_path)) == 1
    with torch.no_grad():
        model.backbone.net.layer1[0].conv1.weight[0, 0, 0, 0] += 1
    open_(model, 5, paths)
    assert len(shards_of(tmp_path)) == 1, "the one that is not used any more has made room"


def test_two_runs_fill_one_cache(model, tmp_path, monkeypatch):
    """The second waits for the first instead of computing the same."""
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
    assert inside.wait(600)
    other.start()
    first.join()
    other.join()
    assert filled == list(range(2, 21, 2)), "filled once"
    assert np.array_equal(second[0].array, second[1].array)
    assert np.abs(second[0].array).reshape(20, -1).sum(1).all()


def test_batches_are_read_ahead_and_a_mistake_comes_through():
    made = []

    def make(i):
        made.append(i)
        if i == 4:
            raise UserError("wrong")
        return i

    stream = ahead(partial(make, i) for i in range(10))
    assert next(stream) == 0
    deadline = time.monotonic() + 600
    while len(made) < 3 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert made == [0, 1, 2]
    with pytest.raises(UserError, match="wrong"):
        list(stream)
    assert max(made) < 8


def test_values_beyond_half_precision_are_refused(model, paths):
    with torch.no_grad():
        model.backbone.net.layer4[-1].bn2.bias.fill_(1e6)
    with pytest.raises(UserError, match="65504"):
        open_(model, 5, paths)
