"""Hashes that differ in few bits: found by parts of them as by comparing all, whatever the hashes."""

import numpy as np
import pytest

from partlabel.images import near_hashes
from partlabel.images.near_hashes import NEAREST, candidates


def naive(hashes, bits):
    """For each hash the nearest before it, of equally near ones the first: pair by pair."""
    found = set()
    for i, own in enumerate(hashes.tolist()):
        away = sorted((bin(own ^ other).count("1"), k) for k, other in enumerate(hashes.tolist()[:i]))
        found |= {(i, k) for far, k in away[:NEAREST] if far <= bits}
    return found


def given(hashes, bits, *turn):
    found = [
        pair
        for one, other in candidates(hashes, bits, *turn)
        for pair in zip(one.tolist(), other.tolist(), strict=True)
    ]
    assert len(found) == len(set(found))
    return set(found)


def drawn(seed, centres, copies, flips):
    """Hashes of 63 bits, some of them like others, in a random order."""
    random = np.random.default_rng(seed)
    hashes = random.integers(0, 2**63, centres, np.uint64)
    more = np.repeat(random.choice(hashes, max(1, centres // 4)), copies)
    for _ in range(flips):
        more = more ^ (np.uint64(1) << random.integers(0, 63, len(more), np.uint64))
    return random.permutation(np.concatenate([hashes, more]))


@pytest.mark.parametrize("bits", [0, 5, 13, 14, 15])
@pytest.mark.parametrize(
    ("centres", "copies", "flips"), [(300, 1, 14), (40, 6, 3), (3, 60, 5), (4, 60, 0), (60, 5, 20), (1, 1, 1)]
)
def test_parts_find_what_comparing_all_finds(monkeypatch, bits, centres, copies, flips):
    hashes = drawn(bits, centres, copies, flips)
    expected = naive(hashes, bits)
    assert given(hashes, bits) == expected
    monkeypatch.setattr(near_hashes, "FEW", 0)
    monkeypatch.setattr(near_hashes, "_AT_ONCE", 50)
    monkeypatch.setattr(near_hashes, "_ASKED", 70)
    assert given(hashes, bits) == expected
    monkeypatch.setattr(near_hashes, "_ASKED", 31)
    each = [given(hashes, bits, rank, 3) for rank in range(3)]
    assert set.union(*each) == expected
    assert sum(map(len, each)) == len(expected), "each pair from one of the processes"


def test_hashes_that_are_all_alike_are_compared_one_by_one(monkeypatch):
    hashes = drawn(0, 4, 30, 2)
    monkeypatch.setattr(near_hashes, "FEW", 0)
    monkeypatch.setattr(near_hashes, "_MOST", 10)
    monkeypatch.setattr(near_hashes, "_ASKED", 100)
    monkeypatch.setattr(near_hashes, "_LEAST", 30)
    monkeypatch.setattr(near_hashes, "_COMPARED", 500)
    assert given(hashes, 14) == naive(hashes, 14)


def test_of_hashes_that_are_all_alike_few_pairs_are_made(monkeypatch):
    hashes = np.unique(drawn(0, 1, 2000, 3))
    made, of_values = [], near_hashes._of_values

    def counted(*arguments):
        found = of_values(*arguments)
        made.append(len(found[0]))
        return found

    monkeypatch.setattr(near_hashes, "_of_values", counted)
    monkeypatch.setattr(near_hashes, "_MOST", 1000)
    monkeypatch.setattr(near_hashes, "_AT_ONCE", 5000)
    assert near_hashes._near(hashes, np.arange(len(hashes)), 14) is None
    assert sum(made) < 20_000 < len(hashes) ** 2 // 4


def test_no_hashes():
    assert given(np.zeros(0, np.uint64), 14) == set()
