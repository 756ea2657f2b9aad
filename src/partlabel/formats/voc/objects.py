"""A folder of VOC XML files: an object says that its class is present in its image."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.errors import UserError
from partlabel.formats.assemble import Statements
from partlabel.formats.class_names import settle_names
from partlabel.formats.reading import text_lines
from partlabel.formats.report import ImportReport, Tally, ValueCount, plural
from partlabel.formats.voc.annotation import parse
from partlabel.formats.voc.options import VocOptions
from partlabel.formats.voc.tree import Tree, image_sets, unquoted, xml_files

#: what the value of a difficult object is in each reading
DIFFICULT = {"unknown": 0, "present": 1, "absent": -1}
_WORDS = {"unknown": "uncertain (kept unknown)", "present": "present", "absent": "absent"}


@dataclass
class _Found:
    """What the XML files say: image n of ``files``; objects as parallel lists."""

    files: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    image: list[int] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    difficult: list[bool] = field(default_factory=list)
    line: list[int] = field(default_factory=list)
    bad: list[list[str]] = field(default_factory=list)


def read(path: str, tree: Tree, options: VocOptions, report: ImportReport) -> Statements:
    """Read the statements of the XML files.

    Raises:
        UserError: files that cannot be read, files about one image, classes that are not in the class list (all are
            listed); no such image set; no object at all while ``not_listed`` is not given.
    """
    report.layout = "XML files" if options.set is None else f"XML files of the set {options.set}"
    found = _parse_all(path, tree, options, report)
    raw = list(dict.fromkeys(found.classes))
    classes = settle_names(raw, report, rename=options.rename, chosen=options.classes, sort=True)
    number = dict(zip(raw, classes.index.tolist(), strict=True))
    cls = np.array([number[name] for name in found.classes], np.int32)
    _refuse(path, found, cls, options)
    _refuse_empty(path, found, classes.names, options)
    _report(found, options, report)
    if unwanted := [name for name, index in number.items() if index < 0]:
        reason = f"objects of {len(unwanted):,} classes that are not in the class list"
        report.dropped[reason] = Tally.of(unwanted, int((cls < 0).sum()))

    def place(rows: Sequence[int]) -> list[str]:
        return [f"{found.files[found.image[row]]}:{found.line[row]}" for row in rows]

    difficult = np.array(found.difficult, bool)
    said = Statements(
        pa.array(found.names, pa.string()),
        classes.names,
        np.array(found.image, np.int32),
        cls,
        np.where(difficult, DIFFICULT[options.difficult], 1).astype(np.int8),
        np.arange(len(cls)),
        place,
    )
    said.keep(cls >= 0)
    pair = said.image.astype(np.int64) * len(classes.names) + said.cls
    difficult = difficult[said.row]
    said.keep(~(difficult & np.isin(pair, pair[~difficult])))  # a plain object of the class beside it decides
    return said


def _parse_all(path: str, tree: Tree, options: VocOptions, report: ImportReport) -> _Found:
    if tree.annotations is None:
        raise UserError(f"{path}: no XML files are in this folder")
    files = xml_files(tree.annotations) if options.set is None else _set_files(path, tree, options.set)
    found = _Found()
    unnamed, other = [], []
    for name in files:
        file = os.path.join(tree.annotations, name)
        try:
            annotation = parse(file)
        except UserError as error:
            found.bad.append(error.offenders)
            continue
        named = annotation.filename if options.image_name == "tag" else ""
        if not annotation.filename:
            unnamed.append(name)
        elif _stem(annotation.filename) != _stem(name):
            other.append(f"{name}: {annotation.filename}")
        for thing in annotation.objects:
            found.image.append(len(found.files))
            found.classes.append(thing.name or "")
            found.difficult.append(thing.difficult)
            found.line.append(thing.line)
        found.files.append(file)
        found.names.append(_image_name(name, named))
    if unnamed:
        report.notes.append(f"XML files that do not name their picture; their own name was taken: {Tally.of(unnamed)}")
    if other:
        report.notes.append(f"XML files that are named otherwise than their picture: {Tally.of(other)}")
    return found


def _set_files(path: str, tree: Tree, name: str) -> list[str]:
    """Return the XML files of the images that an image set lists."""
    if tree.lists is None:
        raise UserError(f"{path}: there is no folder ImageSets/Main with the set {name}")
    file = os.path.join(tree.lists, f"{name}.txt")
    if not os.path.isfile(file):
        raise UserError(f"{path}: there is no image set {name}; there are", image_sets(tree.lists))
    return [f"{unquoted(image)}.xml" for image in dict.fromkeys(text_lines(file)) if image]


def _stem(name: str) -> str:
    return os.path.splitext(name.rpartition("/")[2])[0].casefold()


def _image_name(file: str, filename: str) -> str:
    """Return the image of an XML file; without a folder of its own it lies where the XML file lies."""
    folder = os.path.dirname(file)
    name = filename or os.path.splitext(os.path.basename(file))[0]
    return name if "/" in name or not folder else f"{folder}/{name}"


def _refuse(path: str, found: _Found, cls: NDArray[np.int32], options: VocOptions) -> None:
    """Refuse everything that is wrong in the files, in one go."""
    what, offenders = [], []
    if found.bad and options.bad_files == "error":
        what.append(f"{plural(len(found.bad), 'XML file')} cannot be read (bad_files=skip leaves them out)")
        offenders += [line for lines in found.bad for line in lines]
    of_name: defaultdict[str, list[str]] = defaultdict(list)
    for name, file in zip(found.names, found.files, strict=True):
        of_name[name].append(file)
    if several := [f"{name}: {', '.join(files)}" for name, files in of_name.items() if len(files) > 1]:
        what.append(
            f"{plural(len(several), 'image')} described by more than one XML file (image_name=file goes by the names "
            "of the XML files)"
        )
        offenders += several
    stray = np.flatnonzero(cls < 0).tolist()
    if stray and options.other_classes == "error":
        what.append(
            f"{plural(len(stray), 'object')} of a class that is not in the class list (other_classes=skip leaves them "
            "out)"
        )
        offenders += [f"{found.files[found.image[k]]}:{found.line[k]} {found.classes[k]}" for k in stray]
    if what:
        raise UserError(f"{path}: {'; '.join(what)}", offenders)


def _refuse_empty(path: str, found: _Found, classes: Sequence[str], options: VocOptions) -> None:
    """Stop where nothing can be learnt, or where nobody has said what files without objects mean."""
    if not found.files:
        raise UserError(f"{path}: no XML file can be read", [line for lines in found.bad for line in lines])
    if not found.image and (options.not_listed is None or not classes):
        raise UserError(
            f"{path}: {plural(len(found.files), 'XML file')} and not one object; if nothing is in these pictures, say "
            "not_listed=absent and name the classes with classes=NAME,NAME"
        )


def _report(found: _Found, options: VocOptions, report: ImportReport) -> None:
    report.rows = len(found.image)
    report.coding = f"an object = present, nothing but difficult objects = {_WORDS[options.difficult]}"
    hard = sum(found.difficult)
    for mark, meaning, count in (
        ("difficult 0", "present", len(found.difficult) - hard),
        ("difficult 1", "uncertain" if options.difficult == "unknown" else options.difficult, hard),
    ):
        if count:
            report.values[mark] = ValueCount(meaning, count)
    if found.bad:
        report.dropped["XML files that cannot be read"] = Tally.of([lines[0] for lines in found.bad])
    bare = np.flatnonzero(np.bincount(np.array(found.image, np.int64), minlength=len(found.names)) == 0)
    report.without_annotations = Tally.of([found.names[i] for i in bare[: Tally.KEPT]], len(bare))
