"""The charts of a report, drawn from its numbers; each says in words what it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup
from scipy import stats

from partlabel.app.report.svg import Plot, small

#: curves shown; a page with thousands of them cannot be read
CURVES = 120
#: steps of the line of all classes
_STEPS = 500
_SHOWN = (("mean_ap", "mAP", "s1"), ("macro_f1", "macro-F1", "s2"), ("micro_f1", "micro-F1", "s3"))


def percent(value: float | None, digits: int = 1) -> str:
    """A share in percent, or a dash."""
    return "–" if value is None else f"{100 * value:.{digits}f}"


def loss_curve(run: dict[str, Any]) -> Markup:
    """Loss of each epoch, with the rounds of relabelling."""
    rows = run["training"]["epochs"]
    points = [(row["epoch"], row["loss"]) for row in rows]
    label = "Training loss by epoch: " + ", ".join(f"{y:.3g} in epoch {x}" for x, y in (points[0], points[-1]))
    plot = Plot(label, _epochs(rows), (0, max(y for _, y in points) * 1.05), "epoch", "loss (mean per image)")
    _rounds(plot, run)
    _trace(plot, points, "s1")
    return plot.svg()


def validation_curve(run: dict[str, Any]) -> Markup | None:
    """Draw mAP and F1 on the validation part after each epoch; None where there is none."""
    rows = [row for row in run["training"]["epochs"] if row["validation"]]
    lines = [(title, kind, [(r["epoch"], r["validation"][name]) for r in rows]) for name, title, kind in _SHOWN]
    lines = [(title, kind, [(x, y) for x, y in points if y is not None]) for title, kind, points in lines]
    lines = [line for line in lines if line[2]]
    if not lines:
        return None
    best = run["training"]["best_epoch"]
    said = ", ".join(f"{title} {percent(points[-1][1])} %" for title, _, points in lines)
    top = min(1.0, 1.12 * max(y for _, _, points in lines for _, y in points) + 0.02)
    label = f"Validation by epoch; after the last epoch {said}. The best epoch is {best}"
    plot = Plot(label, _epochs(rows), (0, top), "epoch", "on known labels, threshold 0 (%)", percent="y")
    _rounds(plot, run)
    plot.mark(best, f"best: {best}")
    for _, kind, points in lines:
        _trace(plot, points, kind)
    return plot.svg()


def _epochs(rows: Sequence[dict[str, Any]]) -> tuple[float, float]:
    return (rows[0]["epoch"] - (len(rows) == 1), rows[-1]["epoch"])


def _trace(plot: Plot, points: Sequence[tuple[float, float]], kind: str) -> None:
    if len(points) > 1:
        plot.line(points, kind)
    if len(points) <= 30:
        plot.dots(points, kind, 2)


def _rounds(plot: Plot, run: dict[str, Any]) -> None:
    for row in run["rounds"]:
        plot.mark(row["before_epoch"] - 0.5, f"round {row['round']}")


def image_proportions(counts: dict[str, Any]) -> Markup:
    """How many images have which share of their labels known."""
    bins, total = counts["label_proportion"]["histogram"], max(counts["images"], 1)
    shares = [count / total for count in bins]
    most = max(range(10), key=lambda i: shares[i])
    label = (
        f"Share of images by their share of known labels; most, {percent(shares[most])} %, have {10 * most} to "
        f"{10 * most + 10} % known"
    )
    plot = Plot(
        label,
        (0, 1),
        (0, max(shares) * 1.05),
        "labels known of an image (%)",
        "images (%)",
        percent="xy",
        height=210,
    )
    for i, share in enumerate(shares):
        if share:
            plot.bar(i / 10, (i + 1) / 10, 0, share, "s1")
    return plot.svg()


def class_proportions(run: dict[str, Any]) -> Markup:
    """Known labels of each class as a share of the images, most first."""
    counts = run["data"]["training"]
    shares = sorted((known / max(counts["images"], 1) for known in counts["known_by_class"]), reverse=True)
    label = (
        f"Share of known labels of the {len(shares)} classes, from {percent(shares[0])} down to {percent(shares[-1])} %"
    )
    top = max(shares[0] * 1.1, 1e-9)
    plot = Plot(
        label, (0, len(shares)), (0, top), "classes, most known first", "labels known (%)", percent="y", height=210
    )
    step = -(-len(shares) // _STEPS)
    plot.line([(i + side, shares[i]) for i in range(0, len(shares), step) for side in (0, step)], "s1")
    return plot.svg()


def curves(run: dict[str, Any], others: Sequence[dict[str, Any]] = ()) -> list[tuple[str, str, Markup]]:
    """Precision-recall curves: class, its numbers, and the drawing; highest average precision first.

    The mark is the decision at the threshold of the class. ``others``: runs on the same labels, drawn into it too.
    """
    results = run["results"]
    rows = [(row, curve) for row, curve in zip(results["classes"], results["curves"], strict=True) if curve]
    rows.sort(key=lambda pair: -pair[0]["average_precision"])
    drawn = []
    for row, curve in rows[:CURVES]:
        lines = [(_points(_curve_of(other, row["class"])), f"s{i}") for i, other in enumerate(others, 2)]
        lines = [line for line in lines if line[0]] + [(_points(curve), "s1")]
        now = None if row["recall"] is None or row["precision"] is None else (row["recall"], row["precision"])
        at = "" if now is None else f"; at the threshold precision {percent(now[1])}, recall {percent(now[0])} %"
        label = (
            f"Precision against recall of {row['class']}: average precision {percent(row['average_precision'])} %{at}"
        )
        drawn.append((row["class"], percent(row["average_precision"]), small(label, lines, now)))
    return drawn


def _curve_of(run: dict[str, Any], name: str) -> dict[str, list[float]] | None:
    found = run["results"]
    place = next((i for i, row in enumerate(found["classes"]) if row["class"] == name), None)
    return None if place is None else found["curves"][place]


def _points(curve: dict[str, list[float]] | None) -> list[tuple[float, float]]:
    if curve is None:
        return []
    return [(0, curve["precision"][0]), *zip(curve["recall"], curve["precision"], strict=True)]


def calibration(found: dict[str, Any]) -> Markup:
    """Probabilities against the share present, before and after calibration."""
    said = [f"before, the plain sigmoid is off by {percent(found['before']['error'], 2)} points on average"]
    if found["after"]:
        said.append(f"after calibration by {percent(found['after']['error'], 2)}")
    label = f"Share of known labels that are present against the probability: {'; '.join(said)}"
    plot = Plot(label, (0, 1), (0, 1), "probability of presence (%)", "really present (%)", percent="xy", height=300)
    plot.line([(0, 0), (1, 1)], "ideal")
    for name, kind in (("before", "s2"), ("after", "s1")):
        bins = found[name]
        if bins is None:
            continue
        rows = [
            (p, y, n)
            for p, y, n in zip(bins["probability"], bins["observed"], bins["count"], strict=True)
            if p is not None and y is not None
        ]
        for p, y, n in rows:
            plot.whisker(p, *_wilson(y, n), kind)
        plot.line([(p, y) for p, y, _ in rows], kind)
        plot.dots([(p, y) for p, y, _ in rows], kind)
    return plot.svg()


def _wilson(share: float, count: int) -> tuple[float, float]:
    """95 % interval of a share (Wilson, 1927)."""
    found = stats.binomtest(round(share * count), count).proportion_ci(method="wilson")
    return float(found.low), float(found.high)


def spent(runs: Sequence[dict[str, Any]]) -> Markup | None:
    """Draw mAP against the labels that people gave; None where runs do not differ in their number."""
    rows = [(run["name"], run["labels_spent"]) for run in runs if run["labels_spent"]["mean_ap"] is not None]
    if len({row["labels"] for _, row in rows}) < 2:
        return None
    kinds = {kind: f"s{i}" for i, kind in enumerate(sorted({row["kind"] for _, row in rows}), 1)}
    rows.sort(key=lambda pair: pair[1]["labels"])
    said = "; ".join(f"{name}: {row['labels']:,} labels, mAP {percent(row['mean_ap'])} %" for name, row in rows)
    values = [v for _, row in rows for v in (row["low"], row["mean_ap"], row["high"]) if v is not None]
    room = 0.1 * (max(values) - min(values)) + 0.02
    ends = (max(0.0, min(values) - room), min(1.0, max(values) + room))
    plot = Plot(
        f"mAP against known labels of people. {said}",
        (0, rows[-1][1]["labels"] * 1.05),
        ends,
        "labels that people gave (training part)",
        "mAP (%)",
        percent="y",
        height=250,
    )
    for kind, colour in kinds.items():
        own = [(row["labels"], row["mean_ap"]) for _, row in rows if row["kind"] == kind]
        if len(own) > 1:
            plot.line(own, colour)
    for name, row in rows:
        if row["low"] is not None:
            plot.whisker(row["labels"], row["low"], row["high"], kinds[row["kind"]])
        plot.dots([(row["labels"], row["mean_ap"])], kinds[row["kind"]], 4)
        plot.word(row["labels"], row["mean_ap"], name if len(name) < 24 else name[:22] + "…")
    return plot.svg()
