"""Images that show the same in another encoding, size or with a slightly other border: found by what they look like.

Each image is boiled down to a fingerprint of about 1 kB when it is decoded: 32 x 32 grey values and 4 x 4 colour
differences. Two images are near-copies where

1. the signs of the 63 lowest cosine coefficients (the perceptual hash of Zauner, 2010) differ in at most ``BITS``,
2. their grey values correlate by at least ``ALIKE``, after one of them was shifted and stretched so that it fits best
   (Lucas and Kanade, 1981), as a cropped copy has to be,
3. and their colours are alike, because shirts of one cut in two colours are two articles.

An image of nearly one grey value is no copy of anything. What it finds and misses: ``experiments/near_copies.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from partlabel.core.compute import ALONE, Crew
from partlabel.images.near_hashes import candidates

Floats = NDArray[np.float64]

SIDE, COLOURS = 32, 4
#: bytes of a fingerprint
BYTES = SIDE * SIDE + 2 * COLOURS * COLOURS
#: bits of the hash that may differ, of 63; least correlation; greatest mean difference of colour, of 255
BITS, ALIKE, COLOUR = 14, 0.98, 12.0
#: cosine coefficients of either side that the hash is made of
_LOWEST = 8
#: least correlation as they are
_ROUGHLY = 0.7
#: least standard deviation of the grey values
_FLAT = 4.0
#: images, or pairs of them, that are looked at together
_ROWS = 4096
#: largest shift and stretch, as a share of the image; steps of the fit; what keeps it from running off
_FARTHEST, _STEPS, _RIDGE = 0.15, 6, 0.1


def fingerprint(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Boil an image (H, W, 3), RGB, down to ``BYTES`` numbers; best with sides of at least ``2 * SIDE``."""
    image = Image.fromarray(pixels).resize((SIDE, SIDE), Image.Resampling.BILINEAR).convert("YCbCr")
    grey, blue, red = image.split()
    few = [np.asarray(part.resize((COLOURS, COLOURS), Image.Resampling.BOX)) for part in (blue, red)]
    return np.concatenate([np.asarray(part).ravel() for part in (grey, *few)])


def near_copies(
    prints: NDArray[np.uint8], crew: Crew = ALONE, progress: Callable[[int, int], None] | None = None
) -> list[tuple[int, int]]:
    """Find pairs of near-copies.

    Args:
        prints: (N, BYTES) fingerprints. Of few images all pairs are compared, two billion in some seconds;
            of many, a thirtieth of all pairs (:mod:`partlabel.images.near_hashes`).
        crew: the processes that share that out, and have the same fingerprints; all of them call this.
        progress: called with (images looked at, images in all) by each process.

    Returns:
        Pairs (i, k), i > k: image i is a near-copy of k, and k of no other; each i comes once, with the k that it is
        most like. So no chain of images, each a little different, ends at another image.
    """
    parts = [prints[low : low + _ROWS] for low in range(0, len(prints), _ROWS)]
    flat = [_grey(part).std((1, 2)) >= _FLAT for part in parts]
    lively = np.flatnonzero(np.concatenate([np.zeros(0, bool), *flat]))
    hashes = [_hashes(_grey(prints[lively[low : low + _ROWS]])) for low in range(0, len(lively), _ROWS)]

    def search() -> dict[int, list[tuple[float, int]]]:
        found: dict[int, list[tuple[float, int]]] = {}
        of_all = np.concatenate([np.zeros(0, np.uint64), *hashes])
        for one, other in candidates(of_all, BITS, crew.rank, crew.world):
            for low in range(0, len(one), _ROWS):
                _compare(prints, lively[one[low : low + _ROWS]], lively[other[low : low + _ROWS]], found)
            if progress:
                progress(int(one[-1]) + 1, len(of_all))
        return found

    found = {i: alike for part in crew.collect(search) for i, alike in part.items()}
    pairs: dict[int, int] = {}
    for i in sorted(found):
        first = [(how, k) for how, k in found[i] if k not in pairs]
        if first:
            pairs[i] = max(first, key=lambda own: (own[0], -own[1]))[1]
    return sorted(pairs.items())


def _compare(
    prints: NDArray[np.uint8],
    one: NDArray[np.int64],
    other: NDArray[np.int64],
    found: dict[int, list[tuple[float, int]]],
) -> None:
    """Look at pairs whose hashes are near, and add those that are alike to what was found of each image."""
    colours = [prints[rows, SIDE * SIDE :].astype(np.float32) for rows in (one, other)]
    close = np.abs(colours[0] - colours[1]).mean(1) <= COLOUR
    one, other = one[close], other[close]
    standard = [_standard(_grey(prints[rows])) for rows in (one, other)]
    close = (standard[0] * standard[1]).mean((1, 2)) >= _ROUGHLY
    one, other = one[close], other[close]
    if not len(one):
        return
    like = _fitted(*(images[close].astype(np.float64) for images in standard))
    for i, k, how in zip(one.tolist(), other.tolist(), like.tolist(), strict=True):
        if how >= ALIKE:
            found.setdefault(i, []).append((how, k))


def _grey(prints: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The grey values (N, SIDE, SIDE) of fingerprints."""
    return prints[:, : SIDE * SIDE].reshape(-1, SIDE, SIDE).astype(np.float32)


def _hashes(grey: NDArray[np.float32]) -> NDArray[np.uint64]:
    """The signs of the lowest cosine coefficients about their median, but for the mean of the image: uint64 (N,)."""
    at = np.arange(SIDE)
    basis = np.cos(np.pi * (2 * at[None, :] + 1) * np.arange(_LOWEST)[:, None] / (2 * SIDE)).astype(np.float32)
    basis[0] /= np.sqrt(2)
    low = np.einsum("ay,nyx,bx->nab", basis, grey, basis, optimize=True).reshape(len(grey), _LOWEST**2)[:, 1:]
    bits = low > np.median(low, axis=1, keepdims=True)
    packed = np.packbits(np.pad(bits, ((0, 0), (0, 1))), axis=1)
    return np.ascontiguousarray(packed).view(np.uint64)[:, 0]


def _fitted(image: Floats, other: Floats) -> Floats:
    """Correlate standardised images (M, S, S) with others that are moved so that they fit best: (M,)."""
    count, size = len(image), SIDE
    along = ((np.arange(size) - (size - 1) / 2) / (size / 2)).astype(np.float64)
    x, y = np.broadcast_to(along, (size, size)), np.broadcast_to(along[:, None], (size, size))
    best = (image * other).mean((1, 2))
    way = np.zeros((count, 4))  # stretch and shift in x, in y
    for step in range(_STEPS + 1):
        moved, slope_x, slope_y, inside = _moved(other, way, x, y)
        weight = inside / inside.sum((1, 2), keepdims=True)
        a = (image - (image * weight).sum((1, 2), keepdims=True)) * inside
        b = (moved - (moved * weight).sum((1, 2), keepdims=True)) * inside
        both, own, its = ((one * two).sum((1, 2)) for one, two in ((a, b), (a, a), (b, b)))
        best = np.maximum(best, both / np.sqrt(own * its + 1e-9))
        if step == _STEPS:
            break
        gain = (both / (its + 1e-9))[:, None, None]
        change = np.stack([slope_x * x, slope_x, slope_y * y, slope_y], 3) * (inside * gain)[..., None]
        change, rest = change.reshape(count, -1, 4), (a - gain * b).reshape(count, -1)
        square = np.einsum("mki,mkj->mij", change, change) + _RIDGE * np.eye(4)
        move = np.linalg.solve(square, np.einsum("mki,mk->mi", change, rest)[..., None])[..., 0]
        way = np.clip(way + move, -_FARTHEST, _FARTHEST)
    return best


def _standard(images: NDArray[Any]) -> NDArray[Any]:
    away = images - images.mean((1, 2), keepdims=True)
    return away / (np.sqrt((away**2).mean((1, 2), keepdims=True)) + 1e-6)


def _moved(images: Floats, way: Floats, x: Floats, y: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Images seen through a stretch and a shift, their slopes in x and y, and 1 where that is inside, else 0."""
    half = SIDE / 2
    at = [
        (one * (1 + way[:, i, None, None]) + way[:, i + 1, None, None]) * half + half - 0.5
        for one, i in ((x, 0), (y, 2))
    ]
    inside = np.all([(one >= 0) & (one <= SIDE - 1) for one in at], axis=0).astype(np.float64)
    left, top = (np.clip(np.floor(one), 0, SIDE - 2).astype(np.int64) for one in at)
    right, low = np.clip(at[0] - left, 0, 1), np.clip(at[1] - top, 0, 1)
    row = np.arange(len(images))[:, None, None]
    a, b = images[row, top, left], images[row, top, left + 1]
    c, d = images[row, top + 1, left], images[row, top + 1, left + 1]
    seen = (a * (1 - right) + b * right) * (1 - low) + (c * (1 - right) + d * right) * low
    slope_x = ((b - a) * (1 - low) + (d - c) * low) * half
    slope_y = ((c - a) * (1 - right) + (d - b) * right) * half
    return seen, slope_x, slope_y, inside
