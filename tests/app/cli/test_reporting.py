"""The command ``report`` as a user calls it, on a run that was really trained."""

from __future__ import annotations

import json

import pytest

from partlabel.app.cli import main
from partlabel.app.cli.completion import _reachable
from partlabel.training.loop import train
from tests.pictures import make_pictures, tiny_config


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """Images, their table, and two runs with the same validation part."""
    folder = tmp_path_factory.mktemp("job")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PARTLABEL_CACHE", str(folder / "cache"))
        table = make_pictures(folder / "pictures", 60)
        table.write_parquet(folder / "labels.parquet")
        for name, rate in (("a", 0.01), ("b", 0.05)):
            config = tiny_config(validation=0.4, optim__epochs=3, optim__learning_rate=rate)
            train(table, folder / "pictures", out=folder / name, config=config)
    return folder


@pytest.mark.slow
def test_on_the_validation_part(capsys, job):
    words = ["report", str(job / "a"), str(job / "b"), "-o", str(job / "out.html"), "--resamples", "50"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "a: on all labels, as far as the known ones tell: ROC-AUC" in out
    assert "out.html" in out
    assert "out.json" in out
    assert main([*words, "--json", "--images", str(job / "pictures")]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["output"].endswith("out.html")
    stored = json.loads((job / "out.json").read_text())
    assert stored["runs"] == result["runs"]
    assert [run["name"] for run in stored["runs"]] == ["a", "b"]
    assert "data:image/jpeg;base64," in (job / "out.html").read_text()


def test_on_another_table_it_measures_what_evaluate_measures(capsys, job):
    labels, images = str(job / "labels.parquet"), str(job / "pictures")
    assert main(["evaluate", str(job / "a"), labels, "--images", images, "--json"]) == 0
    evaluated = json.loads(capsys.readouterr().out)
    words = ["report", str(job / "a"), "--labels", labels, "--images", images, "-o", str(job / "other.html")]
    assert main([*words, "--resamples", "20", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    metrics = {row["name"]: row["value"] for row in found["runs"][0]["results"]["metrics"]}
    assert metrics == pytest.approx(evaluated["metrics"])
    assert found["measured_on"] == labels
    assert "in labels.parquet" in (job / "other.html").read_text()


def test_mistakes_of_the_user(capsys, job, tmp_path):
    for words, said in (
        ([str(tmp_path)], "not a run folder"),
        ([str(job / "a"), str(job / "a")], "more than once"),
        ([str(job / "a"), "--labels", str(job / "labels.parquet")], "--images"),
        ([str(job / "a"), "-o", str(tmp_path / "x.txt")], ".html"),
    ):
        assert main(["report", *(["-o", str(tmp_path / "x.html")] if "-o" not in words else []), *words]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert said in printed.err
    assert list(tmp_path.iterdir()) == []


def test_a_precision_within_reach_for_few_labels_is_not_said_to_need_more():
    found = {"lower_bound": 0.96, "filled": 3, "tested": 90, "wrong": 1, "more": 0}
    said = _reachable(found, "absent", {"precision": 0.8})
    assert said.endswith("89 of 90 held-out labels there are absent; that is for the long run: "
                         "so few labels to fill in can miss 80.0% by chance")  # fmt: skip
    assert "needs about 4 more" in _reachable({**found, "lower_bound": 0.75, "more": 4}, "absent", {"precision": 0.8})
