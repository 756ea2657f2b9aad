"""How likely a known label is wrong, when a model that has not seen it contradicts it.

A contradiction alone is no proof: in a class that is hard to see, right labels are contradicted all the time. So some
share epsilon of all known labels is taken to be flipped, whatever the image (Bootkrajang and Kaban, *ECML* 2012). With
the probability ``q = sigmoid(a x + b)`` of the sign that the label has, it is wrong with the probability

    epsilon (1 - q) / (epsilon (1 - q) + (1 - epsilon) q)

epsilon and the calibration of each class, in which each label counts as what it probably is, are found by EM. A share
of chance would be read into few labels, so epsilon starts from a beta distribution with a mean of 1 in 200.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from partlabel.metrics.calibration import ClassFits, fit_classes, sigmoid

#: what epsilon leans on: so many labels, of which so many are wrong; and where it starts, the likelier end counts
_LABELS, _WRONG = 20.0, 0.1
_STARTS = (0.02, 0.2)
_ROUNDS = 100


def wrong_probability(
    scores: NDArray[np.floating], classes: NDArray[np.integer], present: NDArray[np.bool_], count: int
) -> tuple[NDArray[np.float64], float]:
    """Say how likely each known label is wrong.

    Args:
        scores: (K,) of known labels, before the sigmoid, of models that have not seen them.
        classes: (K,) their classes, 0 .. count - 1.
        present: (K,) True present, False absent.
        count: C.

    Returns:
        (K,) in [0, 1], and epsilon; all 0 where the labels are of one sign.

    Raises:
        UserError: scores that cannot be calibrated, see :func:`partlabel.metrics.calibration.fit_classes`.
    """
    fits = fit_classes(scores, classes, present, count)
    if fits is None:
        return np.zeros(len(present)), 0.0
    ends = [_climb(fits, np.asarray(scores, np.float64), classes, present, start) for start in _STARTS]
    _, wrong, epsilon = max(ends, key=lambda end: end[0])
    return wrong, epsilon


def _climb(
    fits: ClassFits, x: NDArray[np.float64], classes: NDArray[np.integer], present: NDArray[np.bool_], epsilon: float
) -> tuple[float, NDArray[np.float64], float]:
    """EM from one start: log-likelihood, probabilities (K,) of being wrong, and epsilon."""
    theta, wrong, fitted = fits.theta, np.zeros(len(x)), 0.0
    twice, of, both = np.tile(x, 2), np.tile(classes, 2), np.concatenate([present, ~present])
    for _ in range(_ROUNDS):
        z = theta[classes, 0] * x + theta[classes, 1]
        own = sigmoid(np.where(present, z, -z))
        likely = epsilon * (1 - own) + (1 - epsilon) * own
        wrong, fitted = epsilon * (1 - own) / likely, float(np.log(likely).sum())
        before, epsilon = epsilon, float((wrong.sum() + _WRONG) / (len(x) + _LABELS))
        if abs(epsilon - before) < 1e-6:
            break
        theta = replace(fits, theta=theta).again(twice, of, both, np.concatenate([1 - wrong, wrong]))
    return fitted, wrong, epsilon
