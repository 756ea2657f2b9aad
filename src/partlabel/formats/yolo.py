"""YOLO: a text file beside each image, with a class number and a box on each line."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from partlabel.core.errors import UserError
from partlabel.formats import options as read_as
from partlabel.formats.class_names import tidy
from partlabel.formats.reading import files_below, text_lines
from partlabel.formats.report import ImportReport, Tally, plural
from partlabel.formats.spine import CommonOptions, Source, choice, finish, option, unique
from partlabel.images.locate import PICTURES, relative
from partlabel.labels.table import LabelTable

__all__ = ["YoloOptions", "read"]

_PARTS = ("train", "val", "test")
#: files with the class names of a data set without data.yaml
_NAMES = ("classes.txt", "obj.names")


@dataclass(frozen=True, kw_only=True)
class YoloOptions(CommonOptions):
    """Options of the format ``yolo``."""

    split: list[str] | None = option(
        None, read_as.names, "the parts of data.yaml that are read: train, val, test; otherwise all that are there"
    )
    not_listed: str | None = choice(
        "absent",
        "unknown",
        help="what a class counts as that has no box in an image: absent (boxes are exhaustive), or unknown. Images "
        "without a text file stay unknown",
    )


@dataclass
class _Found:
    """The images of a data set and their text files; paths with ``/``, relative to ``root``."""

    root: str
    names: dict[int, str]
    images: dict[str, str | None] = field(default_factory=dict)

    def add_folder(self, folder: str) -> None:
        """Take in a folder of images; a text file without its image stands for it."""
        inner = "" if folder == "." else f"{folder}/"
        images = {os.path.splitext(name)[0]: name for name in files_below(os.path.join(self.root, folder), *PICTURES)}
        texts: set[str] = set()
        if (own := os.path.dirname(_text_file(f"{inner}x"))) != os.path.dirname(f"{inner}x"):
            texts = {os.path.splitext(name)[0] for name in files_below(os.path.join(self.root, own), ".txt")}
        for stem in sorted({*images, *texts}):
            self.add(inner + images.get(stem, stem))

    def add(self, image: str) -> None:
        """Take in an image with its text file, if there is one."""
        text = _text_file(image)
        self.images[image] = text if os.path.isfile(os.path.join(self.root, text)) else None


def _text_file(image: str) -> str:
    """Return the text file of an image: ``labels`` in place of the last folder ``images``, or beside the image."""
    parts = os.path.splitext(image)[0].split("/")
    if "images" in parts[:-1]:
        parts[len(parts) - 2 - parts[-2::-1].index("images")] = "labels"
    return "/".join(parts) + ".txt"


def read(path: str, options: YoloOptions) -> tuple[LabelTable, ImportReport]:
    """Read image labels from ``data.yaml``, or from a folder with it or with ``classes.txt`` (``obj.names``).

    Images are named relative to the data set's folder, or to ``images`` where that is given.

    Raises:
        UserError: no such files; class numbers without a name, lines that are no boxes (all are listed).
    """
    found, layout = _find(path, options)
    report = ImportReport(path, "yolo", layout, coding="a box = present")
    image, cls, places = _read_boxes(path, found)
    report.rows = len(cls)
    if lost := [name for name in found.images if not name.casefold().endswith(PICTURES)]:
        report.notes.append(f"text files without their image; images have no ending: {Tally.of(lost)}")
    names = list(found.images)
    if options.images is not None:
        names = [relative(os.path.join(found.root, name), options.images) for name in names]
    numbers = {number: position for position, number in enumerate(found.names)}
    source = Source(
        unique(names)[0],
        list(found.names.values()),
        image,
        [numbers[number] for number in cls],
        np.ones(len(cls), np.int8),
        lambda rows: [places[row] for row in rows],
        ids=[str(number) for number in found.names],
        unlabelled=np.array([text is None for text in found.images.values()], bool),
    )
    return finish(source, options, report), report


def _find(path: str, options: YoloOptions) -> tuple[_Found, str]:
    if os.path.isdir(path):
        there = sorted(name for name in os.listdir(path) if name.casefold().endswith((".yaml", ".yml")))
        if len(there) == 1:
            return _find_described(os.path.join(path, there[0]), options)
        if len(there) > 1:
            raise UserError(f"{path}: several YAML files; name the one of the data set", there)
        lists = [name for name in _NAMES if os.path.isfile(os.path.join(path, name))]
        if not lists:
            raise UserError(
                f"{path}: neither data.yaml nor a file with class names ({', '.join(_NAMES)}) is in this folder"
            )
        names = dict(enumerate(text_lines(os.path.join(path, lists[0]))))
        found = _Found(path, _checked(path, {number: name for number, name in names.items() if name}))
        folders = [name for name in ("images", "obj_train_data") if os.path.isdir(os.path.join(path, name))]
        labels = ["images"] if not folders and os.path.isdir(os.path.join(path, "labels")) else []
        for folder in folders or labels or ["."]:
            found.add_folder(folder)
        return _filled(path, found), f"text files, {lists[0]}"
    return _find_described(path, options)


def _checked(path: str, names: dict[int, str]) -> dict[int, str]:
    """Return the class names; two numbers with one name are refused."""
    first: dict[str, int] = {}
    own = {number: tidy(name) for number, name in names.items()}
    if twice := [f"{name}: {first[name]} and {n}" for n, name in own.items() if first.setdefault(name, n) != n]:
        raise UserError(f"{path}: class numbers have the same name", twice)
    return names


def _filled(path: str, found: _Found) -> _Found:
    if not found.images:
        raise UserError(f"{path}: no images and no text files with boxes were found")
    return found


def _find_described(path: str, options: YoloOptions) -> tuple[_Found, str]:
    """Find the images that a data.yaml describes."""
    content = _load_yaml(path)
    listed = content.get("names")
    names = dict(enumerate(listed)) if isinstance(listed, list) else listed
    if not isinstance(names, dict) or not names or not all(type(number) is int for number in names):
        raise UserError(f"{path}: names is a list of class names, or numbers with class names")
    parts = {part: _texts(content[part]) for part in _PARTS if content.get(part)}
    scalars = [*names.values(), *(place for places in parts.values() for place in places), content.get("path") or ""]
    if wrong := [type(value).__name__ for value in scalars if not isinstance(value, str | int | float)]:
        raise UserError(
            f"{path}: class names, path, train, val and test are texts, not {', '.join(sorted(set(wrong)))}"
        )
    folder = os.path.dirname(path)
    root = os.path.join(folder, str(content.get("path") or ""))
    root = os.path.normpath(root if os.path.isdir(root) else folder or ".")
    found = _Found(root, _checked(path, {number: str(name) for number, name in names.items()}))
    wanted = options.split or list(parts)
    if unknown := [part for part in wanted if part not in parts]:
        raise UserError(f"{path}: there is no part {', '.join(unknown)}; there are", list(parts))
    read, lost = [], []
    for part in wanted:
        for place in map(str, parts[part]):
            (read if _take(found, place) else lost).append(f"{part}: {place}")
    if not read:
        raise UserError(f"{path}: none of its folders is there, in {found.root}", lost)
    layout = f"text files, {os.path.basename(path)}, {', '.join(read)}"
    return _filled(path, found), layout + (f" (not there: {', '.join(lost)})" if lost else "")


def _texts(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _take(found: _Found, place: str) -> bool:
    """Take in a folder of images, or a text file that lists them; return whether it is there."""
    inside = re.sub(r"^(\.\./)+", "", place)  # Roboflow writes ../train/images for a folder beside the YAML file
    place = place if os.path.exists(os.path.join(found.root, place)) else inside
    place = relative(os.path.join(found.root, place), found.root)
    full = os.path.join(found.root, place)
    if place.casefold().endswith(".txt"):
        if not os.path.isfile(full):
            return False
        for line in filter(None, text_lines(full)):
            found.add(os.path.normpath(line.replace("\\", "/")).replace(os.sep, "/"))
        return True
    before = len(found.images)
    found.add_folder(place)
    return os.path.isdir(full) or len(found.images) > before


def _load_yaml(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            content = yaml.safe_load(file)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark else path
        raise UserError(f"{path}: not valid YAML", [f"{place} is no YAML from here on" if mark else place]) from error
    if not isinstance(content, dict):
        raise UserError(f"{path}: not the description of a YOLO data set, which is names with values")
    return content


def _read_boxes(path: str, found: _Found) -> tuple[list[int], list[int], list[str]]:
    """Return image, class number and place of each box.

    Raises:
        UserError: lines that are no boxes, or whose class has no name.
    """
    image: list[int] = []
    cls: list[int] = []
    places: list[str] = []
    wrong: list[str] = []
    for number, text in enumerate(found.images.values()):
        file = os.path.join(found.root, text or "")
        if text is None or not Path(file).read_bytes().strip():
            continue
        try:
            lines = text_lines(file)
        except UserError as error:
            wrong += error.offenders or [error.message]
            continue
        for line, entry in enumerate(lines, 1):
            if not entry:
                continue
            own, problem = _class_number(entry, found.names)
            if problem:
                wrong.append(f"{file}:{line} {problem}")
            else:
                image.append(number)
                cls.append(own)
                places.append(f"{file}:{line}")
    if wrong:
        raise UserError(
            f"{path}: {plural(len(wrong), 'line')} cannot be read; a line is a class number and a box", wrong
        )
    return image, cls, places


def _class_number(line: str, names: dict[int, str]) -> tuple[int, str]:
    """Return the class number of a line, and what is wrong with it."""
    try:
        values = [float(part) for part in line.split()]
    except ValueError:
        return -1, line[:60]
    if len(values) < 5 or not values[0].is_integer():
        return -1, line[:60]
    number = int(values[0])
    return number, "" if number in names else f"class {number} has no name; there are {min(names)} to {max(names)}"
