"""A list of images that says which images a table has."""

from __future__ import annotations

import csv

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partlabel.core.errors import UserError
from partlabel.formats.assemble import Statements
from partlabel.formats.reading import find_encoding
from partlabel.formats.report import ImportReport, Tally, plural
from partlabel.formats.table.columns import NameColumn
from partlabel.formats.table.delimited import open_table


def take_listed(said: Statements, path: str, report: ImportReport) -> None:
    """Make the images of the list the images of the table: labels of others are left out, those without labels kept.

    Ids are compared letter by letter: an id in decimal is not the same id in hexadecimal, though the number is.

    Args:
        said: changed in place.
        path: a table with the column ``ImageID``, or lines that start with an id.
        report: gets the images and labels without a match.

    Raises:
        UserError: the list cannot be read or is empty.
    """
    listed = _read(path)
    number = pc.call_function("index_in", [said.images], pc.SetLookupOptions(listed)).fill_null(-1).to_numpy()
    unlisted = np.flatnonzero(number < 0)
    lonely = np.ones(len(listed), bool)
    lonely[number[number >= 0]] = False
    if len(unlisted):
        kept = number[said.image] >= 0
        some = said.images.take(pa.array(unlisted[: Tally.KEPT])).to_pylist()
        reason = f"images that are not in the image list, with {plural(int((~kept).sum()), 'label')}"
        report.dropped[reason] = Tally.of(some, len(unlisted))
        said.keep(kept)
    if lonely.any():
        rows = np.flatnonzero(lonely)
        some = listed.take(pa.array(rows[: Tally.KEPT])).to_pylist()
        decimal = all(name.isdigit() for name in some) and not all(
            name.isdigit() for name in said.images[: Tally.KEPT].to_pylist()
        )
        hint = "; ids in decimal do not match the ids of the annotation files" if decimal else ""
        report.warnings.append(
            f"{plural(len(rows), 'image id')} of the image list without a match: {Tally.of(some, len(rows))}{hint}"
        )
    said.image, said.images = number[said.image].astype(np.int32), listed


def _read(path: str) -> pa.StringArray:
    """Return the unique ids of an image list, trimmed, in its order.

    Raises:
        UserError: as ``take_listed``.
    """
    with open(path, encoding=find_encoding(path), newline="") as file:
        try:
            first = next(csv.reader(file), [])
            header = [name.strip().casefold() for name in first]
            if "imageid" in header:
                ids = NameColumn()
                for batch in open_table(path, separator=",").batches([header.index("imageid")]):
                    ids.add(batch.columns[0])
                names = ids.finish(trim=True)[0]
            else:
                rest = (row[0].strip() for row in csv.reader(file) if row)
                names = pa.array(
                    dict.fromkeys(n for n in (*(cell.strip() for cell in first[:1]), *rest) if n), pa.string()
                )
        except (csv.Error, UnicodeError) as error:
            raise UserError(f"{path}: cannot be read as a list of images ({error})") from error
    if not len(names):
        raise UserError(f"{path}: the list of images is empty")
    return names
