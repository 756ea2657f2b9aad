"""Images that are tied together, so that no split parts them: copies of one image, beside what the groups say."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.labels.split import units

#: how a group is called that is made of copies alone, before the name of the first of them
COPIES = "copies of "


def tie(images: pa.StringArray, groups: pa.StringArray | None, first: NDArray[np.integer]) -> pa.StringArray | None:
    """Put images of which one is a copy of the other into one group; groups that share copies become one.

    Args:
        images: N names.
        groups: the group of each image, null where it stands alone; None: all stand alone.
        first: (N,) for each image the number of an image that it is a copy of, its own where it is none.

    Returns:
        The group of each image; what was given where nothing is a copy. Joined groups have the name of the first of
        them, in the order of the images; a group of copies alone is called after its first image.
    """
    copies = np.flatnonzero(first != np.arange(len(first)))
    if not len(copies):
        return groups
    unit, _ = units(len(images), groups)
    leader = np.arange(len(unit))  # of each unit: a forest, whose roots are the units that were first

    def root(number: int) -> int:
        while leader[number] != number:
            leader[number] = leader[leader[number]]
            number = int(leader[number])
        return number

    for image in copies.tolist():
        one, other = root(int(unit[image])), root(int(unit[first[image]]))
        leader[max(one, other)] = min(one, other)
    joined = np.array([root(number) for number in unit.tolist()])
    said = [None] * len(images) if groups is None else groups.to_pylist()
    names: dict[int, str] = {}
    for number, name in zip(joined.tolist(), said, strict=True):
        if name is not None:
            names.setdefault(number, name)
    for image in np.sort(np.concatenate([copies, first[copies]])).tolist():
        names.setdefault(int(joined[image]), f"{COPIES}{images[image]}")
    return pa.array([names.get(number) for number in joined.tolist()], pa.string())
