"""Known labels put aside, so that a model that has not seen them can be judged on them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.labels.pairs import ORIGINS, Pairs
from partlabel.labels.table import LabelTable

#: origins of labels that are a random sample of their class
RANDOM = ("given", "sampled")
#: labels that are looked up together
_AT_ONCE = 2**18


def at_random(table: LabelTable | Pairs) -> NDArray[np.bool_]:
    """Which of K known labels count as a random sample, bool (K,): those given, or asked at random."""
    return np.isin(table.origin, [ORIGINS.index(name) for name in RANDOM])


def random_sample(table: LabelTable) -> LabelTable:
    """The table with only those labels known that are a random sample."""
    return table.hide(at_random(table))


def hold_out(table: LabelTable, share: float, seed: int) -> tuple[LabelTable, LabelTable]:
    """Put a share of the known labels of each class aside; the images stay in both tables.

    The labels put aside are then in the same position as the unknown ones: the model sees their images, with other
    labels, and not them. Only labels that are a random sample are put aside (origin ``given`` or ``sampled``).

    Args:
        table: labels.
        share: of the labels of each class, above 0 and below 1; rounded to whole labels.
        seed: the same seed draws the same labels.

    Returns:
        The labels to train on, and those put aside.

    Raises:
        UserError: another share, or too few labels to put one aside.

    >>> labels = LabelTable.from_dense([f"{i}.jpg" for i in range(10)], ["cat"], [[1]] * 5 + [[-1]] * 5)
    >>> kept, aside = hold_out(labels, 0.2, seed=0)
    >>> kept.num_known, aside.num_known
    (8, 2)
    """
    if not 0 < share < 1:
        raise UserError(f"the share of labels to hold out lies between 0 and 1, not {share}")
    random = np.random.Generator(np.random.PCG64(seed))
    eligible = np.flatnonzero(at_random(table))
    order = random.permutation(eligible)
    order = order[np.argsort(table.indices[order], kind="stable")]
    classes = table.indices[order]
    count = np.bincount(classes, minlength=table.num_classes)
    place = np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
    drawn = order[place < np.floor(share * count + 0.5)[classes]]
    held = np.zeros(table.num_known, bool)
    held[drawn] = True
    if not held.any():
        raise UserError(f"no class has enough labels to hold out a share of {share} of them")
    details = {"share": share, "seed": seed}
    return table.hide(~held, "hold_out.train", **details), table.hide(held, "hold_out.held_out", **details)


def shared_pairs(trained: LabelTable, table: LabelTable) -> NDArray[np.bool_]:
    """Which known labels of a table are known in another one too, bool (K,): the same image name and class name."""
    row = trained.image_index(table.images)
    column = {name: c for c, name in enumerate(trained.classes)}
    cls = np.array([column.get(name, -1) for name in table.classes], np.int64)
    key, image = trained.pairs().key, table.images_at(slice(None))  # keys rise
    shared = np.zeros(table.num_known, bool)
    for low in range(0, table.num_known if len(key) else 0, _AT_ONCE):
        some = slice(low, low + _AT_ONCE)
        here, of = row[image[some]], cls[table.indices[some]]
        wanted = here * trained.num_classes + of
        at = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
        shared[some] = (here >= 0) & (of >= 0) & (key[at] == wanted)
    return shared
