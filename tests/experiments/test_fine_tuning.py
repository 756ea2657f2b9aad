"""Settings are chosen on training images alone, and what is finished is not computed again."""

import csv

import pytest
from experiments import fine_tuning
from experiments.store import Store

from tests.pictures import make_pictures, tiny_config

FROZEN = {"model__pooling": "average", "freeze": "all", "optim__name": "closed-form", "validation": 0.0}


@pytest.mark.slow
def test_choosing_and_measuring(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    table = make_pictures(tmp_path / "images", 30)
    names = table.images.to_pylist()
    with open(tmp_path / "labels.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(
            [["image", *table.classes], *([n, *y] for n, y in zip(names, table.dense(), strict=True))]
        )
    (tmp_path / "train.txt").write_text("\n".join(names[:24]))
    (tmp_path / "test.txt").write_text("\n".join(names[24:]))
    frozen = tiny_config(**FROZEN)
    tuned = frozen.replace(
        freeze=2, optim__name="adamw", optim__start="closed-form", optim__ema=0.9, augment__mix="mixup"
    )
    monkeypatch.setattr(fine_tuning, "STORE", Store(tmp_path / "results.jsonl"))
    monkeypatch.setattr(fine_tuning, "CANDIDATES", {"frozen": frozen, "tuned": tuned})
    monkeypatch.setattr(fine_tuning, "HELD_OUT", 8)
    for name in ("frozen", "tuned"):
        chosen = fine_tuning.run("choose", name, 1.0, tmp_path, tmp_path / "runs")
        assert (chosen["images_trained"], chosen["images_measured"]) == (16, 8)
        final = fine_tuning.run("final", name, 0.5, tmp_path, tmp_path / "runs")
        assert (final["images_trained"], final["images_measured"]) == (24, 6)
        assert fine_tuning.run("final", name, 0.5, tmp_path, tmp_path / "runs") == final
    assert len(fine_tuning.STORE.read()) == 4
