"""The section of RESULTS.md about the closed-form head; see experiments/closed_form.py."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from experiments.reading import Results
from experiments.rendering import table, words
from experiments.store import RESULTS, Store

ABOUT = """Not of the paper. The preset `small` solves a linear head in closed form on frozen features: a regularised
discriminant with the covariance of all images, labelled or not, on the square root of the averaged features, and one
round of self-training (half of the present labels that are expected among the unknown ones become present with weight
0.25, all others absent). The strength of the regularisation is chosen for each table, by the evidence and by
out-of-fold average precision. Features, square root, round and rule for the strength were chosen on held-out training
images; the test images are used here for the first time with them. A seed draws the known labels. `asked`: 1 % known
at random, then asked in rounds by the growth rule of `partlabel next` up to the share."""
GRID = """Tables of {sizes} training images, 2, 12 and 80 classes, 1 to 100 % known, at random (each pair with the same
chance), by habit (each image with a rate of its own, present labels three times as likely) or of one sign (present
labels only); mAP on 2,000 images held out, with the strength that the table chose and with the best of eleven strengths
in sight of the truth. Of {count} tables, {within:.0%} are within 1 point of the best; {most} most lost. Those with at
least 100 known present labels: {many_within:.0%} of {many}."""


def _read(name: str) -> dict[str, Any]:
    return Store(RESULTS / "closed_form" / f"{name}.jsonl").read()


def _mean(values: list[float]) -> str:
    return f"{np.mean(values):.2f}" + (f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else "")


def render(results: Results) -> str:
    """Tables of what was run."""
    del results
    lines = []
    for network in ("lite0-224", "lite0-288", "lite2-288"):
        for what in ("headline", "asked"):
            groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
            for name, row in _read(f"{what}-{network}").items():
                share, _, rest = name.partition(", seed ")
                groups[share + (", no round" if rest.endswith("without") else "")].append(row)
            for name, rows in groups.items():
                maps = ([row[key] for row in rows] for key in ("map80", "map18"))
                lines.append((network, name, str(len(rows)), *(_mean(values) for values in maps)))
    found = [words(ABOUT), table(("network and size", "labels", "seeds", "mAP80", "mAP18"), lines)]
    grid = _read("grid-lite0-288")
    if grid:
        lost = np.array([row["best"] - row["map"] for row in grid.values()])
        many = np.array([row["known_present"] >= 100 for row in grid.values()])
        worst = max(grid, key=lambda name: grid[name]["best"] - grid[name]["map"])
        sizes = sorted({int(name.split()[0]) for name in grid})
        text = GRID.format(
            sizes=" and ".join(f"{size:,}" for size in sizes),
            count=len(lost),
            within=np.mean(lost <= 1),
            most=f"{lost.max():.1f} points ({worst}) are the",
            many=int(many.sum()),
            many_within=np.mean(lost[many] <= 1) if many.any() else 0,
        )
        found.append(words(text))
    found.append("`python -m experiments.closed_form headline|asked|grid`, with `--backbone` and `--size`.")
    return "\n\n".join(found)
