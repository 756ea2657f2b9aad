"""Images that are copies of one another, by their bytes or by what they show: found before a training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.core.compute import ALONE, Crew
from partlabel.core.progress import Reporter
from partlabel.core.text import plural, some
from partlabel.images.near_copies import near_copies
from partlabel.labels.groups import tie
from partlabel.labels.table import LabelTable
from partlabel.training.prepare import Prepared

#: where more than this share of the images are near-copies, all of them show nearly the same, and nothing can be told
_ALL_ALIKE = 0.5


@dataclass(frozen=True, eq=False)
class Copies:
    """The copies among some images.

    ``first``: int64 (N,) for each image the number of an earlier one that it is a copy of, its own where there is none.
    ``exact``: (N,) bool, the bytes are the same. ``alike``: images that look like another; more than the near-copies in
    ``first`` only where nearly all images do, so that looks tell nothing.
    """

    first: NDArray[np.int64]
    exact: NDArray[np.bool_]
    alike: int

    @property
    def near(self) -> NDArray[np.bool_]:
        """(N,) images that are near-copies of another."""
        return (self.first != np.arange(len(self.first))) & ~self.exact


def find_copies(
    contents: NDArray[np.bytes_],
    prints: NDArray[np.uint8],
    crew: Crew = ALONE,
    progress: Callable[[int, int], None] | None = None,
) -> Copies:
    """Find copies by the hashes (N,) of their files, and near-copies by fingerprints (N, BYTES).

    The last arguments are those of :func:`partlabel.images.near_copies.near_copies`.
    """
    _, earliest, number = np.unique(contents, return_index=True, return_inverse=True)
    first = earliest[number]
    exact = first != np.arange(len(first))
    rows = np.flatnonzero(~exact)
    pairs = near_copies(prints[rows], crew, progress)
    if len(pairs) <= _ALL_ALIKE * len(rows):
        for i, k in pairs:
            first[rows[i]] = rows[k]
    return Copies(first, exact, len(pairs))


def tied(
    train: Prepared, own: Prepared | None, reporter: Reporter | None = None, crew: Crew = ALONE
) -> tuple[Prepared, Prepared | None, list[str], int]:
    """Put copies into one group, so that no split, fold or resample parts them.

    Args:
        train: labels and images.
        own: those to validate on, where they are a table of their own; its images may be those of ``train``.
        reporter: shows the progress, where the images are many.
        crew: the processes that share the search out.

    Returns:
        Both with the groups; what a user should know of the copies; and how many images are in ``own`` alone and look
        like one of ``train``.
    """
    table, count = train.table, train.table.num_images
    contents, prints = train.contents, train.prints
    if own is not None:
        new = np.flatnonzero(table.image_index(own.table.images) < 0)
        table = table.merge(own.table, conflicts="first")
        contents = np.concatenate([contents, own.contents[new]])
        prints = np.concatenate([prints, own.prints[new]])
    with (reporter or Reporter(quiet=True)).bar("looking for near-copies") as bar:
        found = find_copies(contents, prints, crew, bar)
    groups = tie(table.images, table.groups, found.first)
    looks = int((found.near & (np.arange(len(contents)) >= count) & (found.first < count)).sum())
    said = cautions(table, found)
    if groups is not table.groups and groups is not None:
        train = replace(train, table=replace(train.table, groups=groups[:count]))
        if own is not None:
            rows = pa.array(table.image_index(own.table.images))
            own = replace(own, table=replace(own.table, groups=groups.take(rows)))
    return train, own, said, looks


def cautions(table: LabelTable, found: Copies) -> list[str]:
    """What a user should know of the copies in a table."""
    names, lines = table.images.to_pylist(), []
    for which, verb, what in (
        (found.exact, ("has", "have"), "the bytes of another image"),
        (found.near, ("looks", "look"), "like another image (another encoding, size or border)"),
    ):
        if which.any():
            pairs = [f"{names[i]} = {names[found.first[i]]}" for i in np.flatnonzero(which).tolist()]
            so = f"{plural(len(pairs), 'image')} {verb[len(pairs) > 1]} {what}"
            lines.append(f"{so}; they are kept together in every split: {some(pairs, 5)}")
    if found.alike > found.near.sum():
        lines.append(
            f"{found.alike} of {len(names)} images look nearly like another, so that copies cannot be told from "
            "others; where images of one scene or patient must stay together, give the table groups"
        )
    clash = contradictions(table, found)
    if clash:
        lines.append(f"{plural(len(clash), 'label')} of such images contradict each other: {some(clash, 5)}")
    return lines


def contradictions(table: LabelTable, found: Copies) -> list[str]:
    """Labels that are present in one of two copies and absent in the other, in words."""
    copies = np.flatnonzero(found.first != np.arange(len(found.first)))
    if not len(copies):
        return []
    names, said = table.images.to_pylist(), []
    labels, others = table.dense(copies), table.dense(found.first[copies])
    for row, c in zip(*np.nonzero(labels * others < 0), strict=True):
        image, other = names[copies[row]], names[found.first[copies[row]]]
        yes, no = (image, other) if labels[row, c] > 0 else (other, image)
        said.append(f"{table.classes[c]} present in {yes} and absent in {no}")
    return said
