"""Mixing of two images and of what is known of them, as loops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def mixup(images: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Images (B, D, h, w): the first is mixed with the second, the third with the fourth; t: (B,) shares."""
    mixed = images.astype(float).copy()
    for a in range(0, len(images) - 1, 2):
        b = a + 1
        mixed[a] = t[a] * images[a] + (1 - t[a]) * images[b]
        mixed[b] = t[b] * images[b] + (1 - t[b]) * images[a]
    return mixed


def cutmix(images: np.ndarray, t: np.ndarray, centre: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same with a box of sides sqrt(1 - t) around a centre in [0, 1); gives also what is left of each image."""
    mixed, left = images.copy(), np.ones(len(images))
    _, _, height, width = images.shape
    for i in range(len(images)):
        partner = i + 1 if i % 2 == 0 else i - 1
        if partner == len(images):
            continue
        half_y, half_x = round(height * np.sqrt(1 - t[i]) / 2), round(width * np.sqrt(1 - t[i]) / 2)
        y0, x0 = int(centre[i, 0] * height), int(centre[i, 1] * width)
        pasted = 0
        for y in range(height):
            for x in range(width):
                if y0 - half_y <= y < y0 + half_y and x0 - half_x <= x < x0 + half_x:
                    mixed[i, :, y, x] = images[partner, :, y, x]
                    pasted += 1
        left[i] = 1 - pasted / (height * width)
    return mixed, left


def loss(
    x: np.ndarray, y: np.ndarray, t: np.ndarray, g: Callable[[float], float], w: np.ndarray | None = None
) -> complex:
    """Sum over the mixed images i, made of parts (i, t_i) and (partner, 1 - t_i), of equation 1 of each part.

    x: scores (B, C) of the mixed images; y: labels (B, C) of the images as they were; w: weights (B, C) of the labels.
    """
    B, C = y.shape
    total: complex = 0
    for i in range(B):
        partner = min(i + 1 if i % 2 == 0 else i - 1, B - 1)
        for part, share in ((i, t[i]), (partner, 1 - t[i])):
            known = [c for c in range(C) if y[part, c] != 0]
            for c in known:
                weight = share * (1 if w is None else w[part, c])
                total += weight * g(len(known) / C) / C * np.log(1 + np.exp(-y[part, c] * x[i, c]))
    return total
