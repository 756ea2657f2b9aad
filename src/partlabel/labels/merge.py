"""Labels added to a table, and two tables made one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from partlabel.core.errors import UserError
from partlabel.labels.arrays import LabelArrays
from partlabel.labels.checks import checked_pairs, describe
from partlabel.labels.pairs import MODEL, REVIEW, Pairs, concatenate, csr, origin_code, settle

#: a table of whichever kind was given
Table = TypeVar("Table", bound=LabelArrays)

#: known labels that are looked through together
_AT_ONCE = 2**18
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
    at, known = _places(table, new.key)
    changeable = np.isin(table.origin[at[known]], [MODEL, REVIEW]) & (code == REVIEW)
    fixed = np.flatnonzero(known)[~changeable]
    if len(fixed):
        offenders = [describe(int(key), table.images, table.classes) for key in new.key[fixed]]
        raise UserError(f"{len(fixed)} labels are already known and stay as they are", offenders)
    details: dict[str, Any] = {"origin": origin, "added": len(new.key) - int(known.sum())}
    details |= {"replaced": int(known.sum())} if code == REVIEW else {}
    details |= {"round": round} if round is not None else {}
    return table.derive("with_labels", details, **_inserted(table, new, at, at[known]))


def _places(table: LabelArrays, key: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Find where pairs with rising keys (M,) belong among the known labels, and which of them are known, (M,) each."""
    at, known = np.empty(len(key), np.int64), np.zeros(len(key), bool)
    cuts = np.searchsorted(table.indptr, np.arange(_AT_ONCE, table.num_known, _AT_ONCE))
    edges = np.array([0, *cuts, table.num_images], np.int64)
    start = np.searchsorted(key, edges * table.num_classes)
    for low, high, some in zip(edges[:-1], edges[1:], map(slice, start[:-1], start[1:]), strict=True):
        own = slice(table.indptr[low], table.indptr[high])
        old = np.repeat(np.arange(low, high), np.diff(table.indptr[low : high + 1])) * table.num_classes
        old += table.indices[own]
        found = np.searchsorted(old, key[some])
        same = found < len(old)
        same[same] = old[found[same]] == key[some][same]
        at[some], known[some] = found + own.start, same
    return at, known


def _inserted(
    table: LabelArrays, new: Pairs, at: NDArray[np.int64], without: NDArray[np.int64]
) -> dict[str, NDArray[Any] | None]:
    """The arrays of a table with pairs more (M,), sorted by key, before the known labels ``at`` (M,).

    Those at ``without`` (rising) are left out. One array is made after the other, so that no label is held twice.
    """
    keep = np.ones(table.num_known, bool)
    keep[without] = False
    every = keep.all()
    place = at - np.searchsorted(without, at) + np.arange(len(at))
    old = np.ones(table.num_known - len(without) + len(at), bool)
    old[place] = False

    def filled(name: str, mine: NDArray[Any] | None, missing: float = 0) -> NDArray[Any] | None:
        array = getattr(table, name)
        kind = next((each.dtype for each in (array, mine) if each is not None), None)
        if kind is None:
            return None
        result = np.full(len(old), missing, kind)
        if array is not None:
            result[old] = array if every else array[keep]
        if mine is not None:
            result[place] = mine
        return result

    ends = np.arange(table.num_images + 1, dtype=np.int64) * table.num_classes
    return {
        "indptr": table.indptr - np.searchsorted(without, table.indptr) + np.searchsorted(new.key, ends),
        "indices": filled("indices", (new.key % max(table.num_classes, 1)).astype(np.int32)),
        "values": filled("values", new.values),
        "origin": filled("origin", new.origin),
        "score": filled("score", new.score, np.nan),
        "round": filled("round", new.round, -1),
    }


def merge(table: Table, others: Sequence[LabelArrays], conflicts: str) -> Table:
    """Carry out ``LabelTable.merge``; all tables are settled at once, so that only ``first`` looks at their order."""
    if conflicts not in CONFLICTS:
        raise UserError(f"the policy {conflicts!r} is not known; use one of: {', '.join(CONFLICTS)}")
    tables = [table, *others]
    images, image_of = _union_images(tables)
    classes = tuple(dict.fromkeys(name for one in tables for name in one.classes))
    number = {name: i for i, name in enumerate(classes)}
    listed = []
    for one, image in zip(tables, image_of, strict=True):
        cls = np.array([number[name] for name in one.classes], np.int64)
        listed.append(one.pairs().at(image[one.pair_images()] * len(classes) + cls[one.indices]))
    pairs, settled = settle(
        reduce(concatenate, listed).sorted(),
        "same" if conflicts == "error" else conflicts,
        lambda key: describe(key, images, classes),
    )
    details = {
        "conflicts": conflicts,
        "settled": settled,
        "images": sum(one.num_images for one in others),
        "known": sum(one.num_known for one in others),
        "history": [dict(record) for one in others for record in one.history],
    }
    return table.derive(
        "merge",
        details,
        images=images,
        classes=classes,
        class_ids=_union_ids(tables, classes),
        groups=_union_groups(tables, images, image_of),
        coding="; ".join(dict.fromkeys(one.coding for one in tables if one.coding)),
        **csr(pairs, len(images), len(classes)),
    )


def _union_images(tables: Sequence[LabelArrays]) -> tuple[pa.StringArray, list[NDArray[np.int64]]]:
    """Return all images in order of appearance, and for each table the number there of each of its images."""
    encoded = pa.concat_arrays([one.images for one in tables]).dictionary_encode()
    ends = np.cumsum([one.num_images for one in tables])[:-1]
    return encoded.dictionary, np.split(encoded.indices.to_numpy().astype(np.int64), ends)


def two_ids(tables: Sequence[LabelArrays]) -> list[str]:
    """Return the classes that have different ids in different tables, as ``cat: 7 and 3``."""
    ids: dict[str, str] = {}
    own = [pair for one in tables for pair in zip(one.classes, one.class_ids or (), strict=False)]
    return [f"{name}: {ids[name]} and {id}" for name, id in own if ids.setdefault(name, id) != id]


def _union_ids(tables: Sequence[LabelArrays], classes: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return an id for each class, or None where not every class has one of its own.

    Raises:
        UserError: a class has two ids.
    """
    if offenders := two_ids(tables):
        raise UserError(f"{len(offenders)} classes have different ids in the tables", offenders)
    ids = {name: id for one in tables for name, id in zip(one.classes, one.class_ids or (), strict=False)}
    usable = len(ids) == len(classes) == len(set(ids.values()))
    return tuple(ids[name] for name in classes) if usable else None


def _union_groups(
    tables: Sequence[LabelArrays], images: pa.StringArray, image_of: Sequence[NDArray[np.int64]]
) -> pa.StringArray | None:
    """Return the group of each image; an image that only one table puts into a group is in that group.

    Raises:
        UserError: an image is in two groups.
    """
    if all(one.groups is None for one in tables):
        return None
    nothing = pa.scalar(None, pa.string())
    own = [pa.repeat(nothing, one.num_images) if one.groups is None else one.groups for one in tables]
    encoded = pa.concat_arrays(own).dictionary_encode()
    codes = np.split(encoded.indices.fill_null(-1).to_numpy(), np.cumsum([len(names) for names in own])[:-1])
    group = np.full(len(images), -1, np.int64)
    offenders = []
    for image, code in zip(image_of, codes, strict=True):
        for i in np.flatnonzero((group[image] >= 0) & (code >= 0) & (group[image] != code)).tolist():
            first, second = encoded.dictionary[int(group[image[i]])], encoded.dictionary[int(code[i])]
            offenders.append(f"{images[int(image[i])]}: {first} and {second}")
        group[image] = np.where(group[image] >= 0, group[image], code)
    if offenders:
        raise UserError(f"{len(offenders)} images are in different groups in the tables", offenders)
    return encoded.dictionary.take(pa.array(group, mask=group < 0))
