"""A training that was stopped goes on; what cannot be written, or does not fit the run, is one sentence."""

import pytest
import torch

import partlabel.training.epoch
from partlabel import LabelTable
from partlabel.core.errors import PartlabelWarning, UserError
from partlabel.training.loop import train
from tests.pictures import make_pictures, tiny_config
from tests.training.looking import rows, same, stop_before, weights


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def table(tmp_path):
    return make_pictures(tmp_path / "pictures", 12)


def stop_inside(monkeypatch, epoch):
    """Kill in the middle of an epoch: after its first step."""
    original, steps = partlabel.training.epoch.step, []

    def stopping(*arguments, **keywords):
        steps.append(1)
        if len(steps) == epoch * 2 + 2:
            raise KeyboardInterrupt
        return original(*arguments, **keywords)

    monkeypatch.setattr(partlabel.training.epoch, "step", stopping)


@pytest.mark.slow
@pytest.mark.parametrize("stop", [stop_before, stop_inside])
@pytest.mark.parametrize("freeze", ["none", "all"])
def test_resumed_run_equals_one_that_never_stopped(tmp_path, table, monkeypatch, stop, freeze):
    config = tiny_config(
        optim__epochs=4, optim__step_after=[3], validation=0.34, freeze=freeze, model__dropout=0.3, model__graph=True
    )
    train(table, tmp_path / "pictures", out=tmp_path / "a", config=config)
    with monkeypatch.context() as patched:
        stop(patched, 2)
        with pytest.raises(KeyboardInterrupt):
            train(table, tmp_path / "pictures", out=tmp_path / "b", config=config)
    assert len(rows(tmp_path / "b")) == 2
    train(table, tmp_path / "pictures", out=tmp_path / "b", config=config, resume=True)
    for which in ("last", "best"):
        assert same(weights(tmp_path / "a", which), weights(tmp_path / "b", which))
    assert rows(tmp_path / "a") == rows(tmp_path / "b")
    for name in ("labels.parquet", "validation.parquet"):
        a, b = (LabelTable.read_parquet(tmp_path / run / name) for run in "ab")
        assert a.content_hash() == b.content_hash()


def test_half_written_checkpoint_is_passed_over(tmp_path, table, monkeypatch):
    config = tiny_config(optim__epochs=3)
    train(table, tmp_path / "pictures", out=tmp_path / "a", config=config)
    with monkeypatch.context() as patched:
        stop_before(patched, 2)
        with pytest.raises(KeyboardInterrupt):
            train(table, tmp_path / "pictures", out=tmp_path / "b", config=config)
    newest = tmp_path / "b" / "checkpoints" / "epoch-2.pt"
    newest.write_bytes(newest.read_bytes()[:1000])
    with pytest.warns(PartlabelWarning, match=r"epoch-2\.pt: is damaged.*going on from epoch-1\.pt"):
        train(table, tmp_path / "pictures", out=tmp_path / "b", config=config, resume=True)
    assert same(weights(tmp_path / "a"), weights(tmp_path / "b"))


def test_a_finished_run_is_neither_overwritten_nor_continued_with_other_things(tmp_path, table):
    config = tiny_config(optim__epochs=1)
    train(table, tmp_path / "pictures", out=tmp_path / "run", config=config)
    with pytest.raises(UserError, match="holds a run already"):
        train(table, tmp_path / "pictures", out=tmp_path / "run", config=config)
    with pytest.raises(UserError, match="cannot be resumed") as caught:
        train(
            table.select(range(5)),
            tmp_path / "pictures",
            out=tmp_path / "run",
            config=config.replace(seed=1),
            resume=True,
        )
    assert caught.value.offenders[0] == "seed: 0 -> 1"
    assert caught.value.offenders[1].startswith("labels: ")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("")
    with pytest.raises(UserError, match="is not an empty folder"):
        train(table, tmp_path / "pictures", out=tmp_path / "other", config=config)


def test_resume_with_another_validation_table_or_other_pictures(tmp_path, table):
    config = tiny_config(optim__epochs=1, images__on_bad="skip")
    held, table = table.select(range(4)), table.select(range(4, 12))
    train(table, tmp_path / "pictures", out=tmp_path / "run", config=config, validation=held)
    with pytest.raises(UserError, match="cannot be resumed"):
        train(table, tmp_path / "pictures", out=tmp_path / "run", config=config, resume=True)
    (tmp_path / "pictures" / "011.png").unlink()
    with pytest.raises(UserError, match="cannot be resumed"):
        train(table, tmp_path / "pictures", out=tmp_path / "run", config=config, resume=True, validation=held)


def test_finished_run_resumed_changes_nothing_and_a_new_one_says_so(tmp_path, table, capsys):
    config = tiny_config(optim__epochs=1)
    summary = train(table, tmp_path / "pictures", out=tmp_path / "run", config=config, resume=True).summary
    assert "a new one begins" in capsys.readouterr().err
    assert train(table, tmp_path / "pictures", out=tmp_path / "run", config=config, resume=True).summary == summary


def test_disk_that_fills_up_while_saving(tmp_path, table, monkeypatch):
    def full(*_):
        raise RuntimeError("[enforce fail at inline_container.cc:778] . PytorchStreamWriter failed writing file")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(UserError, match="resume when there is room"):
        train(table, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config())


@pytest.mark.parametrize(
    "changed",
    [
        {"model": {"w": torch.zeros(3)}},
        {"optimizer": {"state": {}, "param_groups": []}},
        {"history": ["x"]},
        {"epoch": "one"},
        {"labels": {"count": 7, "mean": None}},
        {"labels": None},
        {"best": "yes"},
    ],
    ids=str,
)
def test_a_checkpoint_that_is_not_of_this_training_is_one_sentence(tmp_path, table, monkeypatch, changed):
    config = tiny_config(optim__epochs=2)
    with monkeypatch.context() as patched:
        stop_before(patched, 1)
        with pytest.raises(KeyboardInterrupt):
            train(table, tmp_path / "pictures", out=tmp_path / "run", config=config)
    path = tmp_path / "run" / "checkpoints" / "epoch-1.pt"
    torch.save({**torch.load(path, weights_only=True), **changed}, path)
    with pytest.raises(UserError, match="checkpoint"):
        train(table, tmp_path / "pictures", out=tmp_path / "run", config=config, resume=True)
