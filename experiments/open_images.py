"""The setting of Open Images: 1 % of the labels known, unequal per class and image (table 3)."""

from __future__ import annotations

from dataclasses import replace

from experiments.jobs import Job, Labels
from experiments.presets import Preset
from experiments.reading import Claim, Results
from experiments.rendering import about, claims, table

#: the data set itself has such labels; everywhere else they are drawn
VERIFIED = Labels("verified", 0.01)
#: factors of the learning rate among which each loss has its best, on a held-out part of the training images
RATES = (1.0, 5.0, 25.0, 125.0)
LOSSES = ("bce", "partial-bce")


def base(seed: int, loss: str) -> Job:
    return Job(labels=VERIFIED, seed=seed, loss=loss)


def tuning(preset: Preset, loss: str) -> list[Job]:
    return [replace(base(seed, loss), rate=rate, held_out=True) for seed in preset.seeds for rate in preset.grid(RATES)]


def with_graph(seed: int, steps: int) -> Job:
    """Further training from partial-BCE, with the graph or, as its control, without."""
    return replace(base(seed, "partial-bce"), base="continued", graph=steps)


def jobs(preset: Preset, results: Results) -> list[Job]:
    found = [
        replace(base(seed, loss), rate=rate) for seed in preset.seeds for loss in LOSSES for rate in preset.grid(RATES)
    ]
    found += [job for loss in LOSSES for job in tuning(preset, loss)]
    return found + [with_graph(seed, steps) for seed in preset.seeds for steps in (0, 3)]


CLAIM = """Paper, Open Images, 600 classes, 0.9 % of the labels known: BCE 79.01, partial-BCE 83.05, with the graph
83.36 (mAP). p is near 0 for nearly all images, so that g is nearly constant (about 5 to 5.4). The paper has one
learning rate; here the best rate of each loss is chosen on a held-out part of the training images, with all their
labels."""
HERE = """Here 1 % of the labels of coco-mini, drawn as persons verify labels: images and classes differ (log-normal
weights), and a present pair is 27 times as likely as an absent one, so that about half of the known labels are
present. The graph is trained for 6 more epochs from partial-BCE at rate x 1, and so is its control."""


def _rates(results: Results, loss: str, rate: float, held_out: bool) -> list[Job]:
    return [replace(base(seed, loss), rate=rate, held_out=held_out) for seed in results.preset.seeds]


def _best(results: Results, loss: str) -> float | None:
    """The factor of the rate with the highest mean on held-out images; None until all are there."""
    found = {rate: results.sample(_rates(results, loss, rate, True)) for rate in RATES}
    if any(len(sample.values) < len(results.preset.seeds) for sample in found.values()):
        return None
    return max(found, key=lambda rate: found[rate].mean)


def render(results: Results) -> str:
    """The section of RESULTS.md."""
    rows = [
        (loss, f"x {rate:g}", *(str(results.sample(_rates(results, loss, rate, held))) for held in (True, False)))
        for loss in LOSSES
        for rate in RATES
    ]
    graph = {steps: [with_graph(seed, steps) for seed in results.preset.seeds] for steps in (0, 3)}
    rows += [
        (f"partial-BCE, continued, {name}", "-", "-", str(results.sample(graph[steps])))
        for name, steps in (("no graph", 0), ("graph", 3))
    ]
    plain, partial = (_rates(results, loss, 1.0, False) for loss in LOSSES)
    found = [Claim("partial-BCE - BCE, one rate", results.paired(partial, plain), 1, "+4.04")]
    best = {loss: _best(results, loss) for loss in LOSSES}
    plain, partial = (_rates(results, loss, rate, False) if (rate := best[loss]) else [] for loss in LOSSES)
    found.append(Claim("partial-BCE - BCE, each at its best rate", results.paired(partial, plain), 0))
    found.append(Claim("graph - none, further epochs alike", results.paired(graph[3], graph[0]), 1, "+0.31"))
    header = ("loss", "rate", "mAP, held-out images", "mAP, test images")
    return "\n\n".join((about(results, CLAIM, HERE), table(header, rows), claims(results, found)))
