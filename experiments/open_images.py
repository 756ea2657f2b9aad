"""The setting of Open Images: 1 % of the labels known, unequal per class and image (table of Open Images)."""

from __future__ import annotations

from dataclasses import replace

from experiments.jobs import Job, Labels
from experiments.presets import Preset
from experiments.reading import Results

#: the data set itself has such labels; everywhere else they are drawn
VERIFIED = Labels("verified", 0.01)
#: factors of the learning rate among which each loss has its best, on a held-out part of the training pictures
RATES = (1.0, 5.0, 25.0)
LOSSES = ("bce", "partial-bce")


def base(seed: int, loss: str) -> Job:
    return Job(labels=VERIFIED, seed=seed, loss=loss)


def tuning(preset: Preset, loss: str) -> list[Job]:
    return [replace(base(seed, loss), rate=rate, held_out=True) for seed in preset.seeds for rate in preset.some(RATES)]


def with_graph(seed: int, steps: int) -> Job:
    """Further training from partial-BCE, with the graph or, as its control, without."""
    return replace(base(seed, "partial-bce"), base="continued", graph=steps)


def jobs(preset: Preset, results: Results) -> list[Job]:
    found = [
        replace(base(seed, loss), rate=rate) for seed in preset.seeds for loss in LOSSES for rate in preset.some(RATES)
    ]
    found += [job for loss in LOSSES for job in tuning(preset, loss)]
    return found + [with_graph(seed, steps) for seed in preset.seeds for steps in (0, 3)]
