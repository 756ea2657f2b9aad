"""Relabelling inside and outside a training, on small images with a model that has learned something."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from partlabel import Config, LabelTable, Model, simulate
from partlabel.core.errors import UserError
from partlabel.tasks.relabel import relabel
from partlabel.training.batches import Source
from partlabel.training.checkpoints import Checkpoints
from partlabel.training.config import RelabelConfig
from partlabel.training.curriculum import Added, choose, record
from partlabel.training.loop import train
from tests.pictures import CLASSES, make_pictures, tiny_config
from tests.processes import run_ranks

CURRICULUM = {
    "optim__epochs": 4,
    "relabel__before": [2, 3],
    "relabel__strategy": "score-threshold",
    "relabel__theta": 0.0,
}


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def truth(tmp_path):
    return make_pictures(tmp_path / "pictures", 12)


@pytest.fixture
def known(truth):
    return simulate.partial(truth, 1 / 3, seed=0)


class Fixed(torch.nn.Module):
    """A model whose scores are those it is given, row by row."""

    def __init__(self):
        super().__init__()
        self.register_buffer("pixel_scale", torch.ones(1))
        self.precision = "32"

    def forward(self, x, stage):
        return x


class Rows(Source):
    stage = 0

    def __init__(self, scores):
        self.scores = torch.tensor(scores)

    def batches(self, rows, flips):
        assert flips is None
        yield from (self.scores[torch.from_numpy(batch)] for batch in rows)


SCORES = [[3.0, -3.0, 1.0], [-2.5, 0.5, 9.0], [2.0, -1.0, -4.0], [0.1, 0.2, -0.3]]
LABELS = np.array([[0, 1, 0], [0, 0, -1], [-1, 0, 0], [0, 0, 0]], np.int8)
TABLE = LabelTable.from_dense(["a", "b", "c", "d"], ["x", "y", "z"], LABELS)


def chosen(strategy, theta, batches=None, table=TABLE):
    batches = [np.arange(4)] if batches is None else batches
    added = choose([(Fixed(), Rows(SCORES))], table, batches, RelabelConfig(strategy=strategy, theta=theta))
    return list(zip(added.image.tolist(), added.cls.tolist(), added.value.tolist(), strict=True)), added


def test_score_threshold_labels_unknown_pairs_only():
    pairs, added = chosen("score-threshold", 2.0)
    assert pairs == [(0, 0, 1), (1, 0, -1), (2, 2, -1)], "b.z and a.y and c.x are known"
    np.testing.assert_array_equal(added.score, np.float32([3.0, -2.5, -4.0]))


KNOWN_OF_EACH = np.array([[1, 0, 0], [0, -1, 0], [0, 0, -1], [0, 0, 0]], np.int8)


def test_proportion_counts_within_each_batch():
    pairs, _ = chosen("score-proportion", 0.5, [np.array([0, 1]), np.array([2, 3])])
    # 2 of the 4 unknown pairs of a and b, 2 (2.5, rounded down) of the 5 of c and d
    assert pairs == [(0, 0, 1), (1, 0, -1), (2, 1, -1), (2, 2, -1)]
    whole, _ = chosen("score-proportion", 1.0)
    assert len(whole) == 9


def test_positive_only_and_all_at_once():
    assert chosen("positive-only", 0.2)[0] == [(0, 0, 1), (0, 2, 1), (1, 1, 1), (3, 1, 1)]
    assert len(chosen("all-at-once", None)[0]) == 9


def test_class_adaptive_sees_all_images_at_once():
    one, _ = chosen("class-adaptive", 1.0)
    many, _ = chosen("class-adaptive", 1.0, [np.array([3]), np.array([1]), np.array([0, 2])])
    assert one == many
    assert len(one) == 9


def test_class_adaptive_says_what_it_expected_and_of_what_interval():
    """All three classes hold one known label: class x a present one, y an absent one, z an absent one."""
    table = LabelTable.from_dense([f"{i}" for i in range(4)], ["x", "y", "z"], KNOWN_OF_EACH)
    config = RelabelConfig(strategy="class-adaptive", theta=0.0, theta_absent=1.0)
    added = choose([(Fixed(), Rows(SCORES))], table, [np.arange(4)], config)
    assert set(added.value.tolist()) == {-1}  # none of the expected present, all of the expected absent ones
    after = table.with_labels(added.image, added.cls, added.value, origin="model")
    done = record(after, np.arange(4), added, 1, config)
    assert done["theta_absent"] == 1.0
    shares = [own["expected_present"] for own in done["classes"]]
    assert shares == pytest.approx([(1 + 10 / 3) / 11, (10 / 3) / 11, (10 / 3) / 11])
    low, high = done["classes"][0]["expected_interval"]
    assert (low, high) == (pytest.approx(1 / (1 + 1.96**2)), 1)  # Wilson, 1 of 1
    assert added.cls.tolist().count(0) == 2  # of 3 unknown ones 1.18, so 1, would be present


def test_shares_of_several_processes_are_put_together():
    batches = [np.array([i]) for i in range(4)]
    config = RelabelConfig(strategy="score-threshold", theta=2.0)
    parts = []
    for rank in range(2):
        own = []
        choose(
            [(Fixed(), Rows(SCORES))],
            TABLE,
            batches,
            config,
            rank=rank,
            world=2,
            gather=lambda x, o=own: [o.extend(x)] and [x],
        )
        parts.append(own)
    whole = Added.of(parts[0] + parts[1])
    assert whole.image.tolist() == [0, 1, 2]


def test_mean_of_an_ensemble_decides():
    other = [[-9.0, 0, 0]] * 4
    config = RelabelConfig(strategy="score-threshold", theta=2.0)
    added = choose([(Fixed(), Rows(SCORES)), (Fixed(), Rows(other))], TABLE, [np.arange(4)], config)
    found = list(zip(added.image.tolist(), added.cls.tolist(), added.value.tolist(), strict=True))
    # the means of x are -3, -5.75, (known), -4.45; the one of c.z is -2, which is not below -2
    assert found == [(0, 0, -1), (1, 0, -1), (3, 0, -1)]


def test_record_counts_and_compares_with_the_truth():
    added = Added(np.array([0, 1, 2]), np.array([0, 0, 2]), np.array([1, -1, -1], np.int8), np.float32([3, -2.5, -4]))
    after = TABLE.with_labels(added.image, added.cls, added.value, origin="model", score=added.score, round=1)
    right = LabelTable.from_dense(["d", "c", "b", "a"], ["z", "x"], [[0, 0], [1, -1], [-1, 1], [0, 1]])
    done = record(after, np.arange(4), added, 1, RelabelConfig(strategy="score-threshold", theta=2.0), right)
    assert done["label_proportion"] == pytest.approx(6 / 12)
    assert done["labelled_share"] == pytest.approx(3 / 9)
    assert (done["added_present"], done["added_absent"]) == (1, 2)
    assert done["classes"][0] == {"class": "x", "added_present": 1, "added_absent": 1, "known_share": 0.75}
    # a.x present is right; b.x absent and c.z absent are wrong: the truth has both present
    assert done["truth"]["this_round"] == {
        "checked": 3,
        "true_positive_rate": pytest.approx(1 / 3),
        "true_negative_rate": None,
        "accuracy_present": 1.0,
        "accuracy_absent": 0.0,
    }


@pytest.mark.parametrize(("scores", "text"), [(0.1, "No label was added"), (9.0, "All 9 added labels are present")])
def test_one_sided_rounds_warn(scores, text):
    """CUR-02: nothing, or everything of one sign; the round goes on and says so."""
    config = RelabelConfig(strategy="score-threshold", theta=2.0)
    added = choose([(Fixed(), Rows(np.full((4, 3), scores, np.float32)))], TABLE, [np.arange(4)], config)
    after = TABLE.with_labels(added.image, added.cls, added.value, origin="model", score=added.score, round=1)
    assert text in " ".join(record(after, np.arange(4), added, 1, config)["warnings"])
    np.testing.assert_array_equal(after.dense()[LABELS != 0], LABELS[LABELS != 0])


def config(**changes):
    return tiny_config(**{**CURRICULUM, **changes})


def lines(run):
    clock = ("seconds", "images_per_second", "checksum")
    found = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in clock} for line in found]


def test_training_adds_labels_before_the_chosen_epochs(tmp_path, known, truth):
    run = tmp_path / "run"
    summary = train(known, tmp_path / "pictures", out=run, config=config(relabel__theta=0.05), truth=truth).summary
    rows = lines(run)
    assert [("round", row["round"]) if "round" in row else row["epoch"] for row in rows] == [
        1, ("round", 1), 2, ("round", 2), 3, 4,
    ]  # fmt: skip
    made = LabelTable.read_parquet(run / "relabelled.parquet")
    given = made.without_origin("model")
    assert (given.dense() == known.dense()).all(), "given labels never change"
    assert (
        summary["labels_added"]
        == made.num_known - known.num_known
        == sum(row["added_present"] + row["added_absent"] for row in rows if "round" in row)
    )
    assert set(np.unique(made.round[made.origin == 1])) <= {1, 2}
    assert np.isfinite(made.score[made.origin == 1]).all()
    whole = json.loads((run / "rounds" / "round-2.json").read_text())
    assert [entry["class"] for entry in whole["classes"]] == list(CLASSES)
    assert whole["truth"]["all_rounds"]["checked"] == summary["labels_added"]
    undone = made.without_origin("model", since_round=2)
    assert undone.num_known == known.num_known + rows[1]["added_present"] + rows[1]["added_absent"]


def test_added_labels_count_in_the_proportion(tmp_path, known):
    """All labels are filled in before epoch 2: p = 1 and g = 1 from then on, so partial-BCE is BCE."""
    pictures = tmp_path / "pictures"
    train(known, pictures, out=tmp_path / "a", config=config(optim__epochs=2, relabel__before=[2]))
    made = LabelTable.read_parquet(tmp_path / "a" / "relabelled.parquet")
    assert made.num_known == 36
    loss = lines(tmp_path / "a")[-1]["loss"]
    # the same epoch on the filled-in labels as given ones, from the model of epoch 1
    train(known, pictures, out=tmp_path / "b", config=config(optim__epochs=1, relabel__before=[]))
    start = tiny_config(
        model__weights=str(tmp_path / "b"),
        loss__name="bce",
        optim__epochs=2,
        optim__learning_rate=1e-12,
        freeze_batch_norm=False,
    )
    filled = LabelTable.from_dense(made.images, made.classes, made.dense())
    train(filled, pictures, out=tmp_path / "c", config=start)
    assert loss == pytest.approx(lines(tmp_path / "c")[-1]["loss"], rel=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("stop_after", [1, 2, 3])
@pytest.mark.parametrize("ema", [0.0, 0.5])
def test_resume_across_a_round_is_bit_equal(tmp_path, known, monkeypatch, stop_after, ema):
    """TR-02: weights, metrics and labels with their origin."""
    import partlabel.training.loop as training

    chosen = config(relabel__theta=0.05, relabel__ema=ema, relabel__weight=0.5)
    train(known, tmp_path / "pictures", out=tmp_path / "straight", config=chosen)
    kept = Checkpoints(tmp_path / "straight" / "checkpoints").newest()
    assert set(kept["labels"]) == {"count", "mean"}, "it does not grow with the labels"
    original = training.train_epoch

    def stopping(job, state, batches, epoch):
        if epoch == stop_after:
            raise KeyboardInterrupt
        return original(job, state, batches, epoch)

    monkeypatch.setattr(training, "train_epoch", stopping)
    with pytest.raises(KeyboardInterrupt):
        train(known, tmp_path / "pictures", out=tmp_path / "cut", config=chosen)
    monkeypatch.setattr(training, "train_epoch", original)
    train(known, tmp_path / "pictures", out=tmp_path / "cut", config=chosen, resume=True)
    a, b = (load_file(tmp_path / run / "last" / "model.safetensors") for run in ("straight", "cut"))
    assert all(torch.equal(a[key], b[key]) for key in a)
    assert lines(tmp_path / "straight") == lines(tmp_path / "cut")
    a, b = (LabelTable.read_parquet(tmp_path / run / "relabelled.parquet") for run in ("straight", "cut"))
    assert a.content_hash() == b.content_hash()
    np.testing.assert_array_equal(a.round, b.round)
    np.testing.assert_array_equal(a.score, b.score)


def test_weight_0_trains_as_if_nothing_was_added_but_the_proportion(tmp_path, known):
    """With BCE, whose g is 1, labels of weight 0 change nothing at all."""
    pictures = tmp_path / "pictures"
    train(known, pictures, out=tmp_path / "a", config=config(loss__name="bce", relabel__weight=0.0))
    train(known, pictures, out=tmp_path / "b", config=config(loss__name="bce", relabel__before=[]))
    a, b = (load_file(tmp_path / run / "last" / "model.safetensors") for run in ("a", "b"))
    assert all(torch.allclose(a[key], b[key], rtol=1e-2, atol=1e-3) for key in a)


def test_rows_without_known_labels_join_once_they_have_some(tmp_path, truth):
    half = truth.hide(truth.pair_images() < 6)
    summary = train(half, tmp_path / "pictures", out=tmp_path / "run", config=config(relabel__before=[2])).summary
    assert summary["images_trained"] == 6
    assert LabelTable.read_parquet(tmp_path / "run" / "relabelled.parquet").num_known == 36


def test_a_warning_can_stop_the_training(tmp_path, known):
    with pytest.raises(UserError, match="round 1") as caught:
        train(
            known,
            tmp_path / "pictures",
            out=tmp_path / "run",
            config=config(relabel__theta=1e6, relabel__stop_on_warning=True),
        )
    assert "No label was added" in caught.value.offenders[0]


def test_outside_training(tmp_path, known, truth):
    pictures = tmp_path / "pictures"
    train(known, pictures, out=tmp_path / "run", config=tiny_config())
    more = LabelTable.from_dense(known.images, [*CLASSES, "new"], np.pad(known.dense(), ((0, 0), (0, 1))))
    everything = RelabelConfig(strategy="all-at-once")
    made, _ = relabel([Model.load(tmp_path / "run")], more, pictures, everything, truth=truth)
    assert made.num_known == 36
    assert (made.dense()[:, 3] == 0).all(), "a class that the model does not know stays unknown"
    again, second = relabel([Model.load(tmp_path / "run")], made, pictures, everything)
    assert second["round"] == 2
    assert again.content_hash() == made.content_hash()
    with pytest.raises(UserError, match="lacks 1 of the 3 classes"):
        relabel([Model.load(tmp_path / "run")], known.select_classes(["red", "blue"]), pictures, RelabelConfig())
    with pytest.raises(UserError, match="needs a model with dropout"):
        relabel([Model.load(tmp_path / "run")], known, pictures, RelabelConfig(strategy="uncertainty"))


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["variance", "deviation", "probability-variance", "entropy", "mutual-information"])
def test_by_uncertainty(tmp_path, known, measure):
    """Everything is easy at a high theta, nothing at 0; the same for any cut into batches."""
    pictures = tmp_path / "pictures"
    train(known, pictures, out=tmp_path / "run", config=tiny_config(model__dropout=0.5))
    model = Model.load(tmp_path / "run")
    easy = {"strategy": "uncertainty", "measure": measure, "samples": 5}
    all_of_them, _ = relabel([model], known, pictures, RelabelConfig(theta=9.0, **easy), batch_size=4)
    assert all_of_them.num_known == 36
    again, _ = relabel([model], known, pictures, RelabelConfig(theta=9.0, **easy), batch_size=12)
    np.testing.assert_allclose(all_of_them.score[all_of_them.origin == 1], again.score[again.origin == 1], rtol=1e-4)
    none, done = relabel([model], known, pictures, RelabelConfig(theta=0.0, **easy))
    assert none.num_known == known.num_known
    assert done["warnings"]


def test_uncertainty_inside_a_training(tmp_path, known):
    changes = {"relabel__strategy": "uncertainty", "relabel__theta": 9.0, "model__dropout": 0.3}
    summary = train(known, tmp_path / "pictures", out=tmp_path / "run", config=config(**changes)).summary
    assert summary["labels_added"] == 24
    with pytest.raises(UserError, match="dropout above 0"):
        config(relabel__strategy="uncertainty")


def test_heads_of_an_ensemble(tmp_path, known):
    """They start apart, learn apart and are averaged; the averaged score decides."""
    pictures = tmp_path / "pictures"
    chosen = config(model__heads=3, model__pooling="average", relabel__theta=0.01)
    summary = train(known, pictures, out=tmp_path / "run", config=chosen).summary
    assert summary["labels_added"] > 0
    model = Model.load(tmp_path / "run", which="last")
    weights = [head.classifier.weight for head in model.head.members]
    assert not torch.allclose(weights[0], weights[1])
    features = torch.randn(2, model.backbone.channels, 1, 1)
    single = torch.stack([head.eval()(features) for head in model.head.members])
    torch.testing.assert_close(model.head(features), single.mean(0))
    assert model.train().head(features).shape == (3, 2, 3)
    with pytest.raises(UserError, match="one head"):
        config(model__heads=2, model__dropout=0.5, relabel__strategy="uncertainty")


def test_each_head_learns_as_if_alone_and_the_backbone_from_their_mean():
    """Two equal heads: their gradients are those of one, and so is the gradient of the features."""
    from partlabel.models.model import Heads
    from partlabel.training.config import ModelConfig

    heads = Heads(4, 3, ModelConfig(heads=2, pooling="average"))
    heads.members[1].load_state_dict(heads.members[0].state_dict())
    features = torch.randn(5, 4, 1, 1, requires_grad=True)
    heads.train()(features).square().sum().backward()
    mean_gradient, first = features.grad.clone(), heads.members[0].classifier.weight.grad.clone()
    features.grad = heads.members[0].classifier.weight.grad = None
    heads.members[0](features).square().sum().backward()
    torch.testing.assert_close(features.grad, mean_gradient)
    torch.testing.assert_close(heads.members[0].classifier.weight.grad, first)


def train_rank(rank, folder):
    """Train the known labels of a folder as one of several processes."""
    table = LabelTable.read_parquet(folder / "known.parquet")
    train(table, folder / "pictures", out=folder / "two", config=Config.read(folder / "config.toml"))


@pytest.mark.slow
def test_two_processes_relabel_as_one(tmp_path, known, truth):
    """The same labels are added as in one process; the weights are equal to rounding."""
    chosen = config(model__dropout=0.0, relabel__theta=0.0)
    known.write_parquet(tmp_path / "known.parquet")
    chosen.write(tmp_path / "config.toml")
    train(known, tmp_path / "pictures", out=tmp_path / "one", config=chosen)
    run_ranks(2, train_rank, tmp_path)
    one, two = (LabelTable.read_parquet(tmp_path / run / "relabelled.parquet") for run in ("one", "two"))
    assert one.num_known == two.num_known == 36
    assert (one.values == two.values).mean() > 0.9
    np.testing.assert_array_equal(one.origin, two.origin)
    np.testing.assert_array_equal(one.round, two.round)
    np.testing.assert_allclose(one.score, two.score, rtol=0.1, atol=0.1)
