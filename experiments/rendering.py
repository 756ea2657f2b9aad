"""Tables, plots and claims of RESULTS.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from experiments.reading import MISSING, Claim, Results, Sample

COLORS = ("#0b6e4f", "#c1440e", "#35618f", "#8a6d1d", "#6b4c9a", "#444444")


def words(text: str) -> str:
    """A paragraph without the line breaks and indents of its source."""
    return " ".join(text.split())


def about(results: Results, paper: str, here: str) -> str:
    """What the paper did and found, and for the runs on this machine how they differ."""
    return words(f"{paper} {here}" if results.preset.name == "frozen" else paper)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def claims(results: Results, found: Iterable[Claim]) -> str:
    """Claims with the paired differences over seeds and whether the 95 % interval has the sign of the paper.

    Where the paper gives no number, its column has the claimed sign in words.
    They are noted in ``results.claimed`` for the summary.
    """
    rows = []
    for claim in found:
        results.claimed.append(claim)
        verdict = claim.found.verdict(claim.sign) if claim.sign else "no claim of the paper"
        claimed = claim.paper or {1: "higher", -1: "lower"}.get(claim.sign, "-")
        rows.append((claim.text, claimed, claim.found.difference(), verdict))
    return table(("claim", "paper", "here, with its 95 % interval", "verdict"), rows)


def number(value: float | None, signed: bool = False) -> str:
    return "-" if value is None else f"{value:+.2f}" if signed else f"{value:.2f}"


def lines(
    results: Results,
    name: str,
    series: Mapping[str, Sequence[tuple[float, Sample]]],
    xlabel: str,
    ylabel: str,
    *,
    log: bool = False,
    zero: bool = False,
    bottom: float | None = None,
) -> str:
    """Draw means with their deviation over seeds; the Markdown of the image, or why there is none.

    Args:
        results: their preset names the image's folder.
        name: of the file, without its ending.
        series: label -> (x, values); points without a value are left out.
        xlabel: of the axis.
        ylabel: of the axis.
        log: a logarithmic x.
        zero: draw the line at 0, of differences.
        bottom: where y begins; what lies below is cut off.
    """
    series = {label: [point for point in points if point[1].values] for label, points in series.items()}
    series = {label: points for label, points in series.items() if points}
    if not series:
        return f"*Plot: {MISSING}.*"
    with matplotlib.rc_context({"svg.hashsalt": "partlabel", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axes = figure.subplots()
        for (label, points), color in zip(series.items(), COLORS, strict=False):
            x, mean = [p[0] for p in points], [p[1].mean for p in points]
            spread = [p[1].deviation if len(p[1].values) > 1 else 0.0 for p in points]
            axes.errorbar(
                x, mean, yerr=spread, color=color, marker="o", markersize=3, linewidth=1.2, capsize=2, label=label
            )
        if zero:
            axes.axhline(0, color="0.6", linewidth=0.8)
        if log:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter("{x:g}")
        axes.set(xlabel=xlabel, ylabel=ylabel)
        axes.set_ylim(bottom=bottom)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="0.9", linewidth=0.6)
        axes.legend(frameon=False)
        path = figures(results) / f"{name}.svg"
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None})
    return f"![{ylabel} over {xlabel}]({path.relative_to(report_folder(results)).as_posix()})"


def report_folder(results: Results) -> Path:
    """Where RESULTS.md lies: the repository, or for results elsewhere beside them."""
    return results.folder.parents[1] if results.folder.parent.name == "experiments" else results.folder


def figures(results: Results) -> Path:
    own = results.preset.name
    return report_folder(results) / "docs" / ("results" if own == "frozen" else f"results-{own}")
