"""From statements about (image, class) pairs to a label table: repeats, contradictions, pairs that are not listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.core.files import write_text
from partlabel.formats.report import Conflict, ImportReport, Tally, plural
from partlabel.images.locate import locate
from partlabel.labels.pairs import MODEL
from partlabel.labels.table import LabelTable

#: how contradicting statements about one pair are settled; row order never decides
CONFLICTS = ("error", "unknown", "present", "absent", "majority")
#: the most pairs that not_listed=absent may fill in; each takes 6 bytes
_MOST_FILLED = 2_000_000_000


@dataclass
class Statements:
    """What a source says, in its own order.

    Attributes:
        images: (N,) unique names; classes: C unique names; class_ids: C ids of the source, or None.
        image, cls: int32 (S,) numbers of the pair that a statement is about.
        value: int8 (S,), +1 present, -1 absent, 0 uncertain (somebody looked and did not decide). Pairs about which
            nothing is said are simply not there.
        row: int64 (S,) row of the source, for ``place``.
        place: rows -> where they are, such as ``labels.csv:3``; called only to explain.
        groups: (N,) names or None.
        score: float32 (S,) score before the sigmoid of statements that a machine made, NaN where a person did, or None
            for persons only. A machine's statement yields to a person's about the same pair.
    """

    images: pa.StringArray
    classes: Sequence[str]
    image: NDArray[np.int32]
    cls: NDArray[np.int32]
    value: NDArray[np.int8]
    row: NDArray[np.int64]
    place: Callable[[Sequence[int]], list[str]]
    class_ids: Sequence[str] | None = None
    groups: pa.StringArray | None = None
    score: NDArray[np.float32] | None = None

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Leave only the statements where ``mask`` (S,) holds."""
        self.image, self.cls = self.image[mask], self.cls[mask]
        self.value, self.row = self.value[mask], self.row[mask]
        self.score = None if self.score is None else self.score[mask]


def assemble(
    said: Statements,
    report: ImportReport,
    *,
    conflicts: str = "error",
    not_listed: str = "unknown",
    images: str | None = None,
    missing: str = "error",
    missing_list: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> LabelTable:
    """Build the label table and complete the report.

    Args:
        said: changed in place.
        report: gets everything that is found here.
        conflicts: one of ``CONFLICTS``; ``majority`` takes the more frequent value, and unknown at a tie.
        not_listed: ``unknown``, or ``absent`` for the pairs about which the source says nothing.
        images: folder with the pictures; they are looked for when it is given.
        missing: ``error``, or ``skip`` to leave out images without a file.
        missing_list: file that gets the names of all images without a file, one a line.
        options: kept in the history of the table.

    Raises:
        UserError: contradictions under ``error``, missing images under ``error``, too many pairs to fill in.
    """
    if images is not None:
        _find_images(said, report, images, missing, missing_list)
    _merge(said, report, conflicts)
    report.not_listed = not_listed
    if not_listed == "absent":
        _fill_absent(said)
    known = slice(None) if said.value.all() else said.value != 0
    table = LabelTable.from_pairs(
        said.images,
        said.classes,
        said.image[known],
        said.cls[known],
        said.value[known],
        origin="given" if said.score is None else np.where(np.isnan(said.score[known]), 0, MODEL),
        score=None if said.score is None else said.score[known],
        class_ids=said.class_ids,
        groups=said.groups,
        coding=f"{report.coding}; not listed = {not_listed}",
        history=[
            {
                "operation": "import",
                "format": report.format,
                "source": report.source,
                "not_listed": not_listed,
                "conflicts": conflicts,
                "settled": len(report.conflicts),
                "options": dict(options or {}),
            }
        ],
    )
    report.count(table)
    return table


def _find_images(said: Statements, report: ImportReport, folder: str, missing: str, missing_list: str | None) -> None:
    found = locate(said.images.to_pylist(), folder)
    if found.completed:
        report.notes.append(f"{found.completed:,} image names have no ending; one picture fits each")
    if found.other_case:
        report.notes.append(f"{found.other_case:,} image names differ from their file in upper and lower case")
    if found.ambiguous:
        raise UserError(f"{len(found.ambiguous):,} images fit more than one file in {folder}", found.ambiguous)
    there = np.array([file is not None for file in found.files], bool)
    names = said.images.filter(pa.array(~there)).to_pylist()
    where = ""
    if missing_list is not None:
        write_text(missing_list, "".join(f"{name}\n" for name in names))
        where = f"; all are listed in {missing_list}"
    if there.all():
        return
    if missing == "error":
        raise UserError(
            f"{len(names):,} of {len(there):,} images missing in {folder}; missing=skip leaves them out{where}", names
        )
    report.missing = names
    number = np.cumsum(there, dtype=np.int32) - 1
    said.keep(there[said.image])
    said.image = number[said.image]
    said.images = said.images.filter(pa.array(there))
    said.groups = None if said.groups is None else said.groups.filter(pa.array(there))


def _merge(said: Statements, report: ImportReport, policy: str) -> None:
    """Leave one statement for each pair, sorted by pair."""
    key = said.image.astype(np.int64) * max(len(said.classes), 1) + said.cls
    if not (key[1:] > key[:-1]).all():
        order = np.argsort(key, kind="stable")
        key = key[order]
        said.keep(order)  # type: ignore[arg-type]
    if said.score is not None:
        key = _yield_to_persons(said, report, key)
    step = np.diff(key)
    if (step > 0).all():
        return
    starts = np.flatnonzero(np.concatenate([[True], step > 0]))
    present = np.add.reduceat(said.value > 0, starts, dtype=np.int64)
    absent = np.add.reduceat(said.value < 0, starts, dtype=np.int64)
    clash = (present > 0) & (absent > 0)
    value = np.sign(present - absent).astype(np.int8) if policy == "majority" else np.sign(present).astype(np.int8)
    value[(present == 0) & (absent > 0)] = -1
    if policy in ("unknown", "present", "absent"):
        value[clash] = {"unknown": 0, "present": 1, "absent": -1}[policy]
    report.repeats += len(key) - len(starts) - int((present + absent)[clash].sum() - clash.sum())
    if clash.any():
        report.conflicts = _conflicts(said, starts, np.flatnonzero(clash), value)
        if policy == "error":
            offenders = [f"{c.image}, {c.class_name}: {' / '.join(c.places)}" for c in report.conflicts]
            raise UserError(
                f"{report.source}: {plural(len(offenders), 'label')} stated both present and absent; "
                f"correct them or settle them with conflicts={', '.join(CONFLICTS[1:])}",
                offenders,
            )
    said.keep(starts)  # type: ignore[arg-type]
    said.value = value


def _yield_to_persons(said: Statements, report: ImportReport, key: NDArray[np.int64]) -> NDArray[np.int64]:
    """Leave out what a machine says about pairs that a person judged, and all but its surest word on each other pair.

    Args:
        said: sorted by ``key``.
        report: gets the number of statements that a person overruled.
        key: int64 (S,) number of the pair.

    Returns:
        The keys that are left.
    """
    assert said.score is not None
    sure = np.where(np.isnan(said.score), np.float32(np.inf), said.score)
    order = np.lexsort((-sure, key))
    said.keep(order)  # type: ignore[arg-type]
    machine = ~np.isnan(said.score)
    first = np.concatenate([[True], key[1:] != key[:-1]])[: len(key)]
    judged = (~machine)[np.flatnonzero(first)][np.cumsum(first) - 1]
    if len(overruled := np.flatnonzero(machine & judged)):
        some = [f"{said.images[int(said.image[i])]}, {said.classes[said.cls[i]]}" for i in overruled[: Tally.KEPT]]
        report.dropped["machine labels of pairs that a person judged"] = Tally.of(some, len(overruled))
    if surer := int((machine & ~judged & ~first).sum()):
        report.repeats += surer
    kept = ~machine | (first & ~judged)
    said.keep(kept)
    return key[kept]


def _conflicts(
    said: Statements, starts: NDArray[np.int64], clashing: NDArray[np.int64], value: NDArray[np.int8]
) -> list[Conflict]:
    ends = np.append(starts[1:], len(said.value))
    runs = [np.arange(starts[i], ends[i]) for i in clashing]
    runs = [run[said.value[run] != 0] for run in runs]
    places = iter(said.place(said.row[np.concatenate(runs)].tolist()))
    words = {1: "present", -1: "absent", 0: "unknown"}
    return [
        Conflict(
            said.images[int(said.image[run[0]])].as_py(),
            said.classes[said.cls[run[0]]],
            [f"{next(places)} {words[int(said.value[k])]}" for k in run],
            words[int(value[i])],
        )
        for i, run in zip(clashing, runs, strict=True)
    ]


def _fill_absent(said: Statements) -> None:
    """Add an absent label for each pair that has no statement; uncertain pairs stay unknown."""
    num_images, num_classes = len(said.images), len(said.classes)
    total = num_images * num_classes
    if total > _MOST_FILLED:
        raise UserError(
            f"not_listed=absent would write {total:,} labels ({num_images:,} images x {num_classes:,} classes); "
            "import with not_listed=unknown, or choose fewer classes"
        )
    value = np.full(total, -1, np.int8)
    listed = said.image.astype(np.int64) * num_classes + said.cls
    value[listed] = said.value
    if said.score is not None:
        score = np.full(total, np.nan, np.float32)
        score[listed] = said.score
        said.score = score
    said.value = value
    said.image = np.repeat(np.arange(num_images, dtype=np.int32), num_classes)
    said.cls = np.tile(np.arange(num_classes, dtype=np.int32), num_images)


def image_groups(said: Statements, image: NDArray[np.int32], groups: NDArray[np.int32], names: pa.StringArray) -> None:
    """Set ``said.groups`` from the rows of a table; an image whose cell is blank has no group.

    Args:
        said: images are read, ``groups`` is set.
        image: int32 (R,) image of each row.
        groups: int32 (R,) number in ``names`` of each row.
        names: group names as in the source.

    Raises:
        UserError: an image that rows place into different groups.
    """
    first = np.zeros(len(said.images), np.int64)
    first[image[::-1]] = np.arange(len(image))[::-1]
    other = np.flatnonzero(groups[first[image]] != groups)
    if len(other):
        places = said.place([*first[image[other]].tolist(), *other.tolist()])
        half = len(other)
        raise UserError(
            "images are in more than one group",
            [f"{said.images[int(image[r])]}: {places[k]}, {places[half + k]}" for k, r in enumerate(other)],
        )
    of_image = names.take(pa.array(groups[first]))
    blank = pc.call_function("equal", [pc.call_function("utf8_trim_whitespace", [of_image]), pa.scalar("")])
    said.groups = pc.call_function("if_else", [blank, pa.scalar(None, pa.string()), of_image])
