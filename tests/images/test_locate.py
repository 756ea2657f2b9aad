"""Picture files by name and by content."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pyarrow as pa
import pytest

from partlabel.core.errors import UserError
from partlabel.images import content_hash, identical, resolve
from partlabel.images.decoding import ImageError
from tests.images.make import CASES


def test_identical_files_of_the_case() -> None:
    folder = CASES / "SPL-02"
    wanted = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["identical"]
    images = sorted((folder / "images").iterdir())
    assert [[path.name for path in group] for group in identical(images)] == wanted


def test_identical_needs_equal_bytes_and_keeps_the_order(tmp_path: Path) -> None:
    contents = {"a": b"xy", "b": b"xz", "c": b"", "d": b"xz", "e": b"xyz", "f": b"xy", "g": b"xz"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    groups = identical(tmp_path / name for name in "gfedcba")
    assert [[path.name for path in group] for group in groups] == [["g", "d", "b"], ["f", "a"]]
    assert identical([]) == []
    with pytest.raises(ImageError, match="gone"):
        identical([tmp_path / "gone"])


def test_content_hash(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"picture")
    assert content_hash(path) == hashlib.blake2b(b"picture", digest_size=16).hexdigest()
    with pytest.raises(ImageError, match="cannot be read"):
        content_hash(tmp_path)


def test_names_are_found_in_the_order_given(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    files = ["0001.jpg", "1e10.JPG", "Tag.png", "sub/é 猫.webp"]
    for name in files:
        (tmp_path / name).touch()
    names = ["sub/é 猫.webp", "1e10", "0001", "tag.PNG"]
    wanted = [tmp_path / name for name in (files[3], files[1], files[0], files[2])]
    assert resolve(names, tmp_path) == wanted
    assert resolve(pa.array(names), str(tmp_path)) == wanted


def test_all_missing_names_are_listed(tmp_path: Path) -> None:
    for name in ("a.jpg", "b.jpg", "b.png"):
        (tmp_path / name).touch()
    with pytest.raises(UserError, match="2 of 3 images missing") as caught:
        resolve(["a.jpg", "c.jpg", "d"], tmp_path)
    assert caught.value.offenders == ["c.jpg", "d"]
    with pytest.raises(UserError, match="more than one file") as caught:
        resolve(["a", "b"], tmp_path)
    assert caught.value.offenders == ["b: b.jpg, b.png"]
    with pytest.raises(UserError, match="not a folder"):
        resolve(["a"], tmp_path / "none")
