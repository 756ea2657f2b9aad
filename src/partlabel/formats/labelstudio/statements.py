"""From what was chosen in each annotation to statements about images and classes."""

from __future__ import annotations

from array import array
from collections import defaultdict

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.formats.assemble import Statements
from partlabel.formats.class_names import Classes, settle_names, tidy
from partlabel.formats.labelstudio.addresses import image_name
from partlabel.formats.labelstudio.answers import Answers
from partlabel.formats.labelstudio.options import LabelStudioOptions
from partlabel.formats.report import ImportReport, Tally, plural
from partlabel.formats.unlabelled import keep_unknown

#: in the table of absent choices: every class is absent
_EVERY = "*"


def statements(path: str, answers: Answers, options: LabelStudioOptions, report: ImportReport) -> Statements:
    """Return what the answers say.

    With ``not_listed=absent``, whoever annotated a picture and did not choose a class says that it is absent.

    Raises:
        UserError: addresses without a path, or of different pictures that would get one name; all are listed.
    """
    images, number = _images(path, answers, options)
    raw = _Choices(answers, options)
    classes = settle_names(list(raw.names), report, rename=options.rename, chosen=options.classes, sort=True)
    row, cls, value = raw.arrays(classes)
    wanted = cls >= 0
    unwanted = [name for name, index in zip(raw.names, classes.index.tolist(), strict=True) if index < 0]
    if unwanted:
        reason = f"labels of {len(unwanted):,} classes that are not in the class list"
        report.dropped[reason] = Tally.of(unwanted, int((~wanted).sum()))
    row, cls, value = _once(row[wanted], cls[wanted], value[wanted], len(classes.names))
    answered = np.array(answers.answered, bool)
    if options.not_listed == "absent":
        more_row, more_cls = _not_chosen(number, answered, row, cls, value)
        row, cls = np.concatenate([row, more_row]), np.concatenate([cls, more_cls])
        value = np.concatenate([value, np.full(len(more_row), -1, np.int8)])
        order = np.argsort(row, kind="stable")
        row, cls, value = row[order], cls[order], value[order]
    said = Statements(images, classes.names, number[row], cls, value, row, answers.place)
    count = np.bincount(number[answered], minlength=len(images))
    bare = count == 0
    report.without_annotations = Tally.of(
        images.take(pa.array(np.flatnonzero(bare)[: Tally.KEPT])).to_pylist(), int(bare.sum())
    )
    if several := int((count > 1).sum()):
        report.notes.append(f"{plural(several, 'image')} with more than one annotation")
    if options.not_listed == "absent":
        keep_unknown(said, bare)
        if bare.any():
            report.notes.append(f"unknown for {plural(int(bare.sum()), 'image')} that nobody annotated")
    report.coding = _coding(answers, options)
    return said


def _images(path: str, answers: Answers, options: LabelStudioOptions) -> tuple[pa.StringArray, NDArray[np.int32]]:
    """Return the unique image names, and the image of each row."""
    known: dict[str, int] = {}
    numbers: dict[str, int] = {}
    first: list[tuple[str, str]] = []
    number = np.empty(len(answers.addresses), np.int32)
    wrong, clash = [], {}
    for row, address in enumerate(answers.addresses):
        if address not in known:
            try:
                name, identity = image_name(address, options.image_names)
            except ValueError as error:
                wrong.append(f"{answers.place([row])[0]}: {address} ({error})")
                continue
            known[address] = numbers.setdefault(name, len(numbers))
            if known[address] == len(first):
                first.append((identity, address))
            elif first[known[address]][0] != identity:
                clash[f"{name}: {first[known[address]][1]} and {address}"] = None
        number[row] = known[address]
    if wrong:
        raise UserError(f"{path}: {plural(len(wrong), 'picture')} whose address cannot be read", wrong)
    if clash:
        raise UserError(
            f"{path}: different pictures would get the same name; keep them apart with image_names=file or url", clash
        )
    return pa.array(list(numbers), pa.string()), number


class _Choices:
    """The choices of every row as numbers of raw names."""

    def __init__(self, answers: Answers, options: LabelStudioOptions) -> None:
        self.names: dict[str, int] = {}
        self.row, self.name, self.value = array("q"), array("i"), array("b")
        self.empty: list[int] = []
        denied = {tidy(choice): name for choice, name in (options.absent_choices or {}).items()}
        for row, (present, absent) in enumerate(zip(answers.present, answers.absent, strict=True)):
            for choice in present:
                name = denied.get(tidy(choice)) if denied else None
                if name is None:
                    self._add(row, choice, 1)
                elif name.strip() == _EVERY:
                    self.empty.append(row)
                else:
                    self._add(row, name, -1)
            for choice in absent:
                self._add(row, choice, -1)

    def _add(self, row: int, name: str, value: int) -> None:
        if name.strip():
            self.row.append(row)
            self.name.append(self.names.setdefault(name, len(self.names)))
            self.value.append(value)

    def arrays(self, classes: Classes) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int8]]:
        """Return row, class (-1 where it is not wanted) and value of each statement."""
        size = len(classes.names)
        row = [np.array(self.row, np.int64), np.repeat(np.array(self.empty, np.int64), size)]
        every = np.tile(np.arange(size, dtype=np.int32), len(self.empty))
        cls = [classes.index[np.array(self.name, np.int32)], every]
        value = [np.array(self.value, np.int8), np.full(len(every), -1, np.int8)]
        return np.concatenate(row), np.concatenate(cls), np.concatenate(value)


def _once(
    row: NDArray[np.int64], cls: NDArray[np.int32], value: NDArray[np.int8], size: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int8]]:
    """Leave out what one annotation says twice, so that it has one vote."""
    _, at = np.unique((row * size + cls) * 2 + (value > 0), return_index=True)
    return row[at], cls[at], value[at]


def _not_chosen(
    number: NDArray[np.int32],
    answered: NDArray[np.bool_],
    row: NDArray[np.int64],
    cls: NDArray[np.int32],
    value: NDArray[np.int8],
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return rows and classes: somebody else chose the class for the same image, and this annotation did not.

    Only these can contradict; every other class that nobody chose is filled in for the whole image later.
    """
    rows_of: defaultdict[int, list[int]] = defaultdict(list)
    several = np.bincount(number[answered], minlength=1) > 1
    for r in np.flatnonzero(answered & several[np.minimum(number, len(several) - 1)]).tolist():
        rows_of[int(number[r])].append(r)
    start = np.searchsorted(row, np.arange(len(number) + 1))
    more_row, more_cls = array("q"), array("i")
    for rows in rows_of.values():
        own = {r: set(cls[start[r] : start[r + 1]].tolist()) for r in rows}
        chosen = {c for r in rows for c in cls[start[r] : start[r + 1]][value[start[r] : start[r + 1]] > 0].tolist()}
        for r in rows:
            left = sorted(chosen - own[r])
            more_row.extend([r] * len(left))
            more_cls.extend(left)
    return np.array(more_row, np.int64), np.array(more_cls, np.int32)


def _coding(answers: Answers, options: LabelStudioOptions) -> str:
    present, absent = answers.controls
    parts = [f"a choice of {present} = present"] if present else []
    parts += [f"a choice of {absent} = absent"] if absent else []
    parts += [
        f"{choice} = {'every class' if name.strip() == _EVERY else name} absent"
        for choice, name in (options.absent_choices or {}).items()
    ]
    return ", ".join(parts)
