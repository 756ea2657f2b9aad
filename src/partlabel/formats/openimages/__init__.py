"""Open Images: image-level labels of persons and machines, and boxes, of the releases V2 to V7."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from partlabel.formats.class_names import Classes
from partlabel.formats.openimages.classes import settle_classes
from partlabel.formats.openimages.files import find_files, take_listed
from partlabel.formats.openimages.options import OpenImagesOptions
from partlabel.formats.openimages.rows import RowReader
from partlabel.formats.openimages.writing import write
from partlabel.formats.report import ImportReport, Tally
from partlabel.formats.spine import finish
from partlabel.labels.table import LabelTable

__all__ = ["OpenImagesOptions", "read", "write"]


def read(paths: Sequence[str], options: OpenImagesOptions) -> tuple[LabelTable, ImportReport]:
    """Read image labels; labels of machines are left out, or weak labels from a declared confidence on.

    A weak label is present, has the origin ``model``, and its score is the logit of its confidence. It yields to a
    person's label of the same pair. Ids of the classes are the label ids (``/m/...``).

    Args:
        paths: annotation files, folders of them, or patterns such as ``train/*-human-imagelabels.csv``.
        options: of the format.

    Raises:
        UserError: a file of another form; confidences or sources that cannot be read; label ids without description;
            contradictions of persons; all are listed.
    """
    report = ImportReport(", ".join(paths), "openimages")
    files = [file for path in paths for file in find_files(path, report)]
    report.layout = ", ".join(dict.fromkeys(file.table.describe() for file in files))
    if len(files) > 1:
        report.layout += f"; {len(files)} files"
        report.notes.append(f"files: {Tally.of([file.table.path for file in files])}")
    threshold = options.machine_threshold
    source = RowReader(threshold, keep_silent=options.not_listed == "absent").read(files, report)
    believed = "left out" if threshold is None else f"from {threshold:g} on weak present, below unknown"
    report.coding = f"persons: 1 = present, 0 = absent; machines: {believed}"
    classes = settle_classes(source.classes, np.asarray(source.cls), options, report)
    cls = classes.index[np.asarray(source.cls)]
    source.classes, source.ids, source.cls = classes.names, classes.ids, cls
    source.settled = Classes(classes.names, np.arange(len(classes.names), dtype=np.int32))
    if (cls < 0).any():
        source.keep(cls >= 0)
    if options.image_list is not None:
        take_listed(source, options.image_list, report)
    return finish(source, options, report, missing_list=options.missing_list), report
