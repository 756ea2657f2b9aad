import json
import subprocess
import sys

import numpy as np
import pytest
import torch

import partlabel.training.epoch
from partlabel import Config, LabelTable, Model, simulate
from partlabel.core.errors import PartlabelWarning, UserError
from partlabel.tasks.evaluate import evaluate
from partlabel.tasks.predict import score
from partlabel.training.loop import train
from tests.pictures import CLASSES, make_pictures, tiny_config
from tests.training.looking import rows, same, weights


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def table(tmp_path):
    return make_pictures(tmp_path / "pictures", 12)


@pytest.mark.slow
def test_learns_colours(tmp_path):
    """Half of the labels of 96 images are known; new images are ranked almost perfectly."""
    train_table = simulate.partial(make_pictures(tmp_path / "pictures", 96), 0.5, seed=0)
    test_table = make_pictures(tmp_path / "test", 60, seed=1)
    config = tiny_config(
        optim__name="adamw", optim__epochs=12, optim__learning_rate=3e-3, optim__schedule="cosine", optim__batch_size=16
    )
    train(train_table, tmp_path / "pictures", out=tmp_path / "run", config=config)
    model = Model.load(tmp_path / "run")
    scores = score(model, [tmp_path / "test" / name for name in test_table.images.to_pylist()])
    assert partlabel.metrics.evaluate(scores, test_table.dense()).mean_ap > 0.9
    losses = [row["loss"] for row in rows(tmp_path / "run")]
    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize("freeze", ["none", "2", "all"])
def test_frozen_stages_stay_and_the_rest_learns(tmp_path, table, freeze):
    config = tiny_config(freeze=freeze)
    train(table, tmp_path / "pictures", out=tmp_path / "run", config=config)
    torch.manual_seed(config.seed)
    start = Model(config.model, CLASSES, 32).state_dict()
    changed = {key for key, value in weights(tmp_path / "run").items() if not torch.equal(value, start[key])}
    frozen = {"none": (), "2": ("conv1", "bn1", "layer1"), "all": ("",)}[freeze]
    assert not [key for key in changed if key.startswith(tuple(f"backbone.net.{name}" for name in frozen))]
    assert "head.classifier.weight" in changed
    assert ("backbone.net.layer4.0.conv1.weight" in changed) == (freeze != "all")
    assert ("head.shift" in changed) == (freeze == "all"), "only a frozen backbone's features are standardised"


def test_frozen_batch_norm_keeps_its_statistics_and_learns_its_scale(tmp_path, table):
    changed = {}
    for freeze in (False, True):
        config = tiny_config(freeze_batch_norm=freeze)
        run = tmp_path / f"run-{freeze}"
        train(table, tmp_path / "pictures", out=run, config=config)
        torch.manual_seed(config.seed)
        start = Model(config.model, CLASSES, 32).state_dict()
        changed[freeze] = {key for key, value in weights(run).items() if not torch.equal(value, start[key])}
    running = {key for key in changed[False] if "running_" in key or "num_batches" in key}
    assert running
    assert not changed[True] & running
    assert [key for key in changed[True] if "bn" in key and key.endswith(".weight")]


@pytest.mark.parametrize(("images", "batch"), [(5, 4), (1, 4), (3, 8)])
@pytest.mark.parametrize("freeze", ["none", "all"])
def test_last_batch_of_one_image(tmp_path, table, images, batch, freeze):
    config = tiny_config(optim__batch_size=batch, freeze=freeze, optim__epochs=1)
    mixed = np.argsort(np.abs(table.dense().sum(1)), kind="stable")[:images]  # present and absent labels first
    summary = train(table.select(mixed), tmp_path / "pictures", out=tmp_path / "run", config=config).summary
    assert summary["images_trained"] == images
    assert all(torch.isfinite(value).all() for value in weights(tmp_path / "run").values())


def test_same_seed_same_weights_another_seed_others(tmp_path, table):
    for run, seed in (("a", 0), ("b", 0), ("c", 1)):
        train(table, tmp_path / "pictures", out=tmp_path / run, config=tiny_config(seed=seed, optim__epochs=1))
    assert same(weights(tmp_path / "a"), weights(tmp_path / "b"))
    assert not same(weights(tmp_path / "a"), weights(tmp_path / "c"))


def test_no_known_label_stops_and_positives_only_warns(tmp_path, table):
    nothing = table.hide(np.zeros(table.num_known, bool))
    with pytest.raises(UserError, match="nothing can be learned"):
        train(nothing, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config())
    assert not (tmp_path / "run").exists()
    positives = table.hide(table.values > 0)
    with pytest.warns(PartlabelWarning, match="no class has a known absent label"):
        train(positives, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config(optim__epochs=1))
    summary = train(
        positives,
        tmp_path / "pictures",
        out=tmp_path / "assumed",
        config=tiny_config(optim__epochs=1, assume_absent=True),
    ).summary
    assert summary["assume_absent"]
    assert not same(weights(tmp_path / "run"), weights(tmp_path / "assumed"))


def test_assumed_absent_equals_labels_that_say_so(tmp_path, table):
    positives = table.hide(table.values > 0)
    config = tiny_config(optim__epochs=1)
    train(positives, tmp_path / "pictures", out=tmp_path / "a", config=config.replace(assume_absent=True))
    train(table, tmp_path / "pictures", out=tmp_path / "b", config=config)
    assert same(weights(tmp_path / "a"), weights(tmp_path / "b"))


def test_images_without_labels_are_left_out_and_counted(tmp_path, table):
    unlabelled = table.hide(table.pair_images() >= 4)
    summary = train(unlabelled, tmp_path / "pictures", out=tmp_path / "a", config=tiny_config(optim__epochs=1)).summary
    assert (summary["images_trained"], summary["images_without_labels"]) == (8, 4)


def test_bad_pictures_stop_before_training_or_are_skipped(tmp_path, table):
    (tmp_path / "pictures" / "003.png").write_bytes(b"")
    (tmp_path / "pictures" / "005.png").write_text("<html>")
    (tmp_path / "pictures" / "007.png").unlink()
    with pytest.raises(UserError, match="1 of 12 images missing") as caught:
        train(table, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config())
    assert caught.value.offenders == ["007.png"]
    assert not (tmp_path / "run").exists(), "a corrected call must not find half a run"
    kept = table.select([i for i in range(12) if i != 7])
    with pytest.raises(UserError, match="2 of 11 images") as caught:
        train(kept, tmp_path / "pictures", out=tmp_path / "run2", config=tiny_config())
    assert len(caught.value.offenders) == 2
    config = tiny_config(images__on_bad="skip", optim__epochs=1)
    summary = train(table, tmp_path / "pictures", out=tmp_path / "run3", config=config).summary
    assert (summary["images_trained"], summary["images_skipped"]) == (9, 3)
    assert len((tmp_path / "run3" / "skipped.txt").read_text().splitlines()) == 3


def test_validation_is_on_known_labels_of_held_out_images(tmp_path, table):
    config = tiny_config(validation=0.25)
    summary = train(
        simulate.partial(table, 0.67, 0), tmp_path / "pictures", out=tmp_path / "run", config=config
    ).summary
    held = LabelTable.read_parquet(tmp_path / "run" / "validation.parquet")
    trained = LabelTable.read_parquet(tmp_path / "run" / "labels.parquet")
    assert (held.num_images, summary["images_trained"]) == (3, 9)
    assert not set(held.images.to_pylist()) & set(trained.images.to_pylist())
    model = Model.load(tmp_path / "run", which="last")
    scores = score(model, [tmp_path / "pictures" / n for n in held.images.to_pylist()])
    expected = partlabel.metrics.evaluate(scores, held.dense())
    assert summary["last"]["validation"]["micro_f1"] == pytest.approx(expected.micro_f1)
    best = max(row["validation"]["mean_ap"] for row in rows(tmp_path / "run"))
    assert summary["best"]["validation"]["mean_ap"] == best


def test_validation_is_on_a_random_sample_only(tmp_path, table):
    """Labels that partlabel asked for, that a person looked at or that a model gave are no fair measure of it."""
    make_pictures(tmp_path / "others", 12, seed=1)
    for name in table.images.to_pylist():
        (tmp_path / "others" / name).rename(tmp_path / "pictures" / f"v{name}")
    image, cls = np.nonzero(table.dense())
    value = table.dense()[image, cls]
    origin = np.array(["given", "asked", "sampled", "review", "model"])[np.arange(len(image)) % 5]
    given = np.zeros_like(table.dense())
    given[image[::5], cls[::5]] = value[::5]
    mixed = LabelTable.from_dense([f"v{n}" for n in table.images.to_pylist()], CLASSES, given)
    for name in ("asked", "sampled", "review", "model"):
        own = origin == name
        mixed = mixed.with_labels(image[own], cls[own], value[own], origin=name)
    summary = train(
        table, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config(optim__epochs=1), validation=mixed
    ).summary
    scores = score(
        Model.load(tmp_path / "run", which="last"), [tmp_path / "pictures" / name for name in mixed.images.to_pylist()]
    )
    labels = np.zeros_like(table.dense())
    fair = np.isin(origin, ["given", "sampled"])
    labels[image[fair], cls[fair]] = value[fair]
    expected = partlabel.metrics.evaluate(scores, labels)
    assert summary["last"]["validation"]["mean_ap"] == pytest.approx(expected.mean_ap)
    assert summary["last"]["validation"]["mean_ap"] != partlabel.metrics.evaluate(scores, mixed.dense()).mean_ap


def test_given_validation_table(tmp_path, table):
    other = make_pictures(tmp_path / "pictures2", 4, seed=5)
    for name in other.images.to_pylist():
        (tmp_path / "pictures2" / name).rename(tmp_path / "pictures" / f"v{name}")
    held = LabelTable.from_dense([f"v{n}" for n in other.images.to_pylist()], CLASSES, other.dense())
    summary = train(table, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config(), validation=held).summary
    assert summary["images_trained"] == 12
    wrong = LabelTable.from_dense(held.images, ["x", "y", "z"], held.dense())
    with pytest.raises(UserError, match="other classes"):
        train(table, tmp_path / "pictures", out=tmp_path / "run2", config=tiny_config(), validation=wrong)


def test_bf16_agrees_with_single_precision(tmp_path, table):
    losses = []
    for precision in ("32", "bf16"):
        config = tiny_config(precision=precision, optim__epochs=1)
        losses.append(
            train(table, tmp_path / "pictures", out=tmp_path / precision, config=config).summary["last"]["loss"]
        )
    assert losses[1] == pytest.approx(losses[0], rel=2e-2)


def test_learning_rate_that_is_too_high_is_one_sentence(tmp_path, table):
    config = tiny_config(optim__learning_rate=1e30)
    with pytest.raises(UserError, match="choose a lower learning rate"):
        train(table, tmp_path / "pictures", out=tmp_path / "run", config=config)


def test_head_has_its_own_learning_rate_and_biases_do_not_decay(tmp_path, table, monkeypatch):
    seen = []
    original = partlabel.training.epoch.update

    def looking(job, state):
        groups = state.optimizer.param_groups
        seen.append([(g["lr"], g["weight_decay"], {p.ndim > 1 for p in g["params"]}) for g in groups])
        return original(job, state)

    monkeypatch.setattr(partlabel.training.epoch, "update", looking)
    config = tiny_config(
        optim__epochs=2, optim__step_after=[1], optim__head_learning_rate=0.05, optim__weight_decay=0.2
    )
    train(table, tmp_path / "pictures", out=tmp_path / "run", config=config)
    assert seen[0] == [(0.01, 0.2, {True}), (0.01, 0.0, {False}), (0.05, 0.2, {True}), (0.05, 0.0, {False})]
    assert [group[0] for group in seen[-1]] == pytest.approx([0.001, 0.001, 0.005, 0.005])


def test_gradient_is_clipped(tmp_path, table, monkeypatch):
    norms = []
    original = torch.optim.SGD.step

    def looking(self, *arguments, **keywords):
        gradients = [p.grad.norm() for group in self.param_groups for p in group["params"]]
        norms.append(float(torch.stack(gradients).norm()))
        return original(self, *arguments, **keywords)

    monkeypatch.setattr(torch.optim.SGD, "step", looking)
    train(
        table, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config(optim__clip_norm=1e-3, optim__epochs=1)
    )
    assert norms
    assert max(norms) <= 1.0001e-3


SCRIPT = """
import atexit, os, sys, torch
from pathlib import Path
from partlabel import Config, LabelTable, train
torch.set_num_threads(1)
def at_work():
    return [task for task in Path("/proc/self/task").glob("*/comm") if "gloo" in task.read_text()]
# a thread of gloo's that is left when Python ends may abort the process
atexit.register(lambda: os._exit(3) if at_work() else None)
folder = Path(sys.argv[1])
for name in sys.argv[3:]:
    config = Config.read(folder / f"{name}.toml")
    table = LabelTable.read_parquet(folder / f"{name}.parquet")
    train(table, folder / "pictures", out=folder / sys.argv[2] / name, config=config)
if sys.platform == "linux":
    assert at_work()
"""


@pytest.mark.slow
def test_two_processes_equal_one(tmp_path, table):
    """Gloo processes under torchrun. Frozen: shares of other sizes and a batch of one row, which leaves one rank
    without a row, equal one process. With batch normalisation: every rank saves and validates the same model.
    """
    labels = table.dense()
    labels[6:, 1:] = 0
    frozen = tiny_config(freeze="all", optim__epochs=3, optim__batch_size=4, validation=0.3, optim__learning_rate=0.05)
    jobs = {
        "uneven": (frozen, labels[:9]),
        "single": (frozen.replace(optim__batch_size=1), labels[:5]),
        "unknown-as-absent": (frozen.replace(optim__batch_size=1, loss__name="an"), labels[5:10]),
        "normalised": (tiny_config(validation=0.3), labels),
    }
    for name, (config, values) in jobs.items():
        config.write(tmp_path / f"{name}.toml")
        LabelTable.from_dense(table.images[: len(values)], CLASSES, values).write_parquet(tmp_path / f"{name}.parquet")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    subprocess.run([sys.executable, *torchrun, script, tmp_path, "two", *jobs], check=True, timeout=600)
    for name, (config, values) in jobs.items():
        part = LabelTable.from_dense(table.images[: len(values)], CLASSES, values)
        train(part, tmp_path / "pictures", out=tmp_path / "one" / name, config=config)
        one, two = tmp_path / "one" / name, tmp_path / "two" / name
        if name != "normalised":
            assert all(torch.allclose(weights(one)[key], weights(two)[key], atol=1e-5) for key in weights(one))
            for a, b in zip(rows(one), rows(two), strict=True):
                assert a["loss"] == pytest.approx(b["loss"], rel=1e-5)
                assert a["validation"] == pytest.approx(b["validation"])
        held = LabelTable.read_parquet(two / "validation.parquet")
        measured = evaluate(Model.load(two, which="last"), held, images=tmp_path / "pictures")
        found = rows(two)[-1]["validation"]["zero_one"]
        assert found == pytest.approx(measured.zero_one)


def test_frozen_run_from_an_earlier_model_starts_where_it_ended(tmp_path, table):
    first = tiny_config(freeze="all", optim__epochs=3, model__pooling="average")
    train(table, tmp_path / "pictures", out=tmp_path / "first", config=first)
    again = first.replace(model__weights=str(tmp_path / "first"), optim__learning_rate=1e-12, optim__epochs=1)
    train(table, tmp_path / "pictures", out=tmp_path / "again", config=again)
    old, new = weights(tmp_path / "first"), weights(tmp_path / "again")
    assert all(torch.allclose(old[key], new[key], atol=1e-6) for key in old)


def test_broken_link_is_a_missing_picture(tmp_path, table):
    (tmp_path / "pictures" / "002.png").unlink()
    (tmp_path / "pictures" / "002.png").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match="002"):
        train(table, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config())
    summary = train(
        table, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config(optim__epochs=1, images__on_bad="skip")
    ).summary
    assert summary["images_skipped"] == 1


def test_cache_folder_that_cannot_be_written(tmp_path, table, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "file" / "cache"))
    train(table, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config(optim__epochs=1))
    with pytest.warns(PartlabelWarning, match="stay in memory"):
        train(table, tmp_path / "pictures", out=tmp_path / "frozen", config=tiny_config(freeze="all"))


def test_loss_without_a_solution_stops_before_anything_is_written(tmp_path, table):
    config = tiny_config(loss__p0=0.5, loss__value=0.1)
    with pytest.raises(UserError, match="loss"):
        train(table, tmp_path / "pictures", out=tmp_path / "run", config=config)
    assert not (tmp_path / "run").exists()


def test_summary_says_what_was_trained(tmp_path, table):
    summary = train(table, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config()).summary
    written = json.loads((tmp_path / "run" / "summary.json").read_text())
    written.pop("checksum", None)
    assert summary == written
    assert (summary["images_trained"], summary["known_labels"], summary["classes"]) == (12, 36, 3)
    assert Config.read(tmp_path / "run" / "config.toml") == tiny_config()
