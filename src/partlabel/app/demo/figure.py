"""The figure of the demo: scenes, and beside each its known, predicted and true labels."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from partlabel.core.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 4
INK, QUIET = "#20262c", "#6b7680"
PRESENT, WRONG = "#1b6ca8", "#c8402f"
#: kind of mark -> disc, its edge (None: no disc), colour of the digit
MARKS = {
    "present": (PRESENT, PRESENT, "white"),
    "absent": ("white", None, "#b3bbc2"),
    "known absent": ("#e3e8ec", "#e3e8ec", INK),
    "unknown": ("white", None, QUIET),
    "extra": (WRONG, WRONG, "white"),
    "missed": ("white", WRONG, WRONG),
}

# Sizes in inches. A card is a scene with its rows of digits beside it, STEP apart; CELL is one digit of a row.
SIDE, CELL, STEP = 1.36, 0.178, 0.44
CARD_WIDTH, GAP = 3.42, 0.28
MARGIN, TOP, SECTION, LEGEND = 0.35, 1.02, 0.44, 0.5


@dataclass(frozen=True)
class Example:
    """A scene to show.

    ``pixels``: uint8 (H, W, 3). ``known``: int8 (C,), +1 present, -1 absent, 0 unknown; None where nothing was ever
    known. ``predicted``: bool (C,). ``true``: bool (C,).
    """

    pixels: NDArray[np.uint8]
    known: NDArray[np.int8] | None
    predicted: NDArray[np.bool_]
    true: NDArray[np.bool_]


def draw(path: str | os.PathLike[str], trained: Sequence[Example], new: Sequence[Example], headline: str) -> None:
    """Draw scenes that were trained on, and below them scenes that the model never saw, into a PNG file.

    Raises:
        UserError: the file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = [-(-len(part) // COLUMNS) for part in (trained, new)]
    height = TOP + sum(SECTION + count * (SIDE + GAP) for count in rows) + LEGEND
    width = 2 * MARGIN + COLUMNS * CARD_WIDTH + (COLUMNS - 1) * GAP
    figure = Figure(figsize=(width, height), dpi=100, facecolor="white")
    FigureCanvasAgg(figure)
    page = figure.add_axes((0, 0, 1, 1))
    page.set(xlim=(0, width), ylim=(height, 0))
    page.axis("off")
    page.text(MARGIN, 0.42, "Learned from one label in ten", size=17, weight="bold", color=INK, va="center")
    page.text(MARGIN, 0.75, headline, size=10.5, color=QUIET, va="center")
    titles = (
        "Training scenes, with the few labels that were known",
        "New scenes, made of digit images that were never trained on",
    )
    down = TOP
    for title, part, count in zip(titles, (trained, new), rows, strict=True):
        page.text(MARGIN, down + 0.16, title, size=11.5, weight="bold", color=INK, va="center")
        down += SECTION
        for i, example in enumerate(part):
            left = MARGIN + (i % COLUMNS) * (CARD_WIDTH + GAP)
            _card(page, example, left, down + (i // COLUMNS) * (SIDE + GAP))
        down += count * (SIDE + GAP)
    _legend(page, height - LEGEND / 2)
    _save(figure, path)


def _card(page: Axes, example: Example, left: float, top: float) -> None:
    """A scene, with its rows of digits on the right."""
    page.imshow(example.pixels, extent=(left, left + SIDE, top + SIDE, top), interpolation="bilinear", aspect="auto")
    rows = [
        ("predicted", np.where(example.predicted, 1, -1), example.predicted != example.true),
        ("true", np.where(example.true, 1, -1), np.zeros(len(example.true), bool)),
    ]
    if example.known is not None:
        rows.insert(0, ("known", example.known, np.zeros(len(example.known), bool)))
    start, middle = left + SIDE + 0.14, top + SIDE / 2 - (len(rows) - 1) * STEP / 2
    for name, states, wrong in rows:
        page.text(start, middle - 0.15, name, size=7.5, color=QUIET, va="center")
        for digit, state in enumerate(states.tolist()):
            kind = {1: "present", -1: "absent", 0: "unknown"}[state]
            if name == "known" and kind == "absent":
                kind = "known absent"
            if wrong[digit]:
                kind = "extra" if kind == "present" else "missed"
            _mark(page, kind, str(digit), start + (digit + 0.5) * CELL, middle + 0.05)
        middle += STEP


def _mark(page: Axes, kind: str, digit: str, x: float, y: float) -> None:
    """One digit of one row; see :data:`MARKS`."""
    from matplotlib.patches import Circle

    face, edge, ink = MARKS[kind]
    if edge:
        page.add_patch(Circle((x, y), CELL * 0.48, facecolor=face, edgecolor=edge, linewidth=1))
    text, weight = ("·" if kind == "unknown" else digit), ("bold" if ink == "white" else "normal")
    page.text(x, y, text, size=7.5, weight=weight, color=ink, ha="center", va="center_baseline")


def _legend(page: Axes, y: float) -> None:
    x = MARGIN + CELL / 2
    for kind, text, wide in (
        ("present", "present", 0.9),
        ("known absent", "known to be absent", 1.6),
        ("unknown", "unknown", 0.95),
        ("extra", "predicted, but not there", 1.85),
        ("missed", "there, but not predicted", 0),
    ):
        _mark(page, kind, "3", x, y)
        page.text(x + 0.17, y, text, size=8.5, color=QUIET, va="center_baseline")
        x += wide


def _save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write with 256 colours, a third of the size, which the grain of the scenes hides."""
    from PIL import Image

    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    with Image.open(drawn) as image, replacing(path) as temporary:
        image.convert("RGB").quantize(256, kmeans=1, dither=Image.Dither.NONE).save(temporary, "PNG", optimize=True)
