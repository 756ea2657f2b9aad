"""Charts as inline SVG: axes, lines, points, bars. Colours come from the classes of the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

Points = Sequence[tuple[float, float]]

#: room around the plot for ticks and titles
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 12, 40


class Plot:
    """One chart with two linear axes.

    Args:
        label: what the chart shows, in words; the text alternative.
        x: range of the x axis.
        y: range of the y axis.
        x_title: title of the axis with its unit.
        y_title: the same of the y axis.
        width: of the drawing in its own units; the page scales it.
        height: the same.
        percent: axes (``x``, ``y``) that are shares, whose ticks are shown in percent.
        ticks: about how many on each axis.
    """

    def __init__(
        self,
        label: str,
        x: tuple[float, float],
        y: tuple[float, float],
        x_title: str,
        y_title: str,
        *,
        width: int = 360,
        height: int = 230,
        percent: str = "",
        ticks: int = 5,
    ) -> None:
        self.label, self.width, self.height = label, width, height
        self._x, self._y = _range(x), _range(y)
        self._parts: list[Markup] = []
        self._marks = 0
        self._axes(x_title, y_title, percent, ticks)

    def _axes(self, x_title: str, y_title: str, percent: str, ticks: int) -> None:
        bottom, right = self.height - _BOTTOM, self.width - _RIGHT
        for value in nice_ticks(*self._y, ticks):
            y = self.at_y(value)
            self._add('<path class="grid" d="M{} {}H{}"/>', _LEFT, _n(y), right)
            self._add(
                '<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>',
                _LEFT - 6,
                _n(y + 4),
                _tick(value, "y" in percent),
            )
        for value in nice_ticks(*self._x, ticks):
            x = _n(self.at_x(value))
            self._add('<path class="axis" d="M{} {}v4"/>', x, bottom)
            self._add(
                '<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>',
                x,
                bottom + 16,
                _tick(value, "x" in percent),
            )
        self._add('<path class="axis" d="M{} {}H{}"/>', _LEFT, bottom, right)
        middle = (_LEFT + right) / 2
        self._add(
            '<text class="title" x="{}" y="{}" text-anchor="middle">{}</text>', _n(middle), self.height - 6, x_title
        )
        centre = _n((_TOP + bottom) / 2)
        self._add(
            '<text class="title" transform="translate(11 {}) rotate(-90)" text-anchor="middle">{}</text>',
            centre,
            y_title,
        )

    def at_x(self, value: float) -> float:
        """Where a value of the x axis lies."""
        low, high = self._x
        return _LEFT + (value - low) / (high - low) * (self.width - _LEFT - _RIGHT)

    def at_y(self, value: float) -> float:
        """Where a value of the y axis lies."""
        low, high = self._y
        return self.height - _BOTTOM - (value - low) / (high - low) * (self.height - _TOP - _BOTTOM)

    def _add(self, form: str, *values: object) -> None:
        self._parts.append(Markup(form).format(*values))

    def line(self, points: Points, kind: str) -> None:
        """Draw a line; ``kind`` is its class in the style sheet."""
        self._add('<path class="line {}" d="{}"/>', kind, self.path(points))

    def path(self, points: Points) -> str:
        """The points as the commands of an SVG path."""
        return "".join(f"{'L' if i else 'M'}{_n(self.at_x(x))} {_n(self.at_y(y))}" for i, (x, y) in enumerate(points))

    def dots(self, points: Points, kind: str, radius: float = 3) -> None:
        """Draw points."""
        for x, y in points:
            self._add(
                '<circle class="dot {}" cx="{}" cy="{}" r="{}"/>', kind, _n(self.at_x(x)), _n(self.at_y(y)), radius
            )

    def whisker(self, x: float, low: float, high: float, kind: str) -> None:
        """Draw an interval of y."""
        self._add(
            '<path class="whisker {}" d="M{} {}V{}"/>', kind, _n(self.at_x(x)), _n(self.at_y(low)), _n(self.at_y(high))
        )

    def bar(self, left: float, right: float, low: float, high: float, kind: str) -> None:
        """Draw a bar from ``low`` to ``high``."""
        x, y = self.at_x(left), self.at_y(high)
        width, height = max(self.at_x(right) - x - 0.6, 0.4), self.at_y(low) - y
        self._add(
            '<rect class="bar {}" x="{}" y="{}" width="{}" height="{}"/>', kind, _n(x), _n(y), _n(width), _n(height)
        )

    def mark(self, x: float, text: str) -> None:
        """Draw a dashed vertical line with a word at its top."""
        at, self._marks = self.at_x(x), self._marks + 1
        end = at > self.width * 0.7
        self._add('<path class="mark" d="M{} {}V{}"/>', _n(at), _TOP, self.height - _BOTTOM)
        anchor, shift = ("end", -4) if end else ("start", 4)
        self._add(
            '<text class="note" x="{}" y="{}" text-anchor="{}">{}</text>',
            _n(at + shift),
            _TOP + 12 * self._marks - 3,
            anchor,
            text,
        )

    def word(self, x: float, y: float, text: str) -> None:
        """Write a word beside a point, inside the plot."""
        at = self.at_x(x)
        anchor, shift = ("end", -8) if at > self.width * 0.6 else ("start", 8)
        form = '<text class="note halo" x="{}" y="{}" text-anchor="{}">{}</text>'
        self._add(form, _n(at + shift), _n(self.at_y(y) + 4), anchor, text)

    def svg(self) -> Markup:
        """The whole drawing."""
        head = Markup('<svg class="plot" role="img" aria-label="{}" viewBox="0 0 {} {}">').format(
            self.label, self.width, self.height
        )
        return head + Markup("").join(self._parts) + Markup("</svg>")


def small(label: str, lines: Sequence[tuple[Points, str]], mark: tuple[float, float] | None = None) -> Markup:
    """A bare chart of the unit square, for many of them side by side.

    Args:
        label: the text alternative.
        lines: points with x and y in 0..1, and the class of each line.
        mark: one point that stands out.
    """
    parts = [Markup('<path class="frame" d="M.5 .5H99.5V99.5H.5ZM.5 50H99.5M50 .5V99.5"/>')]
    for points, kind in lines:
        path = "".join(f"{'L' if i else 'M'}{_n(100 * x)} {_n(100 - 100 * y)}" for i, (x, y) in enumerate(points))
        parts.append(Markup('<path class="line {}" d="{}"/>').format(kind, path))
    if mark is not None:
        parts.append(
            Markup('<circle class="dot now" cx="{}" cy="{}" r="4"/>').format(_n(100 * mark[0]), _n(100 - 100 * mark[1]))
        )
    head = Markup('<svg class="small" role="img" aria-label="{}" viewBox="-3 -3 106 106">').format(label)
    return head + Markup("").join(parts) + Markup("</svg>")


def nice_ticks(low: float, high: float, count: int) -> list[float]:
    """Round numbers inside a range, about ``count`` of them: steps of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 12) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _range(ends: tuple[float, float]) -> tuple[float, float]:
    low, high = ends
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _tick(value: float, percent: bool) -> str:
    if percent:
        return f"{100 * value:g}"
    if abs(value) >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if abs(value) >= 1e4 else f"{value:g}"


def _n(value: float) -> str:
    """A coordinate, short."""
    return f"{value:.1f}".removesuffix(".0")
