"""Image files by name and by content."""

from __future__ import annotations

import hashlib
import json
import tempfile
import unicodedata
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel.core.errors import UserError
from partlabel.images import content_hash, identical, resolve
from partlabel.images.decoding import ImageError
from partlabel.images.locate import locate
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


def test_files_are_found_under_the_names_that_tables_give_them(tmp_path):
    for name in ("yard/caf\u00e9 1.jpg", "yard/b.PNG", "Yard 2/cafe\u0301.jpeg", "top.webp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    names = {
        "./yard//caf\u00e9 1.jpg": "yard/caf\u00e9 1.jpg",
        "yard\\cafe\u0301 1.JPG": "yard/caf\u00e9 1.jpg",
        "YARD/b": "yard/b.PNG",
        "yard 2/caf\u00e9": "Yard 2/cafe\u0301.jpeg",
        "x/../TOP.webp": "top.webp",
        "cafe\u0301 1": "yard/caf\u00e9 1.jpg",
        "other/top.webp": None,
        "": None,
        ".": None,
        "yard": None,
    }
    found = locate(names, tmp_path)
    assert found.files == list(names.values())
    assert (found.other_case, found.completed, found.backslashes, found.below) == (2, 3, 1, 1)


@pytest.mark.parametrize("name", ["../a.png", "x/../../a.png", "..\\a.png", "/a.png", "..", "x\\..\\..\\a.png"])
def test_nothing_is_looked_for_outside_of_the_folder(tmp_path, name):
    folder = tmp_path / "in"
    (folder / "x").mkdir(parents=True)
    (tmp_path / "a.png").write_bytes(b"x")
    assert locate([name], folder).files == [None]
    assert locate([name, str(tmp_path / "a.png")], folder).outside == [name, str(tmp_path / "a.png")]
    with pytest.raises(UserError, match="1 image names lead out of the image folder"):
        resolve([name], folder)


PARTS = (
    st.text("abcXYZ \u00e9\u00fc\u00df\u0130.-", min_size=1, max_size=5)
    .map(str.strip)
    .filter(lambda p: p.strip(". ") == p != "")
)


@given(st.lists(st.lists(PARTS, min_size=1, max_size=3), min_size=1, max_size=6), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_random_files_are_found_under_random_spellings(files, chance):
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        there = []
        for parts in files:
            path = folder.joinpath(*parts[:-1], f"{parts[-1]}.jpg")
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"x")
            except OSError:
                continue
            there.append(path.relative_to(folder).as_posix())
        assert locate(there, folder).files == there
        for name in there:
            spelled = chance.choice([str, str.swapcase, str.lower])(name)
            spelled = unicodedata.normalize(chance.choice(["NFC", "NFD"]), spelled)
            spelled = spelled.removesuffix(chance.choice(["", ".jpg"]))
            spelled = chance.choice(["", "./", "x/../"]) + spelled.replace("/", chance.choice(["/", "//", "\\"]))
            found = locate([spelled], folder)
            (file,) = found.files
            assert file is None or file in there
            if not found.ambiguous and file is None:
                assert "\u0130" in name or "\u00df" in name  # letters without a single other case
