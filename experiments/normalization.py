"""The normalisation g: its value at 10 % known labels (figure 4) and gamma over proportions (figure 5).

As in the paper, both are measured on a held-out part of the training pictures.
"""

from __future__ import annotations

from experiments.jobs import Job, Labels, labels
from experiments.presets import Preset
from experiments.reading import Results

VALUES = (1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)
GAMMAS = (3.0, 2.0, 1.0, 0.5, -0.5, -1.0)
SHARES = (0.1, 0.2, 0.5, 0.8)
UNEVEN = Labels("uneven-images", 0.1)


def of_value(preset: Preset, value: float, seed: int) -> Job:
    """With g(0.1) = 1, partial-BCE is BCE."""
    loss = "bce" if value == 1 else "partial-bce"
    return Job(labels=Labels("partial", 0.1), seed=seed, loss=loss, value=5.0 if value == 1 else value, held_out=True)


def of_gamma(chosen: Labels, gamma: float, seed: int) -> Job:
    return Job(labels=chosen, seed=seed, loss="partial-bce", gamma=gamma, held_out=True)


def jobs(preset: Preset, results: Results) -> list[Job]:
    found = []
    for seed in preset.seeds:
        found += [of_value(preset, value, seed) for value in preset.some(VALUES)]
        # at 10 % all gammas give the same g = 5
        chosen = [labels("partial", share) for share in preset.some(SHARES[1:])] + [UNEVEN]
        found += [of_gamma(known, gamma, seed) for known in chosen for gamma in preset.some(GAMMAS)]
    return list(dict.fromkeys(found))
