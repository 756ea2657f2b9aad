"""A folder of VOC XML files: an object says that its class is present in its image."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from lxml import etree

from partlabel.core.errors import UserError
from partlabel.formats.class_names import Classes
from partlabel.formats.coding import canonical
from partlabel.formats.reading import XmlError, files_below, text_lines, xml_root
from partlabel.formats.report import ImportReport, Tally, ValueCount, plural
from partlabel.formats.spine import Source, settle
from partlabel.formats.voc.tree import DIFFICULT, UNSURE, Tree, VocOptions, image_sets, unquoted

_MARKS = {"": False, "0": False, "false": False, "no": False, "1": True, "true": True, "yes": True}


@dataclass
class _Found:
    """What the XML files say: file and name of each image; ``objects``: image, class, difficult and line of each."""

    files: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    objects: list[tuple[int, str, bool, int]] = field(default_factory=list)
    bad: list[list[str]] = field(default_factory=list)

    def place(self, row: int) -> str:
        """Return where an object is."""
        image, _, _, line = self.objects[row]
        return f"{self.files[image]}:{line}"


def read(path: str, tree: Tree, options: VocOptions, report: ImportReport) -> Source:
    """Read the statements of the XML files; a plain object overrules difficult ones of its class.

    Raises:
        UserError: files that cannot be read, files about one image, classes that are not in the class list (all are
            listed); no such image set; no object at all while ``not_listed`` is not given.
    """
    report.layout = "XML files" if options.set is None else f"XML files of the set {options.set}"
    found = _parse_all(path, tree, options, report)
    raw = list(dict.fromkeys(name for _, name, _, _ in found.objects))
    number = {name: n for n, name in enumerate(raw)}
    settled = settle(raw, options, report, sort=True)
    cls = [number[name] for _, name, _, _ in found.objects]
    _refuse(path, found, settled, cls, options)
    _report(found, options, report)
    difficult = np.array([own for _, _, own, _ in found.objects], bool)
    return Source(
        pa.array(found.names, pa.string()),
        raw,
        [image for image, *_ in found.objects],
        cls,
        np.where(difficult, DIFFICULT[options.difficult], 1),
        lambda rows: [found.place(row) for row in rows],
        yields=difficult,
        settled=settled,
        annotated=True,
        what="objects of {} classes that are not in the class list",
    )


def parse(path: str) -> tuple[str, list[tuple[str, bool, int]]]:
    """Read the file name of the image, and class, difficult mark and line of each object; tags in any case.

    Raises:
        UserError: not well-formed XML, another root than ``annotation``, objects without a name or with two, values of
            ``difficult`` that are neither 0 nor 1, entities; the offenders are ``file:line[:column] what``.
    """
    wrong: list[tuple[int, str]] = []
    try:
        with open(path, "rb") as file:
            root = xml_root(file)
    except OSError as error:
        raise UserError(f"{path}: not a VOC annotation", [f"{path} cannot be read ({error.strerror})"]) from None
    except XmlError as error:
        raise UserError(f"{path}: not a VOC annotation", [f"{path}:{error.place}"]) from None
    if root.tag.casefold() != "annotation":
        wrong.append((root.sourceline, f"the root is <{root.tag}>, not <annotation>"))
    names = [text for child in root if child.tag.casefold() == "filename" and (text := _text(child))]
    objects = [_object(child, wrong) for child in root if child.tag.casefold() == "object"]
    if wrong:
        raise UserError(f"{path}: not a VOC annotation", [f"{path}:{line} {what}" for line, what in wrong])
    return next(iter(names), ""), objects


def _object(element: etree._Element, wrong: list[tuple[int, str]]) -> tuple[str, bool, int]:
    name, difficult = None, False
    for child in element:
        tag, text = child.tag.casefold(), _text(child)
        if tag == "name":
            if name is not None:
                wrong.append((child.sourceline, f"a second name of one object: {text[:40]}"))
            name = text
        elif tag == "difficult" and canonical(text) in _MARKS:
            difficult = _MARKS[canonical(text)]
        elif tag == "difficult":
            wrong.append((child.sourceline, f"difficult is 0 or 1, not {text[:40]}"))
    if not name:
        wrong.append((element.sourceline, "object without a name"))
    return name or "", difficult, element.sourceline


def _text(element: etree._Element) -> str:
    return "".join(element.itertext()).strip()


def _parse_all(path: str, tree: Tree, options: VocOptions, report: ImportReport) -> _Found:
    if tree.annotations is None:
        raise UserError(f"{path}: no XML files are in this folder")
    files = files_below(tree.annotations, ".xml") if options.set is None else _set_files(path, tree, options.set)
    found = _Found()
    unnamed, other = [], []
    for name in files:
        file = os.path.join(tree.annotations, name)
        try:
            filename, objects = parse(file)
        except UserError as error:
            found.bad.append(error.offenders)
            continue
        if not filename:
            unnamed.append(name)
        elif _stem(filename) != _stem(name):
            other.append(f"{name}: {filename}")
        found.objects += [(len(found.files), *thing) for thing in objects]
        found.files.append(file)
        found.names.append(_image_name(name, filename if options.image_name == "tag" else ""))
    if unnamed:
        report.notes.append(f"XML files that do not name their image; their own name was taken: {Tally.of(unnamed)}")
    if other:
        report.notes.append(f"XML files that are named otherwise than their image: {Tally.of(other)}")
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


def _refuse(path: str, found: _Found, settled: Classes, cls: list[int], options: VocOptions) -> None:
    """Refuse everything that is wrong in the files, in one go, and a folder from which nothing can be learnt."""
    what, offenders = [], []
    bad = [line for lines in found.bad for line in lines]
    if found.bad and options.bad_files == "error":
        what.append(f"{plural(len(found.bad), 'XML file')} cannot be read (bad_files=skip leaves them out)")
        offenders += bad
    of_name: defaultdict[str, list[str]] = defaultdict(list)
    for name, file in zip(found.names, found.files, strict=True):
        of_name[name].append(file)
    if several := [f"{name}: {', '.join(files)}" for name, files in of_name.items() if len(files) > 1]:
        what.append(
            f"{plural(len(several), 'image')} described by more than one XML file (image_name=file goes by the names "
            "of the XML files)"
        )
        offenders += several
    stray = [row for row, number in enumerate(cls) if settled.index[number] < 0]
    if stray and options.other_classes == "error":
        what.append(
            f"{plural(len(stray), 'object')} of a class that is not in the class list (other_classes=skip leaves them "
            "out)"
        )
        offenders += [f"{found.place(row)} {found.objects[row][1]}" for row in stray]
    if what:
        raise UserError(f"{path}: {'; '.join(what)}", offenders)
    if not found.files:
        raise UserError(f"{path}: no XML file can be read", bad)
    if not found.objects and (options.not_listed is None or not settled.names):
        raise UserError(
            f"{path}: {plural(len(found.files), 'XML file')} and not one object; if nothing is in these images, say "
            "not_listed=absent and name the classes with classes=NAME,NAME"
        )


def _report(found: _Found, options: VocOptions, report: ImportReport) -> None:
    report.rows = len(found.objects)
    unsure = UNSURE[options.difficult]
    kept = " (kept unknown)" if unsure == "uncertain" else ""
    report.coding = f"an object = present, nothing but difficult objects = {unsure}{kept}"
    hard = sum(difficult for _, _, difficult, _ in found.objects)
    for mark, meaning, count in (("difficult 0", "present", len(found.objects) - hard), ("difficult 1", unsure, hard)):
        if count:
            report.values[mark] = ValueCount(meaning, count)
    if found.bad:
        report.dropped["XML files that cannot be read"] = Tally.of([lines[0] for lines in found.bad])
