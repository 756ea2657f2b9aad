"""Labelling strategies at the same number of clean labels (figure 3, first row; table 1; supplementary)."""

from __future__ import annotations

from dataclasses import replace

from experiments.jobs import ASKED, Job, Labels, labels
from experiments.presets import Preset
from experiments.reading import NAMES, Claim, Results, Sample
from experiments.rendering import claims, lines, number, table, words

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


#: ResNet-101 WELDON on MS COCO, mAP by share
PAPER = {
    "partial": (72.15, 74.49, 75.76, 76.56, 77.22, 77.73, 78.17, 78.53, 78.84, 79.22),
    "dense": (65.22, 71.00, 73.80, 75.44, 76.59, 77.44, 78.08, 78.61, 78.90, 79.24),
    "noisy": (None, None, None, None, 3.63, 53.10, 69.09, 74.06, 76.85, 79.18),
    "asked": (None,) * 10,
}
CLAIM = """Paper: with the same number of clean labels, a part of the labels of all images is better than all labels
of a part of the images, the more so the fewer labels (at 80 and 90 % its table has dense ones ahead, by less than
0.1); so for mAP, M-F1 and m-F1, while dense labels have the better 0-1 and precision, and partial ones the better
recall. Both are better than many labels of which some are wrong (`noisy`; below 50 % right left out, as in the
paper). All strategies by BCE, for the same epochs; images without a label are not trained on, so that dense labels at
10 % have a tenth of the steps. On the other hand, partial labels at 10 % have a tenth of the gradient at the same
learning rate and weight decay, and are under-trained; partial-BCE makes that gradient 5 times larger, so one row has
it. `asked` is not in the paper: 2 % drawn at random, then the questions of `partlabel next` in rounds (to 4, 6, 8,
10, 20, ... %), each chosen by a model trained on the true answers so far. All but mAP are at score 0, and heads that
are under-trained have nearly all their scores below it: what is marked `not converged` says how far training came
rather than which labels are better. PC-P is the mean over the classes of which anything is predicted present, which
are others in each row, so that no verdict is drawn from it."""
#: said of metrics at score 0 where a head is under-trained
AT_ZERO = "(at score 0, BCE not converged)"
TWO = (("partial", 1), ("dense", -1))
#: MS COCO, the metrics in the order of NAMES
PAPER_NOISY_PLUS = {
    "clean": (79.22, 40.69, 73.26, 77.80, 80.16, 68.21, 84.31, 72.23),
    "partial 10 %": (72.15, 22.04, 65.82, 70.09, 59.76, 74.78, 62.56, 79.68),
    "noisy+": (71.60, 20.28, 38.62, 33.72, 91.76, 28.17, 97.34, 20.39),
}


def of(results: Results, kind: str, share: float) -> list[Job]:
    return [Job(labels=labels(kind, share), seed=seed) for seed in results.preset.seeds]


def _by_share(results: Results, metric: str) -> dict[str, list[tuple[float, Sample]]]:
    found = {}
    for kind in PAPER:
        shares = {"noisy": (*NOISY, 1.0), "asked": ASKED}.get(kind, SHARES)
        found[kind] = [(100 * share, results.sample(of(results, kind, share), metric)) for share in shares]
    return found


def _claims(results: Results) -> list[Claim]:
    def difference(kind: str, share: float, other: str, other_share: float, metric: str = "mean_ap") -> Sample:
        return results.paired(of(results, kind, share), of(results, other, other_share), metric)

    found = [
        Claim(f"partial - dense, mAP at {100 * s:g} %", difference("partial", s, "dense", s), 1, number(p - d, True))
        for s, p, d in zip(SHARES[:9], PAPER["partial"], PAPER["dense"], strict=False)
        if p is not None and d is not None and s in (0.1, 0.2, 0.5)
    ]
    gain = [(sign * way, of(results, kind, s)) for s, way in ((0.1, 1), (0.5, -1)) for kind, sign in TWO]
    found.append(Claim("gain of partial at 10 % - at 50 %, mAP", results.contrast(gain), 1, number(6.93 - 0.63, True)))
    found.append(
        Claim("20 % partial - 80 % right of all labels, mAP", difference("partial", 0.2, "noisy", 0.8), 1, "+0.43")
    )
    for kind, value in (("partial", "+4.47"), ("dense", "+4.55")):
        found.append(Claim(f"{kind} - noisy, mAP at 80 %", difference(kind, 0.8, "noisy", 0.8), 1, value))
    plus = [replace(job, labels=Labels("noisy-plus")) for job in of(results, "partial", 0.1)]
    tenth, every = of(results, "partial", 0.1), of(results, "partial", 1.0)
    found.append(Claim("partial 10 % - noisy+, mAP", results.paired(tenth, plus), 1, "+0.55"))
    found.append(Claim("partial 10 % - noisy+, m-F1", results.paired(tenth, plus, "micro_f1"), 1, "+36.37"))
    found.append(Claim("clean - noisy+, mAP", results.paired(every, plus), 1, "+7.62"))
    fair = [replace(job, loss="partial-bce") for job in tenth]
    dense = of(results, "dense", 0.1)
    found.append(Claim("partial by partial-BCE - dense, mAP at 10 %", results.paired(fair, dense), 0))
    for metric, sign in (
        ("zero_one", -1),
        ("macro_f1", 1),
        ("micro_f1", 1),
        ("ov_precision", -1),
        ("ov_recall", 1),
        ("pc_precision", 0),  # other classes in each
        ("pc_recall", 1),
    ):
        own = difference("partial", 0.1, "dense", 0.1, metric)
        found.append(Claim(f"partial - dense, {NAMES[metric]} at 10 % {AT_ZERO}", own, sign))
    for share in (0.1, 0.2, 0.5):
        found.append(
            Claim(f"asked - partial, mAP at {100 * share:g} %", difference("asked", share, "partial", share), 0)
        )
    return found


def render(results: Results) -> str:
    """The section of RESULTS.md."""
    rows = []
    for kind, paper in PAPER.items():
        cells = {round(share): sample for share, sample in _by_share(results, "mean_ap")[kind]}
        rows.append((f"{kind}, here", *(str(cells.get(round(100 * s), "-")) for s in SHARES)))
        if kind != "asked":
            rows.append((f"{kind}, paper", *(number(value) for value in paper)))
    every = {
        "clean": of(results, "partial", 1.0),
        "partial 10 %": of(results, "partial", 0.1),
        "noisy+": [replace(job, labels=Labels("noisy-plus")) for job in of(results, "partial", 1.0)],
    }
    metrics = []
    for name, jobs_of in every.items():
        metrics.append((f"{name}, here", *(str(results.sample(jobs_of, metric)) for metric in NAMES)))
        metrics.append((f"{name}, paper", *(number(value) for value in PAPER_NOISY_PLUS[name])))
    others = [
        (
            NAMES[metric],
            kind,
            *(str(sample) for share, sample in _by_share(results, metric)[kind] if share in (10, 20, 50, 80)),
        )
        for metric in list(NAMES)[1:]
        for kind in ("partial", "dense", "asked")
    ]
    partial = results.sample(of(results, "partial", SHARES[0]))
    lowest = partial.mean if partial.values else None
    return "\n\n".join(
        (
            words(CLAIM),
            lines(
                results,
                "strategies",
                _by_share(results, "mean_ap"),
                "clean labels, %",
                "mAP on test images",
                bottom=None if lowest is None else lowest - 8,
            ),
            "mAP by share of clean labels, % (mean ± deviation over seeds):",
            table(("strategy", *(f"{100 * share:g}" for share in SHARES)), rows),
            claims(results, _claims(results)),
            "One present label for each image, the others called absent (noisy+), all metrics:",
            table(("labels", *NAMES.values()), metrics),
            "The other metrics (the paper has them as plots):",
            table(("metric", "labels", "10", "20", "50", "80"), others),
        )
    )
