"""The preset auto: what it decides by, the time it takes, and what it leaves in the run."""

from types import SimpleNamespace

import numpy as np
import pytest

from partlabel import Config, Run, train
from partlabel.core.errors import UserError
from partlabel.training import choosing
from partlabel.training.choosing import Candidate, Machine, choose, decide, sample_rows
from partlabel.training.config import ModelConfig
from tests.pictures import make_pictures

CPU = Machine(cores=2)
GIB = 2**30


@pytest.fixture(autouse=True)
def _no_hurry(monkeypatch):
    """No machine is too slow to try everything: the clock stands still."""
    monkeypatch.setattr(choosing, "time", SimpleNamespace(perf_counter=lambda: 0.0))


def candidate(name, *precision):
    return Candidate(name, {"images__size": 9}, 0.1, np.array(precision))


def test_another_setting_has_to_be_better_by_two_standard_errors_over_the_classes():
    first = candidate("first", 0.4, 0.5, 0.6, 0.3, np.nan)
    lucky = candidate("lucky", 0.9, 0.4, 0.6, 0.2, 1.0)  # +10 on average, standard error 13.7
    better = candidate("better", 0.42, 0.53, 0.62, 0.33, np.nan)  # +2.5, standard error 0.29
    best = candidate("best", 0.44, 0.55, 0.64, 0.35, 0.1)  # +4.5, standard error 0.29
    assert decide([first, lucky])[0] is first
    found, why = decide([first, better, lucky, best])
    assert found is best
    assert why == "4.5 points (+- 0.3) better than first"
    assert decide([first, candidate("few", 0.9, 0.9, 0.9, np.nan, 0.9)])[0] is first, "three classes are too few"
    assert decide([]) == (None, "as nothing could be tried in the time")


def test_images_with_known_present_labels_come_first_two_of_three(tmp_path):
    table = make_pictures(tmp_path, 60)
    present = np.zeros(60, bool)
    present[table.pair_images()[table.values > 0]] = True
    few = table.hide(~(present[table.pair_images()] & (table.pair_images() % 3 > 0) & (table.values > 0)))
    rows = sample_rows(few, 12)
    shown = np.isin(rows, few.pair_images()[few.values > 0])
    assert shown.sum() == 8
    assert len(np.unique(rows)) == 12
    assert np.array_equal(rows, sample_rows(few, 12))


@pytest.mark.parametrize(
    ("machine", "copies", "preset", "word"),
    [
        (Machine(8, gpu="NVIDIA A10", gpu_memory=24 * GIB), 40, "gpu", "NVIDIA A10, 24 GiB"),
        (Machine(8, gpu="NVIDIA A10", gpu_memory=24 * GIB), 1, "small", "few to train all on"),
        (Machine(8, gpu="old one", gpu_memory=4 * GIB), 40, "small", "8 GiB on the GPU"),
        (Machine(8, processes=2), 40, "small", "several processes"),
    ],
)
def test_a_gpu_or_several_processes_are_decided_by_rule(tmp_path, machine, copies, preset, word, capsys):
    table = make_pictures(tmp_path, 2)
    many = type(table).from_dense(
        [f"{i}.png" for i in range(50 * copies)], table.classes, np.ones((50 * copies, 3), np.int8)
    )
    config = choose(many, tmp_path, machine=machine)
    assert config.replace(chosen="") == Config.preset(preset)
    assert word in config.chosen
    assert f"{50 * copies:,} images, 3 classes, {150 * copies:,} present" in config.chosen
    assert config.chosen in " ".join(capsys.readouterr().err.split())


@pytest.fixture
def two_candidates(monkeypatch):
    """Two small networks in place of those that need weights; the images are large for one and tiny for the other."""
    original = Config.preset

    def preset(name):
        config = original(name)
        model = ModelConfig(backbone="test_resnet", weights="none", pooling="average", square_root=True)
        return config.replace(model=vars(model), images__size=8, workers=0) if name == "small" else config

    monkeypatch.setattr(Config, "preset", staticmethod(preset))
    monkeypatch.setattr(
        choosing, "candidates", lambda: [("tiny", {"images__size": 8}), ("large", {"images__size": 64})]
    )


@pytest.mark.slow
def test_it_tries_on_known_labels_and_leaves_in_the_run_what_it_chose(tmp_path, two_candidates, monkeypatch):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(choosing, "_CLASSES", 3)
    table = make_pictures(tmp_path / "pictures", 80, size=64)
    (tmp_path / "pictures" / "003.png").write_bytes(b"no image")
    (tmp_path / "pictures" / "004.png").unlink()
    config = choose(table, tmp_path / "pictures", machine=CPU)
    for word in ("Tried 4 settings", "tiny", "large without self-training", "Taken"):
        assert word in config.chosen
    assert "2 processor cores, no GPU" in config.chosen
    good = table.select([i for i in range(80) if i not in (3, 4)])
    run = train(good, tmp_path / "pictures", out=tmp_path / "run", preset="auto")
    assert "Tried 4 settings" in Run(tmp_path / "run").config.chosen
    again = train(good, tmp_path / "pictures", out=tmp_path / "run", preset="auto", resume=True)
    assert again.config == run.config, "a resumed run tries nothing"


@pytest.mark.slow
def test_the_time_is_kept(tmp_path, two_candidates, monkeypatch):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(choosing, "_CHUNK", 10)
    table = make_pictures(tmp_path / "pictures", 100)
    original, run, clock = choosing._features, [], [0.0]
    monkeypatch.setattr(choosing, "time", SimpleNamespace(perf_counter=lambda: clock[0]))

    def slow(model, config, paths):
        run.extend(paths)
        clock[0] += 0.5
        return original(model, config, paths)

    monkeypatch.setattr(choosing, "_features", slow)
    config = choose(table, tmp_path / "pictures", machine=CPU, seconds=0)
    assert not run, "no time for a single batch"
    assert "nothing could be tried in the time" in config.chosen
    config = choose(table, tmp_path / "pictures", machine=CPU, seconds=6)
    assert len(run) < 2 * 70, "as far as the time reached"
    assert 0 < clock[0] <= 6


def test_a_folder_that_is_not_there_is_said(tmp_path):
    table = make_pictures(tmp_path, 3)
    with pytest.raises(UserError, match="not a folder with images"):
        choose(table, tmp_path / "nowhere", machine=CPU)


def test_it_is_no_preset_without_a_table():
    with pytest.raises(UserError, match="looks at a table"):
        Config.preset("auto")
