"""The metrics of the appendix as naive loops over single labels, in the paper's notation.

The appendix prints ``1[y = yhat]`` where it counts correct presents; read literally that counts true negatives too.
Here as everywhere N_c^correct is the number of true positives. Only pairs with y != 0 count. NaN stands for undefined.
"""

from __future__ import annotations

import numpy as np

NAN = float("nan")


def average_precision(x: np.ndarray, y: np.ndarray) -> float:
    """Area under the full curve of one class: sum over distinct scores of (R_n - R_(n-1)) P_n."""
    known = [(float(x[i]), int(y[i])) for i in range(len(x)) if y[i] != 0]
    n_gt = sum(1 for _, label in known if label == 1)
    if n_gt == 0 or n_gt == len(known):
        return NAN
    area, previous_recall = 0.0, 0.0
    for threshold in sorted({score for score, _ in known}, reverse=True):
        at_or_above = [label for score, label in known if score >= threshold]
        correct = at_or_above.count(1)
        area += (correct / n_gt - previous_recall) * correct / len(at_or_above)
        previous_recall = correct / n_gt
    return area


def average_precision_11_point(x: np.ndarray, y: np.ndarray) -> float:
    """VOC form of one class: mean over t = 0, 0.1, ..., 1 of the highest precision at recall >= t."""
    known = [(float(x[i]), int(y[i])) for i in range(len(x)) if y[i] != 0]
    n_gt = sum(1 for _, label in known if label == 1)
    if n_gt == 0 or n_gt == len(known):
        return NAN
    total = 0.0
    for tenth in range(11):
        best = 0.0
        for threshold in {score for score, _ in known}:
            at_or_above = [label for score, label in known if score >= threshold]
            correct = at_or_above.count(1)
            if 10 * correct >= tenth * n_gt:
                best = max(best, correct / len(at_or_above))
        total += best
    return total / 11


def roc_auc(x: np.ndarray, y: np.ndarray) -> float:
    """Share of the pairs of a present and an absent label of one class in which the present one scores higher."""
    higher = [
        1.0 if x[i] > x[k] else 0.5 if x[i] == x[k] else 0.0
        for i in range(len(x))
        for k in range(len(x))
        if y[i] == 1 and y[k] == -1
    ]
    return sum(higher) / len(higher) if higher else NAN


def ratio(numerator: int, denominator: int) -> float:
    return numerator / denominator if denominator else NAN


def mean(values: list[float]) -> float:
    defined = [value for value in values if value == value]
    return sum(defined) / len(defined) if defined else NAN


def all_metrics(x: np.ndarray, y: np.ndarray, thresholds: np.ndarray) -> dict[str, float]:
    """The ten numbers by their names in ``Metrics``; yhat = +1 where x >= threshold, otherwise -1.

    A class with known presents and without a known absent has no average precision, precision and F1, and is left out
    of OV-P and micro-F1: nothing can be wrong in it.
    """
    n, c = y.shape
    correct, predict, gt, absent = [0] * c, [0] * c, [0] * c, [0] * c
    rows_known, rows_known_exact, rows_full, rows_full_exact = 0, 0, 0, 0
    for i in range(n):
        known, wrong = 0, 0
        for j in range(c):
            if y[i, j] == 0:
                continue
            y_hat = 1 if x[i, j] >= thresholds[j] else -1
            known += 1
            wrong += y_hat != y[i, j]
            predict[j] += y_hat == 1
            gt[j] += y[i, j] == 1
            absent[j] += y[i, j] == -1
            correct[j] += y_hat == 1 and y[i, j] == 1
        rows_known += known > 0
        rows_known_exact += known > 0 and wrong == 0
        rows_full += known == c
        rows_full_exact += known == c and wrong == 0
    seen = [j for j in range(c) if absent[j] > 0 or gt[j] == 0]
    return {
        "mean_ap": mean([average_precision(x[:, j], y[:, j]) for j in range(c)]),
        "mean_roc_auc": mean([roc_auc(x[:, j], y[:, j]) for j in range(c)]),
        "zero_one": ratio(rows_known_exact, rows_known),
        "zero_one_full_rows": ratio(rows_full_exact, rows_full),
        "macro_f1": mean([ratio(2 * correct[j], predict[j] + gt[j]) for j in seen]),
        "micro_f1": ratio(2 * sum(correct[j] for j in seen), sum(predict[j] + gt[j] for j in seen)),
        "pc_precision": mean([ratio(correct[j], predict[j]) for j in seen]),
        "pc_recall": mean([ratio(correct[j], gt[j]) for j in range(c)]),
        "ov_precision": ratio(sum(correct[j] for j in seen), sum(predict[j] for j in seen)),
        "ov_recall": ratio(sum(correct), sum(gt)),
    }
