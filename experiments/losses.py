"""BCE against partial-BCE (figure 2, second row; the learning-rate figure; the size of the gradient)."""

from __future__ import annotations

from dataclasses import replace

from experiments.jobs import Job, Labels, labels
from experiments.presets import Preset
from experiments.reading import Results
from experiments.strategies import SHARES

LOSSES = ("bce", "partial-bce")
#: factors of the base's learning rate and weight decay among which each loss has its best
RATES = (0.5, 1.0, 2.0, 5.0, 10.0)
DECAYS = (0.2, 1.0)
TENTH = Labels("partial", 0.1)
UNEVEN = (Labels("uneven-images", 0.1), Labels("uneven-classes", 0.1))
#: mean weight g of a known label, sum of g(p) p over sum of p: with p^(-3/2) on 0.01 .. 1 per image, and at p = 0.1
MEAN_WEIGHT = {"uneven-images": 3.8, "uneven-classes": 5.0, "partial": 5.0}


def sweep(preset: Preset) -> list[Job]:
    """Both losses over proportions at the one learning rate."""
    return [
        Job(labels=labels("partial", share), seed=seed, loss=loss)
        for seed in preset.seeds
        for share in preset.some(SHARES)
        for loss in (LOSSES if share < 1 else LOSSES[:1])
    ]


def tuning(preset: Preset, chosen: Labels, loss: str) -> list[Job]:
    """The settings among which one is chosen on a held-out part of the training pictures, one seed."""
    return [
        Job(labels=chosen, seed=preset.seeds[0], loss=loss, rate=rate, decay=decay, held_out=True)
        for decay in preset.some(DECAYS)
        for rate in preset.some(RATES)
    ]


def tuned(results: Results, chosen: Labels, loss: str) -> list[Job]:
    """The best setting on the test pictures; none while the grid is not complete."""
    preset = results.preset
    best = results.best(tuning(preset, chosen, loss))
    return [] if best is None else [replace(best, held_out=False, seed=seed) for seed in preset.seeds]


def same_step(job: Job) -> Job:
    """Plain BCE with the steps of partial-BCE: the rate times its mean weight, the decay divided by it.

    Under SGD with the same proportion in each image this is partial-BCE to the last digit.
    """
    weight = MEAN_WEIGHT[job.labels.kind]
    return replace(job, loss="bce", rate=job.rate * weight, decay=round(job.decay / weight, 4))


def gradient(preset: Preset) -> list[Job]:
    """Is the gain the size of the gradient? At equal proportions, under SGD and under Adam."""
    found = []
    for seed in preset.seeds:
        base = Job(labels=TENTH, seed=seed, loss="partial-bce")
        found += [base, replace(base, loss="bce"), same_step(base)]
        found += [replace(base, base="adamw", loss=loss) for loss in LOSSES]
    return found


def uneven(preset: Preset) -> list[Job]:
    """Proportions that differ, where the weighting itself acts: BCE, partial-BCE, equal steps, mean over the known."""
    found = []
    for seed in preset.seeds:
        for chosen in UNEVEN:
            base = Job(labels=chosen, seed=seed, loss="partial-bce")
            found += [replace(base, loss="bce"), base, same_step(base), mean_over_known(base)]
    return found


def mean_over_known(job: Job) -> Job:
    """``g(p) = 1/p``: gamma = -1 with g(0.1) = 10 gives alpha = 1 and beta = 0."""
    return replace(job, loss="partial-bce", gamma=-1.0, value=10.0)


def jobs(preset: Preset, results: Results) -> list[Job]:
    found = sweep(preset) + gradient(preset) + uneven(preset)
    return list(dict.fromkeys(found))


def tuning_jobs(preset: Preset, results: Results) -> list[Job]:
    """The grids of both losses at 10 %, and of BCE with every label; then the best of each on the test part."""
    grids = [(TENTH, "bce"), (TENTH, "partial-bce"), (Labels(), "bce")]
    found = [job for grid in grids for job in tuning(preset, *grid)]
    return list(dict.fromkeys(found + [job for grid in grids for job in tuned(results, *grid)]))
