"""Which files are annotation files of Open Images, and the list of images that a table is to have."""

from __future__ import annotations

import csv
import os
import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partlabel.core.errors import UserError
from partlabel.formats.reading import matching, text_lines
from partlabel.formats.report import ImportReport, Tally, plural
from partlabel.formats.source import Source, unique
from partlabel.formats.table.columns import NameColumn
from partlabel.formats.table.delimited import open_table
from partlabel.formats.table.tables import Table

FORM = "ImageID,Source,LabelName,Confidence"
_EARLY = " but that of the first release (id,confidence:label,...), whose labels are a machine's; use a later release"
_FIRST_RELEASE = re.compile(r"\d+(\.\d+)?:/[a-z]/")


@dataclass(frozen=True)
class AnnotationFile:
    """An annotation file with the numbers of its columns: image, label, confidence, and where it is there, source."""

    table: Table
    columns: list[int]


def find_files(path: str, report: ImportReport) -> list[AnnotationFile]:
    """Return the annotation files of a path: a file, all that fit a pattern with ``*``, or those in a folder.

    Files in a folder that have another form (descriptions, lists of images) are noted in the report and left out.

    Raises:
        UserError: nothing is found, or a file that was named has another form (all are listed).
    """
    names = matching(path)
    if os.path.isdir(path):
        names = sorted(entry.path for entry in os.scandir(path) if entry.name.casefold().endswith((".csv", ".csv.gz")))
    if not names:
        raise UserError(f"{path}: no annotation file is there; they are .csv files with the header {FORM}")
    files: list[AnnotationFile] = []
    others: dict[str, str] = {}
    for name in names:
        try:
            table = open_table(name)
        except UserError as error:
            if name == path:
                raise
            others[name] = f"{name}: {error.message.removeprefix(f'{name}: ')}"
            continue
        header = [column.strip().casefold() for column in table.header]
        wanted = ["imageid", "labelname", "confidence", *(["source"] if "source" in header else [])]
        if all(header.count(column) == 1 for column in wanted):
            files.append(AnnotationFile(table, [header.index(column) for column in wanted]))
        else:
            others[name] = f"{name}:{table.header_end} starts with {','.join(table.header)[:80]}"
    if others and (not files or not os.path.isdir(path)):
        form = "not" if len(names) == 1 else f"{len(others)} of {len(names)} files are not"
        hint = _EARLY if any(_FIRST_RELEASE.search(line) for line in others.values()) else ""
        raise UserError(f"{path}: {form} in the {FORM} form{hint}", others.values())
    if others:
        report.notes.append(f"not in the {FORM} form and not read: {Tally.of(map(os.path.basename, others))}")
    return files


def take_listed(source: Source, path: str, report: ImportReport) -> None:
    """Make the images of a list the images of the table: labels of others are left out, those without labels kept.

    Ids are compared letter by letter: an id in decimal is not the same id in hexadecimal, though the number is.

    Args:
        source: changed in place.
        path: a table with the column ``ImageID``, or lines that start with an id.
        report: gets the images and labels without a match.

    Raises:
        UserError: the list cannot be read or is empty.
    """
    listed = _image_list(path)
    number = pc.call_function("index_in", [source.images], pc.SetLookupOptions(listed)).fill_null(-1).to_numpy()
    unlisted = np.flatnonzero(number < 0)
    image = number[np.asarray(source.image)]
    if len(unlisted):
        kept = image >= 0
        some = source.images.take(pa.array(unlisted[: Tally.KEPT])).to_pylist()
        reason = f"images that are not in the image list, with {plural(int((~kept).sum()), 'label')}"
        report.dropped[reason] = Tally.of(some, len(unlisted))
        source.keep(kept)
        image = image[kept]
    lonely = np.ones(len(listed), bool)
    lonely[number[number >= 0]] = False
    if lonely.any():
        rows = np.flatnonzero(lonely)
        some = listed.take(pa.array(rows[: Tally.KEPT])).to_pylist()
        decimal = all(map(str.isdigit, some)) and not all(map(str.isdigit, source.images[: Tally.KEPT].to_pylist()))
        hint = "; ids in decimal do not match the ids of the annotation files" if decimal else ""
        report.warnings.append(
            f"{plural(len(rows), 'image id')} of the image list without a match: {Tally.of(some, len(rows))}{hint}"
        )
    source.image, source.images = image, listed


def _image_list(path: str) -> pa.StringArray:
    """Return the unique ids of an image list, trimmed, in its order."""
    lines = text_lines(path)
    header = [name.strip().casefold() for name in next(csv.reader(lines[:1]), [])]
    if "imageid" in header:
        ids = NameColumn()
        for batch in open_table(path, separator=",").batches([header.index("imageid")]):
            ids.add_runs(batch.columns[0])
        names = ids.finish(trim=True)[0]
    else:
        names, _ = unique([row[0].strip() for row in csv.reader(lines) if row and row[0].strip()])
    if not len(names):
        raise UserError(f"{path}: the list of images is empty")
    return names
