"""COCO instances JSON and LVIS: an annotation says that a class is present in an image."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, repeat
from typing import Any, BinaryIO

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.core.files import replacing
from partlabel.formats import options as read_as
from partlabel.formats.class_names import tidy
from partlabel.formats.reading import load_json
from partlabel.formats.records import before_sigmoid, is_probability
from partlabel.formats.report import ImportReport, plural
from partlabel.formats.source import mark_models
from partlabel.formats.spine import CommonOptions, Source, choice, finish, option
from partlabel.labels.table import LabelTable

__all__ = ["CocoOptions", "read", "write"]

Id = int | float | str
#: images that are written at a time
_ROWS = 16_384


class Image(msgspec.Struct, gc=False):
    """An image; ``neg_category_ids`` are classes that somebody looked for and did not find (as in LVIS)."""

    id: Id
    file_name: str | None = None
    coco_url: str | None = None
    neg_category_ids: list[Id] | None = None


class Annotation(msgspec.Struct, gc=False):
    """One object or one image label; boxes and outlines are not read. One with a score below 1 is a model's."""

    image_id: Id
    category_id: Id
    id: Id | None = None
    iscrowd: bool | float | None = 0
    score: Any = None


class Category(msgspec.Struct, gc=False):
    """A class."""

    id: Id
    name: str


class Layout(msgspec.Struct):
    """The parts of a COCO file that say which class is in which image."""

    images: list[Image]
    annotations: list[Annotation] = []
    categories: list[Category] | None = None


def _classes(name: str, value: Any) -> list[str] | dict[str, str]:
    """Read class names, or ids with names (``1=person,3=car``)."""
    if isinstance(value, Mapping):
        return {str(number): str(label) for number, label in value.items()}
    entries = read_as.names(name, value)
    if entries and all("=" in entry for entry in entries):
        return {number.strip(): label.strip() for number, _, label in (entry.partition("=") for entry in entries)}
    return entries


@dataclass(frozen=True, kw_only=True)
class CocoOptions(CommonOptions):
    """Options of the format ``coco``."""

    not_listed: str | None = choice(
        None,
        "absent",
        "unknown",
        help="what a class counts as that has no annotation in an image: absent, or unknown. The default is absent "
        "(boxes are exhaustive); for files with neg_category_ids (LVIS, or written by partlabel) it is unknown",
    )
    crowd: str = choice(
        "present", "unknown", help="what a class with crowd annotations only counts as: present, or unknown"
    )
    classes: Any = option(
        None,
        _classes,
        "the classes that are wanted, in this order: names between commas, or a file with one name a line; "
        "for a file without categories with their ids, as in 1=person,3=car",
    )
    rename: dict[str, str] | None = option(
        None,
        read_as.rename,
        "other class names: old=new,old=new, or a CSV file with the header from,to; old may be a category id, for two "
        "categories of one name",
    )


def read(path: str, options: CocoOptions) -> tuple[LabelTable, ImportReport]:
    """Read image labels from a COCO file.

    Raises:
        UserError: not JSON or not this layout; ids that refer to nothing or are listed twice, two images of one file,
            two categories of one name (all are listed); no categories; no annotation while ``not_listed`` is not given.
    """
    report = ImportReport(path, "coco", "instances JSON")
    content = load_json(path, Layout, "a COCO file")
    categories = _categories(path, content, options)
    annotations = content.annotations
    absent = [(n, c) for n, image in enumerate(content.images) for c in image.neg_category_ids or ()]
    negatives = any(image.neg_category_ids is not None for image in content.images)
    if not annotations and not negatives:
        _refuse_empty(path, content, categories, options, report)
    not_listed = options.not_listed or ("unknown" if negatives else "absent")
    if options.not_listed is None:
        why = "the file lists absent classes" if negatives else "annotations are taken to cover every class"
        report.notes.append(f"not_listed={not_listed} is the default here: {why}")
    report.rows = len(annotations)
    report.coding = "an annotation = present" + (", neg_category_ids = absent" if negatives else "")
    report.coding += "" if options.crowd == "present" else ", nothing but a crowd = uncertain (kept unknown)"

    image_at = _positions(path, "image", [entry.id for entry in content.images])
    class_at = _positions(path, "category", [entry.id for entry in categories])
    names = _file_names(path, content, report)
    image = np.concatenate(
        [_look_up([a.image_id for a in annotations], image_at), np.array([n for n, _ in absent], np.int32)]
    )
    cls = _look_up([*(a.category_id for a in annotations), *(c for _, c in absent)], class_at)
    _refuse_dangling(path, content, absent, image, cls)
    _note_ids(content, categories, report)
    ids = [str(_plain(category.id)) for category in categories]
    value = np.ones(len(cls), np.int8)
    value[len(annotations) :] = -1
    if options.crowd == "unknown":
        value[: len(annotations)] -= np.fromiter((bool(a.iscrowd) for a in annotations), np.int8, len(annotations))
    rename, own = options.rename or {}, {tidy(category.name) for category in categories}
    by_id = {old: new for old, new in rename.items() if old in set(ids) and tidy(old) not in own}
    source = Source(
        pa.array(names, pa.string()),
        _category_names(path, categories, by_id),
        image,
        cls,
        value,
        lambda rows: [_entry(content, absent, row) for row in rows],
        ids=ids,
        annotated=True,
    )
    _mark_models(source, annotations, report)
    by_name = replace(options, rename={old: new for old, new in rename.items() if old not in by_id})
    return finish(source, by_name, report, not_listed=not_listed, given=options.given()), report


def _mark_models(source: Source, annotations: Sequence[Annotation], report: ImportReport) -> None:
    """Give annotations with a score, as detectors write them, the origin ``model`` and the score before the sigmoid."""
    scored = [i for i, a in enumerate(annotations) if a.score is not None and is_probability(a.score) and a.score < 1]
    if not scored:
        return
    score = np.full(len(np.asarray(source.cls)), np.nan, np.float32)
    score[scored] = [before_sigmoid(annotations[i].score) for i in scored]
    mark_models(source, ~np.isnan(score), score)
    report.notes.append(f"{plural(len(scored), 'annotation')} with a score, kept as labels of a model")


def _categories(path: str, content: Layout, options: CocoOptions) -> list[Category]:
    """Return the categories block, or what the class list gives instead."""
    if content.categories is not None:
        if not content.categories:
            raise UserError(f"{path}: the categories block is empty")
        return content.categories
    if not isinstance(options.classes, dict):
        raise UserError(
            f"{path}: no categories block; give the ids and names of the classes, as in classes=1=person,3=car"
        )
    return [Category(_plain(number), name) for number, name in options.classes.items()]


def _category_names(path: str, categories: Sequence[Category], by_id: Mapping[str, str]) -> list[str]:
    """Return the names of the categories, those in ``by_id`` (id -> name) under the new name.

    Raises:
        UserError: categories of one name.
    """
    first: dict[str, Category] = {}
    names, twice = [], []
    for category in categories:
        name = by_id.get(str(_plain(category.id)))
        names.append(category.name if name is None else name)
        if name is None and first.setdefault(category.name.strip(), category) is not category:
            twice.append(f"{category.name}: ids {first[category.name.strip()].id} and {category.id}")
    if twice:
        raise UserError(f"{path}: categories have the same name; tell them apart by id, as in rename=ID=NAME", twice)
    return names


def _refuse_empty(
    path: str, content: Layout, categories: Sequence[Category], options: CocoOptions, report: ImportReport
) -> None:
    """Stop at a file without annotations, unless the user has said what that means."""
    counts = f"{len(categories)} categories, {len(content.images)} images, 0 annotations"
    why = "image tags are not part of this format, so exports of tagged images look like this"
    if options.not_listed is None:
        raise UserError(
            f"{path}: {counts}: {why}; if nothing is in these images, say not_listed=absent, "
            "and not_listed=unknown if nobody looked"
        )
    report.warnings.append(f"{counts}: {why}")


def _file_names(path: str, content: Layout, report: ImportReport) -> list[str]:
    """Return the file name of each image; in LVIS v1 it is the last folder and the name of ``coco_url``.

    Raises:
        UserError: images without a name, or several of one name.
    """
    names = [image.file_name or _from_address(image.coco_url or "") for image in content.images]
    if nameless := [image for image, name in zip(content.images, names, strict=True) if not name]:
        places = [f"image {_plain(image.id)}: neither file_name nor coco_url" for image in nameless]
        raise UserError(f"{path}: not a COCO file: {plural(len(places), 'image')} without a file_name", places)
    if len(set(names)) < len(names):
        ids_of: defaultdict[str, list[str]] = defaultdict(list)
        for image, name in zip(content.images, names, strict=True):
            ids_of[name].append(str(_plain(image.id)))
        twice = [f"{name}: image ids {', '.join(ids)}" for name, ids in ids_of.items() if len(ids) > 1]
        raise UserError(f"{path}: {plural(len(twice), 'file name')} of more than one image", twice)
    if urls := sum(not image.file_name for image in content.images):
        report.notes.append(f"{plural(urls, 'image name')} taken from coco_url (folder/name)")
    return names


def _from_address(url: str) -> str:
    return "/".join(url.partition("?")[0].split("/")[-2:])


def _positions(path: str, what: str, ids: Iterable[Id]) -> dict[Id, int]:
    """Return id -> position.

    Raises:
        UserError: an id that is listed twice.
    """
    at: dict[Id, int] = {}
    twice = []
    for n, own in enumerate(ids):
        key = own if type(own) is int else _plain(own)
        if at.setdefault(key, n) != n:
            twice.append(f"{what} id {key}: entries {at[key] + 1} and {n + 1}")
    if twice:
        raise UserError(f"{path}: {what} ids are listed more than once", twice)
    return at


def _look_up(ids: Sequence[Id], positions: dict[Id, int]) -> NDArray[np.int32]:
    """Return the position of each id, int32, -1 for an id that does not exist."""
    found = np.fromiter(map(positions.get, ids, repeat(-1)), np.int32, len(ids))
    for n in np.flatnonzero(found < 0).tolist():
        found[n] = positions.get(_plain(ids[n]), -1)
    return found


def _entry(content: Layout, absent: Sequence[tuple[int, Id]], row: int) -> str:
    """Return where a statement is: an annotation, or after all of them an entry of ``neg_category_ids``."""
    if row >= len(content.annotations):
        return f"neg_category_ids of image {content.images[absent[row - len(content.annotations)][0]].id}"
    number = content.annotations[row].id
    return f"annotation entry {row + 1}" if number is None else f"annotation {_plain(number)}"


def _refuse_dangling(
    path: str, content: Layout, absent: Sequence[tuple[int, Id]], image: NDArray[Any], cls: NDArray[np.int32]
) -> None:
    """Refuse references to images and categories that do not exist, all in one go."""
    wrong = []
    for row in np.flatnonzero((image < 0) | (cls < 0)).tolist():
        if row >= len(content.annotations):
            owner, number = absent[row - len(content.annotations)]
            wrong.append(f"image {content.images[owner].id}: neg_category_ids names category {number}")
            continue
        annotation = content.annotations[row]
        lost = [f"category {annotation.category_id}"] * int(cls[row] < 0)
        lost += [f"image {annotation.image_id}"] * int(image[row] < 0)
        wrong.append(f"{_entry(content, absent, row)}: {' and '.join(lost)}")
    if wrong:
        raise UserError(
            f"{path}: {plural(len(wrong), 'annotation')} with an image or category that does not exist", wrong
        )


def _note_ids(content: Layout, categories: Sequence[Category], report: ImportReport) -> None:
    """Note ids that had to be read as numbers to fit."""
    ids = [entry.id for entry in (*content.images, *categories)]
    ids += [number for a in content.annotations for number in (a.image_id, a.category_id)]
    if set(map(type, ids)) == {int}:
        return
    if odd := sum(type(number) is not int and type(_plain(number)) is int for number in ids):
        report.notes.append(
            f'{odd:,} ids are written as text or with a point ("1", 1.0) and were read as whole numbers'
        )


def _plain(number: Id) -> int | str:
    """Return an id in the form in which ids are compared: ``"1"`` and ``1.0`` are 1; other text stays text."""
    text = str(number)
    if isinstance(number, float):
        return int(number) if number == int(number) else text
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and str(int(text)) == text else text


def write(table: LabelTable, path: str) -> None:
    """Write a table as COCO JSON.

    Each known present label is one annotation without a box. Known absent labels are the ``neg_category_ids`` of their
    image, as in LVIS; a class in neither is unknown. Category ids are the class ids of the table where all are whole
    numbers, otherwise 1 .. C. Origins, scores and groups are not part of this format.

    Raises:
        UserError: the place cannot be written to.
    """
    ids = _category_ids(table)
    with replacing(path) as temporary, open(temporary, "wb") as file:
        about = (
            "image labels written by partlabel: an annotation = present, neg_category_ids = absent, neither = unknown"
        )
        file.write(b'{"info":' + msgspec.json.encode({"description": about}) + b',\n"categories":')
        file.write(
            msgspec.json.encode([{"id": int(n), "name": name} for n, name in zip(ids, table.classes, strict=True)])
        )
        file.write(b',\n"images":[')
        comma = b"\n"
        for low, high in _parts(table):
            comma = _append(file, comma, _image_entries(table, ids, low, high))
        file.write(b'],\n"annotations":[')
        comma, number = b"\n", count(1)
        images = table.pair_images()
        for low, high in _parts(table):
            part = slice(table.indptr[low], table.indptr[high])
            present = np.flatnonzero(table.values[part] > 0) + part.start
            pairs = zip(images[present].tolist(), ids[table.indices[present]].tolist(), strict=True)
            entries = [{"id": next(number), "image_id": i + 1, "category_id": c, "iscrowd": 0} for i, c in pairs]
            comma = _append(file, comma, entries)
        file.write(b"]}\n")


def _category_ids(table: LabelTable) -> np.ndarray[Any, Any]:
    own = table.class_ids or ()
    if own and all(n.isascii() and n.isdigit() for n in own) and len({int(n) for n in own}) == len(own):
        return np.array([int(n) for n in own], np.int64)
    return np.arange(1, table.num_classes + 1)


def _parts(table: LabelTable) -> list[tuple[int, int]]:
    return [(low, min(low + _ROWS, table.num_images)) for low in range(0, table.num_images, _ROWS)]


def _image_entries(table: LabelTable, ids: np.ndarray[Any, Any], low: int, high: int) -> list[dict[str, Any]]:
    entries = []
    for number, name in enumerate(table.images[low:high].to_pylist(), low):
        own = slice(table.indptr[number], table.indptr[number + 1])
        absent = ids[table.indices[own][table.values[own] < 0]].tolist()
        entries.append({"id": number + 1, "file_name": name, "neg_category_ids": absent})
    return entries


def _append(file: BinaryIO, comma: bytes, entries: list[dict[str, Any]]) -> bytes:
    """Write list items; return what goes before the next ones."""
    if not entries:
        return comma
    file.write(comma + b",\n".join(map(msgspec.json.encode, entries)))
    return b",\n"
