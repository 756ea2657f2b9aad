"""Other backbones, and WELDON against average pooling (table of architectures of the supplementary)."""

from __future__ import annotations

from dataclasses import replace

from experiments.jobs import Job, Labels, labels
from experiments.presets import Preset
from experiments.reading import Claim, Results
from experiments.rendering import about, claims, number, table

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


CLAIM = """Paper: the strategies compare alike for four networks (partial labels ahead of dense ones by 6.7 to 7.8
points at 10 %), and g(0.1) from 3 to 50 is better than 1, which is BCE, for four networks (figure 15). In its table,
ResNet-50 with WELDON (for each class, the mean of the highest tenth of the regions of its score map plus that of the
lowest) is about 8 points above ResNet-50 without, fine-tuned."""
HERE = """Here three EfficientNets-Lite, frozen; without fine-tuning WELDON takes its maxima over maps that were
trained to be averaged. It has the rate and weight decay of the preset, which were chosen for averages."""
#: network -> mAP of partial and of dense labels at 10, 40 and 100 %
PAPER = {
    "ResNet-50": ((61.26, 66.22, 69.33), (54.29, 64.28, 69.32)),
    "ResNet-50 WELDON": ((69.91, 74.53, 77.28), (62.16, 73.01, 77.28)),
    "ResNet-101 WELDON": ((72.15, 76.56, 79.22), (65.22, 75.44, 79.24)),
    "ResNeXt-101 WELDON": ((75.74, 79.64, 81.69), (69.03, 78.50, 81.71)),
}


def _all(results: Results, backbone: str, chosen: Labels, loss: str = "bce") -> list[Job]:
    return [of_backbone(results.preset, backbone, chosen, loss, seed) for seed in results.preset.seeds]


#: labels -> mAP of ResNet-50 with WELDON less that of ResNet-50 without, by its table
PAPER_POOLING = {"BCE, all": "+7.95", "BCE, 10 %": "+8.65", "partial-BCE, 10 %": ""}


def _pooling_part(results: Results) -> tuple[str, list[Claim]]:
    rows, found = [], []
    for name, chosen, loss in (
        ("BCE, all", Labels(), "bce"),
        ("BCE, 10 %", Labels("partial", 0.1), "bce"),
        ("partial-BCE, 10 %", Labels("partial", 0.1), "partial-bce"),
    ):
        own = [Job(labels=chosen, seed=seed, loss=loss) for seed in results.preset.seeds]
        other = [with_other_pooling(results.preset, job) for job in own]
        # by name, "average" comes first
        average, weldon = sorted((own, other), key=lambda jobs: results.preset.config(jobs[0]).model.pooling)
        rows.append((name, str(results.sample(average)), str(results.sample(weldon))))
        paper = PAPER_POOLING[name]
        found.append(Claim(f"{name}: WELDON - average", results.paired(weldon, average), 1 if paper else 0, paper))
    return table(("mAP", "average", "WELDON"), rows), found


def render(results: Results) -> str:
    """The section of RESULTS.md."""
    rows = []
    for backbone in results.preset.backbones:
        for kind in ("partial", "dense"):
            cells = (str(results.sample(_all(results, backbone, labels(kind, share)))) for share in SHARES)
            rows.append((backbone, kind, *cells))
    for name, values in PAPER.items():
        for kind, own in zip(("partial", "dense"), values, strict=True):
            rows.append((f"{name}, paper", kind, *(number(value) for value in own)))
    found = []
    for backbone in results.preset.backbones:
        tenth = [_all(results, backbone, Labels(kind, 0.1)) for kind in ("partial", "dense")]
        found.append(Claim(f"{backbone}, 10 %: partial - dense", results.paired(*tenth), 1, "+6.71 to +7.75"))
        losses = [_all(results, backbone, Labels("partial", 0.1), loss) for loss in ("partial-bce", "bce")]
        found.append(Claim(f"{backbone}, 10 %: partial-BCE - BCE", results.paired(*losses), 1))
    pooling, weldon = _pooling_part(results)
    return "\n\n".join(
        (
            about(results, CLAIM, HERE),
            table(("mAP", "labels", *(f"{100 * share:g} %" for share in SHARES)), rows),
            "Pooling of the same frozen backbone:",
            pooling,
            claims(results, found + weldon),
        )
    )
