"""The closed-form head by loops and a matrix inverse for each class."""

from __future__ import annotations

import math

import numpy as np


def standardised(features):
    """Each channel with mean 0 and deviation 1; a channel that never changes is 0."""
    x = np.asarray(features, float)
    result = np.zeros_like(x)
    for d in range(x.shape[1]):
        deviation = math.sqrt(np.mean((x[:, d] - x[:, d].mean()) ** 2))
        if deviation > 1e-12:
            result[:, d] = (x[:, d] - x[:, d].mean()) / deviation
    return result


def effective(present, absent):
    """n with 1 / n = 1 / present + 1 / absent."""
    return 1 / (1 / present + 1 / absent)


def direction_scores(features, present, absent, kappa):
    """Scores (N, C) of unit variance, from weights (N, C) of the present and the absent."""
    x = standardised(features)
    count, classes = len(x), len(present[0])
    covariance = sum(np.outer(row, row) for row in x) / count
    sizes = [effective(sum(p[c] for p in present), sum(a[c] for a in absent)) for c in range(classes)]
    typical = math.exp(sum(math.log(n) for n in sizes) / classes)
    scores = np.zeros((count, classes))
    for c in range(classes):
        up = sum(present[i][c] * x[i] for i in range(count)) / sum(p[c] for p in present)
        down = sum(absent[i][c] * x[i] for i in range(count)) / sum(a[c] for a in absent)
        strength = kappa / math.sqrt(sizes[c] * typical)
        direction = np.linalg.inv(covariance + strength * np.eye(x.shape[1])) @ (up - down)
        scores[:, c] = x @ direction
        scores[:, c] /= math.sqrt(np.mean(scores[:, c] ** 2))
    return scores


def round_weights(labels, scores, expected, present_share, absent_share, weight):
    """Weights of the present and the absent after a round: unknown pairs by falling score, class by class."""
    present = [[float(value == 1) for value in row] for row in labels]
    absent = [[float(value == -1) for value in row] for row in labels]
    for c in range(len(labels[0])):
        unknown = sorted((i for i in range(len(labels)) if labels[i][c] == 0), key=lambda i: -scores[i][c])
        up = round(present_share * expected[c] * len(unknown))
        down = round(absent_share * (len(unknown) - up))
        for place, i in enumerate(unknown):
            if place < up:
                present[i][c] = weight
            if place >= len(unknown) - down:
                absent[i][c] = 1.0
    return present, absent


def left_out_score(features, labels, c, i, kappa):
    """The score of image i for class c when its label is left out of the mean; the strength and the scale stay."""
    x = standardised(features)
    present = [[float(value == 1) for value in row] for row in labels]
    absent = [[float(value == -1) for value in row] for row in labels]
    covariance = sum(np.outer(row, row) for row in x) / len(x)
    sizes = [effective(sum(p[k] for p in present), sum(a[k] for a in absent)) for k in range(len(labels[0]))]
    typical = math.exp(sum(math.log(n) for n in sizes) / len(sizes))
    inverse = np.linalg.inv(covariance + kappa / math.sqrt(sizes[c] * typical) * np.eye(x.shape[1]))

    def mean(sign, without):
        rows = [x[j] for j in range(len(x)) if labels[j][c] == sign and j != without]
        return sum(rows) / len(rows)

    whole = x @ inverse @ (mean(1, None) - mean(-1, None))
    return float(x[i] @ inverse @ (mean(1, i) - mean(-1, i)) / math.sqrt(np.mean(whole**2)))


def log_evidence(features, labels, kappa):
    """Log-likelihood of the gaps between the class means, up to a constant, in the space of non-zero variance."""
    x = standardised(features)
    values, vectors = np.linalg.eigh(x.T @ x / len(x))
    total = 0.0
    for c in range(len(labels[0])):
        up = [x[i] for i in range(len(x)) if labels[i][c] == 1]
        down = [x[i] for i in range(len(x)) if labels[i][c] == -1]
        gap = sum(up) / len(up) - sum(down) / len(down)
        for e, vector in zip(values, vectors.T, strict=True):
            if e > 1e-6 * values.max():
                variance = e * e / kappa + e / effective(len(up), len(down))
                total -= 0.5 * (math.log(variance) + float(vector @ gap) ** 2 / variance)
    return total
