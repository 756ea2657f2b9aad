"""The initial set of labels: four draws (table and figure of the supplementary)."""

from __future__ import annotations

from experiments.jobs import Job, labels
from experiments.presets import Preset
from experiments.reading import NAMES, Results
from experiments.rendering import about, table
from experiments.strategies import SHARES

SEEDS = (0, 1, 2, 3)


def jobs(preset: Preset, results: Results) -> list[Job]:
    return [
        Job(labels=labels("partial", share), seed=seed) for seed in preset.some(SEEDS) for share in preset.some(SHARES)
    ]


CLAIM = """Paper: for each proportion and metric the model hardly depends on which labels are known (deviations of
0.01 to 0.14 over four draws, 83k training and 41k test images). Here each seed draws the labels, the first weights
and the order of training; at 100 % only the last two. BCE; the paper names no loss here, its levels are those of
BCE."""
HERE = "With 8,000 images a tenth of the labels of a rare class is a handful."
#: MS COCO: mean and deviation at 10 % and at 50 %
PAPER = {
    "mean_ap": ("72.20 ± 0.04", "77.21 ± 0.01"),
    "macro_f1": ("65.84 ± 0.01", "71.88 ± 0.03"),
    "micro_f1": ("70.13 ± 0.04", "76.54 ± 0.01"),
    "zero_one": ("22.21 ± 0.12", "37.44 ± 0.05"),
    "pc_precision": ("59.82 ± 0.05", "76.45 ± 0.04"),
    "pc_recall": ("74.74 ± 0.04", "68.64 ± 0.04"),
    "ov_precision": ("62.66 ± 0.09", "80.75 ± 0.06"),
    "ov_recall": ("79.62 ± 0.04", "72.74 ± 0.04"),
}


def render(results: Results) -> str:
    """The section of RESULTS.md."""
    rows = []
    for metric, (tenth, half) in PAPER.items():
        cells = [
            str(results.sample([Job(labels=labels("partial", share), seed=seed) for seed in SEEDS], metric))
            for share in SHARES
        ]
        rows.append((NAMES[metric], *cells, tenth, half))
    header = ("metric", *(f"{100 * share:g} %" for share in SHARES), "paper, 10 %", "paper, 50 %")
    tenth_map = results.sample([Job(labels=labels("partial", 0.1), seed=seed) for seed in SEEDS])
    verdict = "Verdict: not measured."
    if len(tenth_map.values) > 1:
        verdict = (
            f"Verdict: at 10 % the deviation of mAP over {len(tenth_map.values)} draws is {tenth_map.deviation:.2f} "
            f"here, {tenth_map.deviation / 0.04:.0f} times that of the paper."
        )
    return "\n\n".join((about(results, CLAIM, HERE), table(header, rows), verdict))
