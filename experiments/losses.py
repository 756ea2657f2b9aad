"""BCE against partial-BCE (figure 3, second row; the learning-rate figure; the size of the gradient)."""

from __future__ import annotations

from dataclasses import replace

from experiments.jobs import Job, Labels, labels
from experiments.presets import Preset
from experiments.reading import NAMES, Claim, Results, Sample
from experiments.rendering import claims, lines, number, table, words
from experiments.strategies import SHARES

LOSSES = ("bce", "partial-bce")
TENTH, DENSE = Labels("partial", 0.1), Labels("dense", 0.1)
#: factors of the base's learning rate and weight decay among which each loss has its best
RATES = {
    "partial": (0.5, 1.0, 2.0, 5.0, 10.0, 20.0),
    "dense": (0.5, 1.0, 2.0, 5.0, 10.0, 20.0),
    "all": (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0),
}
DECAYS = {"partial": (0.04, 0.2, 1.0, 5.0), "dense": (0.2, 1.0, 5.0, 25.0), "all": (0.04, 0.2, 1.0)}
#: the trainings that are compared at their best
TUNED = ((TENTH, "bce"), (TENTH, "partial-bce"), (DENSE, "bce"), (Labels(), "bce"))
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
    """The settings among which one is chosen on a held-out part of the training images, one seed."""
    return [
        Job(labels=chosen, seed=preset.seeds[0], loss=loss, rate=rate, decay=decay, held_out=True)
        for decay in preset.grid(DECAYS[chosen.kind])
        for rate in preset.grid(RATES[chosen.kind])
    ]


def tuned(results: Results, chosen: Labels, loss: str) -> list[Job]:
    """The best setting on the test images; none while the grid is not complete."""
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
    """The grid of each training, then its best on the test part."""
    found = [job for grid in TUNED for job in tuning(preset, *grid)]
    return list(dict.fromkeys(found + [job for grid in TUNED for job in tuned(results, *grid)]))


CLAIM = """Paper: partial-BCE is better than BCE, the more so the fewer labels, for mAP, 0-1, M-F1 and m-F1, and has
the higher recall; of precision on COCO nothing is said (that sentence breaks off). The gains in mAP at its one
learning rate are 3.16 points on COCO at 10 % and 4.04 on Open Images. The reasons given: without the normalisation
few labels give a small gradient; and each image gets the same weight, which is useful where proportions differ.
Partial-BCE is said to stay ahead over a large range of learning rates at small proportions. With the same proportion
p in each image, partial-BCE is BCE times g(p). At this one rate BCE with few labels has not converged, and most of its
scores are below 0: differences of metrics at score 0 are marked."""
GRADIENT = """Is it the size of the gradient? If so, BCE whose learning rate is multiplied by g(0.1) = 5 and whose
weight decay is divided by it must equal partial-BCE at 10 %; and under Adam, which divides the gradient by its size,
the two losses must be equal as they are. Where proportions differ between images (each drawn from 1 % to 100 %, mean
10 %) or between classes, the weighting itself acts: `equal steps` is BCE with the mean weight of partial-BCE in its
rate, `mean over known` is g(p) = 1/p."""
TUNING = """Each at its best: the learning rate and weight decay with the best mAP on a held-out part of the training
images, all labels of which are known for that (first seed); then trained on all training images and measured on
the test images. Rates and decays are factors of the preset's. At 10 %, BCE with 5 times the rate and a fifth of the
decay is the same training as partial-BCE: a difference of exactly 0 means that both grids have the same best. The
paper compares at one rate only, so it has no claim on this."""
SAME_RATE = """Partial-BCE - BCE at the same rate and decay, mAP on held-out images (10 % known, first seed): where
the gain ends."""


def _over_shares(results: Results, loss: str, metric: str) -> list[tuple[float, Sample]]:
    return [(100 * share, results.sample(at(results, loss, share), metric)) for share in SHARES]


def at(results: Results, loss: str, share: float) -> list[Job]:
    loss = loss if share < 1 else "bce"
    return [Job(labels=labels("partial", share), seed=seed, loss=loss) for seed in results.preset.seeds]


def _gain(results: Results, share: float, metric: str = "mean_ap") -> Sample:
    return results.paired(at(results, "partial-bce", share), at(results, "bce", share), metric)


def _sweep_part(results: Results) -> list[str]:
    losses_over = {loss: _over_shares(results, loss, "mean_ap") for loss in LOSSES}
    gains = {NAMES[m]: [(100 * s, _gain(results, s, m)) for s in SHARES[:9]] for m in list(NAMES)[:4]}
    rows = [
        (loss, NAMES[metric], *(str(sample) for _, sample in _over_shares(results, loss, metric)))
        for metric in NAMES
        for loss in LOSSES
    ]
    marks = {m: "" if m == "mean_ap" else " (at score 0, BCE not converged)" for m in NAMES}
    found = [Claim(f"partial-BCE - BCE, {NAMES[m]} at 10 %{marks[m]}", _gain(results, 0.1, m), 1) for m in NAMES]
    found[0] = replace(found[0], paper="+3.16")
    found[1:4] = [replace(c, paper=p) for c, p in zip(found[1:4], ("+2.47", "+2.12", "+1.09"), strict=True)]
    found[4], found[6] = replace(found[4], sign=0), replace(found[6], sign=0)
    found.append(Claim("partial-BCE - BCE, mAP at 50 %", _gain(results, 0.5), 1))
    signs = ((0.1, "partial-bce", 1), (0.1, "bce", -1), (0.5, "partial-bce", -1), (0.5, "bce", 1))
    terms = [(sign, at(results, loss, share)) for share, loss, sign in signs]
    found.append(Claim("gain at 10 % - gain at 50 %, mAP", results.contrast(terms), 1))
    return [
        lines(results, "losses", losses_over, "known labels, %", "mAP on test images"),
        lines(results, "losses-gain", gains, "known labels, %", "partial-BCE - BCE, points", zero=True),
        claims(results, found),
        "At one learning rate and weight decay, all metrics:",
        table(("loss", "metric", *(f"{100 * share:g} %" for share in SHARES)), rows),
    ]


def _of_seeds(results: Results, job: Job) -> list[Job]:
    return [replace(job, seed=seed) for seed in results.preset.seeds]


def _gradient_part(results: Results) -> list[str]:
    base = Job(labels=TENTH, seed=0, loss="partial-bce")
    adam = replace(base, base="adamw")
    found = [
        Claim("10 %: partial-BCE - BCE with equal steps", _pair(results, base, same_step(base)), 0),
        Claim("10 %: BCE with equal steps - BCE", _pair(results, same_step(base), replace(base, loss="bce")), 0),
        Claim("10 %, AdamW: partial-BCE - BCE", _pair(results, adam, replace(adam, loss="bce")), 0),
    ]
    rows = []
    for chosen in UNEVEN:
        partial = Job(labels=chosen, seed=0, loss="partial-bce")
        plain = replace(partial, loss="bce")
        variants = {"BCE": plain, "partial-BCE": partial, "BCE, equal steps": same_step(partial)}
        variants["mean over known"] = mean_over_known(partial)
        name = chosen.kind.replace("-", " between ")
        for variant, job in variants.items():
            cells = [str(results.sample(_of_seeds(results, job), metric)) for metric in list(NAMES)[:4]]
            rows.append((name, variant, *cells))
        # of images that differ the paper says that the weighting is useful; classes that differ it does not mention
        sign = 1 if chosen.kind == "uneven-images" else 0
        found.append(Claim(f"{name}: partial-BCE - BCE", _pair(results, partial, plain), sign))
        found.append(Claim(f"{name}: partial-BCE - BCE, equal steps", _pair(results, partial, same_step(partial)), 0))
    return [
        words(GRADIENT),
        claims(results, found),
        table(("proportions", "loss", *list(NAMES.values())[:4]), rows),
    ]


def _pair(results: Results, job: Job, other: Job) -> Sample:
    return results.paired(_of_seeds(results, job), _of_seeds(results, other))


def _tuning_part(results: Results) -> list[str]:
    preset = results.preset
    series, rows, best = {}, [], {}
    for chosen, loss in TUNED:
        grid = tuning(preset, chosen, loss)
        name = loss + {"all": ", 100 %", "partial": ", 10 %", "dense": ", 10 % dense"}[chosen.kind]
        of_rate = ((rate, results.best([job for job in grid if job.rate == rate])) for rate in RATES[chosen.kind])
        series[name] = [(rate, results.sample([job])) for rate, job in of_rate if job is not None]
        best[name] = tuned(results, chosen, loss)
        setting = f"rate x {best[name][0].rate:g}, decay x {best[name][0].decay:g}" if best[name] else "-"
        tried = ["x " + ", ".join(f"{v:g}" for v in grids[chosen.kind]) for grids in (RATES, DECAYS)]
        rows.append((name, setting, *tried, *(str(results.sample(best[name], m)) for m in list(NAMES)[:4])))
    plain, partial, dense, _ = best.values()
    return [
        words(TUNING),
        lines(
            results,
            "learning-rate",
            series,
            "learning rate, times the preset's",
            "mAP, held-out images, best weight decay",
            log=True,
        ),
        table(("loss, known", "best", "rates tried", "decays tried", *list(NAMES.values())[:4]), rows),
        claims(
            results,
            [
                Claim("10 %, each at its best: partial-BCE - BCE, mAP", results.paired(partial, plain), 0),
                Claim("10 %, each at its best: partial - dense, mAP", results.paired(partial, dense), 0),
            ],
        ),
        words(SAME_RATE),
        _same_rate(results),
    ]


def _same_rate(results: Results) -> str:
    plain, partial = ({(job.rate, job.decay): job for job in tuning(results.preset, TENTH, loss)} for loss in LOSSES)
    rows = []
    for decay in DECAYS["partial"]:
        pairs = [(partial.get((rate, decay)), plain.get((rate, decay))) for rate in RATES["partial"]]
        gains = [results.paired([a], [b]).values if a and b else () for a, b in pairs]
        rows.append((f"decay x {decay:g}", *(number(gain[0], True) if gain else "-" for gain in gains)))
    return table(("", *(f"rate x {rate:g}" for rate in RATES["partial"])), rows)


def render(results: Results) -> str:
    """The section of RESULTS.md."""
    parts = [words(CLAIM), *_sweep_part(results), *_gradient_part(results), *_tuning_part(results)]
    return "\n\n".join(parts)
