"""Model cards: every number stands in them, for a run with and without a validation part."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from partlabel import LabelTable
from partlabel.core.errors import UserError
from partlabel.models.model import Model
from partlabel.training.card import write_card
from partlabel.training.config import Config, ModelConfig
from partlabel.training.folder import create_folder, write_history, write_scores
from partlabel.training.thresholds import fit_run

CLASSES = ("cat", "red | dark", "never")
VALIDATION = {
    "mean_ap": 0.5,
    "mean_roc_auc": 0.75,
    "macro_f1": None,
    "micro_f1": 0.25,
    "pc_precision": None,
    "pc_recall": 0.0,
    "zero_one": 0.125,
}


@pytest.fixture
def run(tmp_path):
    """A finished run with 30 training images, 40 held-out ones."""
    rng = np.random.default_rng(0)
    labels = np.where(rng.random((70, 3)) < 0.6, np.where(rng.random((70, 3)) < 0.4, 1, -1), 0).astype(np.int8)
    labels[:, 2] = -np.abs(labels[:, 2])
    table = LabelTable.from_dense([f"{i}.jpg" for i in range(70)], CLASSES, labels, coding="1=present,0=absent")
    folder = tmp_path / "run"
    create_folder(folder, {"config": Config().to_dict(), "labels": "x"})
    table.select(np.arange(30)).write_parquet(folder / "labels.parquet")
    table.select(np.arange(30, 70)).write_parquet(folder / "validation.parquet")
    write_scores(folder, CLASSES, (labels[30:] + rng.normal(0, 1, (40, 3))).astype(np.float32))
    write_history(folder, [{"epoch": 1, "validation": VALIDATION}])
    torch.manual_seed(0)
    for name in ("best", "last"):
        Model(ModelConfig(backbone="test_resnet", weights="none"), CLASSES, 32).save(folder / name)
    return folder


def card(run, name="best") -> str:
    return (run / name / "MODEL_CARD.md").read_text(encoding="utf-8")


def test_the_best_model_tells_data_metrics_and_thresholds(run):
    fitted = fit_run(run)
    write_card(run)
    text = card(run)
    table = LabelTable.read_parquet(run / "labels.parquet")
    assert f"30 images, 3 classes\n- {table.num_known:,} of 90 labels known" in text
    assert "Coding of the source: 1=present,0=absent" in text
    assert "**unknown**: it counted neither" in text
    assert "Classes without a known present label: never" in text
    after = fitted.thresholds.after
    assert f"| cat | {after.present[0]} | {after.absent[0]} |" in text
    assert f"{100 * after.f1[0]:.1f} | {fitted.thresholds.values[0]:.3f} | {fitted.thresholds.sources[0]} |" in text
    assert "| red \\| dark |" in text
    assert f"macro-F1 {100 * fitted.crossed.macro_f1:.1f}, micro-F1" in text
    assert "Thresholds: best F1." in text
    for heading in ("Training data", "Validation", "Decisions and probabilities", "Intended use", "Limits"):
        assert f"\n## {heading}\n" in text


def test_the_last_model_tells_its_own_numbers(run):
    fit_run(run)
    write_card(run)
    text = card(run, "last")
    assert "After epoch 1" in text
    assert "| mAP | 50.0 |\n| ROC-AUC | 75.0 |\n| macro-F1 | - |" in text
    assert "Thresholds: default." in text
    assert "not calibrated" in text


def test_a_run_that_chose_nothing_says_so(run):
    write_card(run)
    assert "Thresholds: default." in card(run)
    assert "cross-validation" not in card(run)


def test_without_a_validation_part_nothing_is_claimed(run):
    (run / "validation.parquet").unlink()
    write_history(run, [{"epoch": 1, "validation": None}])
    write_card(run)
    assert "no labels were held out" in card(run)
    assert "| mAP |" not in card(run)


def test_assumed_absent_labels_are_named(run, tmp_path):
    create_folder(run, {"config": Config().replace(assume_absent=True).to_dict()})
    write_card(run)
    assert "**absent**: every unknown label was trained as absent" in card(run)


def test_no_run_is_one_error(tmp_path):
    with pytest.raises(UserError, match="not a run folder"):
        write_card(tmp_path)
