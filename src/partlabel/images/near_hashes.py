"""Pairs of 64-bit hashes that differ in few bits.

Of few hashes all pairs are compared. Of many, only those that nearly agree in one of four parts of 16 bits: hashes that
differ in at most 14 bits differ in at most 3 of some part (multi-index hashing: Norouzi, Punjani, Fleet, CVPR 2012),
and few do. With 63 bits, as a perceptual hash has, that is a thirtieth of all pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from numpy.typing import NDArray

from partlabel.core.compute import cores
from partlabel.labels.pairs import ranges

Hashes = NDArray[np.uint64]
Rows = NDArray[np.int64]

#: candidates given for each hash, the nearest ones
NEAREST = 20
#: hashes up to which all pairs are compared
_FEW = 2**16
#: hashes that are compared with all at once
_BLOCK = 256
#: bits of a part, parts, and values of a part that a thread looks at
_PART, _PARTS, _VALUES = 16, 4, 2**12
#: pairs of near hashes above which the hashes are so alike that comparing all needs less memory
_MOST = 2**26
#: pairs that are made at once
_AT_ONCE = 2**20


def candidates(hashes: Hashes, bits: int) -> Iterator[tuple[Rows, Rows]]:
    """Give pairs of a hash and one before it that differ in at most ``bits`` bits, of each hash the nearest ones.

    Args:
        hashes: (N,).
        bits: at most 15.

    Returns:
        Some pairs at a time, numbers of hashes (M,) and (M,): for each hash at most ``NEAREST``, of equally near ones
        the first.
    """
    if len(hashes) > _FEW:
        values, inverse = np.unique(hashes, return_inverse=True)
        near = _near(values, bits)
        if near is not None:
            yield from _nearest(inverse, *near)
            return
    yield from _all_pairs(hashes, bits)


def _all_pairs(hashes: Hashes, bits: int) -> Iterator[tuple[Rows, Rows]]:
    for low in range(0, len(hashes), _BLOCK):
        block = hashes[low : low + _BLOCK, None]
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


def _near(values: Hashes, bits: int) -> tuple[Rows, Rows, NDArray[np.uint8]] | None:
    """Pairs (u < v) of different hashes that are near, and how far they are apart; None where they are too many."""
    keys, bits_apart, room = [], [], [_MOST]
    with ThreadPoolExecutor(cores()) as pool:
        for part in range(_PARTS):
            key = (values >> np.uint64(_PART * part)).astype(np.int64) & (2**_PART - 1)
            order = np.argsort(key, kind="stable")
            start = np.searchsorted(key[order], np.arange(2**_PART + 1))
            every = np.arange(2**_PART)
            # radii + 1 add up to bits + 1: hashes that are further apart in every part are so in all
            masks = every[np.bitwise_count(every) < (bits + _PARTS - part) // _PARTS]
            if not len(masks):
                continue
            look = partial(_of_values, values, key, order, start, masks, bits, room)
            for low, high, away in pool.map(look, range(0, 2**_PART, _VALUES)):
                if room[0] < 0:
                    return None
                keys.append(low * len(values) + high)
                bits_apart.append(away)
    key, first = np.unique(np.concatenate(keys), return_index=True)  # a pair can be near in several parts
    low, high = np.divmod(key, len(values))
    return low, high, np.concatenate(bits_apart)[first]


def _of_values(
    values: Hashes, key: Rows, order: Rows, start: Rows, masks: Rows, bits: int, room: list[int], first: int
) -> tuple[Rows, Rows, NDArray[np.uint8]]:
    """Near pairs among hashes with some values of a part, and those whose part is a mask away and not smaller.

    ``room``: for how many pairs there is still room, of all threads; none looks on where there is none.
    """
    lows, highs, found = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.uint8)]
    for value in range(first, first + _VALUES):
        own = order[start[value] : start[value + 1]]
        if not len(own) or room[0] < 0:
            continue
        others = value ^ masks
        others = others[others >= value]
        there = order[ranges(start[others], start[others + 1] - start[others])]
        step = max(1, _AT_ONCE // len(there))
        for at in range(0, len(own), step):
            if room[0] < 0:
                break
            some = own[at : at + step]
            away = np.bitwise_count(values[some][:, None] ^ values[there])
            one, other = np.nonzero(away <= bits)
            u, v = some[one], there[other]
            once = (u < v) | (key[v] > value)  # of two hashes of one value of the part, once
            lows.append(np.minimum(u, v)[once])
            highs.append(np.maximum(u, v)[once])
            found.append(away[one, other][once])
            room[0] -= len(found[-1])  # without a lock: a count that two threads lose is small
    return np.concatenate(lows), np.concatenate(highs), np.concatenate(found)


def _nearest(inverse: Rows, low: Rows, high: Rows, away: NDArray[np.uint8]) -> Iterator[tuple[Rows, Rows]]:
    """Give the nearest hashes before each, from the pairs (u < v) of different values; ``inverse``: value of each."""
    count = int(inverse.max()) + 1
    members = np.argsort(inverse, kind="stable")
    begin = np.searchsorted(inverse[members], np.arange(count + 1))
    size = np.minimum(np.diff(begin), NEAREST)  # of one value, the first are the nearest
    one = np.concatenate([low, high, np.arange(count)])
    order = np.argsort(one, kind="stable")
    other = np.concatenate([high, low, np.arange(count)])[order]
    far = np.concatenate([away, away, np.zeros(count, np.uint8)])[order]
    start = np.searchsorted(one[order], np.arange(count + 1))
    expanded = np.bincount(one[order], size[other], count).astype(np.int64)[inverse]  # candidates of each hash
    ends = np.searchsorted(np.cumsum(expanded), np.arange(_AT_ONCE, expanded.sum() + _AT_ONCE, _AT_ONCE), "right")
    for first, last in zip([0, *ends.tolist()], [*ends.tolist(), len(inverse)], strict=True):
        rows = np.arange(first, last)
        degree = start[inverse[rows] + 1] - start[inverse[rows]]
        pair = ranges(start[inverse[rows]], degree)
        image = np.repeat(np.repeat(rows, degree), size[other[pair]])
        candidate = members[ranges(begin[other[pair]], size[other[pair]])]
        distance = np.repeat(far[pair], size[other[pair]])
        before = candidate < image
        image, candidate, distance = image[before], candidate[before], distance[before]
        ranked = np.lexsort((candidate, distance, image))
        image, candidate = image[ranked], candidate[ranked]
        kept = np.arange(len(image)) - np.searchsorted(image, image) < NEAREST
        if kept.any():
            yield image[kept], candidate[kept]
