"""Which files are annotation files of Open Images, and where their columns are."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from partlabel.core.errors import UserError
from partlabel.formats.report import ImportReport, Tally
from partlabel.formats.table.delimited import TextTable, open_table

FORM = "ImageID,Source,LabelName,Confidence"
_NEEDED = ("imageid", "labelname", "confidence")
_FIRST_RELEASE = re.compile(r"\d+(\.\d+)?:/[a-z]/")


@dataclass(frozen=True)
class AnnotationFile:
    """An annotation file with the numbers of its columns; ``source`` is None where the column is not there."""

    table: TextTable
    image: int
    label: int
    confidence: int
    source: int | None

    @property
    def path(self) -> str:
        """The path of the file."""
        return self.table.path


def find_files(path: str, report: ImportReport) -> list[AnnotationFile]:
    """Return the annotation files of a path: a file, all that fit a pattern with ``*``, or those in a folder.

    Files in a folder that have another form (descriptions, lists of images) are noted in the report and left out.

    Raises:
        UserError: nothing is found, or a file that was named has another form (all are listed).
    """
    names = [path]
    if os.path.isdir(path):
        names = sorted(entry.path for entry in os.scandir(path) if entry.name.casefold().endswith(".csv"))
    elif not os.path.exists(path) and glob.has_magic(path):
        names = sorted(glob.glob(path, recursive=True))
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
        found = _columns(table)
        if found is None:
            others[name] = f"{name}:{table.header_end} starts with {','.join(table.header)[:80]}"
        else:
            files.append(found)
    if others and (not files or not os.path.isdir(path)):
        form = "not" if len(names) == 1 else f"{len(others)} of {len(names)} files are not"
        raise UserError(f"{path}: {form} in the {FORM} form{_hint(others.values())}", others.values())
    if others:
        report.notes.append(f"not in the {FORM} form and not read: {Tally.of(map(os.path.basename, others))}")
    return files


def _columns(table: TextTable) -> AnnotationFile | None:
    """Return the file with its columns, or None where it has another form."""
    header = [name.strip().casefold() for name in table.header]
    if any(header.count(name) != 1 for name in _NEEDED) or header.count("source") > 1:
        return None
    image, label, confidence = (header.index(name) for name in _NEEDED)
    return AnnotationFile(table, image, label, confidence, header.index("source") if "source" in header else None)


def _hint(firsts: Iterable[str]) -> str:
    if not any(_FIRST_RELEASE.search(line) for line in firsts):
        return ""
    return " but that of the first release (id,confidence:label,...), whose labels are a machine's; use a later release"
