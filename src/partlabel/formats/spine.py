"""What every reader shares: the options that all formats have, and the way from a source to a label table.

A reader declares its own options as a subclass of ``CommonOptions``, fills a ``Source`` and calls ``finish``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.errors import UserError
from partlabel.formats import options as read_as
from partlabel.formats.class_names import Classes, settle_names
from partlabel.formats.files import locate
from partlabel.formats.report import ImportReport, Tally
from partlabel.formats.source import CONFLICTS, Source, Statements, unique
from partlabel.labels import LabelTable
from partlabel.storage import write_text

__all__ = ["CommonOptions", "Source", "choice", "finish", "option", "settle", "unique", "without"]


def option(default: Any, parse: Callable[[str, Any], Any], help: str) -> Any:
    """Declare an option of a format: a dataclass field whose metadata holds its parser and its help."""
    return field(default=default, metadata={"help": help, "parse": parse})


def choice(default: str | None, *allowed: str, help: str) -> Any:
    """Declare an option that is one of some words; ``None`` where the reader chooses a default itself."""
    return option(default, read_as.choice(*allowed), help)


def without(default: Any = None) -> Any:
    """Take a common option away from a format in which it means nothing; it keeps the value ``default``."""
    return field(default=default, init=False)


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """Options that mean the same in every format; a format declares one anew only for another default or help."""

    not_listed: str | None = choice(
        "unknown",
        "unknown",
        "absent",
        help="what a pair counts as about which the source says nothing: unknown or absent",
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
    images: str | None = option(None, read_as.text, "folder with the pictures, to find images without a file")
    missing: str = choice("error", "error", "skip", help="images without a file: error, or skip to leave them out")

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
    if options.images is not None:
        _find_images(said, report, options.images, options.missing, missing_list)
    said.merge(report, options.conflicts)
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


def _find_images(said: Statements, report: ImportReport, folder: str, missing: str, missing_list: str | None) -> None:
    found = locate(said.images.to_pylist(), folder)
    if found.completed:
        report.notes.append(f"{found.completed:,} image names have no ending; one picture fits each")
    if found.other_case:
        report.notes.append(f"{found.other_case:,} image names differ from their file in upper and lower case")
    if found.ambiguous:
        raise UserError(f"{len(found.ambiguous):,} images fit more than one file in {folder}", found.ambiguous)
    there: NDArray[np.bool_] = np.array([file is not None for file in found.files], bool)
    names = said.images.filter(pa.array(~there)).to_pylist()
    where = ""
    if missing_list is not None:
        write_text(missing_list, "".join(f"{name}\n" for name in names))
        where = f"; all are listed in {missing_list}"
    if names and missing == "error":
        raise UserError(
            f"{len(names):,} of {len(there):,} images missing in {folder}; missing=skip leaves them out{where}", names
        )
    report.missing = names
    said.keep_images(there)


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
