"""What makes an image hard to judge: by hand, and at any size of the same image."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageFilter

from partlabel.images.decoding import ImageError
from partlabel.images.quality import Quality, _numbers, measure


def scene(size: tuple[int, int] = (320, 240), seed: int = 0) -> Image.Image:
    """Blocks of random grey levels: sharp edges, and flat places between them."""
    blocks = np.random.default_rng(seed).integers(0, 256, (12, 16), dtype=np.uint8)
    return Image.fromarray(blocks).resize(size, Image.Resampling.NEAREST).convert("RGB")


def odd(tmp_path, image: Image.Image, ending: str = "png") -> list[str]:
    image.save(tmp_path / f"x.{ending}")
    return measure(tmp_path / f"x.{ending}").odd()


def test_numbers_by_hand():
    brightness, spread, sharpness = _numbers(np.array([[0, 0, 0], [0, 90, 0], [0, 0, 0]], np.float32))
    assert brightness == pytest.approx(10)
    assert spread == pytest.approx(np.sqrt(800))
    assert sharpness == 0  # one inner pixel has no spread
    step = np.tile(np.array([0, 0, 100, 100], np.float32), (4, 1))
    assert _numbers(step)[2] == pytest.approx(100 / (4 * 50))  # Laplacian 100 and -100 in turn, spread 50


def test_each_oddity_alone(tmp_path):
    image = scene()
    assert odd(tmp_path, image) == []
    assert odd(tmp_path, image.point(lambda v: v // 12)) == ["dark", "flat"]
    assert odd(tmp_path, image.point(lambda v: v // 6)) == ["dark"]
    assert odd(tmp_path, image.point(lambda v: 255 - v // 12)) == ["pale", "flat"]
    assert odd(tmp_path, Image.new("RGB", (200, 200), (120, 120, 120))) == ["flat"]
    assert odd(tmp_path, image.filter(ImageFilter.GaussianBlur(12))) == ["blurred"]
    assert odd(tmp_path, scene((40, 60))) == ["tiny"]
    assert odd(tmp_path, scene((960, 240))) == ["long and narrow"]


@pytest.mark.parametrize("size", [(320, 240), (1280, 960), (2560, 1920)])
def test_the_size_of_the_file_does_not_matter(tmp_path, size):
    assert odd(tmp_path, scene(size), "jpg") == []
    blurred = scene(size).filter(ImageFilter.GaussianBlur(size[0] / 27))
    assert odd(tmp_path, blurred, "jpg") == ["blurred"]


def test_a_file_that_is_no_image_is_an_error(tmp_path):
    (tmp_path / "x.png").write_bytes(b"no image")
    with pytest.raises(ImageError):
        measure(tmp_path / "x.png")


def test_quality_is_plain():
    assert Quality(100, 100, 100, 50, 0.2).odd() == []
