"""Whatever happens to a file, its stored hash is that of its bytes."""

from __future__ import annotations

import hashlib
import os

import numpy as np
import pytest

from partlabel.images import ImageError
from partlabel.images import contents as module
from partlabel.images.contents import known_contents


def hashes(paths):
    return [hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest() for path in paths]


def known(paths, store):
    return [row.decode() for row in known_contents(paths, store)["hash"]]


@pytest.fixture
def paths(tmp_path):
    found = [tmp_path / f"{i}.png" for i in range(20)]
    for i, path in enumerate(found):
        path.write_bytes(bytes([i]) * 1000)
    return found


def test_only_changed_files_are_read_again(paths, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TICK", -(10**18))  # what is written now counts as settled
    store, read = tmp_path / "store.npy", []
    original = module.read_hash
    monkeypatch.setattr(module, "read_hash", lambda path: (read.append(path), original(path))[1])
    assert known(paths, store) == hashes(paths)
    assert len(read) == 20
    read.clear()
    assert known(paths, store) == hashes(paths)
    assert read == []
    paths[3].write_bytes(b"other")
    assert known(paths, store) == hashes(paths)
    assert read == [paths[3]]


def test_random_exchanges_are_noticed_with_equal_name_length_and_time(paths, tmp_path):
    store, random = tmp_path / "store.npy", np.random.default_rng(0)
    known(paths, store)
    for turn in range(200):
        one, two = (paths[i] for i in random.choice(20, 2, replace=False))
        times = os.stat(one)
        kind = turn % 4
        if kind == 0:  # swapped by renaming
            os.rename(one, tmp_path / "x")
            os.rename(two, one)
            os.rename(tmp_path / "x", two)
        elif kind == 1:  # written over in place, with the old time
            one.write_bytes(random.bytes(1000))
        elif kind == 2:  # another file of the same length moved over it, with the old time
            (tmp_path / "x").write_bytes(random.bytes(1000))
            os.replace(tmp_path / "x", one)
        else:  # nothing but the time
            pass
        os.utime(one, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert known(paths, store) == hashes(paths), turn


def test_a_change_within_the_same_tick_of_the_clock_is_noticed(paths, tmp_path, monkeypatch):
    """Written over right after it was read, on a file system whose clock ticks 25 times a second."""
    original, tick = module.facts_of, 40_000_000

    def coarse(found):
        size, content, change, number = original(found)
        return size, content // tick * tick, change // tick * tick, number

    monkeypatch.setattr(module, "facts_of", coarse)
    for turn in range(20):
        store = tmp_path / f"{turn}.npy"
        paths[0].write_bytes(bytes([turn % 256]) * 1000)
        before = os.stat(paths[0])
        known(paths[:1], store)
        paths[0].write_bytes(bytes([(turn + 1) % 256]) * 1000)
        os.utime(paths[0], ns=(before.st_atime_ns, before.st_mtime_ns))
        assert known(paths[:1], store) == hashes(paths[:1]), turn


@pytest.mark.parametrize("data", [b"", b"nothing", b"\x93NUMPY\x01\x00"])
def test_a_damaged_store_is_made_again(paths, tmp_path, data):
    store = tmp_path / "store.npy"
    store.write_bytes(data)
    assert known(paths, store) == hashes(paths)


def test_without_room_for_the_store_the_files_are_read(paths, tmp_path):
    assert known(paths, tmp_path / "none" / "store.npy") == hashes(paths)


def test_files_that_cannot_be_read_are_named(paths, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "gone.png", tmp_path, tmp_path / "pipe"):
        with pytest.raises(ImageError, match=str(path)):
            known_contents([*paths, path], tmp_path / "store.npy")
