"""No image is read twice, good or bad, and none that has changed is taken for what it was."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngImageFile

from partlabel.core.errors import UserError
from partlabel.images import check, looking
from partlabel.images import contents as module
from partlabel.images.checking import conclude
from partlabel.images.looking import BAD, Looked, contents, look, record_folder
from tests.images.make import CASES
from tests.opened import opened
from tests.pictures import make_pictures


@pytest.fixture
def paths(tmp_path, monkeypatch) -> list[Path]:
    """All images of the cases, good and bad, in two folders; what is written now counts as settled."""
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "TICK", -(10**18))
    found = []
    for i, path in enumerate(sorted(CASES.glob("IMG-*/images/*"))):
        (tmp_path / f"part{i % 2}").mkdir(exist_ok=True)
        found.append(Path(shutil.copy(path, tmp_path / f"part{i % 2}" / f"{i}-{path.name}")))
    return found


def seen(paths, **changes) -> Looked:
    return look(paths, store=record_folder(), **changes)


def test_a_second_look_opens_no_image(paths, tmp_path):
    first = seen(paths)
    assert (first.rows["state"] == BAD).sum() == 5
    for path, row in zip(paths, first.rows, strict=True):
        assert row["content"].decode() == hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    with opened(tmp_path / "part0", tmp_path / "part1") as files:
        again = seen(paths[::-1])
        assert contents(paths).tolist() == first.rows["content"].tolist()
    assert files == []
    assert np.array_equal(again.rows, first.rows[::-1])
    assert again.reasons == {len(paths) - 1 - i: reason for i, reason in first.reasons.items()}
    assert conclude(paths, seen(paths)).to_dict() == check(paths).to_dict()


def test_only_what_has_changed_is_read(paths, tmp_path):
    seen(paths)
    new = tmp_path / "part0" / "new.png"
    shutil.copy(paths[0], new)
    paths[2].write_bytes(paths[3].read_bytes())
    with opened(tmp_path / "part0", tmp_path / "part1") as files:
        found = seen([*paths, new])
    assert set(files) == {str(new), str(paths[2])}
    assert found.rows["content"][2] == found.rows["content"][3]


def test_same_name_length_and_time_but_another_content(paths):
    path = paths[5]
    before = path.stat()
    first = seen([path]).rows["content"][0]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    time.sleep(0.02)
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert seen([path]).rows["content"][0] != first


def test_a_file_that_was_changed_a_moment_ago_is_not_remembered(paths, tmp_path, monkeypatch):
    """Another change within the same tick of the clock would leave its facts as they are."""
    monkeypatch.setattr(module, "TICK", 10**12)
    seen(paths)
    with opened(tmp_path / "part0", tmp_path / "part1") as files:
        seen(paths)
    assert len(set(files)) == len(paths)


def test_another_limit_of_pixels_is_another_question(paths):
    whole, small = seen(paths), seen(paths, max_pixels=64 * 32 - 1)
    assert (small.rows["state"] == BAD).sum() > (whole.rows["state"] == BAD).sum()
    assert np.array_equal(seen(paths).rows, whole.rows)
    assert np.array_equal(seen(paths, max_pixels=64 * 32 - 1).rows, small.rows)


def test_hashes_alone_then_the_check(paths, tmp_path):
    assert len(contents(paths)) == len(paths)
    with opened(tmp_path / "part0", tmp_path / "part1") as files:
        contents(paths)
        assert files == []
        found = seen(paths)
    assert len(set(files)) == len(paths)
    assert (found.rows["state"] == BAD).sum() == 5


def test_missing_files_are_named_and_not_remembered(paths, tmp_path):
    gone = [tmp_path / "a.png", tmp_path]
    with pytest.raises(UserError, match="2 images cannot be read") as caught:
        contents([paths[0], *gone])
    assert caught.value.offenders == [f"{gone[0]}: does not exist", f"{gone[1]}: is not a regular file"]
    assert seen(gone).reasons == {0: "does not exist", 1: "is a folder, not an image"}
    shutil.copy(paths[0], gone[0])
    assert seen(gone).rows["content"][0] == seen(paths).rows["content"][0]


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "text"])
def test_damaged_records_are_left_out(paths, tmp_path, damage):
    first = seen(paths)
    rng = np.random.default_rng(0)
    for path in (tmp_path / "cache").rglob("*.records"):
        data = bytearray(path.read_bytes())
        data[rng.integers(len(data))] ^= 16
        path.write_bytes({"flip": bytes(data), "cut": bytes(data[:-9]), "empty": b"", "text": b"hello world"}[damage])
    assert np.array_equal(seen(paths).rows, first.rows)


def test_a_store_that_cannot_be_written(paths, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "file" / "cache"))
    assert (seen(paths).rows["state"] == BAD).sum() == 5


def test_many_files_of_records_become_one(paths, tmp_path):
    for path in paths * 2:
        seen([path])
        assert all(
            len(list(folder.iterdir())) <= looking._MANY + 1 for folder in (tmp_path / "cache/files-1").iterdir()
        )
    whole = seen(paths)
    with opened(tmp_path / "part0", tmp_path / "part1") as files:
        assert np.array_equal(seen(paths).rows, whole.rows)
    assert files == []


def test_processes_that_look_at_the_same_time(tmp_path, monkeypatch):
    """Threads stand for processes: all they share is the folder."""
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "TICK", -(10**18))
    monkeypatch.setattr(looking, "_MANY", 2)
    make_pictures(tmp_path / "pictures", 40)
    paths = sorted((tmp_path / "pictures").iterdir())
    expected = look(paths).rows
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(15):
            some = rng.permutation(40)[: rng.integers(1, 40)]
            if not np.array_equal(seen([paths[i] for i in some]).rows, expected[some]):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    with opened(tmp_path / "pictures") as files:
        seen(paths)
    assert files == []


def test_parts_are_put_together_in_order(paths):
    whole = look(paths)
    parts = Looked.of([look(paths[:3]), look([]), look(paths[3:])])
    assert np.array_equal(parts.rows, whole.rows)
    assert parts.reasons == whole.reasons


def test_an_image_that_the_memory_was_too_small_for_is_looked_at_again(paths, monkeypatch):
    whole = [path for path, state in zip(paths, seen(paths).rows["state"], strict=True) if state != BAD]
    png = next(path for path in whole if path.suffix == ".png")
    shutil.rmtree(record_folder())

    def refuse(image):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Image.Image, "load", refuse)
        patch.setattr(PngImageFile, "load", refuse)
        assert seen([png]).reasons == {0: "cannot be decoded with the memory that is left"}
    assert seen([png]).reasons == {}
