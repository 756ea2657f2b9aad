"""Small images for the tests."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

CASES = Path(__file__).parents[1] / "cases"


def picture(wide: int = 48, high: int = 32, seed: int = 0) -> Image.Image:
    """A smooth image with noise, so that compressed data is of some length."""
    generator = np.random.default_rng(seed)
    y, x = np.mgrid[:high, :wide]
    base = np.stack([x * 255 // wide, y * 255 // high, (x + y) * 255 // (wide + high)], axis=2)
    return Image.fromarray((base * 0.8 + generator.integers(0, 40, base.shape)).astype(np.uint8))


def encoded(image: Image.Image, format: str, **options: Any) -> bytes:
    """The bytes of an image file."""
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def with_orientation(orientation: int) -> Image.Exif:
    """An EXIF block that holds the flag only."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif
