"""Table 2 runs on real handwritten digits, goes on where it stopped, and is rendered."""

from __future__ import annotations

from pathlib import Path

import pytest
from experiments import relabeling, relabeling_table
from experiments.presets import PAPER_PRESET, SMOKE_PRESET
from experiments.reading import Results

pytestmark = pytest.mark.slow


@pytest.mark.filterwarnings("ignore")  # so few labels that relabelling warns
def test_table_2_runs_and_is_rendered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    options = ["smoke", "--data", str(tmp_path / "digits"), "--out", str(tmp_path / "out"), "--seeds", "0"]
    options += ["--results", str(tmp_path / "results"), "--threads", "1"]
    relabeling.main([*options, "--only", "none", "[e]"])
    store = relabeling.store_of(tmp_path / "results", "smoke")
    before = relabeling.of_seeds(store)[0]
    assert list(before) == ["none", "[e] uncertainty 0.3"]
    relabeling.main(options)
    rows = relabeling.of_seeds(store)[0]
    assert {name: rows[name] for name in before} == before  # not run again
    assert set(rows) == {"none", "2 steps", "[d] ensemble 2", "[e] uncertainty 0.3"}
    assert rows["none"]["rounds"] == []
    last = rows["2 steps"]["rounds"][-1]
    assert last["label_proportion"] == 1
    assert rows["none"]["dataset"] == "digits"
    assert "1 threads used" in rows["none"]["machine"]

    text = relabeling_table.render(Results(tmp_path / "results", SMOKE_PRESET))
    gain = rows["2 steps"]["map80"] - rows["none"]["map80"]
    assert f"| 2 steps | 1 | {gain:+.2f} (-1.49) |" in text
    assert "`python -m experiments.relabeling smoke`: 4 trainings" in text
    assert "Frozen" not in text
    elsewhere = Results(tmp_path / "results", SMOKE_PRESET.of_dataset("coco"))
    assert "No graph: not run here." in relabeling_table.render(elsewhere)  # these are on digits
    capsys.readouterr()


def test_runs_of_one_seed_share_their_first_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    options = ["smoke", "--data", str(tmp_path / "digits"), "--seeds", "0", "--threads", "1", "--only"]
    both, alone = tmp_path / "both", tmp_path / "alone"
    relabeling.main([*options, "none", "2 steps", "--out", str(both), "--results", str(both)])
    assert "going on after epoch 1" in "".join(capfd.readouterr())
    relabeling.main([*options, "2 steps", "--out", str(alone), "--results", str(alone)])
    assert "going on" not in "".join(capfd.readouterr())
    rows = [relabeling.of_seeds(relabeling.store_of(folder, "smoke"))[0]["2 steps"] for folder in (both, alone)]
    assert [row["map80"] for row in rows] == [rows[0]["map80"]] * 2
    assert not (alone / "smoke-0" / "none").exists()


def test_the_papers_protocol() -> None:
    config = relabeling.KINDS["paper"].config
    assert (config.model.backbone, config.model.graph, config.model.pooling) == ("resnet101.tv_in1k", True, "weldon")
    assert (config.loss.name, config.optim.head_learning_rate, config.images.size) == ("partial-bce", 0.01, 448)
    jobs = relabeling.jobs(relabeling.KINDS["paper"])
    assert jobs["[e] uncertainty 0.3"] == {
        "relabel__before": [10, 15],
        "relabel__strategy": "uncertainty",
        "relabel__theta": 0.3,
        "relabel__samples": 50,
    }
    assert set(relabeling_table.PAPER) < set(jobs)
    assert "With the graph: not run here." in relabeling_table.render(Results(Path("nowhere"), PAPER_PRESET))
