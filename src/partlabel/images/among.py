"""Which of some paths a name means, where no disk is asked."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterable, Sequence

from partlabel.images.locate import folded, stem


def among(names: Iterable[str], paths: Sequence[str]) -> list[int]:
    """Return for each name the number of the path that it means, as on disk; -1 where none or several fit."""
    whole: tuple[defaultdict[str, list[int]], ...] = (defaultdict(list), defaultdict(list))
    last: tuple[defaultdict[str, list[int]], ...] = (defaultdict(list), defaultdict(list))
    for row, path in enumerate(paths):
        for index, key in ((whole, path), (last, posixpath.basename(path))):
            index[0][folded(key)].append(row)
            index[1][folded(stem(key))].append(row)
    found = []
    for name in names:
        plain = posixpath.normpath(name.replace("\\", "/"))
        indices = whole if "/" in plain else (*whole, *last)
        fitting = next((index[folded(plain)] for index in indices if folded(plain) in index), [])
        found.append(fitting[0] if len(fitting) == 1 else -1)
    return found
