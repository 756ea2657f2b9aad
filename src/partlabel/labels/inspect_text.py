"""What ``inspect`` found, as text."""

from __future__ import annotations

import numpy as np

from partlabel.labels.inspect import Inspection

#: with more classes than this, only the most and the least often present ones are listed
ALL_CLASSES = 100
MOST, LEAST = 40, 20
PAIRS = 10
NAME_WIDTH = 28
BAR = 20


def text(found: Inspection) -> str:
    """Write an inspection as lines of text: summary, proportion per image, classes, pairs, warnings."""
    parts = [_summary(found), _proportions(found), _classes(found), _pairs(found), _warnings(found)]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def _summary(found: Inspection) -> list[str]:
    present, absent = int(found.present.sum()), int(found.absent.sum())
    total = found.images * len(found.classes)
    rows = [
        ("Images", f"{found.images:,}"),
        ("Classes", f"{len(found.classes):,}"),
        ("Known labels", f"{found.known:,} of {total:,} ({found.overall_proportion:.2%})"),
        ("", f"{present:,} present, {absent:,} absent"),
        ("Origin", ", ".join(f"{count:,} {name}" for name, count in found.origins.items()) or "no labels"),
        ("Images", f"{found.without_known:,} without a known label, {found.without_present:,} without a present one,"),
        ("", f"{found.fully_known:,} with every label known"),
        ("Coding", found.coding or "not recorded"),
    ]
    return [f"{name:<14}{value}" for name, value in rows]


def _proportions(found: Inspection) -> list[str]:
    """Show how many images have how many of their labels known; one line when it is the same for all."""
    if not found.images:
        return []
    low, middle, high = np.quantile(found.proportion, [0, 0.5, 1])
    if low == high:
        return [f"Each image has {low:.1%} of its labels known."]
    counts = found.histogram()
    lines = [f"Known labels per image: {low:.1%} to {high:.1%}, median {middle:.1%}"]
    for tenth, count in enumerate(counts):
        bar = "█" * max(round(BAR * count / max(counts)), 1 if count else 0)
        lines.append(f"  {10 * tenth:>3} to {10 * tenth + 10:>3} %  {count:>10,}  {bar}".rstrip())
    return lines


def _classes(found: Inspection) -> list[str]:
    order = found.by_presence
    shown = order if len(order) <= ALL_CLASSES else np.concatenate([order[:MOST], order[-LEAST:]])
    width = max([5, *(min(len(found.classes[c]), NAME_WIDTH) for c in shown)])
    lines = [f"{'Class':<{width}}  {'present':>9}  {'absent':>9}  {'unknown':>9}  █ present ░ absent"]
    for position, c in enumerate(shown):
        if len(shown) < len(order) and position == MOST:
            lines.append(f"... {len(order) - len(shown):,} more classes (--json lists all) ...")
        name, present, absent = found.classes[c], int(found.present[c]), int(found.absent[c])
        name = name if len(name) <= NAME_WIDTH else name[: NAME_WIDTH - 1] + "…"
        bar = _bar(present / max(found.images, 1), (present + absent) / max(found.images, 1))
        unknown = found.images - present - absent
        lines.append(f"{name:<{width}}  {present:>9,}  {absent:>9,}  {unknown:>9,}  {bar}".rstrip())
    return lines


def _bar(present: float, known: float) -> str:
    """Draw two shares of the images, the first in eighths of a block, the rest of the second shaded."""
    eighths = max(round(8 * BAR * present), 1 if present else 0)
    solid = "█" * (eighths // 8) + ("", *"▏▎▍▌▋▊▉")[eighths % 8]
    return solid + "░" * (round(BAR * known) - len(solid))


def _pairs(found: Inspection) -> list[str]:
    if not found.pairs:
        return []
    lines = ["Most often present together, and how much more often than by chance:"]
    for pair in found.pairs[:PAIRS]:
        lift = f"{pair.together / pair.expected:.1f} times" if pair.expected else ""
        names = f"{found.classes[pair.first]} + {found.classes[pair.second]}"
        lines.append(f"  {pair.together:>9,}  {names:<40}  {lift}".rstrip())
    return lines


def _warnings(found: Inspection) -> list[str]:
    return ["Warnings:", *(f"  - {warning}" for warning in found.warnings)] if found.warnings else []
