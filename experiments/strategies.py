"""Labelling strategies at the same number of clean labels (figure 2, first row; tables 1 and of the supplementary)."""

from __future__ import annotations

from experiments.jobs import ASKED, Job, Labels, labels
from experiments.presets import Preset
from experiments.reading import Results

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
#: below one half, noisy labels say mostly the opposite; the paper leaves them out too
NOISY = (0.5, 0.6, 0.7, 0.8, 0.9)


def jobs(preset: Preset, results: Results) -> list[Job]:
    found = []
    for seed in preset.seeds:
        found += [
            Job(labels=labels(kind, share), seed=seed) for share in preset.some(SHARES) for kind in ("partial", "dense")
        ]
        found.append(Job(labels=Labels("noisy-plus"), seed=seed))
        found += [Job(labels=labels("noisy", share), seed=seed) for share in preset.some(NOISY)]
        found += [Job(labels=labels("asked", share), seed=seed) for share in (ASKED[:2] if preset.smoke else ASKED)]
    return list(dict.fromkeys(found))
