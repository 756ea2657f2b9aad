"""What changed between two label tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.core.text import some
from partlabel.labels.pairs import ORIGINS
from partlabel.labels.table import LabelTable

#: images and classes that the text names
_NAMED = 10


@dataclass(frozen=True, eq=False)
class LabelDiff:
    """Differences between two tables; images and classes are matched by name.

    Attributes:
        images, classes: names only in the first and names only in the second table.
        changes: kind -> (M, 3) numbers into the second table's (``lost``: the first's) images and classes, and the new
            value. Kinds: ``added`` (unknown before), ``lost`` (unknown now), ``turned`` (the sign changed), ``origin``
            (the same sign from elsewhere, as a model label that a person confirmed).
        per_class: class -> kind -> count, classes with changes only.
        added_by: origin -> number of added labels.
    """

    images: tuple[list[str], list[str]]
    classes: tuple[list[str], list[str]]
    changes: dict[str, NDArray[np.int64]]
    per_class: dict[str, dict[str, int]]
    added_by: dict[str, int]
    turned: list[dict[str, str]]

    @property
    def same(self) -> bool:
        """Whether both tables say the same about the same images and classes."""
        return not any(map(len, (*self.images, *self.classes, *self.changes.values())))

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "same": self.same,
            "images_only_in_first": self.images[0],
            "images_only_in_second": self.images[1],
            "classes_only_in_first": self.classes[0],
            "classes_only_in_second": self.classes[1],
            **{kind: len(pairs) for kind, pairs in self.changes.items()},
            "added_by_origin": self.added_by,
            "turned_labels": self.turned,
            "per_class": self.per_class,
        }

    def text(self) -> str:
        """The same for people."""
        if self.same:
            return "Both tables hold the same images, classes and labels"
        lines = []
        for what, sides in (("images", self.images), ("classes", self.classes)):
            for side, names in zip(("first", "second"), sides, strict=True):
                if names:
                    lines.append(f"{len(names):,} {what} only in the {side} table: {some(names)}")
        by = ", ".join(f"{count:,} {origin}" for origin, count in self.added_by.items())
        words = {
            "added": f"labels added ({by})",
            "lost": "labels no longer known",
            "turned": "labels turned into their opposite",
            "origin": "labels that only have another origin",
        }
        lines += [f"{len(self.changes[kind]):,} {text}" for kind, text in words.items() if len(self.changes[kind])]
        lines += [f"  {t['image']}, {t['class']}: {t['before']} -> {t['after']}" for t in self.turned[:_NAMED]]
        if len(self.turned) > _NAMED:
            lines.append(f"  and {len(self.turned) - _NAMED:,} more")
        if self.per_class:
            width = max(map(len, self.per_class))
            lines.append(f"{'class':{width}}  present  absent  lost  turned")
            for name, count in self.per_class.items():
                lines.append(
                    f"{name:{width}}  {count['added_present']:7,}  {count['added_absent']:6,}  {count['lost']:4,}  "
                    f"{count['turned']:6,}"
                )
        return "\n".join(lines)


def diff(first: LabelTable, second: LabelTable) -> LabelDiff:
    """Compare two label tables, such as one before and after relabelling or a review.

    >>> before = LabelTable.from_dense(["a.jpg"], ["cat", "dog"], [[1, 0]])
    >>> after = before.with_labels([0], [1], [-1], origin="review")
    >>> diff(before, after).to_dict()["added"]
    1
    """
    images = (_only_in(first, second), _only_in(second, first))
    here, there = set(first.classes), set(second.classes)
    classes = ([n for n in first.classes if n not in there], [n for n in second.classes if n not in here])
    rows, columns = second.image_index(first.images), _columns(first, second)
    image, cls = rows[first.pair_images()], columns[first.indices]
    shared = (image >= 0) & (cls >= 0)
    old_key = image[shared] * second.num_classes + cls[shared]
    order = np.argsort(old_key)
    old_key, old_value = old_key[order], first.values[shared][order]
    old_origin = first.origin[shared][order]
    new_key = second.pairs().key
    common, at_old, at_new = np.intersect1d(old_key, new_key, assume_unique=True, return_indices=True)
    turned = old_value[at_old] != second.values[at_new]
    moved = ~turned & (old_origin[at_old] != second.origin[at_new])
    is_new = np.ones(len(new_key), bool)
    is_new[at_new] = False
    is_gone = np.ones(len(old_key), bool)
    is_gone[at_old] = False
    changes = {
        "added": np.flatnonzero(is_new),
        "lost": np.flatnonzero(is_gone),
        "turned": at_new[turned],
        "origin": at_new[moved],
    }
    keys = {"added": new_key[is_new], "lost": old_key[is_gone], "turned": common[turned], "origin": common[moved]}
    values = {kind: (old_value if kind == "lost" else second.values)[place] for kind, place in changes.items()}
    count = second.num_classes
    origins = np.bincount(second.origin[is_new], minlength=len(ORIGINS)).tolist()
    return LabelDiff(
        images,
        classes,
        {k: np.stack([key // count, key % count, values[k].astype(np.int64)], axis=1) for k, key in keys.items()},
        _per_class(second, keys, values),
        {name: number for name, number in zip(ORIGINS, origins, strict=True) if number},
        _turned(second, keys["turned"], values["turned"]),
    )


def _only_in(table: LabelTable, other: LabelTable) -> list[str]:
    return table.images.filter(pa.array(other.image_index(table.images) < 0)).to_pylist()


def _columns(table: LabelTable, other: LabelTable) -> NDArray[np.int64]:
    number = {name: place for place, name in enumerate(other.classes)}
    return np.array([number.get(name, -1) for name in table.classes], np.int64)


def _per_class(
    table: LabelTable, keys: dict[str, NDArray[np.int64]], values: dict[str, NDArray[np.int8]]
) -> dict[str, dict[str, int]]:
    count = table.num_classes
    parts = {
        "added_present": keys["added"][values["added"] > 0],
        "added_absent": keys["added"][values["added"] < 0],
        "lost": keys["lost"],
        "turned": keys["turned"],
        "origin": keys["origin"],
    }
    numbers = {kind: np.bincount(key % count, minlength=count) for kind, key in parts.items()} if count else {}
    changed = np.flatnonzero(sum(numbers.values())) if numbers else []
    return {table.classes[c]: {kind: int(number[c]) for kind, number in numbers.items()} for c in changed}


def _turned(table: LabelTable, key: NDArray[np.int64], value: NDArray[np.int8]) -> list[dict[str, str]]:
    words = {1: "present", -1: "absent"}
    return [
        {
            "image": table.images[int(k // table.num_classes)].as_py(),
            "class": table.classes[int(k % table.num_classes)],
            "before": words[-int(v)],
            "after": words[int(v)],
        }
        for k, v in zip(key, value, strict=True)
    ]
