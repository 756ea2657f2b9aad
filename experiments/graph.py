"""The label graph: partial-BCE with and without it, against BCE (figure 3), its steps T and what its output reads.

With a frozen backbone, each graph is trained for a few more epochs from the head that partial-BCE gave without one;
the same further epochs without a graph (T = 0) are what it is compared with.
"""

from __future__ import annotations

from dataclasses import replace

from experiments.jobs import Job, labels
from experiments.presets import Preset
from experiments.reading import Results

SHARES = (0.1, 0.4, 1.0)
STEPS = (0, 1, 2, 3, 4)


def of_graph(share: float, steps: int, seed: int) -> Job:
    return Job(labels=labels("partial", share), seed=seed, base="continued", loss="partial-bce", graph=steps)


def jobs(preset: Preset, results: Results) -> list[Job]:
    found = []
    for seed in preset.seeds:
        found += [of_graph(share, steps, seed) for share in preset.some(SHARES) for steps in (0, 3)]
        found.append(replace(of_graph(0.1, 3, seed), last_only=True))
        found += [of_graph(0.1, steps, seed) for steps in preset.some(STEPS)]
    return list(dict.fromkeys(found))
