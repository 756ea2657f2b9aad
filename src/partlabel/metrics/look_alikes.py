"""Calibration that allows for absent images that look like present ones, for where it has to be carried further.

``sigmoid(a x + b)`` says that the log-odds rise with the score for ever. Among few known labels, of which many are
present, nothing speaks against it. But where a present label is rare, as among the unknown ones of people who tick what
they see, the highest scores decide about precision, and there the odds stop rising: some images without a cat look just
like one. So a share epsilon of the absent images of every class is taken to have scores like those of present ones. Let
``r(x) = sigmoid(a x + b)`` be the probability to look present; then a known label is present with the probability

    p(x) = r(x) (1 - eta),    eta = epsilon n0 / (n1 + epsilon n0)

with n1 known present and n0 known absent labels of the class: eta is the share of the absent among those that look
present. a and b, by the distribution over the classes of :mod:`partlabel.metrics.calibration`, and epsilon, which all
classes share, are found by EM: an absent image looks present with the probability ``r eta / (1 - r (1 - eta))``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from partlabel.metrics.calibration import ClassFits, fit_classes, parts, sigmoid

Floats = NDArray[np.float64]

#: before labels are looked at: so many absent ones, of which so many look present; and where epsilon starts
_ABSENT, _ALIKE, _START = 50.0, 0.5, 0.02
_ROUNDS, _AGAIN = 60, 3


@dataclass(frozen=True, eq=False)
class LookAlikes:
    """What :func:`fit_look_alikes` found on K known labels of C classes.

    ``fits``: slopes and offsets of looking present; ``share``: epsilon; ``alike``: expected number of absent labels
    that look present, of ``absent``; the rest are the labels: ``x`` (K,) scores, ``classes`` (K,), ``present`` (K,).
    """

    fits: ClassFits
    share: float
    alike: float
    absent: int
    x: NDArray[np.floating]
    classes: NDArray[np.integer]
    present: NDArray[np.bool_]

    def draw(self, random: np.random.Generator) -> float:
        """An epsilon from what is believed about it."""
        return float(random.beta(self.alike + _ALIKE, self.absent - self.alike + _ABSENT - _ALIKE))

    def again(self, weight: NDArray[np.floating] | None, share: float) -> tuple[Floats, Floats]:
        """Slopes and offsets (C, 2) and eta (C,) of the same labels counted ``weight`` (K,) times, for an epsilon.

        None counts each once.
        """
        fits = self.fits
        for _ in range(_AGAIN):
            eta = self._eta(weight, share)
            fits = replace(fits, theta=self._step(fits, weight, eta)[0])
        return fits.theta, self._eta(weight, share)

    def _eta(self, weight: NDArray[np.floating] | None, share: float) -> Floats:
        count = len(self.fits.theta)
        present, absent = np.zeros((2, count))
        for some in parts(len(self.x)):
            once, said = 1.0 if weight is None else weight[some], self.present[some]
            np.add.at(present, self.classes[some], once * said)
            np.add.at(absent, self.classes[some], once * ~said)
        alike = share * absent
        return alike / np.maximum(present + alike, 1e-12)

    def _step(self, fits: ClassFits, weight: NDArray[np.floating] | None, eta: Floats) -> tuple[Floats, Floats]:
        """One round of EM: slopes and offsets, and for each label (K,) how likely it looks present."""
        theta, looks = fits.theta, np.empty(len(self.x))
        for some in parts(len(self.x)):
            cls = self.classes[some]
            own, r = eta[cls], sigmoid(theta[cls, 0] * self.x[some].astype(np.float64) + theta[cls, 1])
            looks[some] = np.where(self.present[some], 1.0, r * own / np.maximum(1 - r * (1 - own), 1e-12))
        return fits.again(self.x, self.classes, looks, weight), looks


def log_odds(scores: NDArray[np.floating], theta: Floats, eta: Floats | float) -> Floats:
    """Log-odds of being present at scores, for slope and offset ``theta`` (2, ...) and ``eta``, all of one shape."""
    p = sigmoid(scores * theta[0] + theta[1]) * (1 - eta)
    return np.log(np.maximum(p, 1e-300)) - np.log1p(-np.minimum(p, 1 - 1e-15))


def fit_look_alikes(
    scores: NDArray[np.floating], classes: NDArray[np.integer], present: NDArray[np.bool_], count: int
) -> LookAlikes | None:
    """Fit on known labels that the model was not trained on.

    Args:
        scores: (K,) finite scores of known labels.
        classes: (K,) their classes, 0 .. count - 1.
        present: (K,) True present, False absent.
        count: C.

    Returns:
        None where all labels are of one sign.

    Raises:
        UserError: see :func:`partlabel.metrics.calibration.fit_classes`.
    """
    fits = fit_classes(scores, classes, present, count)
    if fits is None:
        return None
    absent = int((~present).sum())
    found = LookAlikes(fits, _START, 0.0, absent, np.asarray(scores), classes, present)
    for _ in range(_ROUNDS):
        theta, looks = found._step(found.fits, None, found._eta(None, found.share))
        alike = sum(float(looks[some][~present[some]].sum()) for some in parts(len(looks)))
        share = (alike + _ALIKE) / (absent + _ABSENT)
        done = abs(share - found.share) < 1e-5
        found = replace(found, fits=replace(fits, theta=theta), share=share, alike=alike)
        if done:
            break
    return found
