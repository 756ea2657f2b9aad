"""Hugging Face ``datasets``: Parquet files, folders of ``save_to_disk``, and image folders with ``metadata.jsonl``.

Everything is read with pyarrow; the library ``datasets`` is not needed.
"""

from __future__ import annotations

from contextlib import nullcontext

from partlabel.core.errors import UserError
from partlabel.formats.assemble import assemble
from partlabel.formats.given import given
from partlabel.formats.huggingface.choosing import choose
from partlabel.formats.huggingface.features import read_features
from partlabel.formats.huggingface.files import find_files
from partlabel.formats.huggingface.gathering import Gathered
from partlabel.formats.huggingface.options import HuggingFaceOptions
from partlabel.formats.huggingface.pictures import PictureFolder
from partlabel.formats.huggingface.reading import open_file
from partlabel.formats.report import ImportReport, Tally
from partlabel.formats.unlabelled import keep_unknown
from partlabel.labels.table import LabelTable

__all__ = ["HuggingFaceOptions", "read"]


def read(path: str, options: HuggingFaceOptions) -> tuple[LabelTable, ImportReport]:
    """Read class labels from the columns of a data set, batch by batch.

    Args:
        path: a Parquet, Arrow or ``metadata.jsonl`` file, or a folder with such files.
        options: of the format.

    Raises:
        UserError: no such files; splits or columns to choose from; files that are cut or damaged; class numbers without
            a class, rows without image name (all are listed); as ``assemble``.
    """
    report = ImportReport(path, "huggingface")
    if options.extract is not None and options.images is not None:
        raise UserError("extract writes the folder with the pictures: give extract or images, not both")
    files = [open_file(name) for name in find_files(path, options.split)]
    described = [read_features(file.path, file.schema) for file in files]
    columns = choose(files[0], described[0], options)
    with nullcontext() if options.extract is None else PictureFolder(options.extract) as folder:
        gathered = Gathered(columns, options, report, folder)
        for file, features in zip(files, described, strict=True):
            gathered.add_file(file, features)
        said, unlabelled = gathered.statements(path)
        count = f"{len(files)} files" if len(files) > 1 else "1 file"
        report.layout = f"{files[0].kind}, {count}, {' and '.join(columns.labels)} of {columns.names}"
        words = {1: "present", -1: "absent"}
        report.coding = ", ".join(f"a class in {name} = {words[value]}" for name, value in columns.labels.items())
        report.coding += ", null or -1 = not labelled"
        names = said.images.filter(unlabelled).slice(0, Tally.KEPT).to_pylist()
        report.without_annotations = Tally.of(names, int(unlabelled.sum()))
        if options.not_listed == "absent":
            keep_unknown(said, unlabelled)
        table = assemble(
            said,
            report,
            conflicts=options.conflicts,
            not_listed=options.not_listed,
            images=options.images,
            missing=options.missing,
            options=given(options),
        )
    return table, report
