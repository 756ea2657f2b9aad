"""What ``inspect`` found, as a figure."""

from __future__ import annotations

import os
import textwrap
import warnings
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from partlabel.core.files import replacing
from partlabel.labels.inspect import Inspection

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: with more classes than this, only the most and the least often present ones are drawn
ALL_CLASSES = 100
MOST, LEAST = 70, 30
#: classes of the co-occurrence grid
GRID = 24
NAME_WIDTH = 24

PRESENT, ABSENT, UNKNOWN = "#1b6ca8", "#b9cfdf", "#f1f3f5"
INK, QUIET, ALERT = "#20262c", "#6b7680", "#a4480f"

# Sizes in inches. Two columns: the classes (from 0.3), and the images and pairs (from SECOND).
WIDTH, SECOND, MARGIN = 12.6, 7.55, 0.3
NAMES, BARS, COUNTS = 1.75, 2.9, 1.7
HISTOGRAM, TOP, BOTTOM, LINE = 1.5, 1.15, 0.55, 0.19


def draw(found: Inspection, path: str | os.PathLike[str]) -> None:
    """Draw known labels per class, label proportion per image and co-occurrence into a PNG file.

    Raises:
        UserError: the file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    order = found.by_presence
    shown = order if len(order) <= ALL_CLASSES else np.concatenate([order[:MOST], order[-LEAST:]])
    row = 0.17 if len(shown) > 20 else 0.28
    left = row * max(len(shown), 1) + 0.45
    grid = min(GRID, len(found.matrix_classes)) if len(found.classes) > 1 else 0
    longest = max((len(_short(found.classes[c])) for c in found.matrix_classes[:grid]), default=0)
    left_names = 0.075 * longest + 0.15
    # The slanted names above the grid reach beyond its right side.
    side = min(WIDTH - SECOND - left_names - 0.04 * longest - 0.15, 0.42 * grid)
    names_above = 0.45 + 0.062 * longest
    right = HISTOGRAM + 0.35 + (names_above + side if grid else 0)
    # The warnings go under the shorter column.
    notes_left = left < right
    notes = [line for warning in found.warnings for line in textwrap.wrap(warning, 92 if notes_left else 66)]
    below = LINE * len(notes) + 0.3 if notes else 0
    height = TOP + max(left + below * notes_left, right + below * (not notes_left)) + BOTTOM

    figure = Figure(figsize=(WIDTH, height), dpi=110, facecolor="white")
    FigureCanvasAgg(figure)
    _heading(figure, found)
    _classes(figure, found, shown, row)
    _histogram(figure, found)
    if grid:
        _grid(figure, found, grid, SECOND + left_names, TOP + HISTOGRAM + 0.35 + names_above, side)
    for number, line in enumerate(notes):
        down = TOP + (left if notes_left else right) + 0.3 + LINE * number
        _text(figure, MARGIN if notes_left else SECOND, down, line, color=ALERT, size=8.5)
    with replacing(path) as temporary, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # a class named in a script that the font lacks
        figure.savefig(temporary, format="png")


def _text(
    figure: Figure, left: float, down: float, text: str, *, color: str = INK, size: float = 9, weight: str = "normal"
) -> None:
    """Write text whose middle is ``down`` inches below the upper edge."""
    height = figure.get_figheight()
    figure.text(left / WIDTH, 1 - down / height, text, color=color, size=size, va="center", weight=weight)


def _axes(figure: Figure, left: float, down: float, width: float, tall: float) -> Axes:
    """Add axes without a frame; ``down``: inches from the upper edge of the image to that of the axes."""
    height = figure.get_figheight()
    axes = figure.add_axes((left / WIDTH, 1 - (down + tall) / height, width / WIDTH, tall / height))
    axes.tick_params(labelsize=8, colors=INK, length=0)
    axes.spines[:].set_visible(False)
    return axes


def _short(name: str) -> str:
    return name if len(name) <= NAME_WIDTH else name[: NAME_WIDTH - 1] + "…"


def _heading(figure: Figure, found: Inspection) -> None:
    total = found.images * len(found.classes)
    present, absent = int(found.present.sum()), int(found.absent.sum())
    share = found.overall_proportion
    title = f"{found.images:,} images, {len(found.classes):,} classes, {share:.1%} of the labels known"
    labels = f"{found.known:,} of {total:,} labels: {present:,} present, {absent:,} absent."
    without = f"{found.without_known:,} without a known label, {found.without_present:,} without a present one"
    detail = f"{labels}  Images: {without}, {found.fully_known:,} fully known."
    _text(figure, MARGIN, 0.36, title, size=13, weight="bold")
    _text(figure, MARGIN, 0.64, detail, color=QUIET)


def _classes(figure: Figure, found: Inspection, shown: NDArray[np.int64], row: float) -> None:
    """Draw a bar of present, absent and unknown for each class, and the number of present labels beside it."""
    rows = max(len(shown), 1)
    place = np.arange(len(shown))
    present, absent = found.present[shown], found.absent[shown]
    share = 100 / max(found.images, 1)
    thick = 0.72 if row < 0.2 else 0.6

    bars = _axes(figure, NAMES, TOP, BARS, row * rows)
    bars.barh(place, 100.0, color=UNKNOWN, height=thick)
    bars.barh(place, absent * share, left=present * share, color=ABSENT, height=thick)
    bars.barh(place, present * share, color=PRESENT, height=thick)
    bars.set(
        xlim=(0, 100), ylim=(rows - 0.5, -0.5), yticks=place, yticklabels=[_short(found.classes[c]) for c in shown]
    )
    bars.set_xticks([0, 50, 100], ["0 %", "50 %", "100 %"])
    for left, color, word in ((0.0, PRESENT, "present"), (0.8, ABSENT, "absent"), (1.55, "#dde2e6", "unknown")):
        _text(figure, NAMES + left, TOP - 0.16, "■", color=color, size=10)
        _text(figure, NAMES + left + 0.17, TOP - 0.16, word, size=8.5)

    counts = _axes(figure, NAMES + BARS + 0.4, TOP, COUNTS, row * rows)
    most = max(int(present.max(initial=0)), 10)
    counts.barh(place, np.maximum(present - 0.5, 0), left=0.5, color=PRESENT, height=thick)
    counts.set(xscale="log", xlim=(0.5, most * 8), ylim=(rows - 0.5, -0.5), yticks=[])
    counts.xaxis.set_visible(False)
    for position, count in enumerate(present):
        counts.text(max(count, 0.5) * 1.2, position, f"{count:,}", size=7.5, va="center", color=INK if count else ALERT)
    _text(figure, NAMES + BARS + 0.4, TOP - 0.16, "images known to show it (log)", size=8.5)
    if len(shown) < len(found.classes):
        for axes in (bars, counts):
            axes.axhline(MOST - 0.5, color=ALERT, lw=0.9, ls=":")
        note = f"The {MOST} most and the {LEAST} least often present of {len(found.classes):,} classes"
        _text(figure, NAMES, TOP + row * rows + 0.4, note, color=QUIET, size=8.5)


def _histogram(figure: Figure, found: Inspection) -> None:
    from matplotlib.ticker import MaxNLocator

    _text(figure, SECOND, TOP - 0.16, "Images by the share of their labels that is known", size=9.5)
    axes = _axes(figure, SECOND + 0.6, TOP, WIDTH - SECOND - 1.1, HISTOGRAM)
    axes.hist(found.proportion * 100, bins=40, range=(0, 100), color=PRESENT)
    axes.set_xlim(0, 100)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0f} %")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    axes.grid(axis="y", color="#e3e7ea", lw=0.7)
    axes.set_axisbelow(True)


def _grid(figure: Figure, found: Inspection, grid: int, left: float, down: float, side: float) -> None:
    """Draw, for the classes most often present, how often the column's class is present where the row's is."""
    share = 100 * found.given[:grid, :grid]
    np.fill_diagonal(share, np.nan)
    names = [_short(found.classes[c]) for c in found.matrix_classes[:grid]]
    top = max(float(np.nanmax(share)), 1.0) if np.isfinite(share).any() else 1.0
    title = "Of the images that show the row's class, % that also show the column's"
    _text(figure, SECOND, TOP + HISTOGRAM + 0.5, title, size=9.5)

    axes = _axes(figure, left, down, side, side)
    axes.set_facecolor(UNKNOWN)
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1.25 * top, aspect="equal")
    axes.set_xticks(range(grid), names, rotation=60, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(grid), names)
    axes.xaxis.tick_top()
    axes.tick_params(labelsize=7.5 if grid > 12 else 8.5)
    for (row, column), value in np.ndenumerate(share):
        if value >= 0.5:  # not for 0 and undefined
            color = "white" if value > 0.7 * top else INK
            axes.text(column, row, f"{value:.0f}", size=6 if grid > 12 else 9, ha="center", va="center", color=color)
