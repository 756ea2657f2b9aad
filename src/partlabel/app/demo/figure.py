"""The figure of the demo: its three lessons, and scenes with their known, filled-in, predicted and true labels."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from partlabel.core.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 4
INK, QUIET, FAINT = "#20262c", "#5c6670", "#e3e8ec"
PRESENT, WRONG = "#1b6ca8", "#c8402f"
#: kind of mark -> disc, its edge (None: no disc), colour of the digit
MARKS = {
    "present": (PRESENT, PRESENT, "white"),
    "absent": ("white", None, "#b3bbc2"),
    "known absent": (FAINT, FAINT, INK),
    "unknown": ("white", None, QUIET),
    "extra": (WRONG, WRONG, "white"),
    "missed": ("white", WRONG, WRONG),
}

# Sizes in inches. A card is a scene with its rows of digits beside it, STEP apart; CELL is one digit of a row.
SIDE, CELL, STEP = 1.36, 0.178, 0.44
CARD_WIDTH, GAP = 3.42, 0.28
MARGIN, TOP, SECTION, LEGEND = 0.35, 0.85, 0.44, 0.5
#: the lessons: height of their strip, of a bar, from one bar to the next, and width of the longest
STRIP, BAR, BAR_STEP, BAR_WIDTH = 2.05, 0.15, 0.42, 3.3


@dataclass(frozen=True)
class Example:
    """A scene to show.

    ``pixels``: uint8 (H, W, 3). ``rows``: by their names, int8 (C,): +1 present, -1 absent, 0 unknown. ``true``: bool
    (C,).
    """

    pixels: NDArray[np.uint8]
    rows: dict[str, NDArray[np.int8]]
    true: NDArray[np.bool_]


@dataclass(frozen=True)
class Lessons:
    """What the demo found.

    ``share`` of the labels that is known. ``maps``: key, name and mAP of each model. ``filled``: as in
    ``results.json``. ``questions``: how many labels were added.
    """

    share: float
    maps: list[tuple[str, str, float]]
    filled: dict[str, Any]
    questions: int


def draw(path: str | os.PathLike[str], trained: Sequence[Example], new: Sequence[Example], lessons: Lessons) -> None:
    """Draw the lessons, scenes that were trained on, and scenes that the model never saw, into a PNG file.

    Raises:
        UserError: the file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = [-(-len(part) // COLUMNS) for part in (trained, new)]
    height = TOP + STRIP + sum(SECTION + count * (SIDE + GAP) for count in rows) + LEGEND
    width = 2 * MARGIN + COLUMNS * CARD_WIDTH + (COLUMNS - 1) * GAP
    figure = Figure(figsize=(width, height), dpi=100, facecolor="white")
    FigureCanvasAgg(figure)
    page = figure.add_axes((0, 0, 1, 1))
    page.set(xlim=(0, width), ylim=(height, 0))
    page.axis("off")
    title = f"One label in {round(1 / lessons.share)} is known"
    page.text(MARGIN, 0.42, title, size=17, weight="bold", color=INK, va="center")
    _lessons(page, lessons, width)
    titles = (
        "Training scenes, with the few labels that were known and those that could be filled in",
        "New scenes, made of digit images that were never trained on",
    )
    down = TOP + STRIP
    for text, part, count in zip(titles, (trained, new), rows, strict=True):
        page.text(MARGIN, down + 0.16, text, size=11.5, weight="bold", color=INK, va="center")
        down += SECTION
        for i, example in enumerate(part):
            left = MARGIN + (i % COLUMNS) * (CARD_WIDTH + GAP)
            _card(page, example, left, down + (i // COLUMNS) * (SIDE + GAP))
        down += count * (SIDE + GAP)
    _legend(page, height - LEGEND / 2)
    _save(figure, path)


def _lessons(page: Axes, lessons: Lessons, width: float) -> None:
    """Three panels side by side, each with its bars."""
    values = {key: (name, value) for key, name, value in lessons.maps}
    first = [(*values[key], key == "unknown") for key in ("unknown-as-absent", "unknown")]
    keys = [key for key in ("unknown", "random", "asked", "every-label") if key in values]
    names = {"unknown": "as before", "random": "as many again, at random", "asked": "as many again, asked for"}
    second = [(names.get(key, values[key][0]), values[key][1], key == "asked") for key in keys]
    filled = lessons.filled
    third = [
        (f"{filled[name]['labels']:,} filled in as {name}", filled[name]["right"], True)
        for name in ("present", "absent")
    ]
    panels = [
        ("1  Unknown is not absent", "mAP on new scenes, unknown labels ...", first),
        ("2  Ask", f"mAP with {lessons.questions:,} labels more", second),
        (
            "3  Fill in with a promise",
            f"share that is right; promised (dotted): {100 * filled['precision']:.0f} %",
            third,
        ),
    ]
    apart = (width - 2 * MARGIN) / len(panels)
    for i, (title, what, bars) in enumerate(panels):
        left = MARGIN + i * apart
        page.text(left, TOP, title, size=11.5, weight="bold", color=INK, va="center")
        page.text(left, TOP + 0.22, what, size=8.5, color=QUIET, va="center")
        for at, (name, value, ours) in enumerate(bars):
            _bar(page, name, value, ours, left, TOP + 0.44 + at * (BAR_STEP if len(bars) < 4 else 0.34))
        if i == 2:
            limit = left + BAR_WIDTH * filled["precision"]
            page.plot([limit, limit], [TOP + 0.5, TOP + 0.44 + len(bars) * BAR_STEP - 0.02], color=INK, lw=1, ls=":")


def _bar(page: Axes, name: str, value: float | None, ours: bool, left: float, top: float) -> None:
    """A name, and below it a bar from 0 to 100 % with its number."""
    from matplotlib.patches import Rectangle

    page.text(left, top + 0.04, name.removeprefix("unknown labels "), size=8.5, color=INK, va="center")
    page.add_patch(Rectangle((left, top + 0.13), BAR_WIDTH, BAR, color=FAINT, lw=0))
    if value is not None:
        page.add_patch(
            Rectangle((left, top + 0.13), BAR_WIDTH * value, BAR, color=PRESENT if ours else "#8fa3b3", lw=0)
        )
    shown = "none" if value is None else f"{100 * value:.1f} %"
    page.text(left + BAR_WIDTH + 0.08, top + 0.13 + BAR / 2, shown, size=9, weight="bold", color=INK, va="center")


def _card(page: Axes, example: Example, left: float, top: float) -> None:
    """A scene, with its rows of digits on the right."""
    page.imshow(example.pixels, extent=(left, left + SIDE, top + SIDE, top), interpolation="bilinear", aspect="auto")
    rows = {**example.rows, "true": np.where(example.true, 1, -1)}
    start, middle = left + SIDE + 0.14, top + SIDE / 2 - (len(rows) - 1) * STEP / 2
    for name, states in rows.items():
        page.text(start, middle - 0.15, name, size=7.5, color=QUIET, va="center")
        for digit, state in enumerate(states.tolist()):
            kind = {1: "present", -1: "absent", 0: "unknown"}[state]
            if name in ("known", "filled in") and kind == "absent":
                kind = "known absent"
            if state and (state > 0) != example.true[digit]:
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
        ("known absent", "known or filled in as absent", 2.15),
        ("unknown", "unknown", 0.95),
        ("extra", "said to be there, but is not", 2.1),
        ("missed", "there, but said to be absent", 0),
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
