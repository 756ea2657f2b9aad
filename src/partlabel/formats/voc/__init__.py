"""Pascal VOC: a folder of XML files with objects, or the class lists of ImageSets/Main."""

from __future__ import annotations

from partlabel.formats.reading import files_below
from partlabel.formats.report import ImportReport
from partlabel.formats.spine import finish
from partlabel.formats.voc import class_lists, objects
from partlabel.formats.voc.tree import VocOptions, find
from partlabel.labels.table import LabelTable

__all__ = ["VocOptions", "read"]


def read(path: str, options: VocOptions) -> tuple[LabelTable, ImportReport]:
    """Read image labels from a VOC folder.

    Raises:
        UserError: the folder has neither XML files nor class lists; anything in the files that is wrong or not plain.
    """
    report = ImportReport(path, "voc")
    tree = find(path)
    layout = options.layout
    if layout == "auto":
        layout = "xml" if tree.annotations is not None and files_below(tree.annotations, ".xml") else "lists"
    if layout == "xml":
        source = objects.read(path, tree, options, report)
        usual, why = "absent", "the objects of an image are taken to cover every class"
    else:
        source = class_lists.read(path, tree, options, report)
        usual, why = "unknown", "the list of a class says in which images it is absent"
    if options.not_listed is None:
        report.notes.append(f"not_listed={usual} is the default here: {why}")
    return finish(source, options, report, not_listed=options.not_listed or usual), report
