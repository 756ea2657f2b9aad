"""What a round of curriculum labelling did to the labels, in counts, and what is suspicious about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from partlabel.method.checks import check_labels, listed


@dataclass(frozen=True, eq=False)
class Round:
    """What a round of labelling added: counts per class, which add up over the batches (``+``) of a round.

    ``images``: number of images. ``known``: int64 (C,) labels known before. ``present``, ``absent``: int64 (C,) labels
    added. ``sum(rounds, start=Round.empty(C))`` adds many; over processes, the sum of each field.
    """

    images: int
    known: Tensor
    present: Tensor
    absent: Tensor

    @staticmethod
    def empty(classes: int) -> Round:
        """Return the round of no image."""
        zeros = torch.zeros(classes, dtype=torch.int64)
        return Round(0, zeros, zeros, zeros)

    def __add__(self, other: Round) -> Round:
        return Round(
            self.images + other.images,
            self.known + other.known,
            self.present + other.present,
            self.absent + other.absent,
        )

    @property
    def known_share(self) -> Tensor:
        """Share of each class's labels that is known after the round, float64 (C,); NaN without images."""
        return (self.known + self.present + self.absent).double() / self.images

    @property
    def label_proportion(self) -> float:
        """Share of all labels that is known after the round, the paper's "label prop."; NaN without labels."""
        return float(self.known_share.mean())

    @property
    def labelled_share(self) -> float:
        """Share of the pairs that were unknown before which the round labelled; 0 where none were unknown."""
        unknown = self.images * len(self.known) - int(self.known.sum())
        return int((self.present + self.absent).sum()) / max(unknown, 1)

    def warnings(self, class_names: Sequence[str], limit: float = 0.95) -> list[str]:
        """Say in plain sentences what a person should look at; an empty list where all is well.

        Nothing was added; more than ``limit`` (0 to 1) of the unknown labels were filled in at once; all added labels,
        or all of those of a class with at least two, are of one sign.

        Raises:
            ValueError: as many names as classes are needed.
        """
        if len(class_names) != len(self.known):
            raise ValueError(f"{len(class_names)} class names for {len(self.known)} classes")
        added = int((self.present + self.absent).sum())
        if not added:
            left = self.images * len(class_names) - int(self.known.sum())
            return ["No label was added: no unknown label was easy." if left else "No label was unknown."]
        found = []
        if self.labelled_share > limit:
            found.append(f"{self.labelled_share:.1%} of the unknown labels were filled in at once (limit {limit:.0%}).")
        for sign, own, other in (("present", self.present, self.absent), ("absent", self.absent, self.present)):
            if not other.any():
                return [*found, f"All {added} added labels are {sign}."]
            places = ((own >= 2) & (other == 0)).nonzero().squeeze(1).tolist()
            if places:
                names = [f"{class_names[c]} ({int(own[c])})" for c in places]
                found.append(f"Only {sign} labels were added to {listed(names, ', ')}.")
        return found


def summarise(before: Tensor, after: Tensor) -> Round:
    """Count what was added between two states of the labels of the same images.

    Args:
        before: int8 (N, C).
        after: int8 (N, C), as a strategy returns it.

    Raises:
        ValueError: a known label changed or was lost (each with row, class and both values).
    """
    for labels in (before, after):
        check_labels(labels)
    if before.shape != after.shape:
        raise ValueError(f"labels before and after are both (N, C), not {tuple(before.shape)} and {tuple(after.shape)}")
    known = before != 0
    places = (known & (before != after)).nonzero().tolist()
    if places:
        changed = [f"row {r} class {c}: {int(before[r, c])} became {int(after[r, c])}" for r, c in places]
        raise ValueError(f"known labels changed: {listed(changed)}")
    return Round(len(before), known.sum(0), (~known & (after == 1)).sum(0), (~known & (after == -1)).sum(0))
