"""Multi-label iterative stratification on known labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.core.text import plural
from partlabel.labels.arrays import LabelArrays
from partlabel.labels.pairs import pointers, ranges


def split(
    table: LabelArrays, fractions: Sequence[float], seed: int, groups: pa.StringArray | None
) -> list[NDArray[np.int64]]:
    """Carry out ``LabelTable.split``."""
    share = np.asarray(fractions, float)
    if share.ndim != 1 or not len(share) or not (share > 0).all() or abs(share.sum() - 1) > 1e-6:
        raise UserError(f"the fractions of a split must be above 0 and sum to 1, not {list(fractions)}")
    if groups is not None and len(groups) != table.num_images:
        raise UserError(f"{len(groups)} groups for {table.num_images} images")
    unit, size = units(table.num_images, groups)
    if len(size) < len(share):
        what = plural(len(size), "image" if groups is None else "group")
        raise UserError(f"{what} cannot be split into {len(share)} parts")
    code = table.indices + np.where(table.values > 0, 0, table.num_classes)
    problem = _Stratification(unit[table.pair_images()], code, size, 2 * table.num_classes, share)
    part = problem.solve(np.random.Generator(np.random.PCG64(seed)))[unit]
    return [np.flatnonzero(part == p) for p in range(len(share))]


def units(num_images: int, groups: pa.StringArray | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the unit (what stays together) of each image, and the number of images of each unit."""
    if groups is None:
        return np.arange(num_images), np.ones(num_images, np.int64)
    encoded = groups.dictionary_encode()
    unit = encoded.indices.fill_null(-1).to_numpy().astype(np.int64)
    alone = unit < 0
    unit[alone] = len(encoded.dictionary) + np.arange(int(alone.sum()))
    return unit, np.bincount(unit)


class _Stratification:
    """Deals units out to parts: the rarest remaining label first, each of its units to the part that wants it most."""

    def __init__(
        self,
        unit: NDArray[np.int64],
        label: NDArray[np.integer],
        size: NDArray[np.int64],
        labels: int,
        share: NDArray[np.float64],
    ) -> None:
        """Take K (unit, label) entries: a label is a class with a sign; an entry for each image of the unit."""
        self.size, self.labels = size, labels
        # the entries twice: by unit, and by label; first* says where those of a unit or label begin
        self.label_of = label[np.argsort(unit, kind="stable")]
        self.first = pointers(np.bincount(unit, minlength=len(size)))
        self.remaining = np.bincount(label, minlength=labels)
        self.unit_of = unit[np.argsort(label.astype(np.uint16 if labels < 65536 else np.int64), kind="stable")]
        self.first_of = pointers(self.remaining)
        # what each part should hold of each label, what it holds, how many images it still takes, the part of each unit
        self.want = share[:, None] * self.remaining
        self.held = np.zeros((len(share), labels), np.int64)
        self.room = _whole_sizes(share, int(size.sum()))
        self.part = np.full(len(size), -1, np.int64)

    def solve(self, random: np.random.Generator) -> NDArray[np.int64]:
        """Return the part of each unit."""
        far = np.iinfo(np.int64).max
        while self.remaining.any():
            label = int(np.argmin(np.where(self.remaining > 0, self.remaining, far)))
            entries = self.unit_of[self.first_of[label] : self.first_of[label + 1]]
            units, weight = np.unique(entries[self.part[entries] < 0], return_counts=True)
            order = random.permutation(len(units))
            order = order[np.argsort(-weight[order], kind="stable")]  # large groups first: small ones level the rest
            self._deal(units[order], weight[order], self.want[:, label], self.held[:, label])
        rest = random.permutation(np.flatnonzero(self.part < 0))
        rest = rest[np.argsort(-self.size[rest], kind="stable")]
        self._deal(rest, np.zeros(len(rest), np.int64), np.zeros(len(self.room)), np.ones(len(self.room), np.int64))
        self._fill_empty()
        return self.part

    def _deal(
        self, units: NDArray[np.int64], weight: NDArray[np.int64], want: NDArray[np.float64], held: NDArray[np.int64]
    ) -> None:
        """Give units, which hold a label ``weight`` times, to parts: to those that have none, then by ``want``."""
        wanted, room = want.tolist(), self.room.tolist()
        empty = [h == 0 for h in held.tolist()]
        parts = range(len(room))
        chosen = []
        for size, times in zip(self.size[units].tolist(), weight.tolist(), strict=True):
            best = max(
                parts, key=lambda p: (room[p] >= size or (empty[p] and room[p] > 0), empty[p], wanted[p], room[p])
            )
            chosen.append(best)
            wanted[best] -= times
            room[best] -= size
            empty[best] = False
        part = np.array(chosen, np.int64)
        self.part[units] = part
        self.room = np.array(room, np.int64)
        count = self.first[units + 1] - self.first[units]
        label = self.label_of[ranges(self.first[units], count)]
        moved = np.bincount(np.repeat(part, count) * self.labels + label, minlength=self.want.size)
        moved = moved.reshape(self.want.shape)
        self.want -= moved
        self.held += moved
        self.remaining -= moved.sum(0)

    def _fill_empty(self) -> None:
        """Move the smallest unit of a part with several into a part that got none (few, large groups)."""
        for p in range(len(self.room)):
            if not (self.part == p).any():
                units = np.bincount(self.part, minlength=len(self.room))
                movable = np.flatnonzero(units[self.part] > 1)
                self.part[movable[np.argmin(self.size[movable])]] = p


def _whole_sizes(share: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    """Return whole part sizes that sum to ``total``: largest remainder, none 0 where there is enough."""
    exact = np.round(share / share.sum() * total, 9)  # so that equal remainders are equal
    result = np.floor(exact).astype(np.int64)
    order = np.argsort(-(exact - result), kind="stable")
    result[order[: total - result.sum()]] += 1
    while (result == 0).any() and result.max() > 1:
        result[np.argmax(result)] -= 1
        result[np.argmin(result)] += 1
    return result
