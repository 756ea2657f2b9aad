"""Options of the format ``voc``, and where the XML files and the lists of a Pascal VOC folder are."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass

from partlabel.core.errors import UserError
from partlabel.formats import options as read_as
from partlabel.formats.reading import files_below
from partlabel.formats.spine import CommonOptions, choice, option

#: what the value of a difficult object is in each reading, and how that is called
DIFFICULT = {"unknown": 0, "present": 1, "absent": -1}
UNSURE = {"unknown": "uncertain", "present": "present", "absent": "absent"}


@dataclass(frozen=True, kw_only=True)
class VocOptions(CommonOptions):
    """Options of the format ``voc``."""

    set: str | None = option(
        None,
        read_as.text,
        "the image set, such as trainval: of the XML files only those that ImageSets/Main/trainval.txt lists, or the "
        "class lists that end with _trainval.txt",
    )
    layout: str = choice(
        "auto",
        "xml",
        "lists",
        help="xml: a file for each image in Annotations; lists: a file for each class in ImageSets/Main. auto takes "
        "the XML files where there are any",
    )
    image_name: str = choice(
        "tag",
        "file",
        help="what names the image of an XML file: tag (its filename), or file (the name of the XML file itself, "
        "where images were renamed with their XML files)",
    )
    difficult: str = choice(
        "unknown",
        *DIFFICULT,
        help="what a class counts as of which an image shows nothing but difficult objects (0 in the lists): unknown, "
        "present or absent",
    )
    not_listed: str | None = choice(
        None,
        "absent",
        "unknown",
        help="what a class counts as that has no object in the XML file of an image, or whose list lacks the image: "
        "absent, or unknown. The default is absent for XML files (objects are exhaustive) and unknown for lists",
    )
    other_classes: str = choice(
        "error", "skip", help="labels of classes that are not in the class list: error, or skip to leave them out"
    )
    bad_files: str = choice(
        "error", "skip", help="XML files that cannot be read or that are not there: error, or skip to leave them out"
    )


@dataclass(frozen=True)
class Tree:
    """The parts of a VOC folder that say something about labels; None where a part is not there.

    Attributes:
        annotations: folder with an XML file for each image.
        lists: folder with the image sets (``trainval.txt``) and the class lists (``cat_trainval.txt``).
    """

    annotations: str | None
    lists: str | None


def find(path: str) -> Tree:
    """Find the parts of a folder: VOCdevkit, VOC2007, Annotations, ImageSets, ImageSets/Main, or XML files.

    Raises:
        UserError: not a folder, a folder without any of these, or one that holds several data sets.
    """
    if not os.path.isdir(path):
        raise UserError(
            f"{path}: not a folder; give VOC2007, its Annotations or its ImageSets/Main, or a folder of XML files"
        )
    if tree := _parts(path):
        return tree
    children = [os.path.join(path, name) for name in sorted(os.listdir(path))]
    below = {child: tree for child in children if (tree := _parts(child))}
    if len(below) == 1:
        return next(iter(below.values()))
    if below:
        raise UserError(f"{path}: several data sets; give the folder of one", list(below))
    if files_below(path, ".xml"):
        sets = os.path.join(os.path.dirname(os.path.abspath(path)), "ImageSets", "Main")
        return Tree(path, sets if os.path.isdir(sets) else None)
    if any(name.casefold().endswith(".txt") for name in os.listdir(path)):
        return Tree(None, path)
    raise UserError(f"{path}: no XML files, no Annotations, no ImageSets/Main and no class lists are in this folder")


def _parts(path: str) -> Tree | None:
    annotations, *lists = (os.path.join(path, *names) for names in (("Annotations",), ("ImageSets", "Main"), ("Main",)))
    there = next((folder for folder in lists if os.path.isdir(folder)), None)
    if os.path.isdir(annotations):
        return Tree(annotations, there)
    return Tree(None, there) if there else None


def image_sets(folder: str) -> list[str]:
    """Return the sets that a folder of lists has, sorted: ``train`` for ``train.txt`` and for ``cat_train.txt``."""
    return sorted({_split(stem, stems)[1] for stems in [_stems(folder)] for stem in stems})


def class_lists(folder: str, name: str) -> dict[str, str]:
    """Return class -> file of the class lists of a set, such as ``cat_trainval.txt``; sorted by class."""
    end = f"_{name}"
    lists = {stem[: -len(end)]: file for stem, file in _stems(folder).items() if stem.endswith(end) and stem != end}
    return {own: os.path.join(folder, lists[own]) for own in sorted(lists)}


def unquoted(name: str) -> str:
    """Return the image name of a list; names with blanks may be written in double quotes."""
    return name[1:-1] if len(name) > 2 and name[0] == name[-1] == '"' else name


def _stems(folder: str) -> dict[str, str]:
    """Return the name without ending -> name of each text file."""
    names = [name for name in os.listdir(folder) if name.casefold().endswith(".txt") and not name.startswith(".")]
    return {os.path.splitext(name)[0]: name for name in names}


def _split(stem: str, stems: Collection[str]) -> tuple[str, str]:
    """Return class and set of a list; the class is empty for the list of a set itself.

    The set is the longest end after an underscore that has a list of its own, otherwise what follows the last
    underscore.
    """
    parts = stem.split("_")
    ends = ["_".join(parts[i:]) for i in range(1, len(parts))]
    end = next((end for end in ends if end in stems), parts[-1])
    return stem[: -len(end) - 1], end
