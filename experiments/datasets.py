"""The images and the true labels that experiments run on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.main_job import tables
from partlabel import LabelTable, formats
from partlabel.app.demo.digits import CLASSES, draw_scenes
from partlabel.core.errors import UserError

#: scenes of the smoke runs
SCENES = {"train": 60, "test": 40}


@dataclass(frozen=True)
class Pictures:
    """Labels of images and the folder that their names are files in."""

    table: LabelTable
    folder: Path

    @property
    def paths(self) -> list[Path]:
        return [self.folder / name for name in self.table.images.to_pylist()]


@dataclass(frozen=True)
class Dataset:
    """A training and a test part with the same classes."""

    name: str
    train: Pictures
    test: Pictures


def _coco_mini(data: Path) -> Dataset:
    train, test = tables(data)
    return Dataset("coco-mini", Pictures(train, data / "images"), Pictures(test, data / "images"))


def _digits(data: Path) -> Dataset:
    parts = []
    for part in ("train", "test"):
        folder = data / part
        scenes = draw_scenes(part, SCENES[part], seed=0)
        names = [f"{i:04}.jpg" for i in range(len(scenes))]
        if not folder.is_dir():
            folder.mkdir(parents=True)
            for name, scene in zip(names, scenes, strict=True):
                (folder / name).write_bytes(scene.jpeg())
        table = LabelTable.from_dense(names, CLASSES, np.stack([scene.labels() for scene in scenes]))
        parts.append(Pictures(table, folder))
    return Dataset("digits", *parts)


def _coco(data: Path) -> Dataset:
    parts = []
    for part in ("train2014", "val2014"):
        table, _ = formats.read("coco", data / "annotations" / f"instances_{part}.json")
        parts.append(Pictures(table, data / part))
    return Dataset("coco", *parts)


def _voc2007(data: Path, parts: tuple[str, str] = ("trainval", "test")) -> Dataset:
    tables = [formats.read("voc", data, set=part)[0] for part in parts]
    name = "voc2007" if parts[0] == "trainval" else "voc2007-val"
    return Dataset(name, *(Pictures(table, data / "JPEGImages") for table in tables))


def _nuswide(data: Path) -> Dataset:
    images = data / "images"
    parts = []
    for part in ("train", "test"):
        table, _ = formats.read("nuswide", data, set=part, images=images, missing="skip")
        parts.append(Pictures(table, images))
    return Dataset("nuswide", *parts)


def _openimages(data: Path) -> Dataset:
    names = data / "class-descriptions-boxable.csv"
    parts = []
    for part in ("train", "test"):
        source = data / f"{part}-annotations-human-imagelabels-boxable.csv"
        table, _ = formats.read(
            "openimages", source, descriptions=names, classes=names, images=data / part, missing="skip"
        )
        parts.append(Pictures(table, data / part))
    return Dataset("openimages", *parts)


def _tables(data: Path) -> Dataset:
    parts = [Pictures(LabelTable.read_parquet(data / f"{part}.parquet"), data / "images") for part in ("train", "test")]
    return Dataset(data.name, *parts)


#: name on the command line -> what reads the folder given as --data
DATASETS: dict[str, Callable[[Path], Dataset]] = {
    "coco-mini": _coco_mini,
    "digits": _digits,
    "coco": _coco,
    "voc2007": _voc2007,
    "voc2007-val": lambda data: _voc2007(data, ("train", "val")),
    "nuswide": _nuswide,
    "openimages": _openimages,
    "tables": _tables,
}


def open_dataset(name: str, data: Path) -> Dataset:
    """Read a data set.

    ``coco``: annotations/instances_train2014.json and instances_val2014.json, train2014/, val2014/. ``voc2007``: the
    folder VOCdevkit/VOC2007 with both sets; ``voc2007-val``: its training and validation sets. ``nuswide``: the lists
    and images/. ``openimages``: the boxable human labels of train and test, class-descriptions-boxable.csv, train/
    and test/. ``tables``: any other data, as train.parquet and test.parquet of `partlabel import` and images/.
    ``coco-mini``: labels.csv, train.txt, test.txt, images/. ``digits``: drawn into the folder.

    Raises:
        UserError: the files are not there or wrong, or the parts have different classes.
    """
    try:
        found = DATASETS[name](data)
    except OSError as error:
        raise UserError(f"{error.filename}: cannot be read ({error.strerror})") from error
    missing = set(found.train.table.classes) ^ set(found.test.table.classes)
    if missing:
        raise UserError(f"{data}: classes that only one of training and test part has", sorted(missing))
    test = found.test.table.select_classes(found.train.table.classes)
    return Dataset(found.name, found.train, Pictures(test, found.test.folder))
