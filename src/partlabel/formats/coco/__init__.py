"""COCO instances JSON: an annotation says that a class is present in an image."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.formats.assemble import Statements, assemble
from partlabel.formats.class_names import Classes, settle_names
from partlabel.formats.coco.layout import Category, Id, Layout, load, plain
from partlabel.formats.coco.options import CocoOptions
from partlabel.formats.coco.writing import write
from partlabel.formats.given import given
from partlabel.formats.report import ImportReport, Tally, plural
from partlabel.labels.table import LabelTable

__all__ = ["CocoOptions", "read", "write"]


def read(path: str, options: CocoOptions) -> tuple[LabelTable, ImportReport]:
    """Read image labels from a COCO file.

    Raises:
        UserError: not JSON or not this layout; ids that refer to nothing, or that are listed twice (all are listed); no
            categories; no annotation at all while ``not_listed`` is not given.
    """
    report = ImportReport(path, "coco", "instances JSON")
    content = load(path)
    categories = _categories(path, content, options)
    negatives = any(image.neg_category_ids is not None for image in content.images)
    if not content.annotations and not negatives:
        _refuse_empty(path, content, categories, options, report)
    not_listed = options.not_listed or ("unknown" if negatives else "absent")
    if options.not_listed is None:
        why = "the file lists absent classes" if negatives else "annotations are taken to cover every class"
        report.notes.append(f"not_listed={not_listed} is the default here: {why}")
    report.rows = len(content.annotations)
    report.coding = "an annotation = present" + (", neg_category_ids = absent" if negatives else "")
    report.coding += "" if options.crowd == "present" else ", nothing but a crowd = uncertain (kept unknown)"
    table = assemble(
        _statements(path, content, categories, options, report),
        report,
        conflicts=options.conflicts,
        not_listed=not_listed,
        images=options.images,
        missing=options.missing,
        options=given(options),
    )
    return table, report


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
    return [Category(plain(number), name) for number, name in options.classes.items()]


def _refuse_empty(
    path: str, content: Layout, categories: Sequence[Category], options: CocoOptions, report: ImportReport
) -> None:
    """Stop at a file without annotations, unless the user has said what that means."""
    counts = f"{len(categories)} categories, {len(content.images)} images, 0 annotations"
    why = "image tags are not part of this format, so exports of tagged images look like this"
    if options.not_listed is None:
        raise UserError(
            f"{path}: {counts}: {why}; if nothing is in these pictures, say not_listed=absent, "
            "and not_listed=unknown if nobody looked"
        )
    report.warnings.append(f"{counts}: {why}")


def _statements(
    path: str, content: Layout, categories: Sequence[Category], options: CocoOptions, report: ImportReport
) -> Statements:
    """Return what the annotations, and the lists of absent classes, say."""
    names, image_numbers = _images(path, content, report)
    image_of_entry = np.array(list(image_numbers.values()), np.int32)
    category_numbers = _numbers(path, "category", [c.id for c in categories])
    annotations = content.annotations
    image = _look_up([a.image_id for a in annotations], image_numbers)
    cls = _look_up([a.category_id for a in annotations], category_numbers)
    negative_of = [(n, c) for n, entry in enumerate(content.images) for c in entry.neg_category_ids or ()]
    negative = _look_up([c for _, c in negative_of], category_numbers)
    _refuse_dangling(
        path, content, image, cls, [(negative_of[k][0], negative_of[k][1]) for k in np.flatnonzero(negative < 0)]
    )
    _note_ids(content, categories, report)
    bare = np.flatnonzero(np.bincount(image, minlength=len(names)) == 0)
    report.without_annotations = Tally.of(names.take(pa.array(bare[: Tally.KEPT])).to_pylist(), len(bare))

    chosen = options.classes if isinstance(options.classes, list) else None
    classes = settle_names([c.name for c in categories], report, rename=options.rename, chosen=chosen)
    value = np.ones(len(annotations), np.int8)
    if options.crowd == "unknown":
        value -= np.fromiter((bool(a.iscrowd) for a in annotations), np.int8, len(annotations))

    def place(rows: Sequence[int]) -> list[str]:
        size = len(annotations)
        owners = {r: content.images[negative_of[r - size][0]].id for r in rows if r >= size}
        return [f"neg_category_ids of image {owners[r]}" if r in owners else _annotation(content, r) for r in rows]

    said = Statements(
        names,
        classes.names,
        np.concatenate([image, image_of_entry[[n for n, _ in negative_of]]]).astype(np.int32),
        classes.index[np.concatenate([cls, negative])],
        np.concatenate([value, np.full(len(negative), -1, np.int8)]),
        np.arange(len(annotations) + len(negative)),
        place,
        class_ids=_class_ids(path, categories, classes, report),
    )
    _drop_unwanted(said, classes, categories, report)
    return said


def _images(path: str, content: Layout, report: ImportReport) -> tuple[pa.StringArray, dict[Id, int]]:
    """Return the unique file names, and image id -> number of its name."""
    ids = list(_numbers(path, "image", [entry.id for entry in content.images]))
    encoded = pa.array([entry.file_name for entry in content.images], pa.string()).dictionary_encode()
    names, number = encoded.dictionary, encoded.indices.to_numpy().tolist()
    if len(names) < len(ids):
        report.notes.append(
            f"{len(ids) - len(names):,} image entries name the same file as another one; their labels are put together"
        )
    return names, dict(zip(ids, number, strict=True))


def _numbers(path: str, what: str, ids: Sequence[Id]) -> dict[Id, int]:
    """Return id -> position.

    Raises:
        UserError: an id that is listed twice.
    """
    keys = [number if type(number) is int else plain(number) for number in ids]
    numbers: dict[Id, int] = {number: position for position, number in enumerate(keys)}
    if len(numbers) < len(keys):
        first: dict[Id, int] = {}
        repeated = [
            f"{what} id {number}: entries {first[number] + 1} and {position + 1}"
            for position, number in enumerate(keys)
            if first.setdefault(number, position) != position
        ]
        raise UserError(f"{path}: {what} ids are listed more than once", repeated)
    return numbers


def _look_up(ids: Sequence[Id], numbers: dict[Id, int]) -> NDArray[np.int32]:
    """Return the number of each id, int32, -1 for an id that does not exist."""
    wanted, known = np.array(ids), np.array(list(numbers))
    if wanted.dtype.kind != "i" or known.dtype.kind != "i":  # some are text or have a point
        return np.array([numbers.get(plain(number), -1) for number in ids], np.int32)
    order = np.argsort(known)
    found = order[np.minimum(np.searchsorted(known[order], wanted), len(known) - 1)]
    of_key = np.array(list(numbers.values()), np.int32)
    return np.where(known[found] == wanted, of_key[found], np.int32(-1))


def _annotation(content: Layout, position: int) -> str:
    number = content.annotations[position].id
    return f"annotation {plain(number)}" if number is not None else f"annotation entry {position + 1}"


def _refuse_dangling(
    path: str, content: Layout, image: NDArray[np.int32], cls: NDArray[np.int32], negatives: list[tuple[int, Id]]
) -> None:
    """Refuse references to images and categories that do not exist, all in one go."""
    wrong = []
    for position in np.flatnonzero((image < 0) | (cls < 0)).tolist():
        entry = content.annotations[position]
        missing = [f"category {entry.category_id}"] * int(cls[position] < 0)
        missing += [f"image {entry.image_id}"] * int(image[position] < 0)
        wrong.append(f"{_annotation(content, position)}: {' and '.join(missing)}")
    wrong += [f"image {content.images[n].id}: neg_category_ids names category {number}" for n, number in negatives]
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
    odd = sum(type(number) is not int and type(plain(number)) is int for number in ids)
    if odd:
        report.notes.append(
            f'{odd:,} ids are written as text or with a point ("1", 1.0) and were read as whole numbers'
        )


def _class_ids(path: str, categories: Sequence[Category], classes: Classes, report: ImportReport) -> list[str] | None:
    """Return the category id of each class; renaming may put several categories into one class.

    Raises:
        UserError: two categories of one name without a rename table that says so.
    """
    ids: list[list[str]] = [[] for _ in classes.names]
    first: dict[str, Category] = {}
    twice = []
    for category, number in zip(categories, classes.index.tolist(), strict=True):
        if first.setdefault(category.name.strip(), category) is not category:
            twice.append(f"{category.name}: ids {first[category.name.strip()].id} and {category.id}")
        if number >= 0:
            ids[number].append(str(plain(category.id)))
    if twice:
        raise UserError(f"{path}: categories have the same name", twice)
    merged = [f"{name} ({', '.join(own)})" for name, own in zip(classes.names, ids, strict=True) if len(own) > 1]
    if merged:
        report.notes.append(f"categories put together by renaming, the first id is kept: {Tally.of(merged)}")
    return [own[0] if own else "" for own in ids] if all(ids) else None


def _drop_unwanted(said: Statements, classes: Classes, categories: Sequence[Category], report: ImportReport) -> None:
    unwanted = [category.name for category, number in zip(categories, classes.index, strict=True) if number < 0]
    if unwanted:
        reason = f"labels of {len(unwanted):,} classes that are not in the class list"
        report.dropped[reason] = Tally.of(unwanted, int((said.cls < 0).sum()))
        said.keep(said.cls >= 0)
