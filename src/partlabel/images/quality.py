"""What makes an image hard to judge, whatever it shows: dark, washed out, blurred, tiny, or of an odd shape."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from partlabel.images.decoding import MAX_PIXELS, decode

#: longest side in pixels at which brightness and sharpness are measured, so that large and small files compare
_SIDE = 256
#: grey levels of 255 below and above which the mean of an image is dark or pale
DARK, PALE = 28, 232
#: spread of the grey levels below which there is next to nothing to see
FLAT = 12
#: share of the spread that is left in steps from pixel to pixel, below which an image is blurred
BLURRED = 0.045
#: pixels of the shorter side below which an image is tiny, and sides whose ratio is odd
TINY, LONG = 64, 3.0


@dataclass(frozen=True)
class Quality:
    """What was measured of an image file.

    Attributes:
        width, height: in pixels, as in the file.
        brightness: mean grey level, 0 to 255.
        spread: standard deviation of the grey levels.
        sharpness: standard deviation of the Laplacian, divided by 4 and by ``spread``: 0 for what has no edges, near 1
            for noise.
    """

    width: int
    height: int
    brightness: float
    spread: float
    sharpness: float

    def odd(self) -> list[str]:
        """Return what is odd about it, in words; nothing for an ordinary image."""
        found = []
        if min(self.width, self.height) < TINY:
            found.append("tiny")
        if max(self.width, self.height) > LONG * min(self.width, self.height):
            found.append("long and narrow")
        if self.brightness < DARK:
            found.append("dark")
        elif self.brightness > PALE:
            found.append("pale")
        if self.spread < FLAT:
            found.append("flat")
        elif self.sharpness < BLURRED and min(self.width, self.height) >= TINY:
            found.append("blurred")
        return found


def measure(path: Path, *, max_pixels: int = MAX_PIXELS) -> Quality:
    """Measure one image file.

    Raises:
        ImageError: it cannot be read.
    """
    return look_at(path, max_pixels=max_pixels)[0]


def look_at(path: Path, *, max_pixels: int = MAX_PIXELS) -> tuple[Quality, NDArray[np.uint8]]:
    """Measure one image file, and give the pixels (H, W, 3) that it was measured on, some of them left out.

    Raises:
        ImageError: it cannot be read.
    """
    pixels = decode(path, _SIDE // 2, max_pixels=max_pixels)
    with Image.open(path) as file:
        width, height = file.size
    return _of_pixels(pixels, width, height), pixels


def _of_pixels(pixels: NDArray[np.uint8], width: int, height: int) -> Quality:
    picture = Image.fromarray(pixels).convert("L")
    picture.thumbnail((_SIDE, _SIDE), Image.Resampling.BOX)
    return Quality(width, height, *_numbers(np.asarray(picture, np.float32)))


def _numbers(grey: NDArray[np.float32]) -> tuple[float, float, float]:
    """Brightness, spread and sharpness of grey levels (H, W)."""
    spread = float(grey.std())
    if min(grey.shape) < 3:
        return float(grey.mean()), spread, 0.0
    inner = grey[1:-1, 1:-1]
    laplacian = grey[:-2, 1:-1] + grey[2:, 1:-1] + grey[1:-1, :-2] + grey[1:-1, 2:] - 4 * inner
    return float(grey.mean()), spread, float(laplacian.std()) / (4 * max(spread, 1e-6))
