"""What people and models said of images, gathered record by record; the readers of labelling tools share it."""

from __future__ import annotations

import ast
import json
import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeGuard

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.formats.class_names import Classes
from partlabel.formats.record_options import RecordOptions
from partlabel.formats.report import ImportReport, Tally, plural
from partlabel.formats.spine import Source, finish, settle
from partlabel.labels.pairs import MODEL, ranges
from partlabel.labels.table import LabelTable

#: probabilities are moved inside these bounds, so that the score before the sigmoid is finite
_LOWEST, _HIGHEST = 1e-7, 1 - 1e-7
#: offenders that are kept for an error
_KEPT = 1000

#: one statement: numbers of the record and the class name, part of the record, and what is said
_SAID = np.dtype(
    [
        ("record", np.int64),
        ("cls", np.int32),
        ("part", np.int16),
        ("value", np.int8),
        ("origin", np.uint8),
        ("score", np.float32),
        ("round", np.int16),
    ]
)
Said = NDArray[Any]
Place = Callable[[Sequence[int], Sequence[int]], list[str]]


def before_sigmoid(probability: float) -> float:
    """Return log(p / (1 - p)), the score of a class that is present with probability p; never infinite."""
    inside = min(max(probability, _LOWEST), _HIGHEST)
    return math.log(inside / (1 - inside))


def is_probability(value: Any) -> TypeGuard[float]:
    """Tell whether a value of a file is a number from 0 to 1."""
    return type(value) in (int, float) and 0 <= value <= 1


def listed(text: str) -> list[str]:
    """Return the names of a list that was written as text by Python or JSON, ``['a', 'b']``; other text is one name.

    Raises:
        ValueError: a list of something else than names.
    """
    if text.lstrip()[:1] != "[" or text.rstrip()[-1:] != "]":
        return [text]
    names: Any = None
    for parse in (json.loads, ast.literal_eval):
        if names is None:
            with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
                names = parse(text.strip())
    if names is None:
        return [text]  # a name such as [other]
    if not all(isinstance(name, str) for name in names):
        raise ValueError(f"{text[:60]} is a list of something else than names")
    return names or [""]


class Records:
    """Records of a source (annotations, samples, lines): each is about one image and says something of classes.

    Attributes:
        images: image name -> number, in order of appearance.
        listed: class names that the source lists, used or not; where there are none, classes are sorted by name.
        wrong: the first places that cannot be read, for ``check``; ``wrong_count`` counts all.
    """

    def __init__(self, report: ImportReport, options: RecordOptions, *, weak: str = "keep") -> None:
        """Prepare for a source.

        Args:
            report: gets what is found.
            options: of the format.
            weak: ``ignore`` leaves the labels of models out; their pairs stay unknown.
        """
        self.report, self.options, self.weak = report, options, weak
        self.images: dict[str, int] = {}
        self.listed: dict[str, None] = {}
        self.wrong: list[str] = []
        self.wrong_count = 0
        self._names: dict[str, int] = {}
        self._image, self._answered, self._model = array("q"), array("b"), array("b")
        self._columns = tuple(array(_SAID[name].char) for name in _SAID.names or ())
        self._add = tuple(column.append for column in self._columns)
        self._said: list[Said] = []
        self._denied: list[int] = []

    def __len__(self) -> int:
        return len(self._image)

    def begin(self, image: str, *, answered: bool, model: bool = False) -> int:
        """Begin a record about an image; return its number.

        Args:
            image: name.
            answered: whether somebody looked: what is not listed is then ``not_listed``, otherwise unknown.
            model: whether that was a model; a record that holds nothing but labels of a model counts as such anyway.
        """
        self._image.append(self.images.setdefault(image, len(self.images)))
        self._answered.append(answered)
        self._model.append(model)
        return len(self._image) - 1

    def begin_all(self, images: Sequence[str], answered: NDArray[np.bool_]) -> None:
        """Begin many records, as ``begin`` does; ``answered`` is (M,)."""
        known = self.images
        new = dict(zip(images, range(len(known), len(known) + len(images)), strict=True))
        if len(new) == len(images) and known.keys().isdisjoint(new):  # the usual case, without a step for each
            known.update(new)
            self._image.extend(new.values())
        else:
            self._image.extend([known.setdefault(image, len(known)) for image in images])
        self._answered.frombytes(answered.astype(np.int8).tobytes())
        self._model.frombytes(bytes(len(images)))

    def image_of(self) -> NDArray[np.int64]:
        """Return the number of the image of each record, (R,)."""
        return np.array(self._image, np.int64)

    def number(self, name: str) -> int:
        """Return the number of a class name as in the source, for ``extend``; -1 for a blank one."""
        number = self._names.get(name)
        if number is None:
            number = self._names.setdefault(name, len(self._names)) if name.strip() else -1
        return number

    def say(
        self,
        names: Iterable[str],
        value: int,
        *,
        part: int = 0,
        origin: int = 0,
        score: float = math.nan,
        round: int = -1,
    ) -> None:
        """Take in what the last record says of some classes.

        Args:
            names: class names as in the source; blank ones do not count.
            value: +1 present, -1 absent, 0 uncertain.
            part: number of the field, column or file that says it, for ``place``.
            origin: code of ``ORIGINS``.
            score: of a label of a model.
            round: of a label of a model.
        """
        record, add = len(self._image) - 1, self._add  # unrolled: this runs once for each label of a source
        for name in names:
            if (number := self.number(name)) >= 0:
                add[0](record)
                add[1](number)
                add[2](part)
                add[3](value)
                add[4](origin)
                add[5](score)
                add[6](round)

    def extend(self, record: NDArray[Any], names: NDArray[Any], value: Any, part: int = 0) -> None:
        """Take in given labels of many records.

        Args:
            record: (M,) numbers of records.
            names: (M,) numbers of class names.
            value: (M,), or one for all, as in ``say``.
            part: as in ``say``.
        """
        said = np.zeros(len(record), _SAID)
        said["record"], said["cls"], said["part"], said["value"] = record, names, part, value
        said["score"], said["round"] = np.nan, -1
        self._said.append(said)

    def deny_all(self) -> None:
        """The last record says that every class is absent."""
        self._denied.append(len(self._image) - 1)

    def refuse(self, places: Iterable[str]) -> None:
        """Remember what cannot be read."""
        for place in places:
            self.wrong_count += 1
            if len(self.wrong) < _KEPT:
                self.wrong.append(place)

    def check(self, source: str, noun: str) -> None:
        """Refuse a source of which something cannot be read.

        Args:
            source: as it was given.
            noun: what was read, as in ``row``.

        Raises:
            UserError: something was refused; all is listed.
        """
        if self.wrong_count:
            raise UserError(f"{source}: {plural(self.wrong_count, noun)} cannot be read", self.wrong)

    def finish(self, place: Place, *, parts: int = 1, votes: bool = False) -> LabelTable:
        """Settle the class names, put the records together, and build the table.

        Args:
            place: numbers of records and of their parts -> where they are; called only to explain.
            parts: how many parts a record has.
            votes: records of one image are people who answered the same question: each has one vote, and with
                ``not_listed=absent`` whoever did not choose a class that another chose says that it is absent.

        Raises:
            UserError: as ``spine.finish``.
        """
        said, image = self._statements(), self.image_of()
        answered, by_model = self._who_answered(said)
        said = self._judge_models(said, image)
        seen = np.bincount(image[answered], minlength=len(self.images)) > 0
        modelled = seen & (np.bincount(image[answered & ~by_model], minlength=len(self.images)) == 0)
        names, of_name = self._classes(said)
        said["cls"] = of_name[said["cls"]]
        if (said["cls"] < 0).any():
            said = said[said["cls"] >= 0]
        origin_of = np.where(by_model, MODEL, 0)
        said = _denied(said, np.array(self._denied, np.int64), len(names), origin_of)
        if votes:
            said = self._vote(said, image, answered, len(names), origin_of)
        self.report.rows = self.report.rows or len(self)
        if self.options.not_listed == "absent" and not seen.all():
            self.report.notes.append(f"unknown for {plural(int((~seen).sum()), 'image')} that nobody annotated")
        source = Source(
            pa.array(list(self.images), pa.string()),
            names,
            image[said["record"]],
            said["cls"],
            said["value"],
            lambda rows: place([row // parts for row in rows], [row % parts for row in rows]),
            row=said["record"] * parts + said["part"],
            unlabelled=~seen,
            settled=Classes(names, np.arange(len(names), dtype=np.int32)),
        )
        if said["origin"].any():
            source.origin = said["origin"]
        if (said["origin"] == MODEL).any() or (modelled.any() and self.options.not_listed == "absent"):
            source.origin, source.score, source.round = said["origin"], said["score"], said["round"]
            source.modelled = modelled
        return finish(source, self.options, self.report)

    def _statements(self) -> Said:
        """Return what was said, those of ``extend`` first."""
        said = np.empty(len(self._columns[0]), _SAID)
        for name, column in zip(_SAID.names or (), self._columns, strict=True):
            said[name] = column
        return np.concatenate([*self._said, said]) if self._said else said

    def _who_answered(self, said: Said) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which records (R,) count as an answer, and which are a model's."""
        count = np.bincount(said["record"], minlength=len(self))
        weak = np.bincount(said["record"][said["origin"] == MODEL], minlength=len(self))
        by_model = np.array(self._model, bool) | ((count > 0) & (count == weak))
        answered = np.array(self._answered, bool)
        return answered & ~by_model if self.weak == "ignore" else answered, by_model

    def _judge_models(self, said: Said, image: NDArray[np.int64]) -> Said:
        """Report the labels of models; where they are ignored, their pairs are uncertain."""
        weak = np.flatnonzero(said["origin"] == MODEL)
        if not len(weak):
            return said
        images, names = list(self.images), list(self._names)
        some = [f"{images[image[s['record']]]}: {names[s['cls']]}" for s in said[weak[: Tally.KEPT]]]
        tally = Tally.of(some, len(weak))
        if self.weak == "ignore":
            self.report.dropped["labels of a model (weak=keep takes them in)"] = tally
            said["origin"][weak], said["value"][weak] = 0, 0
        else:
            self.report.notes.append(f"{plural(len(weak), 'label')} of a model, kept as such: {tally}")
        return said

    def _classes(self, said: Said) -> tuple[list[str], NDArray[np.int64]]:
        """Return the class names, and the class of each name in the source, -1 where it is not wanted or blank."""
        listed = [name for name in self.listed if name.strip()]
        raw = list(dict.fromkeys([*listed, *self._names]))
        if listed and len(raw) > len(listed):
            self.report.notes.append(f"classes that the class list lacks: {Tally.of(raw[len(listed) :])}")
        settled = settle(raw, self.options, self.report, sort=not listed)
        index = dict(zip(raw, settled.index.tolist(), strict=True))
        of_name = np.array([*(index[name] for name in self._names), -1], np.int64)
        count = np.bincount(said["cls"][said["cls"] >= 0], minlength=len(of_name))
        if unwanted := {name: int(count[i]) for name, i in self._names.items() if of_name[i] < 0 and count[i]}:
            reason = f"labels of {len(unwanted):,} classes that are not in the class list"
            self.report.dropped[reason] = Tally.of(unwanted, sum(unwanted.values()))
        return settled.names, of_name

    def _vote(
        self, said: Said, image: NDArray[np.int64], answered: NDArray[np.bool_], size: int, origin_of: NDArray[np.int64]
    ) -> Said:
        """Leave out what one record says twice, and add what it denies by not choosing what another record chose.

        Only this can contradict; every other class that nobody chose is filled in for the whole image later.
        """
        _, once = np.unique((said["record"] * size + said["cls"]) * 2 + (said["value"] > 0), return_index=True)
        said = said[once]
        who = np.flatnonzero(answered)
        who = who[np.argsort(image[who], kind="stable")]
        count = np.bincount(image[who], minlength=len(self.images))
        if several := int((count > 1).sum()):
            self.report.notes.append(f"{plural(several, 'image')} with more than one annotation")
        if self.options.not_listed != "absent":
            return said
        yes = said[said["value"] > 0]
        chosen = np.unique(image[yes["record"]] * size + yes["cls"])
        of, cls = chosen // max(size, 1), chosen % max(size, 1)
        record, cls = who[ranges((np.cumsum(count) - count)[of], count[of])], np.repeat(cls, count[of])
        silent = ~np.isin(record * size + cls, said["record"] * size + said["cls"])
        said = _with_absent(said, record[silent], cls[silent], origin_of)
        return said[np.argsort(said["record"], kind="stable")]


def _denied(said: Said, record: NDArray[np.int64], size: int, origin_of: NDArray[np.int64]) -> Said:
    """Add the absent labels of records that say that every class is absent."""
    return _with_absent(said, np.repeat(record, size), np.tile(np.arange(size), len(record)), origin_of)


def _with_absent(said: Said, record: NDArray[np.int64], cls: NDArray[np.int64], origin_of: NDArray[np.int64]) -> Said:
    if not len(record):
        return said
    more = np.zeros(len(record), _SAID)
    more["record"], more["cls"], more["value"], more["origin"] = record, cls, -1, origin_of[record]
    more["score"], more["round"] = np.nan, -1
    return np.concatenate([said, more])
