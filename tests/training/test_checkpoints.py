import pickle

import numpy as np
import pytest
import torch

from partlabel.core.errors import PartlabelWarning, UserError
from partlabel.training.checkpoints import Checkpoints


def state(epoch):
    return {"epoch": epoch, "model": {"w": torch.full((3,), float(epoch))}, "best": None, "history": [{"loss": 0.5}]}


def test_newest_two_are_kept_and_load_with_weights_only(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.newest() is None
    for epoch in (1, 2, 9, 10):
        checkpoints.save(epoch, state(epoch))
    assert [path.name for path in checkpoints.files()] == ["epoch-9.pt", "epoch-10.pt"]
    assert checkpoints.newest()["epoch"] == 10
    assert torch.load(tmp_path / "epoch-10.pt", weights_only=True)["model"]["w"].tolist() == [10, 10, 10]


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"x" * 100])
def test_half_written_checkpoint_is_named_and_passed_over(tmp_path, damage):
    checkpoints = Checkpoints(tmp_path)
    for epoch in (1, 2):
        checkpoints.save(epoch, state(epoch))
    newest = tmp_path / "epoch-2.pt"
    newest.write_bytes(damage(newest.read_bytes()))
    with pytest.warns(PartlabelWarning, match=r"epoch-2\.pt.*going on from epoch-1\.pt"):
        assert checkpoints.newest()["epoch"] == 1
    (tmp_path / "epoch-1.pt").write_bytes(b"")
    with pytest.raises(UserError) as caught:
        checkpoints.newest()
    assert len(caught.value.offenders) == 2


@pytest.mark.parametrize("kind", ["bit", "zeros"])
def test_damage_inside_a_checkpoint_is_noticed_or_changes_nothing(tmp_path, kind):
    checkpoints = Checkpoints(tmp_path)
    whole = {"epoch": 1, "model": {"w": torch.rand(4000)}, "history": [{"loss": 0.5}]}
    checkpoints.save(1, whole)
    path = tmp_path / "epoch-1.pt"
    data, random, noticed = path.read_bytes(), np.random.default_rng(0), 0
    for place in random.integers(0, len(data), 300):
        changed = bytearray(data)
        if kind == "bit":
            changed[place] ^= 1 << random.integers(8)
        else:
            changed[place : place + 4096] = bytes(len(changed[place : place + 4096]))
        path.write_bytes(changed)
        try:
            found = checkpoints.newest()
        except UserError:
            noticed += 1
        else:
            assert found["epoch"] == 1
            assert found["history"] == whole["history"]
            assert torch.equal(found["model"]["w"], whole["model"]["w"])
    assert noticed > 200


def test_foreign_pickles_are_never_loaded(tmp_path):
    class Attack:
        def __reduce__(self):
            return (open, (str(tmp_path / "attacked"), "w"))

    (tmp_path / "epoch-1.pt").write_bytes(pickle.dumps(Attack()))
    torch.save({"value": np.float64(1)}, tmp_path / "epoch-2.pt")
    with pytest.raises(UserError, match="no checkpoint can be read"):
        Checkpoints(tmp_path).newest()
    assert not (tmp_path / "attacked").exists()


@pytest.mark.parametrize("error", [RuntimeError("DefaultCPUAllocator: can't allocate memory"), MemoryError()])
def test_where_memory_is_short_no_checkpoint_is_passed_over(tmp_path, monkeypatch, error):
    checkpoints = Checkpoints(tmp_path)
    for epoch in (1, 2):
        checkpoints.save(epoch, state(epoch))

    def load(*_, **__):
        raise error

    monkeypatch.setattr(torch, "load", load)
    with pytest.raises(type(error)) as caught:
        checkpoints.newest()
    assert caught.value is error
