"""Scenes of several real handwritten digits, for the demo job and for tries without a data set of one's own.

The digits are the 1,797 handwritten 8 x 8 images that scikit-learn ships (the test part of the UCI "Optical Recognition
of Handwritten Digits" data); those of training scenes and those of test scenes are different images. A scene sets 1 to
``MAX_DIGITS`` of them on a dark coloured ground, each with its own place, size, tilt, ink and contrast.

Which digits stand together has structure, so that there is something for a label graph to learn. The digits 1 to 9 lie
in the rows of a telephone keypad, ``ROWS`` = (1 2 3), (4 5 6), (7 8 9). A scene first draws one row, each with chance
1/3. Then each digit of that row is present with chance ``IN_ROW``, each digit of the other two rows with chance
``OUT_OF_ROW``, and 0, which belongs to no row, with chance ``ZERO``, all independently. A scene without a digit, or
with more than ``MAX_DIGITS``, is drawn again. Two digits of one row therefore stand together about twice as often as
their single frequencies would give, two digits of different rows about 0.4 times as often, and 0 with any digit about
as often as by chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import Literal

import numpy as np
from PIL import Image, ImageDraw

from partlabel.core.optional import require

CLASSES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
ROWS = ((1, 2, 3), (4, 5, 6), (7, 8, 9))
IN_ROW, OUT_OF_ROW, ZERO = 0.8, 0.08, 0.3
MAX_DIGITS = 5
#: side of a scene in pixels
SIDE = 96


@dataclass(frozen=True)
class Digits:
    """Digit images.

    ``pixels``: uint8 (N, 8, 8), 255 is ink. ``values``: int64 (N,), 0 to 9. ``source``: int64 (N,), row in
    scikit-learn's data.
    """

    pixels: np.ndarray
    values: np.ndarray
    source: np.ndarray

    def of(self, value: int) -> np.ndarray:
        """Rows that show the digit ``value``."""
        return np.flatnonzero(self.values == value)


@dataclass(frozen=True)
class Scene:
    """One scene: ``pixels`` uint8 (SIDE, SIDE, 3) RGB, the ``digits`` in it, and the ``source`` row of each."""

    pixels: np.ndarray
    digits: tuple[int, ...]
    source: tuple[int, ...]

    def labels(self) -> np.ndarray:
        """Every label of the scene, int8 (10,): +1 present, -1 absent."""
        labels = np.full(len(CLASSES), -1, np.int8)
        labels[list(self.digits)] = 1
        return labels

    def jpeg(self) -> bytes:
        """The scene as a JPEG file."""
        file = BytesIO()
        Image.fromarray(self.pixels).save(file, "JPEG", quality=90)
        return file.getvalue()


@lru_cache(maxsize=1)
def _load() -> Digits:
    require("the demo needs", "sklearn")
    from sklearn.datasets import load_digits

    ink, values = load_digits(return_X_y=True)  # ink from 0 to 16, (N, 64)
    pixels = np.rint(np.asarray(ink) * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8)
    return Digits(pixels, np.asarray(values, np.int64), np.arange(len(pixels)))


def split_digits(seed: int, test_share: float = 1 / 3) -> tuple[Digits, Digits]:
    """The digit images in two parts that share none, for training and for testing; each digit is split alike."""
    digits, rng = _load(), np.random.default_rng([seed, 1])
    in_test = np.zeros(len(digits.values), bool)
    for value in range(len(CLASSES)):
        rows = rng.permutation(digits.of(value))
        in_test[rows[: round(test_share * len(rows))]] = True
    train, test = (
        Digits(digits.pixels[part], digits.values[part], digits.source[part]) for part in (~in_test, in_test)
    )
    return train, test


def draw_presence(rng: np.random.Generator) -> list[int]:
    """Which digits a scene holds, by the chances of this file's first lines, in random order."""
    while True:
        chance = np.full(len(CLASSES), OUT_OF_ROW)
        chance[list(ROWS[rng.integers(len(ROWS))])] = IN_ROW
        chance[0] = ZERO
        present = np.flatnonzero(rng.random(len(CLASSES)) < chance)
        if 1 <= len(present) <= MAX_DIGITS:
            return [int(digit) for digit in rng.permutation(present)]


def draw_scene(digits: Digits, rng: np.random.Generator) -> Scene:
    """Draw one scene from the digit images of ``digits``."""
    present = draw_presence(rng)
    rows = [int(rng.choice(digits.of(value))) for value in present]
    scene, light = _ground(rng)
    for row, (centre, side) in zip(rows, _places(len(rows), rng), strict=True):
        ink, corner = _ink(digits.pixels[row], centre, side, rng)
        scene.paste(_colour(light, rng), corner, ink)
    grain = rng.uniform(2, 7) * rng.standard_normal((SIDE, SIDE, 1), np.float32)
    pixels = np.clip(np.rint(np.asarray(scene, np.float32) + grain), 0, 255).astype(np.uint8)
    return Scene(pixels, tuple(present), tuple(int(digits.source[row]) for row in rows))


def draw_scenes(part: Literal["train", "test"], count: int, seed: int) -> list[Scene]:
    """Draw scenes from the digit images of one part; scene i depends on the part, the seed and i only."""
    digits = dict(zip(("train", "test"), split_digits(seed), strict=True))[part]
    stream = {"train": 2, "test": 3}[part]
    return [draw_scene(digits, np.random.default_rng([seed, stream, i])) for i in range(count)]


def _ground(rng: np.random.Generator) -> tuple[Image.Image, float]:
    """A ground of two colours that run into each other, with up to three pen strokes, and its lightness (0 to 255)."""
    light = float(rng.uniform(25, 95))
    colours = np.clip(light + rng.normal(0, 22, (2, 3)), 0, 255).astype(np.float32)
    angle = rng.uniform(0, 2 * np.pi)
    along = np.linspace(-0.5, 0.5, SIDE, dtype=np.float32)
    blend = np.clip(0.5 + along * np.float32(np.cos(angle)) + along[:, None] * np.float32(np.sin(angle)), 0, 1)[
        ..., None
    ]
    scene = Image.fromarray((colours[0] * blend + colours[1] * (1 - blend)).astype(np.uint8))
    pen = ImageDraw.Draw(scene)
    for _ in range(rng.integers(0, 3)):
        ends = [(int(x), int(y)) for x, y in rng.integers(0, SIDE, (2, 2))]
        pen.line(ends, fill=_rgb(light + rng.normal(0, 25) + rng.normal(0, 10, 3)), width=int(rng.integers(1, 3)))
    return scene, light


def _colour(light: float, rng: np.random.Generator) -> tuple[int, int, int]:
    """Ink that differs from a ground of lightness ``light`` by about 60 to 150 of 255."""
    return _rgb(light + rng.uniform(80, 160) + rng.normal(0, 20, 3))


def _rgb(values: np.ndarray) -> tuple[int, int, int]:
    red, green, blue = np.clip(values, 0, 255).astype(int).tolist()
    return red, green, blue


def _places(count: int, rng: np.random.Generator) -> list[tuple[np.ndarray, float]]:
    """Centre (x, y) and side in pixels of each digit, drawn until no two digits overlap by more than a little."""
    while True:
        sides = rng.uniform(28, 42, count) * min(1, 3 / count) ** 0.5
        centres = rng.uniform(sides[:, None] / 2, SIDE - sides[:, None] / 2, (count, 2))
        distance = np.abs(centres[:, None] - centres[None]).max(-1)
        if np.all(distance + SIDE * np.eye(count) >= 0.42 * (sides[:, None] + sides[None])):
            return list(zip(centres, sides.tolist(), strict=True))


def _ink(
    pixels: np.ndarray, centre: np.ndarray, side: float, rng: np.random.Generator
) -> tuple[Image.Image, tuple[int, int]]:
    """The digit, enlarged to ``side`` pixels and tilted, as a mask (255: full ink), and its upper left corner."""
    tilt, scale = np.deg2rad(rng.uniform(-12, 12)), 8 / side
    cos, sin = float(np.cos(tilt)) * scale, float(np.sin(tilt)) * scale
    box = int(np.ceil(side * 1.5))
    left, top = (int(v) for v in np.floor(centre - box / 2))
    x, y = centre - (left, top)
    rim = 2  # empty pixels around the digit, so that the edge of the tilted mask is empty too
    middle = 4 + rim
    affine = (cos, sin, middle - cos * x - sin * y, -sin, cos, middle + sin * x - cos * y)
    digit = Image.new("L", (8 + 2 * rim, 8 + 2 * rim))
    digit.paste(Image.fromarray(pixels), (rim, rim))
    return digit.transform((box, box), Image.Transform.AFFINE, affine, Image.Resampling.BICUBIC), (left, top)
