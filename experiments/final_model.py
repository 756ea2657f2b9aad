"""The final model (partial-BCE, graph, relabelling [e]) against BCE on partial and on dense labels (last figure)."""

from __future__ import annotations

from dataclasses import replace

from experiments.graph import of_graph
from experiments.jobs import Job, labels
from experiments.presets import Preset
from experiments.reading import Results

SHARES = (0.1, 0.3, 0.6)


def final(share: float, seed: int) -> Job:
    return replace(of_graph(share, 3, seed), relabel=True)


def baselines(share: float, seed: int) -> tuple[Job, Job]:
    """BCE on partial labels, and on dense ones."""
    return Job(labels=labels("partial", share), seed=seed), Job(labels=labels("dense", share), seed=seed)


def jobs(preset: Preset, results: Results) -> list[Job]:
    pairs = [(share, seed) for seed in preset.seeds for share in preset.some(SHARES)]
    return [job for share, seed in pairs for job in (*baselines(share, seed), final(share, seed))]
