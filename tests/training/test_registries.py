"""A loss or a strategy is one function and one line in its registry; all else follows from that."""

import sys
from types import ModuleType

import pytest
import torch

from partlabel import simulate, train
from partlabel.core.errors import UserError
from partlabel.method.losses import LOSSES, LossEntry
from partlabel.method.strategies import STRATEGIES, Strategy
from tests.pictures import make_pictures, tiny_config


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    return simulate.partial(make_pictures(tmp_path / "pictures", 12), 0.5, seed=0)


@pytest.fixture
def theirs(monkeypatch):
    """A module with a loss and a strategy of someone else."""
    module = ModuleType("theirs")
    module.seen = []

    def halved(scores, labels, *, reduction, weight, check, gamma):
        module.seen.append(gamma)
        known = (labels != 0).float()
        return (torch.nn.functional.softplus(-scores * labels) * known).sum() / 2

    def first_class(scores, labels, theta):
        filled = labels.clone()
        filled[:, 0] = torch.where(labels[:, 0] == 0, 1, labels[:, 0])
        return filled

    module.halved, module.first_class = halved, first_class
    monkeypatch.setitem(sys.modules, "theirs", module)
    return module


def test_a_new_loss_is_one_entry(tmp_path, table, theirs, monkeypatch):
    monkeypatch.setitem(LOSSES, "halved", LossEntry("theirs:halved", "left out", "nobody", takes=("gamma",)))
    config = tiny_config(loss__name="halved", loss__gamma=0.25, freeze="all")
    run = train(table, tmp_path / "pictures", out=tmp_path / "run", config=config)
    assert run.config.loss.name == "halved"
    assert run.config.unknown_as_absent
    assert theirs.seen[-1] == 0.25
    assert run.summary["last"]["loss"] > 0


def test_a_new_strategy_is_one_entry(tmp_path, table, theirs, monkeypatch):
    monkeypatch.setitem(STRATEGIES, "first", Strategy("theirs:first_class", 0.5, "it is of the first class"))
    config = tiny_config(relabel__before=[2], relabel__strategy="first", freeze="all")
    run = train(table, tmp_path / "pictures", out=tmp_path / "run", config=config)
    unknown = int((table.dense()[:, 0] == 0).sum())
    assert run.rounds[0]["theta"] == 0.5
    assert (run.rounds[0]["added_present"], run.rounds[0]["added_absent"]) == (unknown, 0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"loss__name": "partial_bce"}, "did you mean partial-bce?"),
        ({"loss__name": "focal"}, "choose one of: partial-bce, bce, an"),
        ({"relabel__strategy": "score-treshold"}, "did you mean score-threshold?"),
    ],
)
def test_a_name_that_does_not_exist_is_refused_with_those_that_do(changes, said):
    with pytest.raises(UserError) as caught:
        tiny_config(**changes)
    assert said in str(caught.value)


@pytest.mark.parametrize("name", LOSSES)
def test_checked_labels_need_no_second_check(name):
    """Without the check of the values, a loss is the same; only ``check=True`` sees wrong ones."""
    torch.manual_seed(0)
    entry = LOSSES[name]
    more = {"epoch": 2} if entry.by_epoch else {}
    loss = entry.load()
    scores, weight = torch.randn(6, 5), torch.rand(6, 5)
    labels = torch.randint(-1, 2, (6, 5), dtype=torch.int8)
    for given in (None, weight):
        assert loss(scores, labels, weight=given, check=False, **more) == loss(scores, labels, weight=given, **more)
    with pytest.raises(ValueError, match="row 0 class 0: 3"):
        loss(scores, torch.full((6, 5), 3, dtype=torch.int8), **more)
