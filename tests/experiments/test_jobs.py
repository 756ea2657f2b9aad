"""Jobs: their names, their locks, the labels they know, their configurations and the numbers made of their results."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from experiments import ablation, known_labels
from experiments.carry_out import Place, carry_out
from experiments.datasets import open_dataset
from experiments.jobs import ASKED, Job, Labels, store, where
from experiments.losses import mean_over_known, same_step
from experiments.presets import FROZEN_PRESET, PAPER_PRESET, PRESETS, SMOKE_PRESET, Preset
from experiments.reading import Claim, Results, Sample
from experiments.rendering import claims
from experiments.report import summary
from experiments.run import EXPERIMENTS, _start, forecast, listed, main, selected

from partlabel import LabelTable, simulate
from partlabel.core.errors import UserError
from partlabel.method.loss import solve_g
from tests.processes import write_variable


@pytest.fixture
def table() -> LabelTable:
    random = np.random.default_rng(0)
    values = np.where(random.random((400, 20)) < 0.1, 1, -1).astype(np.int8)
    return LabelTable.from_dense([f"{i}.jpg" for i in range(400)], [f"c{c}" for c in range(20)], values)


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda preset: preset.name)
def test_every_job_has_a_name_and_a_configuration_of_its_own(preset: Preset, tmp_path: Path) -> None:
    jobs = listed(list(EXPERIMENTS), Results(tmp_path, preset))
    assert len({job.name for job in jobs}) == len(jobs) > 40
    for job in jobs:
        assert "/" not in job.name
        config = preset.config(job)
        assert config.seed == job.seed
        assert config.model.graph == bool(job.graph)


def test_the_papers_preset_is_the_papers_setting() -> None:
    config = PAPER_PRESET.config(Job(labels=Labels(), seed=3, base="tuned", loss="partial-bce", graph=3, relabel=True))
    assert (config.model.backbone, config.model.pooling, config.images.size) == ("resnet101.tv_in1k", "weldon", 448)
    assert (config.optim.learning_rate, config.optim.head_learning_rate) == (0.001, 0.01)
    assert (config.optim.weight_decay, config.optim.batch_size) == (1e-4, 16)
    assert (config.optim.epochs, config.optim.step_after, config.optim.momentum) == (20, (10,), 0.9)
    assert (config.relabel.before, config.relabel.threshold, config.relabel.samples) == ((10, 15), 0.3, 50)
    assert (config.loss.gamma, config.loss.value, config.model.graph_steps) == (1.0, 5.0, 3)
    assert (config.validation, config.freeze, config.seed) == (0.0, "none", 3)


def test_only_one_process_has_a_job(tmp_path: Path) -> None:
    smoke = store(tmp_path, "smoke")
    with smoke.alone("one", wait=False) as first, smoke.alone("one", wait=False) as second:
        assert (first, second) == (True, False)
        with smoke.alone("another", wait=False) as other:
            assert other
    with smoke.alone("one", wait=False) as again:
        assert again
    assert not list(smoke.path.parent.iterdir())


def test_rounds_of_questions_follow_each_other() -> None:
    job = Job(labels=Labels("asked", ASKED[2]), seed=1)
    assert job.previous == Job(labels=Labels("asked", ASKED[1]), seed=1)
    assert Job(labels=Labels("asked", ASKED[0]), seed=1).previous is None
    assert Job(labels=Labels("partial", 0.1), seed=1).previous is None


def test_uneven_proportions_lie_between_1_and_100_percent_with_mean_10() -> None:
    p = known_labels.uneven(100_000, np.random.default_rng(0))
    assert 0.01 <= p.min() < 0.0101
    assert 0.99 < p.max() <= 1
    assert p.mean() == pytest.approx(0.1, abs=2e-4)
    # the share of p^(-3/2) below 1/25 is (10 - 5) / 9
    assert (p < 1 / 25).mean() == pytest.approx(5 / 9, abs=1e-4)


def test_uneven_images_differ_and_classes_do_not(table: LabelTable) -> None:
    known = known_labels.draw(Labels("uneven-images", 0.1), table, seed=0)
    per_image, per_class = (known.dense() != 0).mean(1), (known.dense() != 0).mean(0)
    assert per_image.max() > 0.8
    assert per_class.max() < 0.3
    by_class = known_labels.draw(Labels("uneven-classes", 0.1), table, seed=0)
    assert (by_class.dense() != 0).mean(0).max() > 0.25
    assert (known.dense()[known.dense() != 0] == table.dense()[known.dense() != 0]).all()


def test_verified_labels_are_few_and_many_of_them_present(table: LabelTable) -> None:
    known = known_labels.draw(Labels("verified", 0.05), table, seed=0)
    assert known.num_known == round(0.05 * 400 * 20)
    assert 0.4 < (known.values > 0).mean() < 0.9  # 10 % of the pairs are present
    counts = (known.dense() != 0).sum(0)
    assert counts.max() > 4 * counts.min()


def test_a_table_that_knows_few_labels_is_taken_as_it_is(table: LabelTable) -> None:
    few = simulate.partial(table, 0.01, seed=0)
    known = known_labels.draw(Labels("verified", 0.0101), few, seed=0)
    assert known.num_known == few.num_known
    assert (known.dense() == few.dense()).all()


def test_results_on_another_data_set_lie_apart_and_are_not_mixed(tmp_path: Path) -> None:
    assert PAPER_PRESET.of_dataset("coco") is PAPER_PRESET
    other = PAPER_PRESET.of_dataset("voc2007-val")
    assert (other.name, other.dataset) == ("paper-voc2007-val", "voc2007-val")
    assert other.options == " --preset paper --dataset voc2007-val"
    assert FROZEN_PRESET.options == ""
    job = Job(labels=Labels(), seed=0)
    dataset = open_dataset("digits", tmp_path / "digits")
    place = Place(SMOKE_PRESET, dataset, tmp_path / "out", tmp_path, "command")
    _write(tmp_path, job, 50)
    assert carry_out(job, place)  # there, and of no data set that is known
    place.store.add(job.name, {"metrics": {"mean_ap": 50}, "dataset": "sketches"})
    with pytest.raises(
        UserError, match=r"smoke\.jsonl: \w+_seed0 is a result on sketches; give those on digits another folder"
    ):
        carry_out(job, place)


def test_seeds_leave_out_jobs_and_change_none(tmp_path: Path) -> None:
    results = Results(tmp_path, FROZEN_PRESET)
    every = selected(["losses-tuning"], results, None, "")
    assert {job.seed for job in every} == {0}  # a setting is chosen on the first seed, whichever are asked for
    assert selected(["losses-tuning"], results, [1], "") == []
    assert selected(["seeds"], results, [3], "partial-10") == [Job(labels=Labels("partial", 0.1), seed=3)]


def test_answers_are_true_and_reach_the_share(table: LabelTable) -> None:
    known = simulate.partial(table, 0.1, 0)
    scores = np.random.default_rng(1).normal(size=(400, 20)).astype(np.float32)
    more = known_labels.ask(known, scores, table, 0.2, seed=0)
    assert known.num_known < more.num_known <= 0.2 * 400 * 20
    dense = more.dense()
    assert (dense[dense != 0] == table.dense()[dense != 0]).all()


def test_equal_steps_are_partial_bce_at_a_tenth() -> None:
    partial = Job(labels=Labels("partial", 0.1), seed=0, loss="partial-bce")
    theirs, ours = FROZEN_PRESET.config(partial), FROZEN_PRESET.config(same_step(partial))
    g = 5.0
    assert ours.loss.name == "bce"
    assert ours.optim.learning_rate == pytest.approx(g * theirs.optim.learning_rate)
    product = theirs.optim.learning_rate * theirs.optim.weight_decay
    assert ours.optim.learning_rate * ours.optim.weight_decay == pytest.approx(product)
    mean = mean_over_known(partial)
    assert solve_g(mean.gamma, 0.1, mean.value) == pytest.approx((1.0, 0.0))


def _write(folder: Path, job: Job, value: float, preset: str = "smoke") -> None:
    store(folder, preset).add(job.name, {"metrics": {"mean_ap": value}, "seed": job.seed})


def test_differences_are_paired_and_their_interval_is_students(tmp_path: Path) -> None:
    a, b = ([Job(labels=Labels(), seed=seed, loss=loss) for seed in range(4)] for loss in ("bce", "partial-bce"))
    for seed, (low, high) in enumerate(((40, 41), (50, 52), (30, 33))):
        _write(tmp_path, a[seed], low)
        _write(tmp_path, b[seed], high)
    _write(tmp_path, a[3], 0)  # without a partner
    found = Results(tmp_path, SMOKE_PRESET).paired(b, a)
    assert found.values == (1, 2, 3)
    assert found.half_width == pytest.approx(4.302653 / 3**0.5, rel=1e-6)  # t of 2 degrees of freedom, deviation 1
    assert found.difference() == "+2.00 [-0.48, +4.48]"
    assert found.verdict() == "undecided (the interval holds 0)"


def test_verdicts() -> None:
    assert Sample((1.0, 1.1, 0.9)).verdict() == "agrees"
    assert Sample((1.0, 1.1, 0.9)).verdict(-1) == "differs"
    assert Sample((0.0, 0.0)).verdict() == "equal in each seed"
    assert Sample(()).verdict() == "not measured"
    assert Sample((1.0,)).verdict() == "one seed, which agrees"
    assert str(Sample(())) == "not run here"
    assert str(Sample((1.0, 2.0))) == "1.50 ± 0.71"


def test_claims_are_shown_and_summarised_by_verdict(tmp_path: Path) -> None:
    results = Results(tmp_path, SMOKE_PRESET)
    found = [
        Claim("gain", Sample((2.0,)), 1, "+3.16"),
        Claim("loss", Sample((1.0, 1.1, 0.9)), -1),
        Claim("no claim", Sample((1.0, 1.1, 0.9)), 0),
        Claim("to come", Sample(())),
    ]
    assert "| gain | +3.16 | +2.00 (one seed) | one seed, which agrees |" in claims(results, found)
    assert results.claimed == found
    text = summary({"Section (table 1)": found, "Other": [Claim("more", Sample((1.0, 1.1, 0.9)))]})
    assert text.split("\n\n") == [
        "**The paper's claim holds** (1):",
        "- Other: more (+1.00)",
        "**The contrary holds** (1):",
        "- Section: loss (+1.00)",
        "**One seed only** (1):",
        "- Section: gain (+2.00)",
        "**Not measured** (1):",
        "- Section: to come",
    ]


def test_a_strangers_coco_and_tables_are_read(tmp_path: Path) -> None:
    (tmp_path / "annotations").mkdir()
    for part in ("train2014", "val2014"):
        content = {
            "images": [{"id": 1, "file_name": f"{part}.jpg"}],
            "annotations": [{"id": 1, "image_id": 1, "category_id": 2}],
            "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
        }
        (tmp_path / "annotations" / f"instances_{part}.json").write_text(json.dumps(content))
    found = open_dataset("coco", tmp_path)
    assert found.train.table.dense().tolist() == [[-1, 1]]
    assert found.test.paths == [tmp_path / "val2014" / "val2014.jpg"]
    found.train.table.write_parquet(tmp_path / "train.parquet")
    found.test.table.select_classes(["dog", "cat"]).write_parquet(tmp_path / "test.parquet")
    again = open_dataset("tables", tmp_path)
    assert again.test.table.classes == ("cat", "dog")
    assert again.train.paths == [tmp_path / "images" / "train2014.jpg"]


def test_the_papers_voc_splits(tmp_path: Path) -> None:
    (tmp_path / "Annotations").mkdir()
    sets = tmp_path / "ImageSets" / "Main"
    sets.mkdir(parents=True)
    for name in ("000001", "000002", "000003"):
        box = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox>"
        classes = ("cat", "dog")
        found = "".join(f"<object><name>{cls}</name><difficult>0</difficult>{box}</object>" for cls in classes)
        text = f"<annotation><filename>{name}.jpg</filename>{found}</annotation>"
        (tmp_path / "Annotations" / f"{name}.xml").write_text(text)
    for part, names in (("train", "1"), ("val", "2"), ("trainval", "12"), ("test", "3")):
        (sets / f"{part}.txt").write_text("".join(f"00000{n}\n" for n in names))
    for name, train, test in (("voc2007", 2, 1), ("voc2007-val", 1, 1)):
        dataset = open_dataset(name, tmp_path)
        assert (dataset.name, dataset.train.table.num_images, dataset.test.table.num_images) == (name, train, test)
    assert dataset.test.paths == [tmp_path / "JPEGImages" / "000002.jpg"]


def test_help_lists_the_names(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    assert all(f"\n  {name} " in said for name in [*EXPERIMENTS, "propagation", "all", "results"])
    assert "--gpus" in said


def test_time_is_forecast_from_what_is_done() -> None:
    assert forecast([60.0, 120.0, 6000.0], 9, 3, 4) == (
        "9 of 12 trainings are to be done, 4 at a time: about 6 min, as half of the 3 that are done took up to 2 min"
    )
    assert forecast([], 2, 0, 1).endswith("is not known before the first is done")
    assert forecast([5.0], 0, 4, 1) == "all 4 trainings are done"


@pytest.mark.slow
def test_each_process_sees_a_gpu_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6,7")
    started = [_start(i, 2, write_variable, ("CUDA_VISIBLE_DEVICES", tmp_path / str(i))) for i in range(3)]
    for process in started:
        process.join()
    assert [(tmp_path / str(i)).read_text() for i in range(3)] == ["4", "6", "4"]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "4,6,7"


def test_a_result_names_its_code() -> None:
    found = where()["commit"]
    assert found is None or re.fullmatch(r"[0-9a-f]{40}( and changes)?", found)


def test_data_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"labels\.csv: cannot be read"):
        open_dataset("coco-mini", tmp_path)
    with pytest.raises(SystemExit, match=r"labels\.csv: cannot be read"):
        main(["seeds", "--data", str(tmp_path), "--results", str(tmp_path)])
    with pytest.raises(SystemExit, match="no job has these settings"):
        main(["ablation", "--seeds", "9", "--results", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"the folder .* does not exist"):
        main(["results", "--results", str(tmp_path / "nowhere" / "results")])


def test_rates_go_on_until_the_best_one_lies_between_others(tmp_path: Path) -> None:
    job = Job(labels=Labels("partial", 0.1), seed=0, base="tuned", held_out=True)

    def rates() -> list[float]:
        return [found.rate for found in ablation.at_rates(Results(tmp_path, FROZEN_PRESET), job)]

    assert rates() == [0.25, 0.5, 1.0]
    for rate, value in ((0.25, 30), (0.5, 20), (1.0, 10)):
        _write(tmp_path, replace(job, rate=rate), value, "frozen")
    assert rates() == [0.125, 0.25, 0.5, 1.0]
    _write(tmp_path, replace(job, rate=0.125), 29, "frozen")
    assert rates() == [0.125, 0.25, 0.5, 1.0]
    _write(tmp_path, replace(job, rate=1.0), 31, "frozen")
    assert rates() == [0.25, 0.5, 1.0, 2.0]


def test_the_strategy_of_relabelling_is_the_best_on_held_out_pictures(tmp_path: Path) -> None:
    assert ablation.chosen(Results(tmp_path, FROZEN_PRESET), "single-rate") == []
    listed_jobs = ablation.choosing(Results(tmp_path, FROZEN_PRESET), "single-rate")
    assert [(job.strategy, job.theta) for job in listed_jobs] == list(ablation.STRATEGIES)
    for job in listed_jobs:
        assert (job.held_out, job.relabel, job.value) == (True, True, 20.0)
        relabel = FROZEN_PRESET.config(job).relabel
        assert (relabel.strategy, relabel.threshold) == (job.strategy, job.theta)
        _write(tmp_path, job, 9 if job.strategy == "positive-only" else 8, "frozen")
    found = ablation.chosen(Results(tmp_path, FROZEN_PRESET), "single-rate")
    assert [(job.seed, job.strategy, job.held_out) for job in found] == [(s, "positive-only", False) for s in range(3)]
    # at the best rate of [e], which has to be known first
    assert ablation.choosing(Results(tmp_path, FROZEN_PRESET), "tuned") == []
    for job in ablation.tuning(Results(tmp_path, FROZEN_PRESET), ablation.FULL):
        _write(tmp_path, job, 30 - abs(job.rate - 0.5), "frozen")
    assert {job.rate for job in ablation.choosing(Results(tmp_path, FROZEN_PRESET), "tuned")} == {0.5}
