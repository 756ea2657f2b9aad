"""What the unknown labels probably are: the probabilities by which they count where a decision is to suit all labels.

The account is that of :mod:`partlabel.metrics.headline`: a label is known by its class and sign, so the log-odds of an
unknown one are shifted (:mod:`partlabel.metrics.prevalence`); halfway between odds that go on rising and absent images
that look present (:mod:`partlabel.metrics.look_alikes`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partlabel.metrics.by_class import ByClass
from partlabel.metrics.calibration import parts, sigmoid
from partlabel.metrics.look_alikes import fit_look_alikes, log_odds
from partlabel.metrics.prevalence import Shifts, histogram, likelihood, shifts

Floats = NDArray[np.float64]

#: known labels of either sign below which nothing is said of a class
MIN_KNOWN = 5
#: classes whose histograms are held together
_CLASSES = 256


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
    return _shifts(counts, likely, present, known, tau)


def _shifts(counts: Floats, likely: Floats, present: Floats, known: Floats, tau: float | None = None) -> Shifts:
    """Shifts from histograms (C, bins) of unknown labels and, of known ones, sums (C,): probability, present, all."""
    return shifts(_likelihood(counts, likely, present, known), tau)


def _likelihood(counts: Floats, likely: Floats, present: Floats, known: Floats) -> Floats:
    """The likelihood of each shift (C, G) of the same."""
    some = np.maximum(known, 1e-9)
    return likelihood(counts, likely / some, 2 * present * (known - present) / some)


@dataclass(frozen=True, eq=False)
class Expected:
    """How likely the labels of each class are present, by its score; made by :meth:`of`.

    ``place``: (C,) which of the M classes that something is said of; -1 for the others. ``accounts``: the two accounts
    that are averaged, each of them slope and offset (M, 2), eta (M,) and the shift of the log-odds (M,).
    """

    place: NDArray[np.int32]
    accounts: tuple[tuple[Floats, Floats, Floats], ...]

    @classmethod
    def of(cls, on: ByClass) -> Expected:
        """Learn from known labels, and from how the scores of the unknown ones lie: a histogram for each class.

        Args:
            on: scores of models that have not seen the known label of the pair; finite.
        """
        enough = np.minimum(*on.counts()) >= MIN_KNOWN
        count = int(np.count_nonzero(enough))
        place = np.where(enough, np.cumsum(enough) - 1, -1).astype(np.int32)
        if not count:
            return cls(place, ())
        own = enough[on.cls]
        x, column, present = on.score[own], place[on.cls[own]], on.label[own] > 0
        del own
        fits = fit_look_alikes(x, column, present, count)
        assert fits is not None  # every class here has labels of both signs
        each = [fits.again(None, share) for share in (fits.share, 0.0)]
        known, positive = (np.bincount(own, minlength=count).astype(np.float64) for own in (column, column[present]))
        sums = np.zeros((len(each), count))
        for some in parts(len(x)):
            for total, (theta, eta) in zip(sums, each, strict=True):
                z = log_odds(x[some].astype(np.float64), theta[column[some]].T, eta[column[some]])
                np.add.at(total, column[some], sigmoid(z))
        del x, column, present, fits
        found: list[list[Floats]] = [[] for _ in each]
        for chosen, counts in _histograms(on, place, each):
            for held, histograms, total in zip(found, counts, sums, strict=True):
                held.append(_likelihood(histograms, total[chosen], positive[chosen], known[chosen]))
        means = [shifts(np.concatenate(held)).mean for held in found]
        return cls(place, tuple((theta, eta, mean) for (theta, eta), mean in zip(each, means, strict=True)))

    def likely(self, number: int, scores: NDArray[np.floating], labels: NDArray[np.int8]) -> Floats | None:
        """Probabilities (N,) of a class: 1 and 0 where the label is known; None where nothing is said of the class."""
        at = self.place[number]
        if at < 0:
            return None
        x = scores.astype(np.float64)
        each = [sigmoid(log_odds(x, theta[at], eta[at]) + shift[at]) for theta, eta, shift in self.accounts]
        return np.where(labels == 0, np.mean(each, axis=0), labels > 0)


def _histograms(
    on: ByClass, place: NDArray[np.int32], each: list[tuple[Floats, Floats]]
) -> Iterator[tuple[slice, list[Floats]]]:
    """Count the unknown labels of some classes at a time.

    Args:
        on: scores and labels.
        place: which classes count, as in :class:`Expected`.
        each: slope and offset (M, 2), and eta (M,), of each account.

    Returns:
        Which of the M classes, and for each account histograms (classes, bins) of the log-odds.
    """
    waiting: list[list[Floats]] = [[] for _ in each]
    done, count = 0, len(each[0][0])
    for c, scores, labels in on.classes():
        at = int(place[c])
        if at < 0:
            continue
        unknown = scores[labels == 0].astype(np.float64)
        for held, (theta, eta) in zip(waiting, each, strict=True):
            held.append(histogram(log_odds(unknown, theta[at], eta[at])))
        if at + 1 - done == _CLASSES or at + 1 == count:
            yield slice(done, at + 1), [np.stack(held) for held in waiting]
            waiting, done = [[] for _ in each], at + 1


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
    on = ByClass.of(scores, labels)
    found = Expected.of(on)
    for c, own, known in on.classes():
        likely = found.likely(c, own, known)
        if likely is not None:
            result[:, c] = likely
    return result
