"""Fine-tuning: a head to start from, augmentation, mixed images, the mean of the weights, rates by stage, patience."""

import itertools
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from partlabel import Config, LabelTable, Model, simulate, train
from partlabel.core.errors import UserError
from partlabel.method.loss import solve_g
from partlabel.tasks.evaluate import evaluate
from partlabel.tasks.predict import score
from partlabel.training.config import LossConfig
from partlabel.training.epoch import loss_of
from partlabel.training.optimizer import WeightMean, build_loss, build_optimizer, freezes_batch_norm
from partlabel.training.schedule import split
from partlabel.training.summary import has_converged
from tests.pictures import CLASSES, make_pictures, tiny_config
from tests.processes import run_ranks
from tests.reference import mixing as reference
from tests.reference.derivative import complex_step
from tests.training.looking import rows, same, stop_before, weights

#: everything at once
ALL = {
    "model__pooling": "average",
    "augment__crop": 0.5,
    "augment__colour": 0.2,
    "augment__policy": "trivial",
    "augment__mix": "cutmix",
    "optim__name": "adamw",
    "optim__start": "closed-form",
    "optim__learning_rate": 1e-3,
    "optim__head_learning_rate": 3e-3,
    "optim__layer_decay": 0.7,
    "optim__schedule": "cosine",
    "optim__warmup": 0.5,
    "optim__ema": 0.9,
    "optim__patience": 3,
    "optim__clip_norm": 1.0,
    "optim__accumulate": 2,
    "optim__batch_size": 6,
    "optim__epochs": 4,
    "freeze_batch_norm": True,
}


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def table(tmp_path):
    return simulate.partial(make_pictures(tmp_path / "pictures", 24), 0.6, seed=0)


# --- what a mixed pair is known of ---


@pytest.mark.parametrize("seed", range(5))
def test_the_loss_of_mixed_images_is_that_of_the_loop(seed):
    """Forward and gradient, with weights of single labels, an image without a known label, and one without a partner"""
    rng = np.random.default_rng(seed)
    count, classes = int(rng.integers(1, 8)), int(rng.integers(1, 6))
    x = rng.normal(0, 3, (count, classes))
    y = rng.integers(-1, 2, (count, classes)).astype(np.int8)
    y[0] = 0
    w = rng.random((count, classes)) if seed % 2 else None
    partner = np.minimum(np.arange(count) ^ 1, count - 1)
    t = np.where(partner == np.arange(count), 1.0, rng.random(count))
    alpha, beta = solve_g(1.0, 0.1, 5.0)

    def loop(x):
        return reference.loss(x, y, t, lambda p: alpha * p + beta, w)

    scores = torch.tensor(x, dtype=torch.float32, requires_grad=True)
    value = loss_of(
        build_loss(LossConfig(), classes),
        scores,
        torch.from_numpy(y),
        None if w is None else torch.from_numpy(w).float(),
        epoch=1,
        mixed=(torch.from_numpy(partner), torch.from_numpy(t).float()),
    )
    assert value.item() == pytest.approx(loop(x).real, rel=1e-5, abs=1e-6)
    value.backward()
    np.testing.assert_allclose(scores.grad, complex_step(loop, {"x": x}, "x"), rtol=1e-4, atol=1e-6)


def mixed_bce(scores, labels, share):
    loss = build_loss(LossConfig(name="bce"), len(scores[0]))
    mixed = torch.tensor([1, 0]), torch.tensor(share)
    return loss_of(loss, torch.tensor(scores), torch.tensor(labels, dtype=torch.int8), None, epoch=1, mixed=mixed)


def test_a_mixed_pair_by_hand():
    """A quarter of an image that lacks both classes in three quarters of one that has the first, the second unknown.

    Of the mixed image: (3/4 ln 2 + 1/4 ln 2 + 1/4 ln 4) / 2 with scores 0 and ln 3; of the other, of score 0 in both,
    3/4 absent and 1/4 present in the first, 3/4 absent in the second.
    """
    value = mixed_bce([[0.0, np.log(3)], [0.0, 0.0]], [[1, 0], [-1, -1]], [0.75, 0.75])
    first, second = (1 + 0.5) * np.log(2) / 2, (1 + 0.75) * np.log(2) / 2
    assert value.item() == pytest.approx(first + second)


def test_with_labels_hidden_at_random_the_loss_is_their_share_of_that_with_all():
    """Over all ways in which each of four labels is known with chance 0.3, exactly."""
    scores, labels = [[0.3, -1.2], [2.0, 0.4]], np.array([[1, -1], [-1, -1]])
    mean = 0.0
    for known in itertools.product((0, 1), repeat=4):
        chance = 0.3 ** sum(known) * 0.7 ** (4 - sum(known))
        mean += chance * mixed_bce(scores, labels * np.reshape(known, (2, 2)), [0.6, 0.6]).item()
    assert mean == pytest.approx(0.3 * mixed_bce(scores, labels, [0.6, 0.6]).item())


@pytest.mark.parametrize(("count", "parts"), [(8, 2), (7, 2), (5, 3), (1, 2), (2, 3), (0, 2)])
def test_pairs_stay_together(count, parts):
    found = split(np.arange(count), parts, pairs=True)
    assert np.concatenate(found).tolist() == list(range(count))
    assert all(not len(part) or part[0] % 2 == 0 for part in found)
    assert all(len(part) % 2 == 0 for part in found if not len(part) or part[-1] != count - 1)


# --- the mean of the weights ---


def test_the_mean_of_the_weights_by_hand():
    """0.1 x 0 + 0.9 x 1 = 0.9; 2/11 x 0.9 + 9/11 x 2 = 1.8; then the decay is 0.2, not 3/12: 0.2 x 1.8 + 0.8 x 4"""
    layer = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(layer.weight)
    mean = WeightMean(layer, 0.2)
    found = []
    for value in (1.0, 2.0, 4.0):
        nn.init.constant_(layer.weight, value)
        mean.update()
        found.append(mean.mean[0].item())
    assert found == pytest.approx([0.9, 1.8, 3.56])
    with mean.in_place():
        assert layer.weight.item() == pytest.approx(3.56)
    assert layer.weight.item() == 4


def test_the_mean_is_what_is_validated_and_saved(tmp_path, table):
    config = tiny_config(optim__ema=0.95, validation=0.3, optim__learning_rate=0.1)
    plain = config.replace(optim__ema=0.0)
    for name, chosen in (("mean", config), ("plain", plain)):
        train(table, tmp_path / "pictures", out=tmp_path / name, config=chosen)
    checkpoint = torch.load(tmp_path / "mean" / "checkpoints" / "epoch-2.pt", weights_only=True)
    assert same(checkpoint["model"], weights(tmp_path / "plain")), "the steps are the same"
    moved = {
        key for key, value in weights(tmp_path / "mean").items() if not torch.equal(value, checkpoint["model"][key])
    }
    assert {"head.classifier.weight", "backbone.net.bn1.running_mean", "backbone.net.bn1.weight"} <= moved
    held = LabelTable.read_parquet(tmp_path / "mean" / "validation.parquet")
    measured = evaluate(Model.load(tmp_path / "mean", which="last"), held, images=tmp_path / "pictures")
    assert rows(tmp_path / "mean")[-1]["validation"]["mean_ap"] == pytest.approx(measured.mean_ap)


# --- rates, normalisation, patience ---


def test_each_stage_has_its_share_of_the_rate():
    config = tiny_config(optim__layer_decay=0.5, optim__head_learning_rate=0.3, optim__learning_rate=0.08, freeze="1")
    model = Model(config.model, CLASSES, 32)
    model.freeze(1)
    rate = {
        id(p): group["base_lr"] for group in build_optimizer(model, config.optim).param_groups for p in group["params"]
    }
    net = model.backbone.net
    for name, expected in (("layer1", 0.01), ("layer2", 0.02), ("layer3", 0.04), ("layer4", 0.08)):
        assert {rate[id(p)] for p in getattr(net, name).parameters()} == {expected}
    assert {rate[id(p)] for p in model.head.parameters()} == {0.3}
    assert not {id(p) for p in (*net.conv1.parameters(), *net.bn1.parameters())} & set(rate), "frozen"
    assert len(rate) == sum(p.requires_grad for p in model.parameters()), "every one has its group"


@pytest.mark.parametrize(
    ("settings", "world", "frozen"),
    [
        ({}, 1, False),  # 16 images at once
        ({}, 2, True),
        ({"optim__accumulate": 2}, 1, True),
        ({"optim__batch_size": 8}, 1, True),
        ({"optim__batch_size": 8, "model__weights": "none"}, 1, False),
        ({"optim__batch_size": 8, "freeze_batch_norm": False}, 1, False),
        ({"optim__batch_size": 64, "freeze_batch_norm": True}, 1, True),
    ],
)
def test_where_batch_normalisation_keeps_its_statistics(settings, world, frozen):
    assert freezes_batch_norm(Config.preset("paper").replace(**settings), world) == frozen


def test_when_a_training_has_converged():
    def history(*scores):
        return [{"round": 1}, *({"epoch": i, "validation": {"mean_ap": s}} for i, s in enumerate(scores))]

    assert not has_converged(history(0.5, 0.4), 2)
    assert has_converged(history(0.5, 0.4, 0.5), 2)
    assert not has_converged(history(0.5, 0.4, 0.51), 2)
    assert not has_converged(history(0.5, 0.4, 0.3, 0.2), None)
    assert not has_converged(history(None, None, None, None), 1), "nothing was measured"
    assert not has_converged([{"epoch": i, "validation": None} for i in range(9)], 1)


def test_patience_ends_a_training_and_a_resumed_one_stays_ended(tmp_path, table):
    config = tiny_config(optim__patience=1, validation=0.3, optim__epochs=30, optim__learning_rate=1e-9)
    run = train(table, tmp_path / "pictures", out=tmp_path / "run", config=config)
    assert len(run.epochs) == 2 < config.optim.epochs
    assert run.is_finished
    again = train(table, tmp_path / "pictures", out=tmp_path / "run", config=config, resume=True)
    assert len(again.epochs) == 2
    with pytest.raises(UserError, match="nothing is held out"):
        train(table, tmp_path / "pictures", out=tmp_path / "no", config=config.replace(validation=0.0))
    assert not (tmp_path / "no").exists()


# --- the head to start from ---


@pytest.mark.parametrize("freeze", ["none", "2", "all"])
def test_the_first_step_starts_from_the_solved_head(tmp_path, table, freeze):
    solved = {"model__pooling": "average", "freeze": "all", "optim__name": "closed-form"}
    train(table, tmp_path / "pictures", out=tmp_path / "solved", config=tiny_config(**solved))
    steps = {"model__pooling": "average", "freeze": freeze, "optim__start": "closed-form", "freeze_batch_norm": True}
    config = tiny_config(**steps, optim__learning_rate=1e-12, optim__epochs=1)
    train(table, tmp_path / "pictures", out=tmp_path / "steps", config=config)
    paths = [tmp_path / "pictures" / name for name in table.images.to_pylist()]
    a, b = (score(Model.load(tmp_path / name), paths) for name in ("solved", "steps"))
    np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"optim__start": "closed-form"}, "model.pooling = 'average'"),
        ({"augment__crop": 0.0}, "augment.crop = 0.0"),
        ({"augment__mix": "cutmix", "freeze": "all", "model__pooling": "average"}, "take mixup"),
        ({"optim__layer_decay": 0.0, "optim__ema": 1.0, "optim__patience": 0}, "optim.patience = 0"),
        ({"augment__colour": 0.1, "optim__name": "closed-form"}, "no augmentation"),
    ],
)
def test_settings_that_do_not_go_together(wrong, message):
    with pytest.raises(UserError, match=message):
        tiny_config(**wrong)


def test_boxes_are_pasted_into_images_where_the_backbone_is_frozen_and_they_change(tmp_path, table):
    settings = {"freeze": "all", "model__pooling": "average", "augment__mix": "cutmix", "augment__colour": 0.2}
    run = train(table, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config(**settings, optim__epochs=1))
    start = Model(tiny_config(**settings).model, CLASSES, 32).state_dict()
    moved = {key for key, value in weights(tmp_path / "run").items() if not torch.equal(value, start[key])}
    assert run.is_finished
    assert "head.classifier.weight" in moved


# --- all of it at once ---


@pytest.mark.slow
def test_with_everything_on_a_resumed_run_equals_one_that_never_stopped(tmp_path, table, monkeypatch):
    config = tiny_config(**ALL, validation=0.3, model__dropout=0.3)
    for name in ("a", "same"):
        train(table, tmp_path / "pictures", out=tmp_path / name, config=config)
    assert same(weights(tmp_path / "a"), weights(tmp_path / "same"))
    with monkeypatch.context() as patched:
        stop_before(patched, 2)
        with pytest.raises(KeyboardInterrupt):
            train(table, tmp_path / "pictures", out=tmp_path / "b", config=config)
    train(table, tmp_path / "pictures", out=tmp_path / "b", config=config, resume=True)
    for which in ("last", "best"):
        assert same(weights(tmp_path / "a", which), weights(tmp_path / "b", which))
    assert rows(tmp_path / "a") == rows(tmp_path / "b")
    other = config.replace(seed=1)
    train(table, tmp_path / "pictures", out=tmp_path / "c", config=other)
    assert not same(weights(tmp_path / "a"), weights(tmp_path / "c"))


def train_rank(rank, folder):
    """Train the labels of a folder as one of several processes."""
    table = LabelTable.read_parquet(folder / "labels.parquet")
    train(table, folder / "pictures", out=folder / "two", config=Config.read(folder / "config.toml"))


@pytest.mark.slow
def test_with_everything_on_two_processes_equal_one(tmp_path, table):
    """Batches of 6 images are 4 and 2 of the processes, as pairs stay together; the last one has 5 or fewer."""
    config = tiny_config(**ALL, validation=0.3)
    table.write_parquet(tmp_path / "labels.parquet")
    config.write(tmp_path / "config.toml")
    train(table, tmp_path / "pictures", out=tmp_path / "one", config=config)
    run_ranks(2, train_rank, tmp_path)
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert all(torch.allclose(one[key], two[key], rtol=1e-3, atol=1e-4) for key in one)
    for a, b in zip(rows(tmp_path / "one"), rows(tmp_path / "two"), strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-4)


def test_the_settings_file_of_the_guide_is_one():
    text = (Path(__file__).parents[2] / "docs" / "guide.md").read_text(encoding="utf-8")
    section = text[text.index("## Fine-tuning") :]
    config = Config.from_dict(tomllib.loads(section.split("```toml")[1].split("```")[0]))
    assert (config.optim.start, config.augment.mix, config.optim.ema) == ("closed-form", "mixup", 0.998)
