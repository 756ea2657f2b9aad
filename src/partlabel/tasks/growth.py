"""Questions chosen over all classes together: those whose answers let the known present labels grow most."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from partlabel.metrics.calibration import sigmoid
from partlabel.models.scores import Scores

#: pairs of a class that are held at once
_HELD = 256


class Ranking:
    """The open pairs of each class, the most probable first; only the first few of each are held.

    Args:
        scores: (N, C), log-odds of present.
        open_: gives for a class which of its pairs may be chosen, bool (N,).
        random: decides the order of equal scores in a class; None takes the first image.
    """

    def __init__(
        self, scores: Scores, open_: Callable[[int], NDArray[np.bool_]], random: np.random.Generator | None = None
    ) -> None:
        self._scores, self._open, self._random = scores, open_, random
        self._states, self._left, self._start = [], [], [0] * scores.num_classes
        self._rows: list[NDArray[np.int64]] = []
        self._chance: list[NDArray[np.float64]] = []
        for low, block in scores.blocks():
            for c, values in enumerate(block, low):
                self._states.append(None if random is None else random.bit_generator.state)
                rows, chance, count = self._first(c, values, _HELD, random)
                self._rows.append(rows)
                self._chance.append(chance)
                self._left.append(count)

    def at(self, number: int, place: int) -> tuple[int, float] | None:
        """Return the pair at a place of a class, from 0: its image and probability; None behind the last one."""
        if place >= self._left[number]:
            return None
        if place >= len(self._rows[number]):  # the same order is found anew, from the same random state
            random = None
            if self._random is not None:
                random = np.random.Generator(type(self._random.bit_generator)())
                random.bit_generator.state = self._states[number]
            values = self._scores.block(number, number + 1)[0]
            self._rows[number], self._chance[number], _ = self._first(number, values, 4 * place, random)
        return int(self._rows[number][place]), float(self._chance[number][place])

    def _first(
        self, number: int, scores: NDArray[np.float32], count: int, random: np.random.Generator | None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
        """The first pairs of a class in order, their probabilities, and how many there are in all."""
        rows = np.flatnonzero(self._open(number))
        rows = rows if random is None else random.permutation(rows)
        chance, whole = sigmoid(scores[rows].astype(np.float64)), len(rows)
        if count < whole:
            best = np.flatnonzero(chance >= np.partition(chance, whole - count)[whole - count])
            rows, chance = rows[best], chance[best]
        order = np.argsort(-chance, kind="stable")[:count]
        return rows[order], chance[order], whole


def grow(
    scores: NDArray[np.floating] | Scores,
    labels: NDArray[np.int8],
    budget: int,
    random: np.random.Generator | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Choose among the unknown pairs of int8 labels (N, C), see :func:`grow_from` and :class:`Ranking`."""
    ranking = Ranking(Scores.of(scores), lambda c: labels[:, c] == 0, random)
    return grow_from(ranking, (labels > 0).sum(0), budget)


def grow_from(
    ranking: Ranking, present: NDArray[np.number], budget: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Choose the pairs whose answers let the known present labels of the classes grow most.

    A pair that is present with probability p adds ``p / (present known in its class + 1 + p already chosen there)``,
    about what it adds to the sum over the classes of ``log(present + 1)``. Pairs are chosen one after the other, each
    time the one that adds most; within a class that is by falling score, so a heap over the classes does.

    Args:
        ranking: the pairs that may be chosen.
        present: (C,) known present labels.
        budget: number of pairs; all where there are fewer.

    Returns:
        Images and classes, int64 (K,), in the order of choice.
    """
    weight, place = present + 1.0, np.zeros(len(present), np.int64)
    heap = [(-first[1] / float(weight[c]), c) for c in range(len(present)) if (first := ranking.at(c, 0))]
    heapq.heapify(heap)
    chosen: list[tuple[int, int]] = []
    while heap and len(chosen) < budget:
        _, c = heapq.heappop(heap)
        row, chance = ranking.at(c, int(place[c])) or (0, 0.0)
        chosen.append((row, c))
        weight[c] += chance
        place[c] += 1
        if following := ranking.at(c, int(place[c])):
            heapq.heappush(heap, (-following[1] / float(weight[c]), c))
    pairs = np.array(chosen, np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]
