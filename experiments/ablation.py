"""The ablation at 10 % known labels (table 3), and the share of the gap to all labels that the full method closes.

``single-rate``: the paper's protocol, everything at its one learning rate, from a random head. ``tuned``: each row at
its own best learning rate, chosen on a held-out part of the training pictures; from a head trained on the frozen
backbone.
"""

from __future__ import annotations

from dataclasses import replace

from experiments.jobs import Job, Labels
from experiments.presets import Preset
from experiments.reading import Results

TENTH = Labels("partial", 0.1)
PROTOCOLS = ("single-rate", "tuned")
#: factors of the learning rate of ``tuned``
RATES = (0.5, 1.0, 2.0)


def rows(protocol: str, seed: int) -> dict[str, Job]:
    """Name of each row of the table -> its job; the first is the frozen one, the last has every label."""
    bce = Job(labels=TENTH, seed=seed, base=protocol)
    partial = replace(bce, loss="partial-bce")
    graph = replace(partial, graph=3)
    return {
        "BCE, frozen": replace(bce, base="head"),
        "BCE": bce,
        "partial-BCE": partial,
        "partial-BCE + GNN": graph,
        "partial-BCE + relabelling": replace(partial, relabel=True),
        "partial-BCE + GNN + relabelling": replace(graph, relabel=True),
        "BCE, 100 % known": replace(bce, labels=Labels()),
    }


CLOSING = ("BCE", "partial-BCE + GNN + relabelling", "BCE, 100 % known")


def jobs(preset: Preset, results: Results) -> list[Job]:
    """The paper's protocol: the three rows of the gap of all seeds first."""
    found = [rows("single-rate", seed)[name] for seed in preset.seeds for name in CLOSING]
    found += [job for seed in preset.seeds for job in rows("single-rate", seed).values()]
    return list(dict.fromkeys(found))


def tuning(preset: Preset, name: str) -> list[Job]:
    """A row at each rate, one seed, on held-out pictures."""
    row = rows("tuned", preset.seeds[0])[name]
    if row.base != "tuned":
        return []
    return [replace(row, rate=rate, held_out=True) for rate in preset.some(RATES)]


def tuned(results: Results, name: str) -> list[Job]:
    """A row at its best rate on the test pictures; none while its rates are not all there."""
    preset = results.preset
    grid = tuning(preset, name)
    if not grid:
        return [rows("tuned", seed)[name] for seed in preset.seeds]
    best = results.best(grid)
    return [] if best is None else [replace(best, held_out=False, seed=seed) for seed in preset.seeds]


def tuning_jobs(preset: Preset, results: Results) -> list[Job]:
    """All rates of the rows of the gap, then of the others; each row on the test part once its best rate is known."""
    names = [*CLOSING, *rows("tuned", 0)]
    found = [job for name in names for job in tuning(preset, name)]
    return list(dict.fromkeys(found + [job for name in names for job in tuned(results, name)]))
