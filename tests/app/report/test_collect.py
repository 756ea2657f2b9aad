"""The numbers of a report: against the metrics, loops, and numbers written by hand; what is refused."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel import LabelTable
from partlabel.app.report import collect
from partlabel.app.report.data import random_check
from partlabel.app.report.intervals import difference
from partlabel.app.report.results import _curve
from partlabel.core.errors import UserError
from partlabel.core.records import read_record, write_record
from partlabel.metrics import evaluate
from partlabel.models.description import read_description
from partlabel.training.run import read_runs
from tests.app.report.conftest import CLASSES, make_run, world
from tests.reference import bootstrap as naive


def one(runs, name="one", **options):
    return collect([runs / name], resamples=200, **options)["runs"][0]


def test_metrics_are_those_of_the_held_out_labels(runs):
    held, scores = world()
    thresholds = np.array(read_description(runs / "one" / "best")["thresholds"])
    metrics = evaluate(scores, held.dense(), thresholds, CLASSES)
    found = one(runs)["results"]
    for row in found["metrics"]:
        value = getattr(metrics, row["name"])
        assert row["value"] == (None if np.isnan(value) else pytest.approx(value, rel=1e-12))
        if row["value"] is not None:
            assert row["low"] <= row["value"] <= row["high"]
            assert row["reason"] is None
    assert found["images"] == metrics.images_known
    cat = found["classes"][0]
    assert cat["average_precision"] == pytest.approx(metrics.average_precision[0])
    assert cat["low"] <= cat["average_precision"] <= cat["high"]
    assert (cat["present"], cat["absent"]) == (metrics.present[0], metrics.absent[0])
    never = found["classes"][3]
    assert never["average_precision"] is None
    assert never["reasons"]["average_precision"] == "no known present label"
    assert found["curves"][3] is None


def test_intervals_are_seeded_and_written_as_they_are_said(runs):
    first, again = (collect([runs / "one"], resamples=50, seed=3) for _ in range(2))
    assert first == again
    assert first["bootstrap"] == {"resamples": 50, "seed": 3, "confidence": 0.95, "drawn": "images"}
    assert collect([runs / "one"], resamples=50, seed=4) != first


def structure(value):
    """The names in a JSON value; of a list those of its first entry that is not null."""
    if isinstance(value, dict):
        return {name: structure(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [structure(next((inner for inner in value if inner is not None), None))]
    return None


def test_the_form_of_the_json_is_stable(runs):
    """Programs read report.json: a change here is a new version of it."""
    found = collect([runs / "one", runs / "two &b;"], resamples=20)
    json.dumps(found, allow_nan=False)
    run = found["runs"][0]
    assert found["version"] == 1
    assert set(found) == {"version", "measured_on", "bootstrap", "runs", "comparison"}
    assert set(run) == {
        *("name", "folder", "finished", "classes", "settings", "data", "random_check", "training", "rounds"),
        *("headline", "results", "labels_spent", "gallery"),
    }
    assert set(run["data"]) == {
        *("training", "held_out", "coding", "unknown_taken_as", "not_listed", "conflicts", "history", "together"),
    }
    assert structure(run["results"]["metrics"]) == [
        {
            **dict.fromkeys(("name", "title", "meaning", "value", "low", "high", "optimism", "reason")),
            "over": {"count": None, "of": None, "unit": None},
        }
    ]
    assert set(run["results"]) == {
        *("measured_on", "images", "known_present", "known_absent", "left_out", "threshold_goal", "metrics"),
        *("cross_validated", "classes", "curves", "calibration", "mistakes"),
    }
    assert set(run["results"]["classes"][0]) == {
        *(
            "class",
            "trained_present",
            "trained_absent",
            "present",
            "absent",
            "average_precision",
            "roc_auc",
            "low",
            "high",
        ),
        *("precision", "recall", "f1", "threshold", "threshold_from", "reasons"),
    }
    assert structure(run["random_check"]["classes"]) == [
        dict.fromkeys(("class", "held_out", "unknown", "distance", "p", "alike"))
    ]
    assert structure(found["comparison"]) == {
        **dict.fromkeys(("first", "images", "known")),
        "others": [
            {
                "run": None,
                "metrics": [dict.fromkeys(("name", "title", "difference", "low", "high", "p", "reason"))],
                "classes": [dict.fromkeys(("class", "present", "first", "second", "difference"))],
            }
        ],
    }


def test_two_runs_are_compared_on_the_same_resamples(runs):
    found = collect([runs / "one", runs / "two &b;"], resamples=200)
    row = found["comparison"]["others"][0]["metrics"][0]
    values = [run["results"]["metrics"][0]["value"] for run in found["runs"]]
    assert row["difference"] == pytest.approx(values[1] - values[0])
    assert row["high"] < 0
    assert row["p"] < 0.05
    with pytest.raises(UserError, match="more than once"):
        collect([runs / "one", runs / "one"])


def test_a_run_does_not_differ_from_its_copy(runs, tmp_path):
    shutil.copytree(runs / "one", tmp_path / "copy")
    rows = collect([runs / "one", tmp_path / "copy"], resamples=50)["comparison"]["others"][0]["metrics"]
    assert {row["p"] for row in rows if row["difference"] is not None} == {1.0}


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=40))
def test_paired_p_against_a_loop(changes):
    first = np.zeros(len(changes))
    assert difference(first, np.array(changes, float))["p"] == pytest.approx(naive.paired_p(changes))


def test_paired_test_by_hand():
    """Of 199 resamples 4 are below no difference and none equal it: p is 2 x 5 / 200."""
    change = np.array([-1.0] * 4 + [1.0] * 195)
    assert difference(np.zeros(199), change)["p"] == pytest.approx(0.05)


def test_runs_are_compared_on_the_images_that_both_held_out(runs, tmp_path):
    held, scores = world()
    make_run(tmp_path / "fewer", held.select(slice(0, 58)), scores[:58])
    found = collect([runs / "one", tmp_path / "fewer"], resamples=20)
    alone = collect([tmp_path / "fewer"], resamples=20)
    assert found["comparison"]["images"] == alone["runs"][0]["results"]["images"]
    rows = found["comparison"]["others"][0]["metrics"]
    assert {row["difference"] for row in rows if row["difference"] is not None} == {0.0}
    assert found["runs"][0]["results"]["metrics"][0]["value"] == alone["runs"][0]["results"]["metrics"][0]["value"]


def test_labels_that_one_of_the_runs_knows_count_for_both(runs, tmp_path):
    """As after answers: the second table knows more. A label that both know differently counts for none."""
    held, scores = world()
    known = held.num_known
    labels = held.dense()
    row, column = np.argwhere(labels == 0)[0]
    labels[row, column] = 1
    row, column = np.argwhere(labels != 0)[3]
    labels[row, column] *= -1
    make_run(tmp_path / "other", LabelTable.from_dense(held.images, CLASSES, labels), scores)
    for order in ([runs / "one", tmp_path / "other"], [tmp_path / "other", runs / "one"]):
        assert collect(order, resamples=20)["comparison"]["known"] == known + 1 - 1


def test_runs_without_anything_in_common_are_not_compared(runs, tmp_path):
    held, scores = world()
    names = [f"other/{name}" for name in held.images.to_pylist()]
    make_run(tmp_path / "other", LabelTable.from_dense(names, CLASSES, held.dense()), scores)
    with pytest.raises(UserError, match="no image was held out by all of these runs") as error:
        collect([runs / "one", tmp_path / "other"])
    assert error.value.offenders == [f"one: {held.num_images} images", f"other: {held.num_images} images"]
    with pytest.raises(UserError, match="without a validation part") as error:
        collect([runs / "one", runs / "bare"])
    assert error.value.offenders == ["bare"]


def test_a_run_after_another_is_compared_with_it(runs, tmp_path):
    held, scores = world()
    make_run(tmp_path / "second", held, scores)
    marker = tmp_path / "second" / "run.json"
    write_record(marker, read_record(marker) | {"after": str(runs / "one")})
    found = collect([tmp_path / "second"], resamples=20)
    assert [row["name"] for row in found["runs"]] == ["one", "second"]
    assert found["comparison"]["first"] == "one"
    write_record(marker, read_record(marker) | {"after": str(tmp_path / "gone")})
    assert collect([tmp_path / "second"], resamples=20)["comparison"] is None


def test_pictures_and_classes_in_another_order_are_the_same(runs, tmp_path):
    held, scores = world()
    order, columns = np.random.default_rng(0).permutation(60), [2, 0, 3, 1]
    turned = held.select(order).select_classes([CLASSES[c] for c in columns])
    labels = read_runs([runs / "one"])[0].labels.select_classes(turned.classes)
    make_run(tmp_path / "turned", turned, scores[order][:, columns], trained=labels)
    rows = collect([runs / "one", tmp_path / "turned"], resamples=20)["comparison"]["others"][0]["metrics"]
    assert rows[0]["difference"] == pytest.approx(0, abs=1e-12)


def test_only_a_random_sample_is_measured(tmp_path):
    """Labels that partlabel asked for and those of a model are left out, and it is said how many."""
    held, scores = world()
    image, cls = np.nonzero(held.dense() == 0)
    more = held.with_labels(image[:9], cls[:9], np.full(9, 1), origin="asked")
    more = more.with_labels(image[9:13], cls[9:13], np.full(4, 1), origin="model", score=np.ones(4), round=1)
    plain, asked = (
        one(tmp_path, make_run(tmp_path / name, table, scores).name) for name, table in (("a", held), ("b", more))
    )
    assert asked["results"]["left_out"] == {"model": 4, "asked": 9}
    assert asked["results"]["metrics"] == plain["results"]["metrics"]
    assert asked["random_check"]["not_random"] == {"model": 4, "asked": 9}


def test_groups_are_drawn_together(tmp_path):
    held, scores = world()
    groups = [f"patient {i // 4}" for i in range(60)]
    grouped = LabelTable.from_dense(held.images, CLASSES, held.dense(), groups=groups)
    make_run(tmp_path / "run", grouped, scores)
    assert collect([tmp_path / "run"], resamples=20)["bootstrap"]["drawn"] == "groups"


def test_a_handful_of_pictures_gets_no_interval(tmp_path):
    held, scores = world(images=9)
    make_run(tmp_path / "run", held, scores)
    row = one(tmp_path, "run")["results"]["metrics"][0]
    assert row["value"] is not None
    assert (row["low"], row["reason"]) == (None, "fewer than 10 images (or groups) to draw from")
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    rows = collect([tmp_path / "run", tmp_path / "copy"])["comparison"]["others"][0]["metrics"]
    assert {row["p"] for row in rows} == {None}


def check_of(folder, held, scores):
    return random_check(read_runs([make_run(folder, held, scores)])[0])


def test_the_check_finds_labels_that_are_not_known_by_chance(tmp_path):
    held, scores = world(images=800, known=0.3)
    assert check_of(tmp_path / "chance", held, scores)["verdict"] == "alike"
    labels = held.dense()
    labels[scores[:, 0] < 0.5, 0] = 0  # only looked at where the model was sure
    found = check_of(tmp_path / "chosen", LabelTable.from_dense(held.images, CLASSES, labels), scores)
    assert found["verdict"] == "differs"
    assert [row["alike"] for row in found["classes"]] == [False, True, True, True]
    assert "in 1 of the 4 classes" in found["sentence"]
    assert "cat" in found["sentence"]


def test_the_check_says_when_it_could_not_check(tmp_path):
    held, scores = world(known=1.1)
    found = check_of(tmp_path / "full", held, scores)
    assert found["verdict"] == "not checked"
    assert "all labels of the held-out images are known" in found["sentence"]
    held, scores = world(images=6)
    assert "no class has 8 held-out labels" in check_of(tmp_path / "few", held, scores)["sentence"]


def test_a_curve_by_hand():
    """Scores 4 present, 3 absent, 3 present, 2 unknown, 1 present: recall 1/3, 2/3, 1 at precision 1, 2/3, 3/4."""
    found = _curve(np.array([4, 3, 3, 2, 1], np.float32), np.array([1, -1, 1, 0, 1], np.int8))
    assert found == {"recall": [0.3333, 0.6667, 1.0], "precision": [1.0, 0.6667, 0.75]}
    assert _curve(np.ones(2, np.float32), np.array([-1, 0], np.int8)) is None


def test_mistakes_are_known_labels_that_are_decided_wrong_surest_first(runs):
    held, _ = world()
    labels = dict(zip(held.images.to_pylist(), held.dense(), strict=True))
    found = one(runs)["results"]["mistakes"]
    for kind, sign, order in (("said_present", -1, -1), ("said_absent", 1, 1)):
        rows = found[kind]
        assert rows
        assert all(labels[row["image"]][CLASSES.index(row["class"])] == sign for row in rows)
        assert [row["probability"] for row in rows] == sorted((r["probability"] for r in rows), reverse=order < 0)
        assert len({row["image"] for row in rows}) == len(rows)


def test_unfinished_and_bare_runs_say_what_they_lack(runs):
    found = one(runs, "unfinished")
    assert not found["finished"]
    assert len(found["training"]["epochs"]) == 1
    assert found["results"]["cross_validated"] is None
    bare = one(runs, "bare")
    assert (bare["results"], bare["random_check"], bare["data"]["held_out"]) == (None, None, None)


def test_labels_spent(runs):
    found = collect([runs / "one", runs / "two &b;"], resamples=20)["runs"]
    assert found[1]["labels_spent"]["labels"] == 1200
    assert found[1]["labels_spent"]["kind"] == "all labels"
    assert found[0]["labels_spent"]["kind"] == "single labels"
    assert found[0]["labels_spent"]["by_origin"] == {"given": found[0]["data"]["training"]["known"]}


def test_contradictions_and_imports_are_told(tmp_path):
    trained = LabelTable.from_pairs(
        ["a", "b"], CLASSES, [0, 0, 1], [0, 0, 1], [1, -1, 1], duplicates="present",
        history=[
            {"operation": "import", "source": "x.csv", "not_listed": "absent", "conflicts": "unknown", "settled": 3}
        ],
    )  # fmt: skip
    make_run(tmp_path / "run", None, None, trained=trained)
    data = one(tmp_path, "run")["data"]
    assert data["not_listed"] == ["absent"]
    assert data["conflicts"] == [
        "3 labels were both present and absent in x.csv; settled as unknown.",
        "1 label was stated twice in different ways; settled as present.",
    ]


def test_what_is_refused(runs, tmp_path):
    with pytest.raises(UserError, match="not a run folder"):
        collect([tmp_path])
    with pytest.raises(UserError, match="needs --images"):
        collect([runs / "one"], labels="x.parquet")
    with pytest.raises(UserError, match="at least 1 resample"):
        collect([runs / "one"], resamples=0)
    begun = shutil.copytree(runs / "one", tmp_path / "begun")
    (begun / "metrics.jsonl").unlink()
    with pytest.raises(UserError, match="no epoch of these trainings is finished"):
        collect([begun])
    damaged = shutil.copytree(runs / "one", tmp_path / "damaged")
    (damaged / "metrics.jsonl").write_text('{"epoch": 1\n{}\nnonsense\n')
    with pytest.raises(UserError, match="is damaged") as error:
        collect([damaged])
    assert [":1 " in error.value.offenders[0], ":3 " in error.value.offenders[1]] == [True, True]
