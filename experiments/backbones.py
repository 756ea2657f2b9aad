"""Other backbones, and WELDON against average pooling (table of architectures of the supplementary)."""

from __future__ import annotations

from dataclasses import replace

from experiments.jobs import Job, Labels, labels
from experiments.presets import Preset
from experiments.reading import Results

SHARES = (0.1, 0.4, 1.0)
LOSSES = ("bce", "partial-bce")


def of_backbone(preset: Preset, backbone: str, chosen: Labels, loss: str, seed: int) -> Job:
    """The preset's own backbone goes without a name, so that its jobs are those of the other tables."""
    own = preset.bases["sweep"].config.model.backbone
    return Job(labels=chosen, seed=seed, loss=loss, backbone="" if backbone == own else backbone)


def with_other_pooling(preset: Preset, job: Job) -> Job:
    other = {"average": "weldon", "weldon": "average"}[preset.bases["sweep"].config.model.pooling]
    return replace(job, pooling=other)


def jobs(preset: Preset, results: Results) -> list[Job]:
    found = []
    for backbone in preset.backbones:
        for seed in preset.seeds:
            for share in preset.some(SHARES):
                for kind in ("partial", "dense"):
                    found.append(of_backbone(preset, backbone, labels(kind, share), "bce", seed))
            found.append(of_backbone(preset, backbone, Labels("partial", 0.1), "partial-bce", seed))
    return list(dict.fromkeys(found))


def pooling_jobs(preset: Preset, results: Results) -> list[Job]:
    """Of the other pooling: all labels, and a tenth by both losses."""
    found = []
    for seed in preset.seeds:
        plain = [Job(labels=Labels(), seed=seed)]
        plain += [Job(labels=Labels("partial", 0.1), seed=seed, loss=loss) for loss in LOSSES]
        found += plain + [with_other_pooling(preset, job) for job in plain]
    return found
