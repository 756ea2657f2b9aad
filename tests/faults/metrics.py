"""Faults of metrics, thresholds, calibration and promises."""

from __future__ import annotations

from tests.faults.fault import Fault

EVALUATE = "metrics/test_evaluate.py metrics/test_ranking.py"
ACCUMULATOR = "metrics/test_accumulator.py"
RISK = "metrics/test_risk_control.py"
CALIBRATION = "metrics/test_calibration.py"

FAULTS = [
    Fault(
        "metrics/accumulator.py",
        "labels are turned round in the keys",
        "return keys | (labels > 0).astype(np.uint64)",
        "return keys | (labels < 0).astype(np.uint64)",
        EVALUATE,
    ),
    Fault(
        "metrics/pairs.py",
        "precision counts one pair less",
        "precision = found / (positive[last] + 1 - start[column])",
        "precision = found / np.maximum(positive[last] - start[column], 1)",
        EVALUATE,
    ),
    Fault(
        "metrics/pairs.py",
        "-0.0 and 0.0 differ",
        "bits = (values + np.float32(0)).view(np.int32)",
        "bits = values.copy().view(np.int32)",
        EVALUATE,
    ),
    Fault(
        "metrics/accumulator.py",
        "a score at the threshold is absent",
        "<< np.uint64(1) | np.uint64(1)\n",
        "<< np.uint64(1)\n",
        EVALUATE,
    ),
    Fault(
        "metrics/accumulator.py",
        "images without labels are exact",
        "exact_known=int(np.count_nonzero(exact & (counts > 0))),",
        "exact_known=int(np.count_nonzero(exact)),",
        EVALUATE,
    ),
    Fault("metrics/accumulator.py", "repeated images count twice", "if not self._numbered:", "if True:", ACCUMULATOR),
    Fault(
        "metrics/values.py",
        "recall over predicted",
        "return self._ratio(self.true_positive, self.present)",
        "return self._ratio(self.true_positive, self.true_positive + self.false_positive)",
        EVALUATE,
    ),
    Fault(
        "metrics/values.py",
        "macro-F1 counts undefined classes as 0",
        "defined = values[~np.isnan(values)]\n",
        "defined = np.nan_to_num(values)\n",
        EVALUATE,
    ),
    Fault(
        "metrics/values.py",
        "micro-F1 without the misses",
        "return self._overall(2 * right, predicted + present)",
        "return self._overall(2 * right, 2 * predicted)",
        EVALUATE,
    ),
    Fault(
        "metrics/bootstrap.py",
        "ties are not put together",
        "ends = np.append((cls[1:] != cls[:-1]) | (x[1:] != x[:-1]), True)[: len(x)]",
        "ends = np.ones(len(x), bool)",
        "metrics/test_bootstrap.py",
    ),
    Fault(
        "metrics/calibration.py",
        "classes do not lean on each other",
        "mean = theta[labelled].mean(0)",
        "mean = START",
        CALIBRATION,
    ),
    Fault(
        "metrics/calibration.py",
        "a slope may fall below its least",
        "low = theta[:, 0] < MIN_SLOPE",
        "low = np.zeros(len(theta), bool)",
        CALIBRATION,
    ),
    Fault(
        "metrics/calibration.py",
        "1 falls out of the last bin",
        "np.minimum((p * bins).astype(np.intp), bins - 1)",
        "(p * bins).astype(np.intp) % bins",
        CALIBRATION,
    ),
    Fault("metrics/risk_control.py", "binomial alone", "np.maximum(binomial, realised)", "binomial", RISK),
    Fault(
        "metrics/risk_control.py",
        "the level is not shared out",
        "level = error / (number + (number < len(expected)))",
        "level = error",
        RISK,
    ),
    Fault(
        "metrics/risk_control.py",
        "a failure does not end the sequence",
        "carried = now if passed else 0.0",
        "carried = now",
        RISK,
    ),
    Fault(
        "metrics/risk_control.py",
        "the bound is two-sided",
        "stats.beta.ppf(level, right, tested - right + 1)",
        "stats.beta.ppf(level / 2, right, tested - right + 1)",
        RISK,
    ),
    Fault(
        "metrics/thresholds.py",
        "recall just missed is enough",
        "at = int(np.argmax(found.hits / found.total >= wanted))",
        "at = max(int(np.argmax(found.hits / found.total >= wanted)) - 1, 0)",
        "training/test_thresholds.py",
    ),
    Fault(
        "metrics/prevalence.py",
        "present and absent change places",
        "present, absent = p / share, (1 - p) / (1 - share)",
        "absent, present = p / share, (1 - p) / (1 - share)",
        "metrics/test_prevalence.py",
    ),
    Fault(
        "metrics/prevalence.py",
        "classes are as far apart as they were taken for",
        "return of_class, mu, float(np.sqrt((away + TAU_CLASSES * TAU**2) / (len(found) + TAU_CLASSES)))",
        "return of_class, mu, TAU",
        "metrics/test_prevalence.py",
    ),
]
