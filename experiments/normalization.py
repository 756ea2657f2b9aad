"""The normalisation g: its value at 10 % known labels (figure 5) and gamma over proportions (figure 6).

As in the paper, both are measured on a held-out part of the training images.
"""

from __future__ import annotations

from itertools import product

from experiments.jobs import Job, Labels, labels
from experiments.presets import Preset
from experiments.reading import Claim, Results, Sample
from experiments.rendering import about, claims, lines, table

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
        chosen = [*(labels("partial", share) for share in SHARES[1:]), UNEVEN]
        found += [of_gamma(known, gamma, seed) for known, gamma in preset.some(list(product(chosen, GAMMAS)))]
    return list(dict.fromkeys(found))


CLAIM = """Paper: g(0.1) = 1, which is BCE, is worst; 3 to 50 are alike, with the best about 20; larger values are
worse. With g(0.1) = 5, gamma = 1 is better than gamma = -1, and gamma = 3 is better than -1 at large proportions but
slightly worse at small ones. (The paper has plots only.) All numbers of this section are mAP on held-out training
images with all their labels, as in the paper (about 5k of 83k). At 10 % known labels in each image, gamma makes no
difference: g(0.1) is fixed. So the last column, which the paper does not have, has proportions that differ between
images, from 1 % to 100 % with mean 10 %."""
HERE = "Here a fifth of the 8,000 training images is held out."


def _values(results: Results, value: float) -> list[Job]:
    return [of_value(results.preset, value, seed) for seed in results.preset.seeds]


def _gammas(results: Results, chosen: Labels, gamma: float) -> list[Job]:
    return [of_gamma(chosen, gamma, seed) for seed in results.preset.seeds]


def render(results: Results) -> str:
    """The section of RESULTS.md."""
    by_value = [(value, results.sample(_values(results, value))) for value in VALUES]
    columns = [labels("partial", share) for share in SHARES[1:]] + [UNEVEN]
    rows = [
        (f"{gamma:g}", *(str(results.sample(_gammas(results, chosen, gamma))) for chosen in columns))
        for gamma in GAMMAS
    ]

    def gamma_difference(first: float, second: float, chosen: Labels) -> Sample:
        return results.paired(_gammas(results, chosen, first), _gammas(results, chosen, second))

    # the curves lie so close that only their differences can be seen
    by_gamma = {
        f"gamma = {gamma:g}": [
            (100 * share, gamma_difference(gamma, 1.0, chosen))
            for share, chosen in zip(SHARES[1:], columns[:-1], strict=True)
        ]
        for gamma in GAMMAS
        if gamma != 1
    }
    found = [
        Claim("g(0.1) = 20 - g(0.1) = 1", results.paired(_values(results, 20.0), _values(results, 1.0)), 1),
        # the paper calls the values from 3 to 50 similar
        Claim("g(0.1) = 20 - g(0.1) = 5", results.paired(_values(results, 20.0), _values(results, 5.0)), 0),
        Claim("g(0.1) = 50 - g(0.1) = 100", results.paired(_values(results, 50.0), _values(results, 100.0)), 1),
    ]
    found += [
        Claim(f"gamma 1 - gamma -1, {name}", gamma_difference(1.0, -1.0, chosen), sign)
        for name, chosen, sign in (("20 %", columns[0], 1), ("80 %", columns[2], 1), ("uneven", UNEVEN, 0))
    ]
    found.append(Claim("gamma 3 - gamma -1, 20 %", gamma_difference(3.0, -1.0, columns[0]), -1))
    found.append(Claim("gamma 3 - gamma -1, 80 %", gamma_difference(3.0, -1.0, columns[2]), 1))
    return "\n\n".join(
        (
            about(results, CLAIM, HERE),
            lines(results, "g-value", {"10 % known": by_value}, "g(0.1)", "mAP, held-out images", log=True),
            table([f"g(0.1) = {value:g}" for value in VALUES], [[str(sample) for _, sample in by_value]]),
            lines(results, "gamma", by_gamma, "known labels, %", "mAP - that of gamma = 1, points", zero=True),
            table(("gamma", *(f"{100 * share:g} %" for share in SHARES[1:]), "uneven"), rows),
            claims(results, found),
        )
    )
