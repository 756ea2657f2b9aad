"""The check before training: everything bad in one go, in order, whatever the number of threads."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from partlabel.core.errors import PartlabelWarning, UserError
from partlabel.images import ImageCheck, check
from tests.images.make import CASES, encoded, picture, with_orientation


@pytest.fixture(scope="module")
def paths() -> list[Path]:
    """All images of the cases, good and bad."""
    return sorted(CASES.glob("IMG-*/images/*"))


def short(check: ImageCheck) -> list[str]:
    return [f"{Path(path).parts[-3]} {Path(path).name}" for path, _ in check.bad]


def test_all_bad_files_in_one_go(paths: list[Path]) -> None:
    found = check(paths, workers=1)
    assert short(found) == [
        "IMG-01 cut.jpg",
        "IMG-02 empty.jpg",
        "IMG-02 page.jpg",
        "IMG-02 pointer.png",
        "IMG-06 huge.png",
    ]
    assert found.images == len(paths) == 16
    assert [str(path) for path, good in zip(paths, found.good, strict=True) if not good] == [p for p, _ in found.bad]
    with pytest.raises(UserError, match="5 of 16 images cannot be used") as caught:
        found.raise_if_bad()
    assert caught.value.offenders == [f"{path}: {reason}" for path, reason in found.bad]
    check([path for path, good in zip(paths, found.good, strict=True) if good]).raise_if_bad()


def test_case_of_animations() -> None:
    folder = CASES / "IMG-07"
    wanted = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    found = check([folder / "images" / "anim.gif"])
    assert found.animated == [str(folder / name) for name in wanted["animated"]]
    assert not found.bad


def test_the_number_of_threads_changes_nothing(paths: list[Path]) -> None:
    one, four = check(paths, workers=1).to_dict(), check(paths, workers=4).to_dict()
    assert one == four
    assert json.loads(json.dumps(one)) == one


def test_counts(paths: list[Path], tmp_path: Path) -> None:
    (tmp_path / "deep.png").write_bytes(encoded(Image.fromarray(np.zeros((2, 2), np.uint16)), "PNG"))
    (tmp_path / "turned.jpg").write_bytes(encoded(picture(), "JPEG", exif=with_orientation(8)))
    found = check([*paths, *sorted(tmp_path.iterdir())])
    numbers = found.to_dict()
    assert {k: numbers[k] for k in ("turned", "cmyk", "transparent", "deep", "good")} == {
        "turned": 2,
        "cmyk": 1,
        "transparent": 3,
        "deep": 1,
        "good": 13,
    }
    assert numbers["formats"] == {"GIF": 1, "JPEG": 4, "PNG": 8}


def test_nothing_to_check() -> None:
    found = check([])
    assert (found.images, found.bad, len(found.good)) == (0, [], 0)
    found.raise_if_bad()


def test_the_limit_of_pixels_is_passed_on(paths: list[Path]) -> None:
    assert "IMG-04 o6.jpg" in short(check(paths, max_pixels=64 * 32 - 1))
    assert "IMG-04 o6.jpg" not in short(check(paths, max_pixels=64 * 32))


def test_progress_reaches_the_end(paths: list[Path]) -> None:
    calls: list[tuple[int, int]] = []
    check(paths * 40, progress=lambda done, total: calls.append((done, total)))
    assert [done for done, _ in calls] == [256, 512, 640]
    assert {total for _, total in calls} == {640}


def test_no_warning_and_filters_left_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    path.write_bytes(encoded(picture(), "TIFF", compression="tiff_lzw")[:-3])
    filters = list(warnings.filters)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert check([path]).bad
    assert not caught
    assert list(warnings.filters) == filters


def test_twelve_bits_in_sixteen_are_said(tmp_path):
    """Read as they are, they are nearly black; which of the two was meant cannot be told from one image."""
    rng = np.random.default_rng(0)
    for name, top in (("twelve", 4096), ("sixteen", 65536)):
        Image.fromarray(rng.integers(0, top, (20, 20)).astype(np.uint16)).save(tmp_path / f"{name}.png")
    with pytest.warns(PartlabelWarning, match="1 images of 16 bits hold no value above 4095"):
        found = check(sorted(tmp_path.iterdir()))
    assert (found.deep, found.dark) == (2, [str(tmp_path / "twelve.png")])
