"""Which images are held out is decided once, for each image by itself."""

import json

import numpy as np
import pytest

from partlabel import LabelTable
from partlabel.app.cli import main
from partlabel.core.errors import UserError
from partlabel.images import content_hash
from partlabel.training.data import lasting_split
from partlabel.training.loop import train
from partlabel.training.run import Run
from tests.pictures import make_pictures, tiny_config


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))


def split_of(table, folder, share=0.3):
    contents = np.array([content_hash(folder / name) for name in table.images.to_pylist()], "S32")
    held = lasting_split(table, contents, share)
    return dict(zip(table.images.to_pylist(), held.tolist(), strict=True))


def test_an_image_stays_where_it_is_whatever_else_changes(tmp_path):
    folder = tmp_path / "pictures"
    table = make_pictures(folder, 60)
    first = split_of(table, folder)
    assert 8 < sum(first.values()) < 28
    fewer = table.hide(np.random.default_rng(0).random(table.num_known) < 0.5)
    assert split_of(fewer, folder) == first
    some = np.random.default_rng(1).permutation(60)[:30]
    assert split_of(table.select(some), folder) == {name: first[name] for name in table.images.take(some).to_pylist()}
    (folder / "moved").mkdir()
    for name in first:
        (folder / "moved" / name).write_bytes((folder / name).read_bytes())
    moved = LabelTable.from_dense([f"moved/{name}" for name in first], table.classes, table.dense())
    assert split_of(moved, folder) == {f"moved/{name}": held for name, held in first.items()}


def test_a_larger_share_only_adds_images(tmp_path):
    folder = tmp_path / "pictures"
    table = make_pictures(folder, 60)
    small, large = split_of(table, folder, 0.2), split_of(table, folder, 0.5)
    assert all(large[name] for name, held in small.items() if held)


def test_groups_stay_together_and_neither_part_is_empty(tmp_path):
    folder = tmp_path / "pictures"
    labels = make_pictures(folder, 12).dense()
    names = [f"{i:03}.png" for i in range(12)]
    table = LabelTable.from_dense(names, ("a", "b", "c"), labels, groups=[f"g{i % 4}" for i in range(12)])
    for share in (0.01, 0.3, 0.99):
        held = np.array(list(split_of(table, folder, share).values()))
        assert 0 < held.sum() < 12
        assert all(len(set(held[k::4])) == 1 for k in range(4))
    one = LabelTable.from_dense(names, ("a", "b", "c"), labels, groups=["g"] * 12)
    with pytest.raises(UserError, match="cannot be split"):
        split_of(one, folder)


def test_train_after_another_run(tmp_path, capsys):
    folder = tmp_path / "pictures"
    table = make_pictures(folder, 40)
    known = np.random.default_rng(0).random(table.num_known) < 0.5
    config = tiny_config(validation=0.3, optim__epochs=1, seed=5)
    first = train(table.select(slice(0, 30)).hide(known[: 30 * 3]), folder, out=tmp_path / "one", config=config)
    table.write_parquet(tmp_path / "grown.parquet")
    words = [str(tmp_path / "grown.parquet"), "--images", str(folder), "-o", str(tmp_path / "two")]
    assert main(["train", *words, "--after", str(tmp_path / "one")]) == 0
    second = Run(tmp_path / "two")
    assert second.config == first.config
    assert second.after is not None
    assert second.after.folder == (tmp_path / "one").resolve()
    assert first.validation is not None
    assert second.validation is not None
    assert set(first.validation.images.to_pylist()) <= set(second.validation.images.to_pylist())
    assert set(first.labels.images.to_pylist()) <= set(second.labels.images.to_pylist())
    capsys.readouterr()
    assert main(["report", str(tmp_path / "two"), "-o", str(tmp_path / "r.html"), "--resamples", "20", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["comparison"]["first"] == "one"
    assert found["comparison"]["images"] == first.validation.num_images
    assert main(["train", *words[:4], str(tmp_path / "three"), "--after", str(tmp_path / "nowhere")]) == 2
