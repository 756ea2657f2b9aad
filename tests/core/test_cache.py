"""The cache stays under its limit, loses what was unused for longest, and nothing that is not its own."""

import os

import pytest

from partlabel.core.cache import cache_limit, make_room, stored_files
from partlabel.core.errors import UserError


def put(folder, name, size, age):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    os.utime(path, ns=(10**18 - age * 10**9,) * 2)
    return path


@pytest.mark.parametrize(
    ("text", "size"),
    [("5000", 5000), ("20GB", 20 * 10**9), ("1.5 TiB", 3 * 2**39), ("7k", 7000), ("2mib", 2**21), ("0", 0)],
)
def test_limit_as_people_write_it(tmp_path, monkeypatch, text, size):
    monkeypatch.setenv("PARTLABEL_CACHE_LIMIT", text)
    assert cache_limit(tmp_path, 10) == size


@pytest.mark.parametrize("text", ["much", "5 apples", "-3", "1.2.3GB", "GB"])
def test_limit_that_is_none(tmp_path, monkeypatch, text):
    monkeypatch.setenv("PARTLABEL_CACHE_LIMIT", text)
    with pytest.raises(UserError, match="such as 200GB"):
        cache_limit(tmp_path, 10)


def test_half_of_the_free_disk_and_of_what_is_used(tmp_path, monkeypatch):
    monkeypatch.delenv("PARTLABEL_CACHE_LIMIT", raising=False)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000})())
    assert cache_limit(tmp_path, 200) == 600


def test_the_longest_unused_go_first_and_only_as_many_as_needed(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTLABEL_CACHE_LIMIT", "1000")
    old = put(tmp_path, f"features-2/{'a' * 32}/{'1' * 32}.shard", 300, age=30)
    kept = put(tmp_path, f"features-2/{'a' * 32}/{'2' * 32}.shard", 300, age=40)
    earlier = put(tmp_path, f"{'b' * 32}.npy", 300, age=20)
    new = put(tmp_path, f"files-1/0a/{'3' * 32}.records", 50, age=1)
    foreign = [put(tmp_path, name, 500, age=99) for name in ("mine.npy", "features-2/notes.txt", "a/b/c.shard")]
    assert [size for _, size, _ in stored_files(tmp_path)] == [300, 300, 300, 50]
    make_room(tmp_path, 50, {kept})
    assert old.exists()
    make_room(tmp_path, 60, {kept})
    assert not old.exists()
    assert earlier.exists()
    make_room(tmp_path, 10**6, {kept})
    assert kept.exists()
    assert all(path.exists() for path in foreign)
    assert not earlier.exists()
    assert not new.exists()


def test_no_folder_is_an_empty_cache(tmp_path):
    assert stored_files(tmp_path / "none") == []
    make_room(tmp_path / "none", 10)
