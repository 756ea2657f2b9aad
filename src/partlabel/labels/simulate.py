"""Labelling strategies of section 4.1, made from known labels (Durand et al., CVPR 2019).

All four answer "what if this many labels were clean?": the paper's proportion of clean labels is the share of the
known labels that stays known and right. ``partial`` and ``dense`` make the others unknown, ``noisy`` makes them wrong.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.labels.pairs import pointers
from partlabel.labels.table import LabelTable


def partial(table: LabelTable, proportion: float, seed: int, per_image: str = "exact") -> LabelTable:
    """Keep a share of the labels of every image, drawn at random; the others become unknown.

    "All the images are used but only a subset of the labels per image are known. The known categories are different
    for each image."

    Args:
        table: labels; only known ones can be kept.
        proportion: share p of the C classes whose label is known afterwards, 0 <= p <= 1.
        seed: the same seed gives the same labels.
        per_image: ``exact`` keeps exactly round(p C) labels of each image (halves go up), all of them where fewer are
            known; ``bernoulli`` keeps each known label with probability p.

    Raises:
        UserError: a proportion outside 0 .. 1 or another ``per_image``.
    """
    _check(proportion)
    random = np.random.Generator(np.random.PCG64(seed))
    if per_image == "bernoulli":
        keep = random.random(table.num_known) < proportion
    elif per_image == "exact":
        keep = _draw_in_rows(random, table.indptr, _rounded(proportion * table.num_classes))
    else:
        raise UserError(f"per_image must be exact or bernoulli, not {per_image!r}")
    return table.hide(keep, "simulate.partial", proportion=proportion, seed=seed, per_image=per_image)


def dense(table: LabelTable, proportion: float, seed: int) -> LabelTable:
    """Keep all labels of a share of the images; the others stay in the table without any known label.

    "Only a subset of the images are labeled, but the labeled images have the annotations for all the categories."

    Args:
        table: labels.
        proportion: share p of the images that keep their labels: exactly round(p N) (halves go up), 0 <= p <= 1.
        seed: the same seed gives the same images.

    Raises:
        UserError: a proportion outside 0 .. 1.
    """
    _check(proportion)
    count = _rounded(proportion * table.num_images)
    kept = np.zeros(table.num_images, bool)
    kept[np.random.Generator(np.random.PCG64(seed)).permutation(table.num_images)[:count]] = True
    keep = np.repeat(kept, np.diff(table.indptr))
    return table.hide(keep, "simulate.dense", proportion=proportion, seed=seed)


def noisy(table: LabelTable, proportion: float, seed: int) -> LabelTable:
    """Keep all labels known but turn a share of them into their opposite.

    "All the categories of all images are labeled but some labels are wrong."

    Args:
        table: labels.
        proportion: share p of the K known labels that stay right: exactly round((1 - p) K) are flipped (halves go up),
            0 <= p <= 1.
        seed: the same seed gives the same labels.

    Raises:
        UserError: a proportion outside 0 .. 1.
    """
    _check(proportion)
    count = _rounded((1 - proportion) * table.num_known)
    flipped = np.random.Generator(np.random.PCG64(seed)).permutation(table.num_known)[:count]
    values = table.values.copy()
    values[flipped] *= -1
    return table.derive("simulate.noisy", {"proportion": proportion, "seed": seed, "flipped": count}, values=values)


def noisy_plus(table: LabelTable, seed: int) -> LabelTable:
    """Leave one present label in each image, drawn at random; its other present labels become absent.

    "If the image has more than one positive label, we randomly select one positive label among the positive labels and
    switch the other positive labels to negative labels." Absent and unknown labels stay as they are.

    Args:
        table: labels.
        seed: the same seed gives the same labels.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    present = np.flatnonzero(table.values > 0)
    kept = _draw_in_rows(random, pointers(table.values > 0)[table.indptr], 1)
    values = table.values.copy()
    values[present[~kept]] = -1
    switched = int((values != table.values).sum())
    return table.derive("simulate.noisy_plus", {"seed": seed, "switched": switched}, values=values)


def _draw_in_rows(random: np.random.Generator, indptr: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """Return a mask of the entries of CSR rows in which ``count`` of each row, or all if it has fewer, are drawn."""
    lengths = np.diff(indptr)
    row = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(len(row)) - indptr[row]
    # row, random bits and place in the row in one unique number: sorting values is far faster than sorting by keys
    place_bits = int(lengths.max(initial=1)).bit_length()
    random_bits = 63 - place_bits - len(lengths).bit_length()
    number = row << (random_bits + place_bits)
    number |= random.integers(0, 1 << random_bits, len(row)) << place_bits
    number |= place
    if count == 0:
        return np.zeros(len(row), bool)
    ordered = np.sort(number)
    last = indptr[:-1] + np.minimum(lengths, count) - 1
    return number <= ordered[last[row]]


def _rounded(count: float) -> int:
    return int(np.floor(count + 0.5))


def _check(proportion: float) -> None:
    if not 0 <= proportion <= 1:
        raise UserError(f"a proportion lies between 0 and 1, not {proportion}")
