"""What the unknown labels probably are: the probabilities by which they count where a decision is to suit all labels.

The account is that of :mod:`partlabel.metrics.headline`: a label is known by its class and sign, so the log-odds of an
unknown one are shifted (:mod:`partlabel.metrics.prevalence`); halfway between odds that go on rising and absent images
that look present (:mod:`partlabel.metrics.look_alikes`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partlabel.metrics.calibration import sigmoid
from partlabel.metrics.look_alikes import fit_look_alikes, log_odds
from partlabel.metrics.prevalence import Shifts, histogram, likelihood, shifts

Floats = NDArray[np.float64]

#: known labels of either sign below which nothing is said of a class
MIN_KNOWN = 5


def believed(z: Floats, labels: NDArray[np.int8], weight: Floats, tau: float | None = None) -> Shifts:
    """What is believed about the shift of each class.

    Args:
        z: (N, C) log-odds of a known label with the score to be present.
        labels: (N, C) in {+1 present, -1 absent, 0 unknown}.
        weight: (N,) how often each image counts.
        tau: see :func:`partlabel.metrics.prevalence.shifts`.
    """
    known = weight @ (labels != 0)
    present = weight @ (labels > 0)
    likely = np.einsum("n,nc,nc->c", weight, sigmoid(z), labels != 0)
    unknown = labels == 0
    counts = np.stack([histogram(z[unknown[:, c], c], weight[unknown[:, c]]) for c in range(labels.shape[1])])
    some = np.maximum(known, 1e-9)
    return shifts(likelihood(counts, likely / some, 2 * present * (known - present) / some), tau)


def expected_labels(scores: NDArray[np.floating], labels: NDArray[np.int8]) -> Floats:
    """How likely each label is present.

    Args:
        scores: (N, C), of models that have not seen the known label of the pair; finite.
        labels: (N, C) in {+1 present, -1 absent, 0 unknown}.

    Returns:
        (N, C): 1 and 0 where it is known, else a probability; NaN in a class with fewer than ``MIN_KNOWN`` known labels
        of a sign.
    """
    result = np.full(labels.shape, np.nan)
    columns = np.flatnonzero(np.minimum((labels > 0).sum(0), (labels < 0).sum(0)) >= MIN_KNOWN)
    if not len(columns):
        return result
    x, own = scores[:, columns].astype(np.float64), labels[:, columns]
    image, cls = np.nonzero(own)
    fits = fit_look_alikes(x[image, cls], cls, own[image, cls] > 0, len(columns))
    assert fits is not None  # every class here has labels of both signs
    likely = []
    for share in (fits.share, 0.0):
        theta, eta = fits.again(np.ones(len(image)), share)
        z = log_odds(x, theta.T, eta)
        likely.append(sigmoid(z + believed(z, own, np.ones(len(x))).mean))
    result[:, columns] = np.where(own == 0, np.mean(likely, axis=0), own > 0)
    return result
