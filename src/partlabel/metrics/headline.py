"""The numbers at the top: what the metrics of all labels would be, where only some labels are known.

Precision, average precision and F1 depend on how often a class is present, and known labels are seldom a random draw.
So the unknown labels take part: each counts as present with a probability, and the metrics are those of all images with
the unknown labels drawn from these probabilities (multiple imputation; Rubin 1987). Known labels stay what they are.

Which probability an unknown label has cannot be known from the known ones alone. Two accounts are possible: whether a
label is known depends on its score only, then it has the calibrated probability of a known label with the same score;
or it depends on its class and sign only, then that probability is shifted (:mod:`partlabel.metrics.prevalence`). Nor
can be known from few absent labels whether, at the highest scores, the odds go on rising or some absent images look
just like present ones (:mod:`partlabel.metrics.look_alikes`); where the shift is large, these scores decide.

The value is that of the second account, which holds where people tick what they see, halfway between rising odds and
look-alikes. The interval holds both accounts and half the shift, with look-alikes and each with 1.96 standard
deviations over resamples, and what the known labels alone say, which is right where they are a random draw, and nearer
than both accounts where something chose them that knows more than the scores. A resample draws the images anew (Efron
1979), fits calibration and shift to them, draws the share of look-alikes and a shift from what is believed of them, and
draws the unknown labels.

The area under the ROC curve does not depend on how often a class is present; its value is that of the known labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partlabel.core.text import plural, some
from partlabel.metrics import evaluate
from partlabel.metrics.bootstrap import draw
from partlabel.metrics.calibration import sigmoid
from partlabel.metrics.expected import MIN_KNOWN, believed
from partlabel.metrics.look_alikes import LookAlikes, fit_look_alikes, log_odds
from partlabel.metrics.prevalence import Shifts
from partlabel.metrics.result import Metrics
from partlabel.metrics.risk_control import compare

Floats = NDArray[np.float64]

#: metrics of each class that are imputed, in the order of the last axis of their arrays
PER_CLASS = ("average_precision", "roc_auc", "precision", "recall", "f1", "prevalence")
#: their means over the classes, as named in ``Metrics``
MEANS = ("mean_ap", "mean_roc_auc", "pc_precision", "pc_recall", "macro_f1", "prevalence")
#: known labels of either sign, over all measured classes, below which there are no means
MIN_IN_ALL = 20
RESAMPLES = 100
#: classes named in a line
SHOWN = 5
_Z = 1.959963984540054
#: draws of the unknown labels for the value
_DRAWS = 40
#: pairs of image and class that are imputed; where there are more, some images are drawn
_PAIRS = 2_000_000


@dataclass(frozen=True)
class Estimate:
    """A share in [0, 1] with its 95 % interval; NaN where nothing can be said."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Headline:
    """What all labels would say, as far as that can be known.

    Attributes:
        class_names: C names.
        measured: (C,) bool, classes with at least ``MIN_KNOWN`` known labels of either sign, and with scores.
        present, absent: (C,) int64 known labels.
        means: by the names ``MEANS``, over the measured classes; undefined on fewer than ``MIN_IN_ALL`` known labels of
            either sign.
        classes: (C, 6, 3) by the names ``PER_CLASS``: value, low, high; NaN for a class that is not measured.
        shift: (C,) by how much the log-odds of an unknown label lie above those of a known one with the same score.
        distance: (C,) largest distance of the distributions of the scores of known and of unknown labels.
        by_chance: (C,) bool, False where these distributions differ, so that it was not chance that decided which
            labels are known; True where no difference was found, which is no proof.
        known: metrics of the known labels alone.
        images: N, on which all of this is estimated.
    """

    class_names: tuple[str, ...]
    measured: NDArray[np.bool_]
    present: NDArray[np.int64]
    absent: NDArray[np.int64]
    means: dict[str, Estimate]
    classes: Floats
    shift: Floats
    distance: Floats
    by_chance: NDArray[np.bool_]
    known: Metrics
    images: int

    def to_dict(self) -> dict[str, Any]:
        """Everything as values that JSON can hold, None where undefined."""
        names = self.class_names
        rows = []
        for c, name in enumerate(names):
            numbers = {key: _numbers(*self.classes[c, i]) for i, key in enumerate(PER_CLASS)}
            rows.append(
                {
                    "class": name,
                    "measured": bool(self.measured[c]),
                    "known_present": int(self.present[c]),
                    "known_absent": int(self.absent[c]),
                    **numbers,
                    "shift": _number(self.shift[c]),
                    "distance": _number(self.distance[c]),
                    "by_chance": bool(self.by_chance[c]),
                }
            )
        return {
            "metrics": {name: _numbers(each.value, each.low, each.high) for name, each in self.means.items()},
            "classes_measured": int(self.measured.sum()),
            "classes_in_all": len(names),
            "images": self.images,
            "not_measured": [names[c] for c in np.flatnonzero(~self.measured)],
            "not_by_chance": [names[c] for c in np.flatnonzero(~self.by_chance)],
            "known_labels_alone": {"mean_ap": _number(self.known.mean_ap), "macro_f1": _number(self.known.macro_f1)},
            "classes": rows,
        }


def headline(
    scores: NDArray[np.floating],
    labels: NDArray[np.int8],
    class_names: Sequence[str],
    thresholds: NDArray[np.floating] | float = 0.0,
    *,
    units: NDArray[np.int64] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Headline:
    """Estimate the metrics that all labels would give.

    Args:
        scores: (N, C), of models that have not seen the known label of the pair; NaN in a class without such scores.
            Images without a known label take part and should be there.
        labels: (N, C) in {+1 present, -1 absent, 0 unknown}.
        class_names: C names.
        thresholds: one number or (C,); present where score >= threshold.
        units: (N,) numbers of what a resample draws as a whole; by default single images.
        resamples: how often the images are drawn anew.
        seed: of all draws.
    """
    labels = np.asarray(labels)
    present, absent = (labels > 0).sum(0), (labels < 0).sum(0)
    measured = (np.minimum(present, absent) >= MIN_KNOWN) & np.isfinite(scores).all(0)
    columns = np.flatnonzero(measured)
    limits = np.broadcast_to(np.asarray(thresholds, np.float64), labels.shape[1])
    seen = np.where(np.isfinite(scores).all(0), labels, 0).astype(np.int8)
    known = evaluate(np.nan_to_num(scores), seen, limits, class_names)
    distance, by_chance = _by_chance(scores, seen)
    values = np.full((labels.shape[1], len(PER_CLASS), 3), np.nan)
    shift = np.full(labels.shape[1], np.nan)
    means = {name: Estimate(np.nan, np.nan, np.nan) for name in MEANS}
    if len(columns):
        units = np.arange(len(labels)) if units is None else units
        imputed = _Imputed(scores[:, columns], labels[:, columns], limits[columns], units, resamples, seed)
        prevalence = present[columns] / (present + absent)[columns]
        alone = np.stack([*(getattr(known, name)[columns] for name in PER_CLASS[:-1]), prevalence], 1)
        if min(present[columns].sum(), absent[columns].sum()) >= MIN_IN_ALL:
            means = {name: imputed.mean(i, alone) for i, name in enumerate(MEANS)}
        for i in range(len(PER_CLASS)):
            values[columns, i] = imputed.of_class(i, alone)
        shift[columns] = imputed.shifts.mean
    names = tuple(class_names)
    return Headline(names, measured, present, absent, means, values, shift, distance, by_chance, known, len(labels))


class _Imputed:
    """Metrics of C classes on N images, with the unknown labels drawn under each account of why they are unknown."""

    def __init__(
        self,
        scores: NDArray[np.floating],
        labels: NDArray[np.int8],
        limits: Floats,
        units: NDArray[np.int64],
        resamples: int,
        seed: int,
    ) -> None:
        self.random = np.random.default_rng(seed)
        self.scores, self.labels = scores.astype(np.float64), labels
        self.image, self.cls = np.nonzero(labels)
        self.known_present = labels[self.image, self.cls] > 0
        x = self.scores[self.image, self.cls]
        fits = fit_look_alikes(x, self.cls, self.known_present, labels.shape[1])
        assert fits is not None  # every class here has labels of both signs
        theta, eta = fits.again(None, fits.share)
        rising, none = fits.again(None, 0.0)
        self.shifts = self._shifts(theta, eta, np.ones(len(labels)))
        shift_rising = self._shifts(rising, none, np.ones(len(labels))).mean
        weights = np.concatenate(list(draw(units, resamples, seed, resamples)), 1)
        thetas, etas, drawn = self._resampled(fits, weights)
        rows = self._rows(len(labels), labels.shape[1])
        weights = weights[rows]
        once = np.ones((len(rows), _DRAWS))
        # (classes, metrics), (classes, accounts, metrics) and (classes, accounts, metrics, resamples)
        without, values, resampled = [], [], []
        for c in range(labels.shape[1]):
            measure = _measure(self.scores[rows, c], limits[c])
            of_class = labels[rows, c]
            present = self._drawn(rows, c, of_class, rising[c][:, None], none[c], np.full(_DRAWS, shift_rising[c]))
            without.append(_mean(measure(present, once).T))
            for account in _ACCOUNTS:
                shift = np.full(_DRAWS, account(self.shifts.mean[c]))
                present = self._drawn(rows, c, of_class, theta[c][:, None], eta[c], shift)
                values.append(_mean(measure(present, once).T))
                present = self._drawn(rows, c, of_class, thetas[c], etas[c], account(drawn[c]))
                resampled.append(measure(present, weights))
        shape = (labels.shape[1], len(_ACCOUNTS), len(PER_CLASS))
        self.without, self.values = np.array(without), np.array(values).reshape(shape)
        self.resampled = np.array(resampled).reshape(*shape, resamples)

    def _rows(self, images: int, classes: int) -> NDArray[np.int64]:
        """The images that are imputed: all, or a random part of very many."""
        most = max(_PAIRS // classes, 1000)
        return np.arange(images) if images <= most else np.sort(self.random.permutation(images)[:most])

    def _shifts(self, theta: Floats, eta: Floats, weight: Floats, tau: float | None = None) -> Shifts:
        """What is believed about the shift, with each image counted ``weight`` (N,) times."""
        return believed(log_odds(self.scores, theta.T, eta), self.labels, weight, tau)

    def _resampled(self, fits: LookAlikes, weights: Floats) -> tuple[Floats, Floats, Floats]:
        """Slope and offset (C, 2, B), eta (C, B) and a drawn shift (C, B) of each resample, of weights (N, B)."""
        thetas, etas, drawn = [], [], []
        for weight in weights.T:
            theta, eta = fits.again(weight[self.image], fits.draw(self.random))
            thetas.append(theta)
            etas.append(eta)
            drawn.append(self._shifts(theta, eta, weight, self.shifts.tau).draw(self.random))
        return np.stack(thetas, 2), np.stack(etas, 1), np.stack(drawn, 1)

    def _drawn(
        self,
        rows: NDArray[np.int64],
        c: int,
        labels: NDArray[np.int8],
        theta: Floats,
        eta: Floats,
        shift: Floats,
    ) -> NDArray[np.bool_]:
        """Labels (rows, B) of a class: known ones as they are, unknown ones drawn; theta (2, 1 or B), shift (B,)."""
        result = np.repeat((labels > 0)[:, None], len(shift), 1)
        unknown = np.flatnonzero(labels == 0)
        likely = sigmoid(log_odds(self.scores[rows[unknown], c][:, None], theta, eta) + shift)
        result[unknown] = self.random.random(likely.shape) < likely
        return result

    def mean(self, metric: int, alone: Floats) -> Estimate:
        """The mean over the classes of a metric, see ``PER_CLASS``; ``alone``: (C, 6) of the known labels alone."""
        means = (_mean(found) for found in (self.without, self.values, self.resampled, alone))
        return Estimate(*self._around(metric, *means))

    def of_class(self, metric: int, alone: Floats) -> Floats:
        """(C, 3) the metric of each class: value, low, high."""
        rows = zip(self.without, self.values, self.resampled, alone, strict=True)
        return np.array([self._around(metric, *own) for own in rows])

    def _around(
        self, metric: int, without: Floats, values: Floats, drawn: Floats, alone: Floats
    ) -> tuple[float, float, float]:
        """Value, low and high from (metrics,), (accounts, metrics), (accounts, metrics, resamples) and (metrics,)."""
        each, spread, known = values[:, metric], _spread(drawn[:, metric]), float(alone[metric])
        value, least = float(each[_SHIFTED] + without[metric]) / 2, 0.0
        if PER_CLASS[metric] == "roc_auc":
            value, least = known, float(spread[0])  # the known labels give the value, so they have a deviation too
        if np.isnan(value):
            return np.nan, np.nan, np.nan
        each, spread = np.append(each, [known, value]), np.append(spread, [least, 0.0])
        low, high = float(np.nanmin(each - _Z * spread)), float(np.nanmax(each + _Z * spread))
        return value, max(0.0, low), min(1.0, high)


_ACCOUNTS: tuple[Callable[[Any], Any], ...] = (
    lambda shift: shift,  # known by class and sign
    lambda shift: 0.5 * shift,
    lambda shift: 0.0 * shift,  # known by score
)
_SHIFTED = 0


def _measure(scores: Floats, limit: float) -> Callable[[NDArray[np.bool_], Floats], Floats]:
    """Metrics (6, B) of one class, by the names ``PER_CLASS``, of labels and weights (N, B); NaN undefined."""
    x = scores.astype(np.float32)
    order = np.argsort(-x, kind="stable")
    x = x[order]
    last = np.flatnonzero(np.append(x[1:] != x[:-1], True))
    first = np.append(0, last[:-1] + 1)
    group = np.searchsorted(last, np.arange(len(x)))
    end, begin = last[group], first[group]
    said = int(np.searchsorted(-x, -np.float32(limit), side="right"))

    def measure(present: NDArray[np.bool_], weight: Floats) -> Floats:
        w = weight[order]
        hits = w * present[order]
        right, every = np.cumsum(hits, 0), np.cumsum(w, 0)
        wrong = every - right
        total, absent = right[-1], wrong[-1]
        before = np.where(begin[:, None] > 0, wrong[begin - 1], 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            area = (hits * np.nan_to_num(right[end] / every[end])).sum(0) / total
            roc = (hits * (absent - (wrong[end] + before) / 2)).sum(0) / (total * absent)
            found = right[said - 1] if said else np.zeros_like(total)
            called = every[said - 1] if said else np.zeros_like(total)
            ratios = found / called, found / total, 2 * found / (called + total)
            result = np.stack([area, roc, *ratios, total / every[-1]])
        result[:, (total == 0) | (absent == 0)] = np.nan
        return result

    return measure


def say(found: dict[str, Any]) -> str:
    """The headline in two or three lines for people, from ``Headline.to_dict``."""
    means, over = found["metrics"], f"{found['classes_measured']} of {found['classes_in_all']} classes"
    ap, roc, precision = (_range(means[name]) for name in ("mean_ap", "mean_roc_auc", "pc_precision"))
    if ap is None:
        return (
            f"no number can be given: {over} have {MIN_KNOWN} known labels of either sign, and all together need "
            f"{MIN_IN_ALL}"
        )
    lines = [f"on all labels, as far as the known ones tell: ROC-AUC {roc}, mAP {ap}, over {over}"]
    if precision is not None:
        lines[0] += f"; mean precision {precision}"
    alone = found["known_labels_alone"]["mean_ap"]
    odd = found["not_by_chance"]
    if odd:
        classes = f"{plural(len(odd), 'class')} ({some(odd, SHOWN)})"
        lines.append(
            f"it was not chance that decided which labels are known in {classes}; the known labels alone would say mAP "
            f"{100 * alone:.1f}"
        )
    if found["not_measured"]:
        lines.append(f"not measured, with too few known labels of either sign: {some(found['not_measured'], SHOWN)}")
    return "\n".join(lines)


def _range(numbers: dict[str, float | None]) -> str | None:
    value, low, high = (numbers[name] for name in ("value", "low", "high"))
    if value is None or low is None or high is None:
        return None
    return f"{100 * value:.1f} ({100 * low:.1f} to {100 * high:.1f})"


def _by_chance(scores: NDArray[np.floating], labels: NDArray[np.int8]) -> tuple[Floats, NDArray[np.bool_]]:
    """Compare the scores of known and unknown labels of each class: distance, and whether they are alike."""
    count = labels.shape[1]
    distance, alike = np.full(count, np.nan), np.ones(count, bool)
    usable = [c for c in range(count) if (labels[:, c] != 0).any() and (labels[:, c] == 0).any()]
    for c in usable:
        known = labels[:, c] != 0
        found = compare(scores[known, c].astype(np.float32), scores[~known, c].astype(np.float32), len(usable))
        distance[c], alike[c] = found[0], found[2]
    return distance, alike


def _mean(values: Floats) -> Floats:
    """Mean over the first axis of what is defined; NaN without."""
    defined = ~np.isnan(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(defined, values, 0).sum(0) / defined.sum(0)


def _spread(values: Floats) -> Floats:
    """Standard deviation over the last axis of what is defined; 0 where fewer than two values are."""
    away = values - _mean(values.T)[:, None]
    return np.sqrt(np.nan_to_num(_mean(away.T**2)))


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _numbers(value: float, low: float, high: float) -> dict[str, float | None]:
    return {"value": _number(value), "low": _number(low), "high": _number(high)}
