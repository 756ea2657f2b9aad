"""Naive versions of the rules for images: one pixel, one integer at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

#: EXIF orientation -> position in the stored (high, wide) image of the upright pixel (y, x), after the EXIF standard
STORED = {
    1: lambda y, x, high, wide: (y, x),
    2: lambda y, x, high, wide: (y, wide - 1 - x),
    3: lambda y, x, high, wide: (high - 1 - y, wide - 1 - x),
    4: lambda y, x, high, wide: (high - 1 - y, x),
    5: lambda y, x, high, wide: (x, y),
    6: lambda y, x, high, wide: (high - 1 - x, y),
    7: lambda y, x, high, wide: (high - 1 - x, wide - 1 - y),
    8: lambda y, x, high, wide: (x, wide - 1 - y),
}


def upright(stored: np.ndarray[Any, Any], orientation: int) -> np.ndarray[Any, Any]:
    """Turn stored (H, W, 3) pixels by their EXIF orientation."""
    high, wide, channels = stored.shape
    shape = (wide, high) if orientation >= 5 else (high, wide)
    result = np.empty((*shape, channels), stored.dtype)
    for y in range(shape[0]):
        for x in range(shape[1]):
            result[y, x] = stored[STORED[orientation](y, x, high, wide)]
    return result


def on_white(rgba: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Lay (H, W, 4) pixels on white."""
    result = np.empty((*rgba.shape[:2], 3))
    for y in range(rgba.shape[0]):
        for x in range(rgba.shape[1]):
            alpha = rgba[y, x, 3] / 255
            for channel in range(3):
                result[y, x, channel] = alpha * rgba[y, x, channel] + (1 - alpha) * 255
    return result


def splitmix64(state: int) -> tuple[int, int]:
    """One step of SplitMix64 (Steele, Lea and Flood 2014): the new state and the number drawn."""
    mask = 2**64 - 1
    state = (state + 0x9E3779B97F4A7C15) & mask
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return state, z ^ (z >> 31)


def flip(seed: int, epoch: int, image: int) -> bool:
    """Whether one image is mirrored: draw ``image`` of the stream that seed and epoch begin."""
    mask = 2**64 - 1
    golden = 0x9E3779B97F4A7C15
    _, key = splitmix64(seed & mask)
    _, key = splitmix64(key ^ ((epoch * golden) & mask))
    state = key
    for _ in range(image + 1):
        state, drawn = splitmix64(state)
    return drawn >= 2**63
