"""What every reader shares: the options that all formats have, and the way from a source to a label table.

A reader declares its own options as a subclass of ``CommonOptions``, fills a ``Source`` and calls ``finish``.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.core.files import write_text
from partlabel.formats import options as read_as
from partlabel.formats.class_names import Classes, settle_names
from partlabel.formats.report import ImportReport, Tally, plural
from partlabel.formats.source import CONFLICTS, Source, Statements, unique
from partlabel.images.locate import first_copies, locate, name_below, would_fit
from partlabel.labels.groups import tie
from partlabel.labels.table import LabelTable

__all__ = ["CommonOptions", "Source", "choice", "finish", "option", "settle", "unique", "without"]


def option(default: Any, parse: Callable[[str, Any], Any], help: str) -> Any:
    """Declare an option of a format: a dataclass field whose metadata holds its parser and its help."""
    return field(default=default, metadata={"help": help, "parse": parse})


def choice(default: str | None, *others: str, help: str) -> Any:
    """Declare an option that is the default or one of some other words; None: the reader chooses the default itself."""
    return option(default, read_as.choice(*dict.fromkeys([*filter(None, [default]), *others])), help)


def without(default: Any = None) -> Any:
    """Take a common option away from a format in which it means nothing; it keeps the value ``default``."""
    return field(default=default, init=False)


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """Options that mean the same in every format; a format declares one anew only for another default or help."""

    not_listed: str | None = choice(
        "unknown", "absent", help="what a pair counts as about which the source says nothing: unknown or absent"
    )
    conflicts: str = choice("error", *CONFLICTS, help=f"one pair stated present and absent: {', '.join(CONFLICTS)}")
    classes: Any = option(
        None,
        read_as.names,
        "the classes that are wanted, in this order: names between commas, or a file with one name a line",
    )
    rename: dict[str, str] | None = option(
        None, read_as.rename, "other class names: old=new,old=new, or a CSV file with the header from,to"
    )
    images: str | None = option(
        None, read_as.text, "folder with the images, to find images without a file, and files under several names"
    )
    image_names: str = option(
        "path",
        read_as.text,
        "how images are called: path, as they are written; file, the last part; or a beginning that is taken away, as "
        "in image_names=CheXpert-v1.0-small/ or image_names=https://host/",
    )
    missing: str = choice("error", "skip", help="images without a file: error, or skip to leave them out")

    def given(self) -> dict[str, Any]:
        """Return the options that are not at their default, for the history of the table."""
        return {f.name: v for f in dataclasses.fields(self) if (v := getattr(self, f.name)) != f.default}


def settle(names: Sequence[str], options: CommonOptions, report: ImportReport, *, sort: bool = False) -> Classes:
    """Settle the class names of a source by the options; ``finish`` does so itself unless ``Source.settled`` is set."""
    chosen = options.classes if isinstance(options.classes, list) else None
    return settle_names(names, report, rename=options.rename, chosen=chosen, sort=sort)


def finish(
    source: Source,
    options: CommonOptions,
    report: ImportReport,
    *,
    not_listed: str | None = None,
    missing_list: str | None = None,
    given: dict[str, Any] | None = None,
) -> LabelTable:
    """Settle the class names, leave out unwanted ones, find the image files, merge, and build the table.

    Args:
        source: what the file says.
        options: of the format.
        report: gets everything that is found here.
        not_listed: what ``options.not_listed`` comes to where the reader chose the default.
        missing_list: file that gets the names of all images without a file, one a line.
        given: the options for the history; None: those that are not at their default.

    Raises:
        UserError: contradictions under ``conflicts=error``, images without a file under ``missing=error``, too many
            pairs to fill in; all offenders are listed.
    """
    if source.annotated or source.unlabelled is not None:
        bare = source.unlabelled
        if bare is None:
            bare = np.bincount(np.asarray(source.image, np.int32), minlength=len(source.images)) == 0
        names = source.images.take(pa.array(np.flatnonzero(bare)[: Tally.KEPT])).to_pylist()
        report.without_annotations = Tally.of(names, int(bare.sum()))
    settled = source.settled or settle(source.classes, options, report, sort=source.sort)
    class_ids = _class_ids(source, settled, report)
    cls = settled.index[np.asarray(source.cls, np.int32)]
    if unwanted := [name for name, i in zip(source.classes, settled.index, strict=True) if i < 0]:
        report.dropped[source.what.format(f"{len(unwanted):,}")] = Tally.of(unwanted, int((cls < 0).sum()))
    said = Statements(source, settled.names, cls)
    _name_images(said, options, report)
    files = []
    if options.images is not None:
        files = _find_images(said, report, options.images, options.missing, missing_list)
    said.merge(report, options.conflicts)
    if options.images is not None:
        _tie_copies(said, report, options.images, files)
    report.not_listed = not_listed or options.not_listed or "unknown"
    if report.not_listed == "absent":
        said.fill_absent()
    if not said.value.all():
        said.keep(said.value != 0)
    return _table(said, class_ids, options, report, options.given() if given is None else given)


def _class_ids(source: Source, settled: Classes, report: ImportReport) -> list[str] | None:
    """Return the id of each class in the source, the first of those put together; None where any class has none."""
    if source.ids is None:
        return None
    ids: list[list[str]] = [[] for _ in settled.names]
    for own, number in zip(source.ids, settled.index.tolist(), strict=True):
        if number >= 0:
            ids[number].append(own)
    if merged := [f"{name} ({', '.join(own)})" for name, own in zip(settled.names, ids, strict=True) if len(own) > 1]:
        report.notes.append(f"categories put together by renaming, the first id is kept: {Tally.of(merged)}")
    return [own[0] for own in ids] if all(ids) else None


def _name_images(said: Statements, options: CommonOptions, report: ImportReport) -> None:
    """Name the images by the rule of ``image_names``, and those that are files below ``images`` relative to it.

    Raises:
        UserError: different images would get one name, or none begins as the rule says.
    """
    rule = options.image_names
    if rule in ("path", "url") and options.images is None:
        return
    old = new = said.images.to_pylist()
    if rule == "file":
        new = [name.replace("\\", "/").rpartition("/")[2] for name in old]
    elif rule not in ("path", "url"):
        start = rule.replace("\\", "/")
        fits = [name.replace("\\", "/").startswith(start) for name in old]
        new = [name[len(start) :].lstrip("/\\") if fit else name for name, fit in zip(old, fits, strict=True)]
        if not any(fits):
            raise UserError(
                f"{report.source}: no image name begins with {rule!r}; image_names is path, file, or a beginning that "
                "is taken away",
                old[: Tally.KEPT],
            )
        if not all(fits):
            others = [name for name, fit in zip(old, fits, strict=True) if not fit]
            report.notes.append(f"image names that do not begin with {rule}: {Tally.of(others)}")
    _, number = unique(new)
    first: dict[int, str] = {}
    clash = [
        f"{b}: {first[n]} and {a}"
        for a, b, n in zip(old, new, number.tolist(), strict=True)
        if first.setdefault(n, a) != a
    ]
    if clash:
        raise UserError(f"{report.source}: image_names={rule} gives one name to different images", clash)
    if options.images is not None:
        new = [name_below(name, options.images) for name in new]
    if new is not old:
        names, number = unique(new)
        said.join_images(number, names)


def _find_images(
    said: Statements, report: ImportReport, folder: str, missing: str, missing_list: str | None
) -> list[str]:
    """Put images of one file together and leave out those without a file; return the file of each image left.

    Raises:
        UserError: images that fit several files, or that have none under ``missing=error``; no image has a file.
    """
    found = locate(said.images.to_pylist(), folder)
    for count, what in (
        (found.completed, "image names have no ending; one image fits each"),
        (found.other_case, "image names differ from their file in upper and lower case, or in the form of Unicode"),
        (found.backslashes, "image names have backslashes between folders"),
        (found.below, "image names have no folder; one file below fits each"),
    ):
        if count:
            report.notes.append(f"{count:,} {what}")
    if found.ambiguous:
        raise UserError(f"{len(found.ambiguous):,} images fit more than one file in {folder}", found.ambiguous)
    there: NDArray[np.bool_] = np.array([file is not None for file in found.files], bool)
    names = said.images.filter(pa.array(~there)).to_pylist()
    where = ""
    if missing_list is not None:
        write_text(missing_list, "".join(f"{name}\n" for name in names))
        where = f"; all are listed in {missing_list}"
    if names and (missing == "error" or not there.any()):
        if hint := would_fit(names, folder):
            where += f"; {hint[0]} is there: image_names={hint[1]} takes the beginning away"
        if found.outside:
            where += f"; {plural(len(found.outside), 'name')} lead out of the folder, where nothing is looked for"
        if there.any():
            where = f"; missing=skip leaves them out{where}"
        raise UserError(f"{len(names):,} of {len(there):,} images missing in {folder}{where}", names)
    report.missing = names
    said.keep_images(there)
    files, number = unique([file for file in found.files if file is not None])
    if len(files) < len(number):
        names, kept = said.images.to_pylist(), np.unique(number, return_index=True)[1]
        same = [f"{names[i]} = {names[kept[n]]}" for i, n in enumerate(number.tolist()) if kept[n] != i]
        report.notes.append(f"names of one file, put together under the first: {Tally.of(same)}")
        said.join_images(number, said.images.take(pa.array(kept)))
    return files.to_pylist()


def _tie_copies(said: Statements, report: ImportReport, folder: str, files: list[str]) -> None:
    """Put images whose files have the same bytes into one group, and warn of them and of what is said of both.

    They keep their names and labels, as they may be meant to be several images; but no split parts them.
    """
    first, empty = first_copies(folder, files)
    names = said.images.to_pylist()
    if empty:
        report.warnings.append(f"empty files: {Tally.of([names[i] for i in empty])}")
    copies = {i: k for i, k in enumerate(first) if i != k}
    if not copies:
        return
    some = [f"{names[i]} = {names[k]}" for i, k in copies.items()]
    report.warnings.append(
        f"images with the same bytes under several names, kept together in a split: {Tally.of(some)}"
    )
    said.groups = tie(said.images, said.groups, np.array(first))
    image = np.array(first)[said.image]
    shared = np.flatnonzero(np.isin(image, list(copies.values())) & (said.value != 0))
    said_of: defaultdict[tuple[int, int], dict[int, str]] = defaultdict(dict)  # image, class -> value -> image
    for k in shared.tolist():
        said_of[int(image[k]), int(said.cls[k])].setdefault(int(said.value[k]), names[said.image[k]])
    clash = [
        f"{said.classes[cls]} present in {own[1]} and absent in {own[-1]}"
        for (_, cls), own in said_of.items()
        if len(own) > 1
    ]
    if clash:
        report.warnings.append(f"labels of images with the same bytes contradict each other: {Tally.of(clash)}")


def _table(
    said: Statements, class_ids: list[str] | None, options: CommonOptions, report: ImportReport, given: dict[str, Any]
) -> LabelTable:
    table = LabelTable.from_pairs(
        said.images,
        said.classes,
        said.image,
        said.cls,
        said.value,
        origin="given" if said.origin is None else said.origin,
        score=said.score,
        round=said.round,
        class_ids=class_ids,
        groups=said.groups,
        coding=f"{report.coding}; not listed = {report.not_listed}",
        history=[
            {
                "operation": "import",
                "format": report.format,
                "source": report.source,
                "not_listed": report.not_listed,
                "conflicts": options.conflicts,
                "settled": len(report.conflicts),
                "options": given,
            }
        ],
    )
    report.count(table)
    return table
