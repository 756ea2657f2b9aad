"""Pairs of 64-bit hashes that differ in few bits.

Of few hashes all pairs are compared. Of many, only those that nearly agree in one of four parts of 16 bits: hashes that
differ in at most 14 bits differ in at most 3 of some part (multi-index hashing: Norouzi, Punjani, Fleet, CVPR 2012),
and few do. With 63 bits, as a perceptual hash has, that is a thirtieth of all pairs, and nothing that misses none is
much less: so many bits of so few. It takes some hashes at a time, each with all before it, so that memory does not grow
with the pairs, and several processes can take turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from partlabel.core.compute import cores
from partlabel.labels.pairs import ranges

Hashes = NDArray[np.uint64]
Rows = NDArray[np.int64]

#: candidates given for each hash, the nearest ones
NEAREST = 20
#: hashes up to which all pairs are compared, in one process
FEW = 2**16
#: hashes whose candidates are looked for together, and of which a process has a turn; at least so many, where they are
#: much alike, before all pairs are compared
_ASKED, _LEAST = 2**19, 2**14
#: bits of a part, parts, and values of a part that a thread looks at
_PART, _PARTS, _VALUES = 16, 4, 2**12
#: pairs of near hashes above which the hashes are so alike that comparing all needs less memory
_MOST = 2**26
#: pairs that are made at once, by parts and where all are compared
_AT_ONCE, _COMPARED = 2**20, 2**24


def candidates(hashes: Hashes, bits: int, rank: int = 0, world: int = 1) -> Iterator[tuple[Rows, Rows]]:
    """Give pairs of a hash and one before it that differ in at most ``bits`` bits, of each hash the nearest ones.

    Args:
        hashes: (N,).
        bits: at most 15.
        rank: of the process, where several share the hashes out; together they give what one gives.
        world: how many there are.

    Returns:
        Some pairs at a time, numbers of hashes (M,) and (M,): for each hash at most ``NEAREST``, of equally near ones
        the first.
    """
    if len(hashes) <= FEW:
        if rank == 0:
            yield from _all_pairs(hashes, bits, 0, len(hashes))
        return
    turns = range(rank * _ASKED, len(hashes), world * _ASKED)
    asked = [(low, min(low + _ASKED, len(hashes))) for low in reversed(turns)]
    while asked:
        low, high = asked.pop()
        values, inverse = np.unique(hashes[:high], return_inverse=True)
        near = _near(values, np.unique(inverse[low:]), bits)
        if near is not None:
            yield from _nearest(inverse, low, *near)
        elif high - low > _LEAST:
            asked += [((low + high) // 2, high), (low, (low + high) // 2)]
        else:
            yield from _all_pairs(hashes, bits, low, high)


def _all_pairs(hashes: Hashes, bits: int, first: int, last: int) -> Iterator[tuple[Rows, Rows]]:
    """The same of the hashes from ``first`` to ``last``."""
    size = max(1, _COMPARED // max(last, 1))
    for low in range(first, last, size):
        block = hashes[low : min(low + size, last), None]
        away = np.bitwise_count(block ^ hashes[None, : low + len(block)])
        away[:, low:][np.triu_indices(len(block))] = 255  # only those before
        one, other = np.nonzero(away <= bits)
        many = np.flatnonzero(np.bincount(one, minlength=len(block)) > NEAREST)
        if len(many):
            nearest = np.argsort(away[many], axis=1, kind="stable")[:, :NEAREST]
            few = ~np.isin(one, many)
            one = np.concatenate([one[few], np.repeat(many, NEAREST)])
            other = np.concatenate([other[few], nearest.ravel()])
        if len(one):
            yield one + low, other


def _near(values: Hashes, asked: Rows, bits: int) -> tuple[Rows, Rows, NDArray[np.uint8]] | None:
    """Pairs (u, v) of different hashes that are near, u among those asked for, and how far they are apart.

    None where they are too many.
    """
    keys, bits_apart, room = [], [], [_MOST]
    with ThreadPoolExecutor(cores()) as pool:
        for part in range(_PARTS):
            key = (values >> np.uint64(_PART * part)).astype(np.int64) & (2**_PART - 1)
            every = np.arange(2**_PART)
            # radii + 1 add up to bits + 1: hashes that are further apart in every part are so in all
            masks = every[np.bitwise_count(every) < (bits + _PARTS - part) // _PARTS]
            if not len(masks):
                continue
            look = partial(_of_values, values, _Index.of(key, asked), _Index.of(key), masks, bits, room)
            for one, other, away in pool.map(look, range(0, 2**_PART, _VALUES)):
                if room[0] < 0:
                    return None
                keys.append(one * len(values) + other)
                bits_apart.append(away)
    key, first = np.unique(np.concatenate(keys), return_index=True)  # a pair can be near in several parts
    one, other = np.divmod(key, len(values))
    return one, other, np.concatenate(bits_apart)[first]


@dataclass(frozen=True)
class _Index:
    """Hashes by the value of a part: ``order``, their numbers, and (2**16 + 1,) where those of each value start."""

    order: Rows
    start: Rows

    @staticmethod
    def of(key: Rows, some: Rows | None = None) -> _Index:
        """Sort hashes, all or some, by their value (N,)."""
        own = key if some is None else key[some]
        order = np.argsort(own, kind="stable")
        start = np.searchsorted(own[order], np.arange(2**_PART + 1))
        return _Index(order if some is None else some[order], start)


def _of_values(
    values: Hashes, asked: _Index, every: _Index, masks: Rows, bits: int, room: list[int], first: int
) -> tuple[Rows, Rows, NDArray[np.uint8]]:
    """Near pairs of hashes that are asked for, with some values of a part, and those whose part is a mask away.

    ``room``: for how many pairs there is still room, of all threads; none looks on where there is none.
    """
    ones, others, found = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.uint8)]
    for value in range(first, first + _VALUES):
        own = asked.order[asked.start[value] : asked.start[value + 1]]
        if not len(own) or room[0] < 0:
            continue
        near = value ^ masks
        there = every.order[ranges(every.start[near], every.start[near + 1] - every.start[near])]
        step = max(1, _AT_ONCE // len(there))
        for at in range(0, len(own), step):
            if room[0] < 0:
                break
            some = own[at : at + step]
            away = np.bitwise_count(values[some][:, None] ^ values[there]).ravel()
            pair = np.flatnonzero(away <= bits)  # of one dimension, which is faster
            pair = pair[away[pair] > 0]  # not of a hash with itself
            one, other = np.divmod(pair, len(there))
            ones.append(some[one])
            others.append(there[other])
            found.append(away[pair])
            room[0] -= len(pair)  # without a lock: a count that two threads lose is small
    return np.concatenate(ones), np.concatenate(others), np.concatenate(found)


def _nearest(inverse: Rows, low: int, one: Rows, other: Rows, away: NDArray[np.uint8]) -> Iterator[tuple[Rows, Rows]]:
    """Give the nearest hashes before each, from ``low`` on, by the pairs of different values.

    ``inverse``: value of each. ``one``: rises.
    """
    count = int(inverse.max()) + 1
    members = np.argsort(inverse, kind="stable")
    begin = np.searchsorted(inverse[members], np.arange(count + 1))
    size = np.minimum(np.diff(begin), NEAREST)  # of one value, the first are the nearest
    own = np.unique(inverse[low:])  # which is near itself, too
    order = np.argsort(np.concatenate([one, own]), kind="stable")
    one, other = np.concatenate([one, own])[order], np.concatenate([other, own])[order]
    far = np.concatenate([away, np.zeros(len(own), np.uint8)])[order]
    start = np.searchsorted(one, np.arange(count + 1))
    asked = inverse[low:]
    expanded = np.bincount(one, size[other], count).astype(np.int64)[asked]  # candidates of each hash
    ends = np.searchsorted(np.cumsum(expanded), np.arange(_AT_ONCE, expanded.sum() + _AT_ONCE, _AT_ONCE), "right")
    for first, last in zip([0, *ends.tolist()], [*ends.tolist(), len(asked)], strict=True):
        rows = np.arange(first, last)
        degree = start[asked[rows] + 1] - start[asked[rows]]
        pair = ranges(start[asked[rows]], degree)
        image = low + np.repeat(np.repeat(rows, degree), size[other[pair]])
        candidate = members[ranges(begin[other[pair]], size[other[pair]])]
        distance = np.repeat(far[pair], size[other[pair]])
        before = candidate < image
        image, candidate, distance = image[before], candidate[before], distance[before]
        ranked = np.lexsort((candidate, distance, image))
        image, candidate = image[ranked], candidate[ranked]
        kept = np.arange(len(image)) - np.searchsorted(image, image) < NEAREST
        if kept.any():
            yield image[kept], candidate[kept]
