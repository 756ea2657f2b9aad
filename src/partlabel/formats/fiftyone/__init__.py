"""FiftyOne: classifications in ``labels.json``, or in the fields of ``samples.json``."""

from __future__ import annotations

import numpy as np

from partlabel.formats.assemble import assemble
from partlabel.formats.fiftyone import classification, samples
from partlabel.formats.fiftyone.documents import open_source
from partlabel.formats.fiftyone.gathering import Gathered
from partlabel.formats.fiftyone.options import FiftyOneOptions
from partlabel.formats.fiftyone.writing import write
from partlabel.formats.given import given
from partlabel.formats.report import ImportReport, Tally
from partlabel.formats.unlabelled import keep_unknown
from partlabel.labels.table import LabelTable

__all__ = ["FiftyOneOptions", "read", "write"]


def read(path: str, options: FiftyOneOptions) -> tuple[LabelTable, ImportReport]:
    """Read a FiftyOneImageClassificationDataset or a FiftyOneDataset.

    Args:
        path: ``labels.json``, ``samples.json``, or the folder of either.
        options: of the format.

    Raises:
        UserError: not one of these; labels that cannot be read, class numbers without a class (all are listed); label
            fields to choose from; as ``assemble``.
    """
    source = open_source(path)
    report = ImportReport(path, "fiftyone")
    gathered = Gathered(report, options)
    (classification if source.content.samples is None else samples).gather(source, gathered)
    said, origins = gathered.statements(source.path)
    unlabelled = np.ones(len(said.images), bool)
    unlabelled[list(gathered.labelled)] = False
    names = said.images.filter(unlabelled).slice(0, Tally.KEPT).to_pylist()
    report.without_annotations = Tally.of(names, int(unlabelled.sum()))
    if options.not_listed == "absent":
        keep_unknown(said, unlabelled)
    before = list(report.warnings)
    table = assemble(
        said,
        report,
        conflicts=options.conflicts,
        not_listed=options.not_listed,
        images=options.images,
        missing=options.missing,
        options=given(options),
    )
    table = origins.mark(table)
    if options.weak == "keep":
        table = origins.add_weak(table, options.conflicts)
        report.warnings = before
        report.count(table)
    return table, report
