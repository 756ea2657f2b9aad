"""What a source says about (image, class) pairs, and what becomes of repeats, contradictions and pairs not listed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from partlabel.core.errors import UserError
from partlabel.formats.class_names import Classes
from partlabel.formats.report import Conflict, ImportReport, Tally, plural
from partlabel.labels.pairs import MODEL

#: how contradicting statements about one pair are settled; row order never decides
CONFLICTS = ("error", "unknown", "present", "absent", "majority")
#: the most pairs that not_listed=absent may fill in; each takes 6 bytes
MOST_FILLED = 2_000_000_000
#: the fields of a source with one entry for each statement
_OF_STATEMENTS = ("image", "cls", "value", "row", "origin", "score", "round", "yields")
_WORDS = {1: "present", -1: "absent", 0: "unknown"}


@dataclass
class Source:
    """What a file says, as its reader found it, in its own order; ``partlabel.formats.spine.finish`` does the rest.

    S statements are about N images and the classes; pairs about which nothing is said are simply not there.

    Attributes:
        images: (N,) unique names.
        classes: class names as the source writes them.
        image, cls: (S,) numbers of the pair that a statement is about.
        value: (S,) +1 present, -1 absent, 0 uncertain (somebody looked and did not decide).
        place: rows -> where they are, such as ``labels.csv:3``; called only to explain.
        row: (S,) row of the source, for ``place``; None: statement i is row i.
        ids: ids of ``classes`` in the source, or None.
        groups: (N,) names of what a split keeps together, or None.
        origin: (S,) codes of ``ORIGINS``, or None where all are ``given``.
        score: (S,) scores before the sigmoid of what a model said, NaN elsewhere; or None.
        round: (S,) rounds of what a model said, -1 elsewhere; or None.
        yields: (S,) statements that count only where no other is made about their pair; None: those of a model.
        unlabelled: (N,) images that nobody has labelled; their pairs stay unknown whatever ``not_listed`` says.
        modelled: (N,) images that only a model has looked at; what it does not list is a label of the model, too.
        settled: the class names if the reader has settled them itself.
        sort: the classes have no order of their own and are ordered by name.
        annotated: images without a statement are counted in the report.
        what: what statements about unwanted classes are called; ``{}`` is the number of these classes.
    """

    images: pa.StringArray
    classes: Sequence[str]
    image: ArrayLike
    cls: ArrayLike
    value: ArrayLike
    place: Callable[[Sequence[int]], list[str]]
    row: ArrayLike | None = None
    ids: Sequence[str] | None = None
    groups: pa.StringArray | None = None
    origin: ArrayLike | None = None
    score: ArrayLike | None = None
    round: ArrayLike | None = None
    yields: ArrayLike | None = None
    unlabelled: NDArray[np.bool_] | None = None
    modelled: NDArray[np.bool_] | None = None
    settled: Classes | None = None
    sort: bool = False
    annotated: bool = False
    what: str = "labels of {} classes that are not in the class list"

    def keep(self, index: NDArray[Any]) -> None:
        """Leave only some statements, given as a mask (S,) or as numbers in the wanted order."""
        if self.row is None:
            self.row = np.arange(len(np.asarray(self.image)))
        for name in _OF_STATEMENTS:
            if (array := getattr(self, name)) is not None:
                setattr(self, name, np.asarray(array)[index])


def mark_models(source: Source, by_model: NDArray[np.bool_], score: NDArray[np.float32] | None = None) -> None:
    """Give statements the origin ``model``; what is not listed of an image with no other statement is the model's too.

    Args:
        source: changed in place.
        by_model: (S,) statements of a model.
        score: (S,) their scores before the sigmoid, NaN elsewhere.
    """
    source.origin, source.score = np.where(by_model, MODEL, 0).astype(np.uint8), score
    image, size = np.asarray(source.image, np.int64), len(source.images)
    by_person = np.bincount(image[~by_model], minlength=size) > 0
    source.modelled = (np.bincount(image, minlength=size) > 0) & ~by_person


def unique(names: Sequence[str] | pa.Array) -> tuple[pa.StringArray, NDArray[np.int32]]:
    """Return the unique names in order of appearance, and the number of each name, int32."""
    encoded = pa.array(names, pa.string()).dictionary_encode()
    return encoded.dictionary, encoded.indices.to_numpy().astype(np.int32)


class Statements:
    """The statements of a source about settled classes; arrays as in ``Source``.

    Args:
        source: read, not changed.
        classes: C settled names; ``cls``: int32 (S,) their numbers, -1 where a class is not wanted.
    """

    def __init__(self, source: Source, classes: Sequence[str], cls: NDArray[np.int32]) -> None:
        self.images, self.classes, self.groups, self.place = source.images, classes, source.groups, source.place
        self.unlabelled, self.modelled = source.unlabelled, source.modelled
        self.image, self.cls = np.asarray(source.image, np.int32), cls
        self.value = np.asarray(source.value, np.int8)
        self.row: NDArray[np.int64] | None = np.arange(len(cls))
        if source.row is not None:
            self.row = np.asarray(source.row, np.int64)
        self.origin = None if source.origin is None else np.asarray(source.origin, np.uint8)
        self.score = None if source.score is None else np.asarray(source.score, np.float32)
        self.round = None if source.round is None else np.asarray(source.round, np.int16)
        self.yields = None if source.yields is None else np.asarray(source.yields, bool)
        if self.yields is None and self.origin is not None:
            self.yields = self.origin == MODEL
        if (cls < 0).any():
            self.keep(cls >= 0)

    def keep(self, index: NDArray[Any]) -> None:
        """Leave only some statements, given as a mask (S,) or as numbers in the wanted order."""
        for name in _OF_STATEMENTS:
            if (array := getattr(self, name)) is not None:
                setattr(self, name, array[index])

    def keep_images(self, mask: NDArray[np.bool_]) -> None:
        """Leave only the images where ``mask`` (N,) holds."""
        if mask.all():
            return
        self.keep(mask[self.image])
        self.image = (np.cumsum(mask, dtype=np.int32) - 1)[self.image]
        self.images = self.images.filter(pa.array(mask))
        self.groups = None if self.groups is None else self.groups.filter(pa.array(mask))
        self.unlabelled = None if self.unlabelled is None else self.unlabelled[mask]
        self.modelled = None if self.modelled is None else self.modelled[mask]

    def join_images(self, number: NDArray[np.int32], names: pa.StringArray) -> None:
        """Put images together.

        Args:
            number: int32 (N,) number of each image among the new ones.
            names: of the new images. Their group is that of the first image that has one; they are unlabelled where
                all of their images are.
        """
        self.image, self.images = number[self.image], names
        if self.groups is not None:
            groups: list[str | None] = [None] * len(names)
            for own, group in zip(number.tolist(), self.groups.to_pylist(), strict=True):
                groups[own] = groups[own] or group
            self.groups = pa.array(groups, pa.string())

        def any_of(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
            result = np.zeros(len(names), bool)
            result[number[mask]] = True
            return result

        if self.unlabelled is not None:
            seen = ~self.unlabelled
            self.unlabelled = ~any_of(seen)
            if self.modelled is not None:
                self.modelled = any_of(self.modelled) & ~any_of(seen & ~self.modelled)

    def merge(self, report: ImportReport, policy: str) -> None:
        """Leave one statement for each pair, sorted by pair.

        Args:
            report: gets the number of repeats, the contradictions, and what a person overruled.
            policy: one of ``CONFLICTS``; ``majority`` takes the more frequent value, and unknown at a tie.

        Raises:
            UserError: contradictions under ``error``; all are listed.
        """
        key = self._sort()
        if self.yields is not None and self.yields.any():
            key = self._drop_yielding(report, key)
        starts = np.flatnonzero(np.diff(key, prepend=-1))
        if len(starts) == len(key):
            return
        present = np.add.reduceat(self.value > 0, starts, dtype=np.int64)
        absent = np.add.reduceat(self.value < 0, starts, dtype=np.int64)
        clash = (present > 0) & (absent > 0)
        value = np.sign(present - absent).astype(np.int8)
        if policy != "majority":
            value[clash] = {"present": 1, "absent": -1}.get(policy, 0)
        report.repeats += len(key) - len(starts) - int((present + absent)[clash].sum() - clash.sum())
        if clash.any():
            report.conflicts = self._conflicts(starts, np.flatnonzero(clash), value)
            if policy == "error":
                offenders = [f"{c.image}, {c.class_name}: {' / '.join(c.places)}" for c in report.conflicts]
                raise UserError(
                    f"{report.source}: {plural(len(offenders), 'label')} stated both present and absent; "
                    f"correct them or settle them with conflicts={', '.join(CONFLICTS[1:])}",
                    offenders,
                )
        self.keep(starts if self.origin is None else self._first_of_sign(starts, value))
        self.value = value

    def _sort(self) -> NDArray[np.int64]:
        """Order by pair, what a model said by its sureness, and return the number of the pair of each statement."""
        key = self.image.astype(np.int64) * max(len(self.classes), 1) + self.cls
        if (key[1:] > key[:-1]).all():
            return key
        if self.score is None:
            order = np.argsort(key, kind="stable")
        else:
            order = np.lexsort((-np.nan_to_num(np.abs(self.score), nan=np.inf), key))
        self.keep(order)
        return key[order]

    def _drop_yielding(self, report: ImportReport, key: NDArray[np.int64]) -> NDArray[np.int64]:
        """Leave out the statements that yield to another about their pair; return the keys that are left."""
        assert self.yields is not None
        starts = np.flatnonzero(np.diff(key, prepend=-1))
        plain = np.maximum.reduceat(~self.yields, starts)[np.cumsum(np.diff(key, prepend=-1) > 0) - 1]
        lost = self.yields & plain
        if self.origin is not None and len(machine := np.flatnonzero(lost & (self.origin == MODEL))):
            some = [f"{self.images[int(self.image[i])]}, {self.classes[self.cls[i]]}" for i in machine[: Tally.KEPT]]
            report.dropped["machine labels of pairs that a person judged"] = Tally.of(some, len(machine))
        self.keep(~lost)
        return key[~lost]

    def _first_of_sign(self, starts: NDArray[np.int64], value: NDArray[np.int8]) -> NDArray[np.int64]:
        """Return for each pair the first statement with the value that was settled on, for its origin and score."""
        pair = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(self.value)))
        same = np.flatnonzero(self.value == value[pair])
        found, first = np.unique(pair[same], return_index=True)
        result = starts.copy()
        result[found] = same[first]
        return result

    def _conflicts(
        self, starts: NDArray[np.int64], clashing: NDArray[np.int64], value: NDArray[np.int8]
    ) -> list[Conflict]:
        ends = np.append(starts[1:], len(self.value))
        runs = [np.arange(starts[i], ends[i]) for i in clashing]
        runs = [run[self.value[run] != 0] for run in runs]
        assert self.row is not None
        places = iter(self.place(self.row[np.concatenate(runs)].tolist()))
        return [
            Conflict(
                self.images[int(self.image[run[0]])].as_py(),
                self.classes[self.cls[run[0]]],
                [f"{next(places)} {_WORDS[int(self.value[k])]}" for k in run],
                _WORDS[int(value[i])],
            )
            for i, run in zip(clashing, runs, strict=True)
        ]

    def fill_absent(self) -> None:
        """Add an absent label for each pair that has no statement; uncertain pairs stay unknown.

        Raises:
            UserError: more pairs than memory may hold.
        """
        num_images, num_classes = len(self.images), len(self.classes)
        total = num_images * num_classes
        if total > MOST_FILLED:
            raise UserError(
                f"not_listed=absent would write {total:,} labels ({num_images:,} images x {num_classes:,} classes); "
                "import with not_listed=unknown, or choose fewer classes"
            )
        listed = self.image.astype(np.int64) * num_classes + self.cls
        value = np.full(total, -1, np.int8)
        if self.unlabelled is not None:
            value.reshape(num_images, num_classes)[self.unlabelled] = 0
        value[listed] = self.value
        self.value = value
        origin = 0 if self.modelled is None else np.repeat(np.where(self.modelled, MODEL, 0), num_classes)
        for name, nothing in (("origin", origin), ("score", np.nan), ("round", -1)):
            if (own := getattr(self, name)) is not None:
                filled = np.empty(total, own.dtype)
                filled[:] = nothing
                filled[listed] = own
                setattr(self, name, filled)
        self.image = np.repeat(np.arange(num_images, dtype=np.int32), num_classes)
        self.cls = np.tile(np.arange(num_classes, dtype=np.int32), num_images)
        self.row = self.yields = None  # nothing has to be explained any more


def image_groups(
    source: Source, image: NDArray[np.int32], groups: NDArray[np.int32], names: pa.StringArray
) -> pa.StringArray:
    """Return the group of each image from the rows of a table, null where its cell is blank.

    Args:
        source: its images and its ``place`` are used.
        image: int32 (R,) image of each row.
        groups: int32 (R,) number in ``names`` of each row.
        names: group names as in the source.

    Raises:
        UserError: an image that rows place into different groups.
    """
    first = np.zeros(len(source.images), np.int64)
    first[image[::-1]] = np.arange(len(image))[::-1]
    other = np.flatnonzero(groups[first[image]] != groups)
    if len(other):
        places = source.place([*first[image[other]].tolist(), *other.tolist()])
        half = len(other)
        raise UserError(
            "images are in more than one group",
            [f"{source.images[int(image[r])]}: {places[k]}, {places[half + k]}" for k, r in enumerate(other)],
        )
    of_image = names.take(pa.array(groups[first]))
    blank = pc.call_function("equal", [pc.call_function("utf8_trim_whitespace", [of_image]), pa.scalar("")])
    return pc.call_function("if_else", [blank, pa.scalar(None, pa.string()), of_image])
