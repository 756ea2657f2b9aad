"""Every table and figure runs on real handwritten digits, goes on where it stopped, and is rendered."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from experiments.jobs import store
from experiments.presets import SMOKE_PRESET
from experiments.reading import Results
from experiments.run import EXPERIMENTS, listed, main

pytestmark = pytest.mark.slow


def test_every_experiment_runs_and_is_rendered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    results = tmp_path / "results"
    options = ["--preset", "smoke", "--results", str(results), "--out", str(tmp_path / "out")]
    options += ["--data", str(tmp_path / "digits"), "--threads", "1"]

    with pytest.warns():  # so few labels that relabelling warns
        main(["all", *options])  # the best of each grid too, once the grids are complete

    found = Results(results, SMOKE_PRESET)
    jobs = listed(list(EXPERIMENTS), found)
    assert {job.labels.kind for job in jobs} >= {"partial", "dense", "noisy", "noisy-plus", "asked", "verified"}
    for job in jobs:
        record = found.get(job)
        assert record is not None, job.name
        assert 0 < record["metrics"]["mean_ap"] <= 100
        assert record["seconds"] > 0
        assert record["seed"] == job.seed
        assert record["command"].startswith("python -m experiments.run all --preset smoke")
    assert not list(results.rglob(".*"))  # no locks, no temporary files
    capsys.readouterr()

    table = store(results, "smoke")
    before = table.path.read_bytes()
    shutil.rmtree(tmp_path / "out")
    main(["all", *options])
    assert table.path.read_bytes() == before
    assert capsys.readouterr().out == ""  # nothing was run again

    main(["results", "--preset", "smoke", "--results", str(results)])
    text = (results / "RESULTS-smoke.md").read_text()
    assert text.count("\n## ") == 16
    value = table.read()[jobs[0].name]["metrics"]["mean_ap"]
    assert f"{value:.2f}" in text
    for picture in ("strategies", "losses", "g-value", "graph", "learning-rate"):
        assert f"({'docs/results-smoke'}/{picture}.svg)" in text
        assert (results / "docs" / "results-smoke" / f"{picture}.svg").is_file()
