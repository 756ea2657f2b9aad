"""The section of RESULTS.md on relabelling (table 2 and its long form); experiments/relabeling.py ran the trainings."""

from __future__ import annotations

from typing import Any

from experiments.reading import Claim, Results, Sample
from experiments.relabeling import KINDS, METRICS, of_seeds, store_of
from experiments.relabeling import jobs as strategies
from experiments.rendering import about, claims, number, table

CLAIM = """Paper, VOC 2007 (validation set) with 10 % known, metrics relative to no relabelling: labelling all at once
(2 steps) loses 1.49 mAP; the curriculum of its table 2 gains 0.2 to 0.6 mAP and, but for [c], more exact match and
F1; uncertainty [e] with the graph is best; [a] is better than [b], and an ensemble [d] is not significantly better
than [a]; labelling only present ones [c] is poor. Its rows are with the graph, but for five of [e]; the tables here
without the graph show those five, and for the other rows the paper's numbers with it. TP and TN: of the truly present
(absent) pairs that got a model label, the share labelled right; for [c], TP is the share of right labels.
`class-adaptive` and `[e] of probabilities` are not in the paper. The thetas are the paper's, none is chosen here."""
HERE = """Here COCO, partial-BCE, on a frozen backbone without the graph and with it (dropout 0.5, rounds before
epochs 10 and 15 of 20), and the whole network fine-tuned on 3,000 images of 128 px (dropout 0.2, rounds before
epochs 4 and 5 of 6, from a head trained on the frozen backbone). The uncertainty is the variance of the scores over
50 passes of dropout, 20 with the graph; [d] has 3 heads on one backbone. A label counts as predicted present where
its score is above 0."""
#: name -> mAP, 0-1, M-F1, m-F1 relative to none, label proportion, TP, TN; with the graph, but for "frozen" of [e]
PAPER: dict[str, tuple[float | None, ...]] = {
    "2 steps": (-1.49, 6.42, 2.32, 1.99, 100, 82.78, 96.40),
    "[a] score threshold 1": (0.00, 11.31, 3.71, 4.25, 97.87, 82.47, 97.84),
    "[a] score threshold 2": (0.34, 11.15, 4.33, 4.26, 95.29, 85.00, 98.50),
    "[a] score threshold 5": (0.31, 5.02, 2.60, 1.83, 70.98, 96.56, 99.44),
    "[b] score proportion 0.1": (0.45, -1.20, -0.28, -0.68, 26.70, 99.28, 99.19),
    "[b] score proportion 0.2": (0.36, 0.20, 0.70, 0.10, 42.09, 98.35, 99.33),
    "[b] score proportion 0.3": (0.28, 0.91, 1.09, 0.37, 55.63, 97.82, 99.38),
    "[b] score proportion 0.4": (0.55, 2.95, 2.33, 1.28, 67.41, 96.87, 99.38),
    "[b] score proportion 0.5": (0.22, 4.02, 2.76, 1.74, 77.40, 95.52, 99.30),
    "[b] score proportion 0.6": (0.41, 6.17, 3.63, 2.52, 85.37, 93.16, 99.15),
    "[b] score proportion 0.7": (0.35, 7.49, 3.83, 3.07, 91.69, 89.40, 98.81),
    "[b] score proportion 0.8": (0.17, 8.40, 3.70, 3.25, 96.24, 84.40, 98.10),
    "[c] positive only 1": (-1.61, -31.75, -18.07, -18.92, 16.79, 36.42, None),
    "[c] positive only 2": (-0.80, -21.31, -10.93, -12.08, 14.71, 47.94, None),
    "[c] positive only 5": (0.31, -4.58, -1.92, -2.23, 12.01, 79.07, None),
    "[d] ensemble 1": (-0.31, 10.16, 3.61, 3.94, 97.84, 82.12, 97.76),
    "[d] ensemble 2": (0.23, 11.31, 4.16, 4.33, 95.33, 84.80, 98.53),
    "[d] ensemble 5": (0.27, 3.78, 2.38, 1.53, 70.77, 96.56, 99.44),
    "[e] uncertainty 0.1": (0.36, 2.71, 1.91, 1.22, 19.45, 38.15, 99.97),
    "[e] uncertainty 0.2": (0.30, 10.76, 4.87, 4.66, 57.03, 62.03, 99.65),
    "[e] uncertainty 0.3": (0.59, 12.07, 5.11, 4.95, 79.74, 68.96, 99.23),
    "[e] uncertainty 0.4": (0.43, 10.99, 4.88, 4.46, 90.51, 70.77, 98.57),
    "[e] uncertainty 0.5": (0.45, 10.08, 3.93, 3.78, 94.79, 74.73, 98.00),
}
#: [e] without the graph
PAPER_PLAIN: dict[str, tuple[float | None, ...]] = {
    "[e] uncertainty 0.1": (0.26, 1.84, 1.36, 0.64, 22.63, 25.71, 99.98),
    "[e] uncertainty 0.2": (0.29, 8.49, 4.05, 3.66, 60.32, 48.39, 99.82),
    "[e] uncertainty 0.3": (0.34, 10.15, 4.37, 3.72, 77.91, 61.15, 99.24),
    "[e] uncertainty 0.4": (0.30, 9.05, 4.17, 3.37, 87.80, 68.56, 98.70),
    "[e] uncertainty 0.5": (0.26, 8.32, 3.83, 3.05, 92.90, 70.96, 98.04),
}
TITLES = {
    "frozen": "Frozen backbone, no graph",
    "graph": "Frozen backbone, with the graph",
    "finetuned": "Everything fine-tuned, no graph",
    "paper": "With the graph",
    "paper-plain": "No graph",
    "smoke": "No graph",
}
#: preset -> the kinds of its section
SHOWN = {"frozen": ("frozen", "graph", "finetuned"), "paper": ("paper", "paper-plain"), "smoke": ("smoke",)}
Rows = list[dict[str, Any]]


def _read(results: Results, kind: str) -> Rows:
    found = [rows for _, rows in sorted(of_seeds(store_of(results.folder, kind)).items())]
    if "-" not in results.preset.name:
        return found
    # a report on another data set than the preset's shows no rows of this one
    own = results.preset.dataset
    kept = [{n: row for n, row in seed.items() if row.get("dataset", KINDS[kind].dataset) == own} for seed in found]
    return [seed for seed in kept if seed]


def _relative(seeds: Rows, name: str, metric: str) -> Sample:
    found = [seed[name][metric] - seed["none"][metric] for seed in seeds if name in seed and "none" in seed]
    return Sample(tuple(found))


def _of_rounds(seeds: Rows, name: str) -> list[str]:
    """Label proportion, TP and TN after the last round, in percent; of [c] the share of right labels for TP."""
    last = [seed[name]["rounds"][-1] for seed in seeds if name in seed and seed[name]["rounds"]]
    first = "accuracy_present" if name.startswith("[c]") else "true_positive_rate"
    columns = [[row["label_proportion"] for row in last]]
    columns += [[row["truth"]["all_rounds"][key] for row in last] for key in (first, "true_negative_rate")]
    known = [[100 * value for value in column if value is not None] for column in columns]
    return [number(sum(column) / len(column)) if column else "-" for column in known]


def _has_graph(kind: str) -> bool:
    return KINDS[kind].config.model.graph


def _table(seeds: Rows, kind: str) -> str:
    names = [name for name in strategies(KINDS[kind]) if name != "none" and any(name in seed for seed in seeds)]
    rows = []
    for name in names:
        paper = {**PAPER, **({} if _has_graph(kind) else PAPER_PLAIN)}.get(name, (None,) * 7)
        found = [_relative(seeds, name, metric) for metric in METRICS]
        cells = [f"{sample.mean:+.2f}" if sample.values else "-" for sample in found]
        cells += _of_rounds(seeds, name)
        signed = [number(value, i < 4) for i, value in enumerate(paper)]
        rows.append((name, str(len(found[0].values)), *(f"{c} ({p})" for c, p in zip(cells, signed, strict=True))))
    header = ("here (paper)", "seeds", "mAP", "0-1", "M-F1", "m-F1", "label prop.", "TP", "TN")
    none = [Sample(tuple(seed["none"][metric] for seed in seeds if "none" in seed)) for metric in METRICS]
    given = ", ".join(f"{title} {sample}" for title, sample in zip(header[2:6], none, strict=True))
    return f"{TITLES[kind]}; no relabelling: {given}.\n\n{table(header, rows)}"


def _claims(results: Results, seeds: Rows, kind: str) -> str:
    paper = {**PAPER, **({} if _has_graph(kind) else PAPER_PLAIN), "none": (0.0,) * 7}

    def claim(text: str, name: str, other: str, sign: int, metric: str = "map80") -> Claim:
        both = [seed for seed in seeds if name in seed and other in seed]
        found = Sample(tuple(seed[name][metric] - seed[other][metric] for seed in both))
        own, others = (row[METRICS.index(metric)] or 0.0 for row in (paper[name], paper[other]))
        text = f"with the graph: {text}" if _has_graph(kind) else text
        # without the graph some rows of the paper are relative to a model with it
        alike = _has_graph(kind) or "none" in (name, other) or (name in PAPER_PLAIN) == (other in PAPER_PLAIN)
        return Claim(text, found, sign, number(own - others, True) if alike else "")

    a, b, c, d, e = (
        "[a] score threshold 2",
        "[b] score proportion 0.8",
        "[c] positive only 5",
        "[d] ensemble 2",
        "[e] uncertainty 0.3",
    )
    found = [
        claim("2 steps - none, mAP", "2 steps", "none", -1),
        claim("[e] 0.3 - none, mAP", e, "none", 1),
        claim("[e] 0.3 - none, 0-1", e, "none", 1, "zero_one"),
        claim("[e] 0.3 - 2 steps, mAP", e, "2 steps", 1),
        claim("[a] 2 - [b] 0.8, mAP", a, b, 1),
        claim("[a] 2 - [c] 5, 0-1", a, c, 1, "zero_one"),
    ]
    if _has_graph(kind):  # the paper has [e] ahead with the graph only
        found.append(claim("[e] 0.3 - [a] 2, mAP", e, a, 1))
    else:
        found.append(claim("[d] 2 - [a] 2, mAP (the paper: no difference)", d, a, 0))
    return claims(results, found)


def render(results: Results) -> str:
    """The section of RESULTS.md."""
    preset = results.preset.name
    parts = [about(results, CLAIM, HERE)]
    found = {kind: _read(results, kind) for kind in SHOWN[preset.partition("-")[0]]}
    for kind, seeds in found.items():
        parts.append(_table(seeds, kind) if seeds else f"{TITLES[kind]}: not run here.")
    for kind, seeds in found.items():
        if seeds and not KINDS[kind].only:  # with one seed and three rows there is nothing to conclude
            parts += [f"{TITLES[kind]}:", _claims(results, seeds, kind)]
    ran = [row for seeds in found.values() for seed in seeds for row in seed.values()]
    if ran:
        seconds = sum(row["seconds"] for row in ran)
        machines = sorted({row["machine"] for row in ran})
        shown = ", ".join(
            f"{kind} seed {seed}"
            for kind, seeds in found.items()
            if seeds
            for seed in sorted(of_seeds(store_of(results.folder, kind)))
        )
        parts.append(
            f"`python -m experiments.relabeling {'|'.join(found)}`: {len(ran)} trainings, {seconds / 3600:.1f} h in "
            f"all; there are {shown}; {'; '.join(machines)}, shared with other work."
        )
    return "\n\n".join(parts)
