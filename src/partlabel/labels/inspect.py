"""What a label table knows and what it lacks: counts, co-occurrence, look-alike class names and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partlabel.core.text import some
from partlabel.labels.class_names import look_alikes, similar
from partlabel.labels.groups import COPIES
from partlabel.labels.table import ORIGINS, LabelTable

#: a class with fewer known present labels than this is named in a warning
FEW_PRESENT = 10
#: classes whose co-occurrence is listed pair by pair: the ones most often present
PAIR_CLASSES = 1000
#: classes of the co-occurrence matrix in the JSON form
MATRIX_CLASSES = 100
#: pairs of classes listed, most often together first
PAIRS = 100
#: groups of copies that are named
FEW_COPIES = 5
#: rows of labels made dense at once
CHUNK = 65_536


@dataclass(frozen=True)
class Together:
    """Two classes that are present in the same images.

    Attributes:
        first, second: class numbers, the one present more often first.
        together: images where both are known to be present.
        known: images where both labels are known, present or absent.
        expected: images of ``known`` in which both would be present if they had nothing to do with each other.
    """

    first: int
    second: int
    together: int
    known: int
    expected: float


@dataclass(frozen=True)
class Inspection:
    """What ``inspect`` found; N images, C classes, K known labels.

    Attributes:
        images, known: N and K.
        classes, class_ids: names, and the source's ids or None.
        present, absent: int64 (C,), images in which the class is known to be present, known to be absent.
        proportion: float64 (N,), share of the classes that are known for each image (p_y).
        origins: number of labels of each origin that occurs.
        without_known, without_present, fully_known: numbers of images.
        pairs: up to 100 pairs of classes, most often together first.
        matrix_classes: class numbers of ``matrix``, most often present first, at most 100.
        matrix: int64 (M, M), images where both classes are known to be present; the diagonal counts the class itself.
        given: float64 (M, M), share of the images with the row's class present and the column's class known in which
            the column's class is present; NaN where there is no such image.
        look_alikes: groups of class names that differ only in case, blanks or punctuation.
        similar: pairs of class names that are one letter apart.
        warnings: sentences.
        coding: what the values of the source meant.
        history: what was done to the table, oldest first.
    """

    images: int
    known: int
    classes: tuple[str, ...]
    class_ids: tuple[str, ...] | None
    present: NDArray[np.int64]
    absent: NDArray[np.int64]
    proportion: NDArray[np.float64]
    origins: dict[str, int]
    without_known: int
    without_present: int
    fully_known: int
    pairs: list[Together]
    matrix_classes: NDArray[np.int64]
    matrix: NDArray[np.int64]
    given: NDArray[np.float64]
    look_alikes: list[list[str]]
    similar: list[tuple[str, str]]
    warnings: list[str]
    coding: str
    history: tuple[Any, ...]

    @property
    def overall_proportion(self) -> float:
        """Known labels out of all N x C pairs; 0 for an empty table."""
        return self.known / max(self.images * len(self.classes), 1)

    @property
    def by_presence(self) -> NDArray[np.int64]:
        """Class numbers, most often present first; ties in the order of the table."""
        return np.argsort(-self.present, kind="stable")

    def histogram(self) -> list[int]:
        """Number of images by label proportion, in ten bins: [0, 0.1), ..., [0.9, 1]."""
        return np.histogram(self.proportion, bins=10, range=(0.0, 1.0))[0].tolist()

    def to_dict(self) -> dict[str, Any]:
        """Give everything as JSON-able values; None where a number is undefined."""
        quartiles = np.quantile(self.proportion, [0, 0.25, 0.5, 0.75, 1]).tolist() if self.images else [None] * 5
        return {
            "images": self.images,
            "classes": len(self.classes),
            "known": self.known,
            "present": int(self.present.sum()),
            "absent": int(self.absent.sum()),
            "label_proportion": {
                "overall": self.overall_proportion,
                **dict(zip(("min", "lower_quartile", "median", "upper_quartile", "max"), quartiles, strict=True)),
                "histogram": self.histogram(),
            },
            "images_without_known_label": self.without_known,
            "images_without_present_label": self.without_present,
            "images_fully_known": self.fully_known,
            "origins": self.origins,
            "per_class": [
                {
                    "name": name,
                    "id": None if self.class_ids is None else self.class_ids[c],
                    "present": int(self.present[c]),
                    "absent": int(self.absent[c]),
                    "unknown": int(self.images - self.present[c] - self.absent[c]),
                }
                for c, name in enumerate(self.classes)
            ],
            "cooccurrence": {
                "classes": [self.classes[c] for c in self.matrix_classes],
                "present": self.matrix.tolist(),
                "pairs": [
                    {
                        "classes": [self.classes[p.first], self.classes[p.second]],
                        "together": p.together,
                        "both_known": p.known,
                        "expected": round(p.expected, 3),
                    }
                    for p in self.pairs
                ],
            },
            "look_alikes": self.look_alikes,
            "similar": [list(pair) for pair in self.similar],
            "warnings": self.warnings,
            "coding": self.coding,
            "history": list(self.history),
        }


def inspect(table: LabelTable) -> Inspection:
    """Count what is known in a label table.

    Args:
        table: N images, C classes.

    Returns:
        The counts, the co-occurrence of classes and the warnings.

    >>> labels = LabelTable.from_dense(["a.jpg", "b.jpg"], ["cat", "dog"], [[1, 0], [-1, 1]])
    >>> found = inspect(labels)
    >>> found.known, found.present.tolist(), found.absent.tolist()
    (3, [1, 1], [1, 0])
    """
    present, absent = table.class_counts()
    images_present, images_absent = table.image_counts()
    images_known = images_present + images_absent
    order = np.argsort(-present, kind="stable")
    pairs = _pairs(table, order[:PAIR_CLASSES])
    chosen = order[:MATRIX_CLASSES]
    both, one_known, _ = _dense_counts(table, chosen)
    origins = np.bincount(table.origin, minlength=len(ORIGINS))
    alike = look_alikes(table.classes)
    close = similar(table.classes, alike)
    return Inspection(
        images=table.num_images,
        known=table.num_known,
        classes=table.classes,
        class_ids=table.class_ids,
        present=present,
        absent=absent,
        proportion=table.proportion(),
        origins={name: int(count) for name, count in zip(ORIGINS, origins, strict=True) if count},
        without_known=int((images_known == 0).sum()),
        without_present=int((images_present == 0).sum()),
        fully_known=int((images_known == table.num_classes).sum()),
        pairs=pairs,
        matrix_classes=chosen,
        matrix=both,
        given=np.divide(both, one_known, out=np.full(both.shape, np.nan), where=one_known > 0),
        look_alikes=alike,
        similar=close,
        warnings=_warnings(table, present, absent, images_known, [*alike, *close]),
        coding=table.coding,
        history=tuple(table.history),
    )


def _pairs(table: LabelTable, classes: NDArray[np.int64]) -> list[Together]:
    """List the pairs of ``classes`` (most often present first) that are most often present together."""
    if len(classes) < 2:
        return []
    counts = table.select_classes([table.classes[c] for c in classes]).cooccurrence()
    upper = np.triu(counts, k=1).ravel()
    best = np.argsort(-upper, kind="stable")[:PAIRS]
    best = best[upper[best] > 0]
    first, second = np.unravel_index(best, counts.shape)
    involved, place = np.unique(np.concatenate([first, second]), return_inverse=True)
    both, one_known, two_known = _dense_counts(table, classes[involved])
    a, b = place[: len(best)], place[len(best) :]
    # share of the one class present, over the images in which both are known, for each side
    share_a = one_known[a, b] / np.maximum(two_known[a, b], 1)
    share_b = one_known[b, a] / np.maximum(two_known[a, b], 1)
    expected = two_known[a, b] * share_a * share_b
    return [
        Together(int(classes[f]), int(classes[s]), int(both[i, j]), int(two_known[i, j]), float(e))
        for f, s, i, j, e in zip(first, second, a, b, expected, strict=True)
    ]


def _dense_counts(
    table: LabelTable, classes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Count images for each pair (a, b) of some classes: both present; a present and b known; both known."""
    part = table.select_classes([table.classes[c] for c in classes])
    m = len(classes)
    sums = np.zeros((3, m, m))
    for start in range(0, part.num_images, CHUNK):
        labels = part.dense(slice(start, min(start + CHUNK, part.num_images)))
        # Sums of at most 65,536 ones are exact in float32, which multiplies much faster than integers.
        present, known = (labels > 0).astype(np.float32), (labels != 0).astype(np.float32)
        sums += present.T @ present, present.T @ known, known.T @ known
    both, one_known, two_known = sums.astype(np.int64)
    return both, one_known, two_known


def _warnings(
    table: LabelTable,
    present: NDArray[np.int64],
    absent: NDArray[np.int64],
    images_known: NDArray[np.int64],
    alike: Sequence[Sequence[str]],
) -> list[str]:
    """Say in sentences what will hurt training or evaluation."""

    def named(mask: NDArray[np.bool_]) -> str:
        return some([table.classes[c] for c in np.flatnonzero(mask)])

    if not table.num_known:
        return ["No label is known: nothing can be trained from this table."]
    found = []
    if not absent.any():
        found.append("No label is known to be absent: a model trained on this learns to say yes to everything.")
    elif not present.any():
        found.append("No label is known to be present: a model trained on this learns to say no to everything.")
    for mask, what in (
        ((present + absent) == 0, "without any known label, which cannot be learned"),
        ((present == 0) & (absent > 0), "known only as absent, whose average precision is undefined"),
        ((absent == 0) & (present > 0) & bool(absent.any()), "known only as present"),
        ((present > 0) & (present < FEW_PRESENT), f"with fewer than {FEW_PRESENT} known present labels"),
    ):
        if count := int(mask.sum()):
            found.append(f"{count} {'class' if count == 1 else 'classes'} {what}: {named(mask)}.")
    if empty := int((images_known == 0).sum()):
        found.append(
            f"{empty:,} of {table.num_images:,} images have no known label: they can be predicted, but teach nothing."
        )
    found += [f"These class names look alike: {' / '.join(group)}." for group in alike]
    return found + _copies(table)


def _copies(table: LabelTable) -> list[str]:
    """Say which images are copies of one another, as their groups tell."""
    together: dict[str, list[str]] = {}
    groups = [] if table.groups is None else table.groups.to_pylist()
    for name, group in zip(table.images.to_pylist(), groups, strict=False):
        if group is not None and group.startswith(COPIES):
            together.setdefault(group, []).append(name)
    if not together:
        return []
    shown = [" = ".join(names) for names in together.values()]
    more = f" and {len(shown) - FEW_COPIES} more" if len(shown) > FEW_COPIES else ""
    count = sum(map(len, together.values()))
    return [f"{count:,} images are copies of one another: {'; '.join(shown[:FEW_COPIES])}{more}."]
