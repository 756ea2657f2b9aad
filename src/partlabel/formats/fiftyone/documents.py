"""The JSON files of FiftyOne: which of a folder is read, and the parts of it that hold labels."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import msgspec

from partlabel.core.errors import UserError
from partlabel.formats.reading import load_json


class ClassLists(msgspec.Struct):
    """Class lists: the one of a ``labels.json``, or those of the fields of samples and the one for all fields."""

    classes: list[Any] | dict[str, list[Any] | None] | None = None
    default_classes: list[Any] | None = None


class Content(ClassLists):
    """A ``labels.json``, ``samples.json`` or ``metadata.json``, or a data set that was written into one file."""

    labels: dict[str, Any] | None = None
    samples: list[msgspec.Raw] | None = None
    info: ClassLists | None = None


@dataclass
class Source:
    """What is read.

    Attributes:
        path: the file, or the folder with a file for each sample.
        content: of the file.
        files: the file of each sample, where each has its own.
    """

    path: str
    content: Content
    files: list[str] = field(default_factory=list)

    def place(self, sample: int) -> str:
        """Return where a sample is."""
        return self.files[sample] if self.files else f"{self.path}: sample {sample + 1}"

    def class_list(self, name: str) -> list[Any] | None:
        """Return the class list of a field of the samples: its own, or the one for all fields."""
        path = os.path.join(os.path.dirname(self.path), "metadata.json")
        contents = [self.content]
        if os.path.isfile(path):
            contents.append(load_json(path, Content, "the metadata of a FiftyOne data set"))
        for lists in (lists for content in contents for lists in (content, content.info) if lists is not None):
            own = lists.classes.get(name) if isinstance(lists.classes, dict) else None
            if found := own or lists.default_classes:
                return found
        return None


def open_source(path: str) -> Source:
    """Read ``labels.json`` or ``samples.json``; of a folder the one that is in it.

    Raises:
        UserError: a folder without these, or a file that cannot be read, is not JSON or not this layout.
    """
    if not os.path.isdir(path):
        return Source(path, _load(path))
    for name in ("samples.json", "labels.json"):
        if os.path.isfile(inside := os.path.join(path, name)):
            return Source(inside, _load(inside))
    folder = os.path.join(path, "samples")
    if not os.path.isdir(folder):
        raise UserError(f"{path}: the folder has no samples.json and no labels.json")
    files = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".json")]
    samples = [load_json(file, msgspec.Raw, "a sample of a FiftyOne data set") for file in files]
    return Source(folder, Content(samples=samples), files)


def _load(path: str) -> Content:
    content = load_json(path, Content, "a file of FiftyOne")
    if content.samples is None and content.labels is None:
        raise UserError(f"{path}: not a file of FiftyOne: it has neither samples nor labels")
    return content
