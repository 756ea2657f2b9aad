"""CVAT for images: a tag or a shape says that its class is present in an image, a checkbox says yes or no."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO

import numpy as np
from lxml import etree
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.formats.class_names import tidy
from partlabel.formats.reading import XmlError, refuse_entities, xml_elements
from partlabel.formats.report import ImportReport, Tally, plural
from partlabel.formats.source import mark_models
from partlabel.formats.spine import CommonOptions, Source, choice, finish, unique
from partlabel.labels.table import LabelTable

__all__ = ["CvatOptions", "read"]

#: elements of an image whose attribute ``label`` names a class; all but the first outline something
LABELS = frozenset({"tag", "box", "polygon", "polyline", "points", "cuboid", "mask", "ellipse", "skeleton"})
_FILE = "annotations.xml"
#: lxml counts lines exactly up to this one
_LAST_LINE = 65_535
_TICKS = {"true": 1, "false": -1}


@dataclass(frozen=True, kw_only=True)
class CvatOptions(CommonOptions):
    """Options of the format ``cvat``."""

    shapes: str = choice(
        "present",
        "unknown",
        help="what boxes, polygons and other shapes say of their class: present, or unknown to read nothing but tags",
    )
    attributes: str = choice(
        "ignored",
        "classes",
        help="classes: the checkboxes of tags and shapes are the classes, and the labels are not: a ticked one is "
        "present, one that is nowhere ticked in an image is absent",
    )


@dataclass
class _Content:
    """What a file says.

    Attributes:
        declared: class names of the labels block in its order; parts of skeletons are not among them.
        inputs: attribute of the labels block -> kind of its input, such as ``checkbox``.
        images: name, task, subset and line of each image element.
        labels: image, element, class, value and line of each label, and whether a model made it.
        boxes: the same of each checkbox.
        others: how many attributes are no checkboxes.
    """

    path: str
    declared: list[str] = field(default_factory=list)
    inputs: dict[str, str] = field(default_factory=dict)
    images: list[tuple[str, str, str, int]] = field(default_factory=list)
    labels: list[tuple[int, str, str, int, int, bool]] = field(default_factory=list)
    boxes: list[tuple[int, str, str, int, int, bool]] = field(default_factory=list)
    others: int = 0
    wrong: list[str] = field(default_factory=list)

    def place(self, line: int, image: str) -> str:
        """Return where something is: its line, or its image where lines are no longer counted."""
        return f"{self.path}:{line}" if line < _LAST_LINE else f"{self.path}, image {image}"

    def take_label(self, label: etree._Element) -> None:
        """Take in a class of the labels block."""
        name = label.findtext("name") or ""
        if name.strip() and label.find("parent") is None:
            self.declared.append(name)
        for attribute in label.iterfind("attributes/attribute"):
            self.inputs[tidy(attribute.findtext("name") or "")] = (attribute.findtext("input_type") or "").strip()

    def take_image(self, image: etree._Element) -> None:
        """Take in an image element and what is on it."""
        name = image.get("name", "").strip()
        if not name:
            self.wrong.append(f"{self.place(image.sourceline, 'image')} <image> without a name")
        number = len(self.images)
        self.images.append((name, image.get("task_id", ""), image.get("subset", ""), image.sourceline))
        for label in image:
            if label.tag not in LABELS:
                continue
            own, line, automatic = label.get("label", ""), label.sourceline, label.get("source") == "auto"
            if not own.strip():
                self.wrong.append(f"{self.place(line, name)} <{label.tag}> without a label")
            self.labels.append((number, label.tag, own, 1, line, automatic))
            for attribute in label:
                if attribute.tag == "attribute":
                    self.take_attribute(number, label.tag, attribute, automatic)

    def take_attribute(self, image: int, kind: str, attribute: etree._Element, automatic: bool) -> None:
        """Take in an attribute of a tag or a shape; only checkboxes say yes or no."""
        name, value = attribute.get("name", ""), (attribute.text or "").strip().casefold()
        if value in _TICKS and self.inputs.get(tidy(name), "checkbox") == "checkbox" and name.strip():
            self.boxes.append((image, kind, name, _TICKS[value], attribute.sourceline, automatic))
        else:
            self.others += 1


def read(path: str, options: CvatOptions) -> tuple[LabelTable, ImportReport]:
    """Read image labels from an export of CVAT for images 1.1: the XML file, the zip file, or the unpacked folder.

    Raises:
        UserError: no such file, not XML or cut off, another layout, a video, images or labels without a name, or one
            image name in several tasks; all offenders are listed.
    """
    with _opened(path) as (place, file):
        content = _parse(place, file)
    by_box = options.attributes == "classes"
    said = content.boxes if by_box else content.labels
    report = ImportReport(path, "cvat", "images, XML", rows=len(said))
    names = [name for name, kind in content.inputs.items() if kind == "checkbox"] if by_box else content.declared
    declared = list(dict.fromkeys(map(tidy, names)))
    used = list(dict.fromkeys(name for _, _, name, *_ in said))
    if declared and (foreign := [name for name in used if tidy(name) not in set(declared)]):
        report.warnings.append(f"labels that the labels block does not list: {Tally.of(foreign)}")
    _describe(content, declared, options, report)
    at = {name: number for number, name in enumerate(used, len(declared))}
    images, number = unique([name for name, *_ in content.images])
    _check_repeats(content, number, len(images), report)
    read_shapes = options.shapes == "present"
    automatic = np.array([own for *_, own in said], bool)
    source = Source(
        images,
        [*declared, *used],
        number[[image for image, *_ in said]] if said else [],
        [at[name] for _, _, name, *_ in said],
        [value if kind == "tag" or read_shapes else 0 for _, kind, _, value, *_ in said],
        lambda rows: [content.place(said[row][4], content.images[said[row][0]][0]) for row in rows],
        yields=np.array([value < 0 for _, _, _, value, *_ in said], bool) | automatic,
        sort=not declared,
        annotated=True,
    )
    if automatic.any():
        mark_models(source, automatic)
        report.notes.append(
            f"{plural(int(automatic.sum()), 'label')} of automatic annotation, kept as labels of a model"
        )
    return finish(source, options, report), report


@contextmanager
def _opened(path: str) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the XML file with its place, out of a zip file or a folder where it is in one."""
    path = os.path.join(path, _FILE) if os.path.isdir(path) else path
    try:
        with open(path, "rb") as file:
            if file.read(2) != b"PK":
                file.seek(0)
                yield path, file
                return
        with zipfile.ZipFile(path) as archive:
            found = [name for name in archive.namelist() if name.rpartition("/")[2] == _FILE]
            if len(found) != 1:
                raise UserError(f"{path}: {len(found)} files {_FILE} in the archive, one is needed", found)
            with archive.open(found[0]) as file:
                yield f"{path}/{found[0]}", file
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise UserError(f"{path}: the archive is damaged or locked") from error


def _parse(path: str, file: IO[bytes]) -> _Content:
    content = _Content(path)
    try:
        elements = xml_elements(file, "label", "image", "track")
        _check_root(path, next(elements))
        for element in elements:
            parent = element.getparent()
            is_top = parent is not None and parent.getparent() is None
            if is_top and element.tag == "track":
                raise UserError(f"{path}: CVAT for video; export the task once more as CVAT for images")
            if is_top and element.tag == "image":
                content.take_image(element)
                parent.remove(element)
            elif parent is not None and element.tag == "label" and parent.tag == "labels":
                content.take_label(element)
    except XmlError as error:
        raise UserError(f"{path}: not valid XML, or cut off: {error}", [f"{path}:{error.place}"]) from error.__cause__
    if content.wrong:
        raise UserError(f"{path}: images or labels without a name", content.wrong)
    return content


def _check_root(path: str, root: etree._Element) -> None:
    refuse_entities(root)
    if root.tag != "annotations":
        hint = "; it looks like Pascal VOC" if root.tag == "annotation" else ""
        raise UserError(f"{path}: not a file of CVAT: it starts with <{root.tag}>, not <annotations>{hint}")


def _check_repeats(content: _Content, number: NDArray[np.int32], size: int, report: ImportReport) -> None:
    """Refuse images of one name in several tasks; in one task they are one image."""
    if size == len(number):
        return
    first: dict[int, int] = {}
    clash = []
    for position, own in enumerate(number.tolist()):
        other = first.setdefault(own, position)
        if content.images[other][1:3] != content.images[position][1:3]:
            owners = " and ".join(_owner(content, p) for p in (other, position))
            clash.append(f"{content.images[position][0]}: {owners}")
    if clash:
        raise UserError(
            f"{content.path}: images of different tasks have the same name; export each task by itself and "
            "put its images into a folder of its own",
            clash,
        )
    report.notes.append(
        f"{plural(len(number) - size, 'image element')} with the name of an earlier one; their labels are put together"
    )


def _owner(content: _Content, position: int) -> str:
    _, task, subset, line = content.images[position]
    parts = [f"line {line}", f"task {task}" if task else "", f"subset {subset}" if subset else ""]
    return " ".join(filter(None, parts))


def _describe(content: _Content, declared: list[str], options: CvatOptions, report: ImportReport) -> None:
    """Say in the report what was read, and what was not."""
    kinds = Counter(kind for _, kind, *_ in content.labels)
    shapes = sorted(set(kinds) - {"tag"})
    if options.attributes == "classes":
        report.coding = "a ticked checkbox = present, one that is nowhere ticked in an image = absent"
        others = content.others
    else:
        report.coding = "a tag = present"
        others = content.others + len(content.boxes)
        if content.boxes:
            report.notes.append("checkboxes can be read as classes: attributes=classes")
    if shapes:
        word = "present" if options.shapes == "present" else "uncertain (kept unknown)"
        report.coding += f", a shape = {word}"
    if kinds:
        listed = (["tag"] if kinds["tag"] else []) + shapes
        report.notes.append(f"labels by kind: {', '.join(f'{kind} {kinds[kind]:,}' for kind in listed)}")
    if not declared:
        report.notes.append("no labels block: classes are those that occur, by name")
    if others:
        report.notes.append(f"{plural(others, 'attribute')} of tags and shapes are not read")
