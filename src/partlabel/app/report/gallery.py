"""Images of a label table to look at: examples of each class, and images that are hard to judge."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partlabel.core.compute import cores
from partlabel.core.progress import Reporter
from partlabel.images import find
from partlabel.images.decoding import ImageError
from partlabel.images.near_copies import BYTES, fingerprint, near_copies
from partlabel.images.quality import Quality, look_at
from partlabel.labels.table import LabelTable

#: classes that are shown, examples of each, images of each oddity, and images that are measured
_CLASSES, _EXAMPLES, _ODD, _MEASURED = 60, 8, 16, 2000
#: pairs that look alike that are shown
_COPIES = 24
#: what each oddity means for who reads it
MEANING = {
    "dark": "next to nothing is bright enough to be told",
    "pale": "nearly all of it is white",
    "flat": "all of it has nearly one grey level",
    "blurred": "no edge in it is sharp, even at a small size",
    "tiny": "a side has fewer than 64 pixels",
    "long and narrow": "one side is more than three times the other, and is squashed to a square",
}


def gallery(table: LabelTable, images: str | os.PathLike[str], seed: int = 0) -> dict[str, Any]:
    """Choose images to look at.

    Args:
        table: the labels.
        images: the folder of the images.
        seed: of the draw of examples, and of images that are measured where there are many.

    Returns:
        ``classes``: for each class ``class``, ``present`` (how many are known present) and ``examples`` (names);
        ``classes_left``: how many classes are not shown; ``odd``: for each kind ``kind``, ``meaning``, ``count`` and
        ``images`` (names with what was measured); ``measured``: how many images were looked at; ``missing``: how many
        of those are not there or cannot be read; ``copies``: pairs that look alike, ``images`` (two names) and
        ``differ`` (classes known present in one and absent in the other), those that differ first; ``alike``: how many
        such pairs there are.
    """
    random = np.random.default_rng(seed)
    names, present = table.images.to_pylist(), table.values > 0
    of_pair, shown = table.pair_images(), []
    for c, name in enumerate(table.classes):
        own = of_pair[present & (table.indices == c)]
        if len(own) and len(shown) < _CLASSES:
            drawn = random.permutation(own)[:_EXAMPLES].tolist()
            shown.append({"class": name, "present": len(own), "examples": [names[i] for i in drawn]})
    left = int((table.class_counts()[0] > 0).sum()) - len(shown)
    rows = np.sort(random.permutation(len(names))[:_MEASURED]).tolist()
    measured, prints = _measured([names[i] for i in rows], images)
    copies = _copies(table, list(measured), prints)
    return {
        "copies": copies[:_COPIES],
        "alike": len(copies),
        "classes": shown,
        "classes_left": left,
        "odd": _odd(measured),
        "measured": len(measured),
        "images": len(names),
        "missing": len(rows) - len(measured),
    }


def names_of(found: Mapping[str, Any]) -> list[str]:
    """All images that a gallery shows."""
    names = [name for row in found["classes"] for name in row["examples"]]
    names += [name for pair in found["copies"] for name in pair["images"]]
    return names + [row["image"] for kind in found["odd"] for row in kind["images"]]


def _measured(names: list[str], images: str | os.PathLike[str]) -> tuple[dict[str, Quality], NDArray[np.uint8]]:
    """Measure images that are there: by name, with their fingerprints in the same order."""

    def one(path: Path | None) -> tuple[Quality, NDArray[np.uint8]] | None:
        try:
            if path is None:
                return None
            quality, pixels = look_at(path)
            return quality, fingerprint(pixels)
        except (ImageError, OSError):
            return None

    found, prints = {}, []
    with Reporter().bar("looking for odd images") as bar, ThreadPoolExecutor(cores()) as pool:
        for done, (name, seen) in enumerate(zip(names, pool.map(one, find(names, images)), strict=True), 1):
            if seen is not None:
                found[name] = seen[0]
                prints.append(seen[1])
            bar(done, len(names))
    return found, np.array(prints, np.uint8).reshape(len(prints), BYTES)


def _copies(table: LabelTable, names: list[str], prints: NDArray[np.uint8]) -> list[dict[str, Any]]:
    """Pairs of images that look alike, and the classes in which their known labels contradict each other."""
    pairs = near_copies(prints) if len(prints) > 1 else []
    rows = table.image_index(names)
    found = []
    for i, k in pairs:
        one, other = table.dense(rows[[i, k]])
        differ = [table.classes[c] for c in np.flatnonzero(one.astype(int) * other < 0)]
        found.append({"images": [names[k], names[i]], "differ": differ})
    return sorted(found, key=lambda pair: -len(pair["differ"]))


def _odd(measured: Mapping[str, Quality]) -> list[dict[str, Any]]:
    """The images of each oddity, the oddest first."""
    order = {
        "dark": lambda q: q.brightness,
        "pale": lambda q: -q.brightness,
        "flat": lambda q: q.spread,
        "blurred": lambda q: q.sharpness,
        "tiny": lambda q: min(q.width, q.height),
        "long and narrow": lambda q: -max(q.width, q.height) / min(q.width, q.height),
    }
    kinds: dict[str, list[str]] = {kind: [] for kind in MEANING}
    for name, quality in measured.items():
        for kind in quality.odd():
            kinds[kind].append(name)
    rows = []
    for kind, own in kinds.items():
        own.sort(key=lambda name, by=order[kind]: by(measured[name]))
        images = [{"image": n, "size": f"{measured[n].width} x {measured[n].height}"} for n in own[:_ODD]]
        if own:
            rows.append({"kind": kind, "meaning": MEANING[kind], "count": len(own), "images": images})
    return rows
