"""Real-world cases that are recipes, without files of their own: trainings by the commands, metrics, a million rows."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from partlabel import metrics
from partlabel.app.cli import main
from partlabel.training.checkpoints import Checkpoints
from tests.metrics.test_evaluate import SCALARS
from tests.pictures import make_pictures, tiny_config


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command in a folder with twelve images and their labels: exit code, result or None, what was said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    make_pictures(tmp_path / "photos", 12).write_parquet(tmp_path / "labels.parquet")
    tiny_config(optim__epochs=3).write(tmp_path / "tiny.toml")

    def run(*words: str) -> tuple[int, Any, str]:
        code = main([*words, "--json"])
        out, err = capsys.readouterr()
        return code, json.loads(out) if out else None, err

    return run


TRAIN = ("train", "labels.parquet", "--images", "photos", "--config", "tiny.toml", "-o")


@pytest.fixture
def stopped(command: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The checkpoints of a training that was killed after its second epoch."""
    save = Checkpoints.save

    def killed(self: Checkpoints, epoch: int, state: dict[str, Any]) -> None:
        save(self, epoch, state)
        if epoch == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoints, "save", killed)
        with pytest.raises(SystemExit):
            command(*TRAIN, "run")
    return Path("run") / "checkpoints"


@pytest.mark.slow
@pytest.mark.parametrize(("images", "batch"), [(5, 4), (1, 4), (3, 8)])
def test_tr_01_last_batch_of_one_image(command: Any, images: int, batch: int) -> None:
    """All images are trained on, and each is evaluated once."""
    make_pictures(Path("photos"), images, seed=3).write_parquet("labels.parquet")
    code, result, said = command(*TRAIN, "run", "--batch-size", str(batch))
    assert (code, result["images_trained"]) == (0, images), said
    code, result, said = command("evaluate", "run", "labels.parquet", "--images", "photos")
    assert (code, result["images"]["evaluated"]) == (0, images), said


@pytest.mark.slow
def test_tr_03_checkpoints_load_safely_and_foreign_ones_are_never_loaded(command: Any, stopped: Path) -> None:
    class Attack:
        def __reduce__(self) -> tuple[Any, ...]:
            return open, ("attacked", "w")

    files = sorted(stopped.glob("*.pt"))
    assert len(files) == 2
    for path in files:
        assert torch.load(path, weights_only=True)["epoch"] in (1, 2)
        path.write_bytes(pickle.dumps(Attack()))
    code, result, said = command(*TRAIN, "run", "--resume")
    assert (code, result) == (2, None)
    assert "\npartlabel: no checkpoint can be read" in said
    assert "epoch-2.pt: is not a checkpoint of partlabel" in said
    assert "Traceback" not in said
    assert not Path("attacked").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("default::partlabel.core.errors.PartlabelWarning")  # said on standard error
def test_tr_04_a_checkpoint_cut_to_half_is_named_and_passed_over(command: Any, stopped: Path) -> None:
    newest = stopped / "epoch-2.pt"
    newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])
    code, _, said = command(*TRAIN, "run", "--resume")
    assert code == 0, said
    assert re.search(r"epoch-2\.pt: is damaged.*going on from epoch-1\.pt", said)
    assert command(*TRAIN, "whole")[0] == 0
    first, second = (load_file(Path(run) / "last" / "model.safetensors") for run in ("run", "whole"))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not [path for path in Path("run").rglob("*") if path.name.endswith(".tmp")]


@pytest.mark.parametrize("left_out", range(4))
def test_met_06_a_class_left_out_is_not_in_the_divisor(left_out: int) -> None:
    """A perfect prediction gives 1 for every metric, whichever class is left out."""
    labels = np.random.default_rng(left_out).choice(np.array([-1, 0, 1], np.int8), (40, 4))
    kept = [column for column in range(4) if column != left_out]
    found = metrics.evaluate(labels[:, kept].astype(np.float32), labels[:, kept])
    assert [getattr(found, name) for name in SCALARS] == [1.0] * len(SCALARS)


MILLION = """
import json, sys, time
from pathlib import Path
import numpy as np
from partlabel import LabelTable, formats

LabelTable.dense = None  # the matrix would take 960 MB
peak = lambda: int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
began = time.process_time()
table, report = formats.read("csv", sys.argv[1], coding="zero-absent")
seconds = time.process_time() - began
present, absent = table.class_counts()
names = [int(name) for name in table.classes]
print(json.dumps([peak(), seconds, table.num_known, table.num_images, names, present.tolist(), absent.tolist()]))
"""


@pytest.mark.slow
@pytest.mark.linux
def test_scl_01_a_million_rows_of_9605_classes(tmp_path: Path) -> None:
    """Below 500 MB and 60 s; what is counted are the rows."""
    rng = np.random.default_rng(0)
    key = np.unique(rng.integers(0, 100_000 * 9605, 1_000_000))
    rng.shuffle(key)
    image, cls, value = key // 9605, key % 9605, rng.integers(0, 2, len(key))
    lines = (f"{i}.jpg,{c},{v}\n" for i, c, v in zip(image.tolist(), cls.tolist(), value.tolist(), strict=True))
    (tmp_path / "many.csv").write_text("image,label,value\n" + "".join(lines))
    done = subprocess.run([sys.executable, "-c", MILLION, tmp_path / "many.csv"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    megabytes, seconds, known, images, names, present, absent = json.loads(done.stdout)
    assert megabytes < 500
    assert seconds < 60
    assert (known, images) == (len(key), len(np.unique(image)))
    for found, wanted in ((present, 1), (absent, 0)):
        np.testing.assert_array_equal(found, np.bincount(cls[value == wanted], minlength=9605)[names])
