"""The initial set of labels: four draws (table and figure of the supplementary)."""

from __future__ import annotations

from experiments.jobs import Job, labels
from experiments.presets import Preset
from experiments.reading import Results
from experiments.strategies import SHARES

SEEDS = (0, 1, 2, 3)


def jobs(preset: Preset, results: Results) -> list[Job]:
    return [
        Job(labels=labels("partial", share), seed=seed) for seed in preset.some(SEEDS) for share in preset.some(SHARES)
    ]
