"""How often each class is present among the images whose label is unknown, when the known labels are no random draw.

People tick what they see: a present label is known more often than an absent one. Then the share of present labels
among the known ones says little about the unknown ones, and so do precision and average precision, which depend on it.
What stays is the distribution of the scores of present and of absent labels, if within a class and sign chance decided
what is known (label shift; Saerens, Latinne, Decaestecker, *Neural Computation* 2002). With the calibrated probability
``p(x)`` of a known label to be present, and its mean ``p`` over the known labels of the class, the share of present
labels among the unknown ones has the likelihood

    L(pi) = product over unknown labels of  pi p(x) / p + (1 - pi) (1 - p(x)) / (1 - p)

and a label whose log-odds of being present were z among the known ones has z + delta among the unknown ones, with
``delta = logit(pi) - logit(p)``. Saerens et al. maximise L by EM for each class alone. A class with few known labels,
or whose scores tell little, then gets a share of chance. Here delta is taken as drawn from a normal distribution over
the classes, N(mu, tau^2), because the habits of those who label are alike over classes; mu and tau are found from all
classes together (empirical Bayes). ``p(x)`` is itself found from the known labels, which are fewer than the unknown
ones; so log L is scaled by ``k / (k + unknown)``, the information in a comparison of two samples of these sizes, where
k is the harmonic mean of the numbers of known present and known absent labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partlabel.metrics.calibration import sigmoid

Floats = NDArray[np.float64]

#: values of delta, mu: from a hundredth of the odds to seven times the odds
GRID = np.linspace(-5.0, 2.0, 57)
#: edges of the bins of the log-odds z
_EDGES = np.linspace(-14.0, 8.0, 221)
_CENTRES = np.append(np.insert((_EDGES[1:] + _EDGES[:-1]) / 2, 0, _EDGES[0]), _EDGES[-1])
#: before labels are looked at: mean and deviation of mu; spread of delta over classes, and the classes it counts as
MU_MEAN, MU_SPREAD, TAU, TAU_CLASSES = 0.0, 2.0, 0.5, 2.0
_ROUNDS = 100
#: classes that are looked at together
_CLASSES = 1024


@dataclass(frozen=True, eq=False)
class Shifts:
    """What is believed about delta.

    ``of_class``: (C, G) probabilities of the values of ``GRID``; ``mu``: (G,) the same for the mean over the classes;
    ``tau``: standard deviation over the classes; ``likelihood``: (C, G) scaled log L.
    """

    of_class: Floats
    mu: Floats
    tau: float
    likelihood: Floats

    @property
    def mean(self) -> Floats:
        """(C,) expected delta."""
        return self.of_class @ GRID

    def draw(self, random: np.random.Generator) -> Floats:
        """Delta (C,) drawn at random: mu first, then each class under it."""
        mu = random.choice(GRID, p=self.mu)
        weight = np.cumsum(_normalised(self.likelihood - (GRID - mu) ** 2 / (2 * self.tau**2)), axis=1)
        return GRID[(weight < random.random(len(weight))[:, None]).sum(1).clip(max=len(GRID) - 1)]


def histogram(z: Floats, weight: Floats | None = None) -> Floats:
    """Count log-odds (M,) in bins, those of :func:`likelihood`; ``weight`` (M,) counts each so many times."""
    return np.bincount(np.searchsorted(_EDGES, z), weight, len(_CENTRES)).astype(np.float64)


def likelihood(unknown: Floats, share: Floats, known: Floats) -> Floats:
    """Scaled log-likelihood (C, G) of each delta of ``GRID``, 0 at its highest.

    Args:
        unknown: (C, bins) the unknown labels of each class, counted by :func:`histogram`.
        share: (C,) mean probability of the known labels to be present, above 0 and below 1.
        known: (C,) number of known labels that ``share`` and the log-odds rest on.
    """
    share = np.clip(share, 1e-6, 1 - 1e-6)[:, None]
    p = sigmoid(_CENTRES)
    present, absent = p / share, (1 - p) / (1 - share)
    pi = sigmoid(np.log(share / (1 - share)) + GRID)
    each = (pi[:, g : g + 1] * present + (1 - pi[:, g : g + 1]) * absent for g in range(len(GRID)))
    result = np.stack([(unknown * np.log(likely)).sum(1) for likely in each], 1)
    total = unknown.sum(1)
    result *= (known / np.maximum(known + total, 1))[:, None]
    return result - result.max(1, keepdims=True)


def shifts(found: Floats, tau: float | None = None) -> Shifts:
    """Find delta of each class from its scaled log-likelihood (C, G).

    Args:
        found: see :func:`likelihood`.
        tau: standard deviation over the classes; None finds it by EM.
    """
    spread = TAU if tau is None else tau
    of_class, mu, new = _round(found, spread)
    for _ in range(_ROUNDS - 1):
        if tau is not None or abs(new - spread) < 1e-3:
            break
        spread = new
        of_class, mu, new = _round(found, spread)
    return Shifts(of_class, mu, spread, found)


def _round(found: Floats, spread: float) -> tuple[Floats, Floats, float]:
    """Give delta of each class and mu under a spread over the classes, and the spread that fits them best."""
    # under each mu (rows) the evidence of each class, and its delta
    prior = _normalised(-((GRID[None, :] - GRID[:, None]) ** 2) / (2 * spread**2))
    evidence = np.log(np.exp(found) @ prior.T + 1e-300)  # (C, mu)
    mu = _normalised((evidence.sum(0) - (GRID - MU_MEAN) ** 2 / (2 * MU_SPREAD**2))[None])[0]
    of_class, away = np.empty_like(found), 0.0
    for low in range(0, len(found), _CLASSES):
        joint = np.exp(found[low : low + _CLASSES])[:, None, :] * prior[None]  # (classes, mu, delta)
        joint /= joint.sum(2, keepdims=True)
        of_class[low : low + _CLASSES] = np.einsum("m,cmd->cd", mu, joint)
        away += np.einsum("m,cmd,md->", mu, joint, (GRID[None, :] - GRID[:, None]) ** 2)
    return of_class, mu, float(np.sqrt((away + TAU_CLASSES * TAU**2) / (len(found) + TAU_CLASSES)))


def _normalised(log: Floats) -> Floats:
    weight = np.exp(log - log.max(-1, keepdims=True))
    return weight / weight.sum(-1, keepdims=True)
