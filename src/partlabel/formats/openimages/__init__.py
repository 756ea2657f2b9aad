"""Open Images: image-level labels of persons and machines, and boxes, of the releases V2 to V7."""

from __future__ import annotations

from partlabel.formats.assemble import Statements, assemble
from partlabel.formats.given import given
from partlabel.formats.openimages.image_list import take_listed
from partlabel.formats.openimages.options import OpenImagesOptions
from partlabel.formats.openimages.rows import RowReader
from partlabel.formats.openimages.sources import find_files
from partlabel.formats.openimages.vocabulary import settle_classes
from partlabel.formats.openimages.writing import write
from partlabel.formats.report import ImportReport, Tally
from partlabel.labels.table import LabelTable

__all__ = ["OpenImagesOptions", "read", "write"]


def read(path: str, options: OpenImagesOptions) -> tuple[LabelTable, ImportReport]:
    """Read image labels; labels of machines are left out, or weak labels from a declared confidence on.

    A weak label is present, has the origin ``model``, and its score is the logit of its confidence. It yields to a
    person's label of the same pair. Ids of the classes are the label ids (``/m/...``).

    Args:
        path: an annotation file, a folder of them, or a pattern such as ``train/*-human-imagelabels.csv``.
        options: of the format.

    Raises:
        UserError: a file of another form; confidences or sources that cannot be read; label ids without description;
            contradictions of persons; all are listed.
    """
    report = ImportReport(path, "openimages")
    files = find_files(path, report)
    report.layout = ", ".join(dict.fromkeys(file.table.describe() for file in files))
    if len(files) > 1:
        report.layout += f"; {len(files)} files"
        report.notes.append(f"files: {Tally.of([file.path for file in files])}")
    reader = RowReader(files, options.machine_threshold, keep_silent=options.not_listed == "absent")
    rows = reader.read(report)
    report.coding = "persons: 1 = present, 0 = absent; machines: " + (
        "left out"
        if options.machine_threshold is None
        else f"from {options.machine_threshold:g} on weak present, below unknown"
    )
    classes = settle_classes(rows.labels, rows.label, options, report)
    said = Statements(
        rows.images,
        classes.names,
        rows.image,
        classes.index[rows.label],
        rows.value,
        rows.row,
        reader.place,
        class_ids=classes.ids,
        score=rows.score,
    )
    if (said.cls < 0).any():
        said.keep(said.cls >= 0)
    if options.image_list is not None:
        take_listed(said, options.image_list, report)
    table = assemble(
        said,
        report,
        conflicts=options.conflicts,
        not_listed=options.not_listed,
        images=options.images,
        missing=options.missing,
        missing_list=options.missing_list,
        options=_kept(options),
    )
    return table, report


def _kept(options: OpenImagesOptions) -> dict[str, object]:
    """Return the options for the history; of descriptions, which may be thousands, only that there were some."""
    kept = given(options)
    if options.descriptions is not None:
        kept["descriptions"] = f"{len(options.descriptions)} names"
    return kept
