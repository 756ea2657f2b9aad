"""Suspects by a loop over all pairs."""

from __future__ import annotations


def suspects(labels, probabilities, min_known=1):
    """(image, class, label, probability) of contradicted known labels, the surest first; classes not checked."""
    found, not_checked = [], []
    for c in range(len(labels[0])):
        column = [row[c] for row in labels]
        if column.count(1) < min_known or column.count(-1) < min_known:
            not_checked.append(c)
            continue
        for i, label in enumerate(column):
            p = probabilities[i][c]
            doubt = 1 - p if label == 1 else p
            if label != 0 and doubt > 0.5:
                found.append((-doubt, i, c, label, p))
    return [entry[1:] for entry in sorted(found)], not_checked
