"""Lists of pairs in a fixed order, cut by a filter, with or without those that are answered."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from partlabel.app.review.board import Board, Keys, Ranked, among, levels_between
from partlabel.labels.table import ORIGINS

#: what ``origin`` may be in a filter
FILTER_ORIGINS = (*ORIGINS, "unknown")
#: keys looked at in one go
_BLOCK = 4_000_000
#: new answers above which a view looks for all answered pairs anew
_MANY = 64


@dataclass(frozen=True)
class Filter:
    """Which pairs to show; None: all.

    Attributes:
        cls: class number.
        origin: of the label, or ``unknown`` for pairs without one.
        value: of the label, ``present`` or ``absent``.
        low: least probability of present.
        high: greatest probability of present.
        search: text that the name of the image holds, in any case.
    """

    cls: int | None = None
    origin: str | None = None
    value: str | None = None
    low: float | None = None
    high: float | None = None
    search: str | None = None


class Marks:
    """Which pairs are answered; views follow the changes."""

    def __init__(self) -> None:
        self.changed: list[int] = []
        self._answered: set[int] = set()
        self._lock = threading.Lock()

    def set(self, key: int, answered: bool) -> None:
        """Mark a pair."""
        with self._lock:
            if (key in self._answered) != answered:
                (self._answered.add if answered else self._answered.discard)(key)
                self.changed.append(key)

    def keys(self) -> NDArray[np.int64]:
        """The answered pairs, in no order."""
        with self._lock:
            return np.fromiter(self._answered, np.int64, len(self._answered))

    def among(self, keys: Keys) -> NDArray[np.bool_]:
        """Which of some pairs (n,) are answered."""
        return among(self.keys(), np.asarray(keys))


class View:
    """Pairs in the order in which they are shown.

    Args:
        keys: the pairs, each once.
        marks: which are answered.
        place: finds the position of a pair in ``keys``, or -1; None: looks through them.
    """

    def __init__(self, keys: Keys | Ranked, marks: Marks, place: Callable[[int], int] | None = None) -> None:
        self.keys = keys
        self._marks = marks
        self._place = place
        self._lock = threading.Lock()
        self._seen = -1
        self._answered = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self.keys)

    def answered(self) -> NDArray[np.int64]:
        """Positions of the answered pairs, in order."""
        with self._lock:
            # The number of changes is read before the marks, so that a change in between is looked at again.
            changes = len(self._marks.changed)
            if self._seen < 0 or (changes - self._seen > _MANY and self._place is None):
                self._answered = self._all_answered()
            elif changes > self._seen:
                place = self._place or self._look
                places = np.array([place(key) for key in set(self._marks.changed[self._seen : changes])])
                places = places[places >= 0]
                now = places[self._marks.among(self.keys[places])]
                self._answered = np.union1d(np.setdiff1d(self._answered, places), now)
            self._seen = changes
            return self._answered

    def page(self, offset: int, limit: int, open_only: bool) -> tuple[int, Keys]:
        """How many pairs there are, and those of one page.

        Args:
            offset: pairs before the page.
            limit: pairs of the page.
            open_only: leave out those that are answered.
        """
        if not open_only:
            return len(self.keys), np.asarray(self.keys[offset : offset + limit])
        answered = self.answered()
        total = len(self.keys) - len(answered)
        wanted = np.arange(offset, max(min(offset + limit, total), offset))
        # Before the j-th open pair lie as many answered ones as have at most j open pairs before them.
        before = np.searchsorted(answered - np.arange(len(answered)), wanted, side="right")
        return total, np.asarray(self.keys[wanted + before])

    def _look(self, key: int) -> int:
        found = np.flatnonzero(self.keys == key)
        return int(found[0]) if len(found) else -1

    def _all_answered(self) -> NDArray[np.int64]:
        marked = self._marks.keys()
        if self._place is not None:  # of a long list: the few answered ones are looked up
            places = np.sort(np.array([self._place(key) for key in marked.tolist()], np.int64))
            return places[places >= 0]
        blocks = range(0, len(self.keys), _BLOCK)
        parts = [low + np.flatnonzero(among(marked, np.asarray(self.keys[low : low + _BLOCK]))) for low in blocks]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)


class Views:
    """Filtered lists; the latest ones are kept.

    Args:
        board: the pairs.
        images: (N,) names of the images.
        marks: which pairs are answered.
    """

    #: lists that are kept, and pairs in all of them together
    KEPT, KEPT_PAIRS = 16, 100_000_000

    def __init__(self, board: Board, images: pa.StringArray, marks: Marks) -> None:
        self._board = board
        self._images = images
        self._marks = marks
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, Filter], View] = OrderedDict()

    def get(self, queue: str, base: View | None, chosen: Filter) -> View:
        """The pairs of a queue that pass a filter, in its order.

        Args:
            queue: name of the queue.
            base: its pairs; None: all listed pairs, the most probable first; all pairs of a class that is chosen.
            chosen: the filter.
        """
        name = (queue, chosen)
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
                return self._kept[name]
        return self._keep(name, base if base is not None and chosen == Filter() else self._make(base, chosen))

    def _keep(self, name: tuple[str, Filter], made: View) -> View:
        with self._lock:
            self._kept[name] = made
            # Lists on disk, or parts of them, take no memory of their own.
            own = [0 if isinstance(view.keys, np.memmap | Ranked) else len(view) for view in self._kept.values()]
            while len(own) > self.KEPT or (len(own) > 1 and sum(own) > self.KEPT_PAIRS):
                self._kept.popitem(last=False)
                del own[0]
        return made

    def by_label(self, queue: str, view: View, chosen: Filter) -> View:
        """A list in another order: pairs with a present label first, then absent, then unknown ones."""
        name = (f"{queue} by label", chosen)
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
                return self._kept[name]
        keys = np.asarray(view.keys[:])
        states = self._board.states_of(keys)
        order = np.argsort(np.where(states == 0, 2, states % 2), kind="stable")  # present is even, absent odd
        return self._keep(name, View(keys[order], self._marks))

    def pictures(self, search: str | None) -> NDArray[np.int64]:
        """Numbers of the images whose name holds a text, in any case."""
        if not search:
            return np.arange(len(self._images))
        found = pc.match_substring(self._images, search, ignore_case=True)  # pyrefly: ignore[missing-attribute]
        return np.flatnonzero(found.to_numpy(zero_copy_only=False))

    def _make(self, base: View | None, chosen: Filter) -> View:
        board = self._board
        if base is not None:
            return View(self._passing(base.keys, chosen), self._marks)
        if chosen.cls is not None:
            return View(self._passing(board.of_class(chosen.cls), chosen), self._marks)
        keys = board.ranked(0 if chosen.low is None else chosen.low, 1 if chosen.high is None else chosen.high)
        if chosen == Filter(low=chosen.low, high=chosen.high):
            return View(keys, self._marks, keys.place)
        return View(self._passing(keys, chosen), self._marks)

    def _passing(self, keys: Keys | Ranked, chosen: Filter) -> Keys | Ranked:
        """The keys that pass; a block at a time, because the masks of all of them would fill the memory."""
        tests = self._tests(chosen)
        if not tests:
            return keys
        parts = []
        for low in range(0, len(keys), _BLOCK):
            block = np.asarray(keys[low : low + _BLOCK])
            for test in tests:
                block = block[test(block)]
            parts.append(block)
        return np.concatenate(parts) if parts else keys

    def _tests(self, chosen: Filter) -> list[Callable[[Keys], NDArray[np.bool_]]]:
        board, tests = self._board, []
        count = board.pictures
        if chosen.cls is not None:
            first = chosen.cls * count
            tests.append(lambda keys: (keys >= first) & (keys < first + count))
        if chosen.search:
            named = np.zeros(count, bool)
            named[self.pictures(chosen.search)] = True
            tests.append(lambda keys: named[keys % count])
        if chosen.low is not None or chosen.high is not None:
            low, high = levels_between(
                0 if chosen.low is None else chosen.low, 1 if chosen.high is None else chosen.high
            )

            def between(keys: Keys) -> NDArray[np.bool_]:
                levels = board.levels_of(keys)
                return (levels >= low) & (levels <= high)

            tests.append(between)
        if chosen.origin is not None or chosen.value is not None:
            wanted = _wanted_states(chosen.origin, chosen.value)
            tests.append(lambda keys: wanted[board.states_of(keys)])
        return tests


def _wanted_states(origin: str | None, value: str | None) -> NDArray[np.bool_]:
    """Which states (see :class:`Board`) pass a filter, bool (256,)."""
    codes = np.arange(256)
    wanted = np.ones(256, bool)
    if origin == "unknown":
        wanted &= codes == 0
    elif origin is not None:
        wanted &= (codes > 0) & ((codes - 1) // 2 == ORIGINS.index(origin))
    if value is not None:
        wanted &= (codes > 0) & ((codes - 1) % 2 == (value == "present"))
    return wanted
