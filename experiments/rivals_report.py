"""The section of RESULTS.md about published methods under one protocol; see experiments/rivals.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments import rival_combination
from experiments.image_draws import half_width
from experiments.reading import Results
from experiments.rendering import table, words
from experiments.store import RESULTS, Store

ABOUT = """Not of the paper. Square roots of averaged features of EfficientNet-Lite0 at 224 px, frozen, no mirrored
copies; methods that are trained in steps have 12 epochs of SGD (batches of 128, rate 5 falling to 0 by a cosine; losses
that leave unknown labels out are divided by the share that is known, so that steps are as large as with all labels).
Each method has the variant and the weight decay (of five, 4e-4 to 0.1, and of two smaller ones where the smallest is
best, but not for blending and co-occurrence) with the best mAP80 on a fifth of the training images, whose labels are
all known for that; one draw of known labels chooses, five measure on the test images. `micro-F1` is at one threshold
for all classes, chosen on that fifth. `difference` is to BCE, or where no absent label is known to AN, with its 95 %
interval; that covers the five draws of known labels and the draw of test images (paired bootstrap, 100 draws), and with
* only the former. `held-out fifth` is the mAP80 there, of the one draw; `-` was not run on the test images. Methods
that need maps (saliency regularisation, BoostLU) cannot be had from averages; SST and SARB are taken over as far as
averages allow, so these rows speak of the idea and not of the papers' networks."""
SOURCES = {
    "bce": "binary cross-entropy of the known labels; under equal shares known partial-BCE is the same",
    "partial-bce": "Durand et al. 2019",
    "an": "Cole et al. 2021, unknown is absent",
    "wan": "Cole et al. 2021, with weight 1/(C - 1)",
    "an-ls": "Cole et al. 2021, label smoothing",
    "role": "Cole et al. 2021, labels estimated online",
    "asl": "Ridnik et al. 2021",
    "hill": "Zhang et al. 2021",
    "splc": "Zhang et al. 2021",
    "ll-r": "Kim et al. 2022, rejection",
    "ll-ct": "Kim et al. 2022, correction",
    "p-asl": "Ben-Baruch et al. 2022",
    "csl": "Ben-Baruch et al. 2022, selection by score",
    "csl, priors": "Ben-Baruch et al. 2022, by score and class prior",
    "em": "Zhou et al. 2022, entropy",
    "em-apl": "Zhou et al. 2022, with pseudo-labels",
    "cap": "Xie et al. 2023, class-distribution-aware pseudo-labels",
    "cft": "Chong et al. 2024: cap, then the last epochs on known labels",
    "co-occurrence": "after Chen et al. 2022 (SST)",
    "blending": "after Pu et al. 2022 (SARB)",
    "label propagation": "Zhou et al. 2004",
    "discriminant": "closed form, no round (partlabel)",
    "discriminant, round": "closed form with its round (partlabel's preset `small`)",
}
TITLES = {
    "10": "10 % of each image's labels at random",
    "30": "30 % of each image's labels at random",
    "50": "50 % of each image's labels at random",
    "single": "one present label of each image and nothing else",
    "open": "1 %, uneven over images and classes, half of them present (as in Open Images)",
}


def _row(name: str, tuned: dict[str, Any], row: dict[str, Any], base: dict[str, Any]) -> tuple[str, ...]:
    """Cells of a method: its rows of ``tune`` and ``test``; the second is empty where it was not run."""
    variant = tuned["variant"].partition(" (")[2].rstrip(")") or "-"
    chosen = (name, SOURCES[name], variant, f"{max(tuned['maps']):.2f}" if tuned["maps"] else "-")
    if not row or row["variant"] != tuned["variant"]:  # another one was best then
        return (*chosen, "-", "-", "-", "-")
    means = (
        f"{np.mean(row[key]):.2f} ± {np.std(row[key], ddof=1):.2f}" if row[key] else "-"
        for key in ("map80", "map18", "micro_f1")
    )
    gap = np.array(row["map80"]) - np.array(base["map80"])
    drawn = "draws" in row and "draws" in base
    reach = half_width(gap, np.array(row["draws"]) - np.array(base["draws"]) if drawn else np.zeros(2))
    difference = f"{gap.mean():+.2f} [{gap.mean() - reach:+.2f}, {gap.mean() + reach:+.2f}]" + ("" if drawn else "*")
    difference = "-" if row is base else difference
    return (*chosen, *means, difference)


def _tuned(setting: str) -> dict[str, dict[str, Any]]:
    """The best variant of each method."""
    found: dict[str, dict[str, Any]] = {}
    for key, row in Store(RESULTS / "rivals" / f"tune-{setting}.jsonl").read().items():
        name = key.partition(" (")[0]
        if name not in found or max(row["maps"]) > max(found[name]["maps"]):
            found[name] = {**row, "variant": key}
    return found


def render(results: Results) -> str:
    """A table of each setting that was run."""
    found, missing = [words(ABOUT)], []
    for setting, title in TITLES.items():
        tuned, rows = _tuned(setting), Store(RESULTS / "rivals" / f"test-{setting}.jsonl").read()
        if not rows:
            missing.append(title)
            continue
        base = rows["an"] if setting == "single" else rows["bce"]

        def rank(name: str, rows: dict[str, Any] = rows, tuned: dict[str, Any] = tuned) -> tuple[float, float]:
            own = rows.get(name)
            return (-float(np.mean(own["map80"])) if own else 0.0, -max(tuned[name]["maps"], default=0.0))

        lines = [_row(name, tuned[name], rows.get(name, {}), base) for name in sorted(tuned, key=rank)]
        head = ("method", "from", "variant", "held-out fifth", "mAP80", "mAP18", "micro-F1", "difference in mAP80")
        found += [f"{title[0].upper()}{title[1:]}:", table(head, lines)]
    if missing:
        found.append(f"Not run: {'; '.join(missing)}.")
    found += ["`python -m experiments.rivals tune`, then `test`.", rival_combination.render(results)]
    return "\n\n".join(part for part in found if part)
