"""What the samples of FiftyOne say, gathered label by label."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.formats.assemble import Statements
from partlabel.formats.class_names import settle_names
from partlabel.formats.fiftyone.options import FiftyOneOptions
from partlabel.formats.fiftyone.origins import Origins
from partlabel.formats.report import ImportReport, Tally, plural
from partlabel.labels.pairs import MODEL, ORIGINS

#: confidences are moved inside these bounds, so that the score before the sigmoid is finite
_LOWEST, _HIGHEST = 1e-7, 1 - 1e-7
#: scores from here on do not fit into 32 bits, and are taken from the confidence
_LARGEST = 3e38


class Label(msgspec.Struct):
    """One label of a sample: the class, and what else FiftyOne or partlabel has written beside it."""

    label: Any = None
    confidence: Any = None
    origin: Any = None
    score: Any = None
    round: Any = None


class Gathered:
    """The labels read so far.

    Attributes:
        images: image name -> number.
        labelled: numbers of the images that have a label, or a list that is empty.
        wrong: places of labels that cannot be read.
        listed: the class lists of the files, one after the other.
    """

    def __init__(self, report: ImportReport, options: FiftyOneOptions) -> None:
        self.report, self.options = report, options
        self.images: dict[str, int] = {}
        self.labelled: set[int] = set()
        self.wrong: list[str] = []
        self.listed: dict[str, None] = {}
        self._names: dict[str, int] = {}
        self._places: list[str] = []
        self._image, self._cls, self._row = array("i"), array("i"), array("q")
        self._value, self._origin = array("b"), array("B")
        self._score, self._round = array("f"), array("h")
        self._weak, self._nameless = Tally(), Tally()

    def source(self, name: str) -> int:
        """Register a file or field that labels come from; its number goes with each of them."""
        self._places.append(name)
        return len(self._places) - 1

    def class_list(self, path: str, classes: Sequence[Any] | None) -> Sequence[str]:
        """Register the class list of a file, and return the one that its class numbers refer to."""
        if not classes:
            return self.options.classes or ()
        self.wrong += [f"{path}: {name!r} in the class list is no name" for name in classes if type(name) is not str]
        names = [name if isinstance(name, str) else "" for name in classes]
        self.listed.update(dict.fromkeys(names))
        return names

    def see(self, image: str, *, labelled: bool) -> None:
        """Register an image; ``labelled`` where its source has a list of classes, be it empty."""
        number = self.images.setdefault(image, len(self.images))
        if labelled:
            self.labelled.add(number)

    def add(self, image: str, label: Label, value: int, source: int, classes: Sequence[str]) -> None:
        """Take in one label.

        Args:
            image: name of an image that was seen.
            label: as read.
            value: +1 present, -1 absent.
            source: number of its ``source``.
            classes: the class list that class numbers refer to.
        """
        place = f"{self._places[source]}: {image}"
        name = label.label
        if type(name) is int:
            if not 0 <= name < len(classes):
                known = f"0 to {len(classes) - 1} are known" if classes else "there is no class list (classes=NAMES)"
                self.wrong.append(f"{place}: class number {name}, {known}")
                return
            name = classes[name]
        elif name is not None and not isinstance(name, str):
            self.wrong.append(f"{place}: {name!r} is no class")
            return
        if name is None or not name.strip():
            self._count(self._nameless, place)
            return
        try:
            score = _score(label, value, self.options.weak)
        except ValueError as error:
            self.wrong.append(f"{place}, {name}: {error}")
            return
        self._image.append(self.images[image])
        self._cls.append(self._names.setdefault(name, len(self._names)))
        self._row.append(source)
        self._value.append(value)
        self._score.append(math.nan if score is None else score)
        if score is not None:
            self._origin.append(MODEL)
            self._round.append(_round(label))
            self._count(self._weak, f"{image}: {name}")
        else:
            self._origin.append(ORIGINS.index(label.origin) if label.origin in ORIGINS else 0)
            self._round.append(-1)

    @staticmethod
    def _count(tally: Tally, example: str) -> None:
        tally.count += 1
        if len(tally.examples) < Tally.KEPT:
            tally.examples.append(example)

    def statements(self, source: str) -> tuple[Statements, Origins]:
        """Put the labels together; what a model said is uncertain as a statement, and kept in the origins.

        Raises:
            UserError: labels that cannot be read; all are listed.
        """
        if self.wrong:
            raise UserError(f"{source}: {plural(len(self.wrong), 'label')} cannot be read", self.wrong)
        report = self.report
        report.rows = len(self.images)
        if self._nameless.count:
            report.dropped["labels without a class name"] = self._nameless
        if self._weak.count and self.options.weak == "ignore":
            report.dropped["labels of a model (weak=keep takes them in)"] = self._weak
        elif self._weak.count:
            report.notes.append(f"{plural(self._weak.count, 'label')} of a model, kept as such: {self._weak}")
        classes, cls = self._classes()
        names, image = pa.array(list(self.images), pa.string()), np.array(self._image, np.int32)
        origins = Origins(
            names,
            image,
            cls,
            np.array(self._value, np.int8),
            np.array(self._origin, np.uint8),
            np.array(self._score, np.float32),
            np.array(self._round, np.int16),
        )
        said = Statements(
            names,
            classes,
            image,
            cls,
            np.where(origins.origin == MODEL, 0, origins.value).astype(np.int8),
            np.array(self._row, np.int64),
            lambda rows: [self._places[row] for row in rows],
        )
        said.keep(cls >= 0)
        return said, origins

    def _classes(self) -> tuple[list[str], NDArray[np.int32]]:
        """Return the class names, and the class of each label, -1 where it is not wanted."""
        listed = [name for name in self.listed if name.strip()]
        raw = list(dict.fromkeys([*listed, *self._names]))
        if listed and len(raw) > len(listed):
            self.report.notes.append(f"classes that the class list lacks: {Tally.of(raw[len(listed) :])}")
        settled = settle_names(
            raw, self.report, rename=self.options.rename, chosen=self.options.classes, sort=not listed
        )
        number = {name: i for i, name in enumerate(raw)}
        of_name = np.array([number[name] for name in self._names], np.int32)
        own = of_name[np.array(self._cls, np.int32)]
        counts = np.bincount(own, minlength=len(raw))
        unwanted = np.flatnonzero((settled.index < 0) & (counts > 0))
        if len(unwanted):
            reason = f"labels of {len(unwanted):,} classes that are not in the class list"
            self.report.dropped[reason] = Tally.of([raw[i] for i in unwanted], int(counts[unwanted].sum()))
        return settled.names, settled.index[own]


def _score(label: Label, value: int, weak: str) -> float | None:
    """Return the score before the sigmoid of a label that a model gave, NaN if it has none; None: a person gave it.

    The confidence is that the class is present, as in the Open Images of FiftyOne's zoo: a checked absent label has 0.

    Raises:
        ValueError: a confidence that is none.
    """
    confidence = label.confidence
    if isinstance(confidence, dict):  # how MongoDB writes NaN and infinity
        confidence = None
    if weak == "given" and label.origin != ORIGINS[MODEL]:
        return None
    if confidence is not None and (type(confidence) not in (int, float) or not 0 <= confidence <= 1):
        raise ValueError(f"the confidence {confidence!r} is not between 0 and 1")
    if label.origin == ORIGINS[MODEL]:
        if type(label.score) in (int, float) and abs(label.score) < _LARGEST:
            return float(label.score)
        return math.nan if confidence is None else _before_sigmoid(confidence)
    clean = confidence in (None, 1) or (confidence == 0 and value < 0) or label.origin in ORIGINS
    return None if clean else _before_sigmoid(confidence)


def _before_sigmoid(confidence: float) -> float:
    inside = min(max(confidence, _LOWEST), _HIGHEST)
    return math.log(inside / (1 - inside))


def _round(label: Label) -> int:
    return label.round if type(label.round) is int and 0 <= label.round < 2**15 else -1
