"""What a run is judged on, the headline in its folder, and classes about which nothing was learned."""

import json
from typing import Any

import numpy as np
import pytest

from partlabel import LabelTable
from partlabel.core.errors import PartlabelWarning, UserError
from partlabel.metrics.headline import MIN_KNOWN, say
from partlabel.metrics.thresholds import NEVER
from partlabel.tasks.complete import complete_run
from partlabel.tasks.predict import predict
from partlabel.training.card import FILE
from partlabel.training.evidence import evidence
from partlabel.training.loop import train
from partlabel.training.run import OUT_OF_FOLD, Run
from tests.pictures import make_pictures, tiny_config


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))


FROZEN: dict[str, Any] = {"freeze": "all", "model__pooling": "average", "images__flip": False}
CLOSED = {"optim__name": "closed-form", "loss__name": "bce", **FROZEN}


def half_known(tmp_path, count=60, seed=1):
    """A table with half of its labels known, and image 3 without any."""
    table = make_pictures(tmp_path / "pictures", count)
    known = np.random.default_rng(seed).random(table.num_known) < 0.5
    return table.hide(known & (table.pair_images() != 3))


def test_all_known_labels_are_judged_by_heads_that_have_not_seen_them(tmp_path):
    table = half_known(tmp_path)
    run = train(table, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config(validation=0.2, **FROZEN))
    found = evidence(run)
    assert found is not None
    assert found.kind == "out-of-fold"
    assert found.table.num_known == table.num_known
    assert sorted(found.table.images.to_pylist()) == sorted(table.images.to_pylist())  # those without a label too
    assert np.isfinite(found.scores).all()
    headline = run.headline
    assert headline is not None
    assert headline["measured_on"] == "out-of-fold"
    assert (headline["images"], headline["known_labels"]) == (60, table.num_known)
    assert headline["classes_measured"] == 3
    low, value, high = (headline["metrics"]["mean_ap"][name] for name in ("low", "value", "high"))
    assert 0 <= low <= value <= high <= 1
    text = (tmp_path / "run" / "best" / FILE).read_text(encoding="utf-8")
    assert "## How good it is" in text
    assert f"| mAP | {100 * value:.1f} | {100 * low:.1f} to {100 * high:.1f} |" in text
    assert f"mAP {100 * value:.1f} ({100 * low:.1f} to {100 * high:.1f}), over 3 of 3 classes" in say(headline)


def test_a_run_that_learns_more_than_a_head_is_judged_on_its_validation_part(tmp_path):
    table = half_known(tmp_path, 20)
    run = train(table, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config(validation=0.4))
    found = evidence(run)
    assert found is not None
    assert found.kind == "validation"
    np.testing.assert_array_equal(found.scores, run.held_out.scores)
    assert run.headline is not None
    none = train(table, tmp_path / "pictures", out=tmp_path / "none", config=tiny_config())
    assert evidence(none) is None
    assert none.headline is None
    assert "Not measured: no labels were held out." in (none.folder / "best" / FILE).read_text(encoding="utf-8")


def test_a_damaged_file_is_said(tmp_path):
    table = half_known(tmp_path)
    run = train(table, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config(validation=0.2, **FROZEN))
    path = run.folder / OUT_OF_FOLD
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match=r"out_of_fold\.parquet: is missing or damaged"):
        evidence(run)


def test_a_class_without_a_known_label_is_never_predicted(tmp_path, capsys):
    table = half_known(tmp_path)
    table = table.hide(table.indices != 1)
    run = train(table, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config(validation=0.2, **FROZEN))
    assert "no label is known of 1 classes, so nothing is learned about them and they are never predicted" in (
        capsys.readouterr().err
    )
    for which in ("best", "last"):
        about = run.description(which)
        assert about["thresholds"][1] == NEVER
        assert about["threshold_sources"][1] == "never"
        model = run.load_model(which)
        scores = predict(model, sorted((tmp_path / "pictures").iterdir())[:8])
        assert not (scores >= np.asarray(model.thresholds, np.float32))[:, 1].any()
    text = (run.folder / "best" / FILE).read_text(encoding="utf-8")
    assert "Never predicted, as no label is known: green" in text
    assert "| never | never |" in text
    assert run.headline is not None
    assert run.headline["not_measured"] == ["green"]


def test_rounds_never_fill_a_class_without_a_known_label(tmp_path):
    table = half_known(tmp_path, 20)
    table = table.hide(table.indices != 1)
    config = tiny_config(relabel__before=[2], relabel__strategy="all-at-once")
    run = train(table, tmp_path / "pictures", out=tmp_path / "run", config=config)
    assert run.relabelled is not None
    present, absent = run.relabelled.class_counts()
    assert present[1] + absent[1] == 0
    assert (present + absent)[[0, 2]].tolist() == [20, 20]


def test_validation_that_can_measure_nothing_says_why(tmp_path, capsys):
    table = make_pictures(tmp_path / "pictures", 20)
    labels = np.abs(table.dense())
    labels[0] = -1
    sided = LabelTable.from_dense(table.images, table.classes, labels)
    train(sided, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config(validation=0.3))
    said = capsys.readouterr().err
    assert "no class has held-out labels of both signs" in said or "epochs are compared by" in said
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    headline = Run(tmp_path / "run").headline
    assert headline is not None
    assert headline["metrics"]["mean_ap"]["value"] is None
    assert f"{MIN_KNOWN} known labels of either sign" in say(headline)
    assert summary["best_epoch"] in (1, 2)


def test_where_no_class_has_labels_for_folds_the_validation_part_chooses_thresholds(tmp_path):
    table = make_pictures(tmp_path / "pictures", 60)
    few = table.hide(np.arange(table.num_known) % 20 == 0)  # of each class about three, of either sign
    run = train(few, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config(validation=0.5, **CLOSED))
    found = evidence(run)
    assert found is not None
    assert not found.scored.any()
    rows = run.thresholds["classes"]
    assert sum(row["known_present"] + row["known_absent"] for row in rows) == run.held_out_labels.num_known > 0


def test_class_adaptive_rounds_without_a_known_absent_label_are_refused_at_the_start(tmp_path):
    table = make_pictures(tmp_path / "pictures", 20)
    config = tiny_config(relabel__before=[2], relabel__strategy="class-adaptive")
    with (
        pytest.warns(PartlabelWarning, match="no class has a known absent label"),
        pytest.raises(UserError, match="class-adaptive: no class has a known absent label"),
    ):
        train(table.hide(table.values > 0), tmp_path / "pictures", out=tmp_path / "run", config=config)
    assert not (tmp_path / "run" / "last").exists()


def test_a_closed_form_head_is_judged_by_heads_like_it_and_needs_no_validation_part(tmp_path):
    """Its thresholds and calibration rest on all known labels, and so does what complete fills in."""
    table = half_known(tmp_path, 80)
    config = tiny_config(**CLOSED)
    run = train(table, tmp_path / "pictures", out=tmp_path / "run", config=config)
    found = evidence(run)
    assert found is not None
    assert (found.kind, found.same_scale) == ("out-of-fold", True)
    known = table.class_counts()
    rows = run.thresholds["classes"]
    assert [row["known_present"] for row in rows] == known[0].tolist()
    assert [row["known_absent"] for row in rows] == known[1].tolist()
    assert set(run.description()["threshold_sources"]) <= {"all", "own", "calibrated"}
    assert "calibration" in run.description()
    made, report = complete_run(run, tmp_path / "pictures", precision=0.55, confidence=0.6)
    assert report["held_out"] == "out-of-fold"
    given = made.without_origin("model")
    assert given.num_known == table.num_known
    assert made.num_known - given.num_known == report["present"]["filled"] + report["absent"]["filled"]
    made, report = complete_run(run, tmp_path / "pictures", precision=0.999, confidence=0.99)
    assert made.num_known == table.num_known
    for sign in ("present", "absent"):
        assert report[sign]["reachable"]["tested"] >= report[sign]["reachable"]["wrong"] >= 0
        assert 0 <= report[sign]["reachable"]["lower_bound"] < 0.999
