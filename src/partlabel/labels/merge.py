"""Labels added to a table, and two tables made one."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from partlabel.core.errors import UserError
from partlabel.labels.arrays import LabelArrays
from partlabel.labels.checks import checked_pairs, describe
from partlabel.labels.pairs import MODEL, REVIEW, concatenate, csr, origin_code, settle

#: a table of whichever kind was given
Table = TypeVar("Table", bound=LabelArrays)

CONFLICTS = ("error", "unknown", "present", "absent", "first")


def add(
    table: Table,
    image_index: ArrayLike,
    class_index: ArrayLike,
    values: ArrayLike,
    *,
    origin: str,
    score: ArrayLike | None,
    round: int | None,
) -> Table:
    """Carry out ``LabelTable.with_labels``."""
    code = origin_code(origin)
    if origin == "given":
        raise UserError("given labels are not added to a table: read them into a table of their own and merge")
    if code != MODEL and (score is not None or round is not None):
        raise UserError(f"only labels of origin model have a score and a round, not {origin}")
    new = checked_pairs(
        table.images, table.classes, image_index, class_index, values, origin=origin, score=score, round=round
    )
    new, _ = settle(new, "error", lambda key: describe(key, table.images, table.classes))
    old = table.pairs()
    at = np.searchsorted(old.key, new.key)
    known = at < len(old.key)
    known[known] = old.key[at[known]] == new.key[known]
    changeable = np.isin(old.origin[at[known]], [MODEL, REVIEW]) & (code == REVIEW)
    fixed = np.flatnonzero(known)[~changeable]
    if len(fixed):
        offenders = [describe(int(key), table.images, table.classes) for key in new.key[fixed]]
        raise UserError(f"{len(fixed)} labels are already known and stay as they are", offenders)
    keep = np.ones(len(old.key), bool)
    keep[at[known]] = False
    pairs = concatenate(old.take(keep) if known.any() else old, new).sorted()
    details: dict[str, Any] = {"origin": origin, "added": len(new.key) - int(known.sum())}
    details |= {"replaced": int(known.sum())} if code == REVIEW else {}
    details |= {"round": round} if round is not None else {}
    return table.derive("with_labels", details, **csr(pairs, table.num_images, table.num_classes))


def merge(table: Table, other: LabelArrays, conflicts: str) -> Table:
    """Carry out ``LabelTable.merge``."""
    if conflicts not in CONFLICTS:
        raise UserError(f"the policy {conflicts!r} is not known; use one of: {', '.join(CONFLICTS)}")
    images, image_of = _union_images(table, other)
    known = set(table.classes)
    classes = (*table.classes, *(name for name in other.classes if name not in known))
    number = {name: i for i, name in enumerate(classes)}
    class_of = np.array([number[name] for name in other.classes], np.int64)

    first, second = table.pairs(), other.pairs()
    key_first = table.pair_images() * len(classes) + table.indices
    key_second = image_of[other.pair_images()] * len(classes) + class_of[other.indices]
    both = concatenate(first.at(key_first), second.at(key_second)).sorted()
    pairs, settled = settle(
        both,
        "same" if conflicts == "error" else conflicts,
        lambda key: describe(key, images, classes),
    )
    details = {
        "conflicts": conflicts,
        "settled": settled,
        "images": other.num_images,
        "known": other.num_known,
        "history": [dict(record) for record in other.history],
    }
    return table.derive(
        "merge",
        details,
        images=images,
        classes=classes,
        class_ids=_union_ids(table, other, classes),
        groups=_union_groups(table, other, images, image_of),
        coding="; ".join(dict.fromkeys(text for text in (table.coding, other.coding) if text)),
        **csr(pairs, len(images), len(classes)),
    )


def _union_images(table: LabelArrays, other: LabelArrays) -> tuple[pa.StringArray, NDArray[np.int64]]:
    """Return all images, and the number there of each image of the other table."""
    image_of = table.image_index(other.images)
    new = image_of < 0
    image_of[new] = table.num_images + np.arange(int(new.sum()))
    return pa.concat_arrays([table.images, other.images.filter(pa.array(new))]), image_of


def _union_ids(table: LabelArrays, other: LabelArrays, classes: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return an id for each class, or None where not every class has one."""
    ids = dict(zip(table.classes, table.class_ids or (), strict=False))
    offenders = []
    for name, identity in zip(other.classes, other.class_ids or (), strict=False):
        if ids.setdefault(name, identity) != identity:
            offenders.append(f"{name}: {ids[name]} and {identity}")
    if offenders:
        raise UserError(f"{len(offenders)} classes have different ids in the two tables", offenders)
    return tuple(ids[name] for name in classes) if len(ids) == len(classes) else None


def _union_groups(
    table: LabelArrays, other: LabelArrays, images: pa.StringArray, image_of: NDArray[np.int64]
) -> pa.StringArray | None:
    """Return the group of each image; an image that only one table puts into a group is in that group."""
    if table.groups is None and other.groups is None:
        return None
    nothing = pa.scalar(None, pa.string())
    own = table.groups if table.groups is not None else pa.repeat(nothing, table.num_images)
    theirs = other.groups if other.groups is not None else pa.repeat(nothing, other.num_images)
    size = len(images)
    place = np.full(size, -1, np.int64)
    place[image_of] = np.arange(other.num_images)
    aligned = theirs.take(pa.array(place, mask=place < 0))
    both = pa.concat_arrays([own, pa.repeat(nothing, size - table.num_images), aligned])
    code = both.dictionary_encode().indices.fill_null(-1).to_numpy()
    first, second = code[:size], code[size:]
    differs = np.flatnonzero((first >= 0) & (second >= 0) & (first != second))
    if len(differs):
        offenders = [f"{images[int(i)]}: {both[int(i)]} and {both[int(i) + size]}" for i in differs]
        raise UserError(f"{len(differs)} images are in different groups in the two tables", offenders)
    return both.take(pa.array(np.arange(size) + np.where(first >= 0, 0, size)))
