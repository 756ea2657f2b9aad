"""Before a training: labels that can be learned from, images that are there and whole."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from partlabel.core.compute import ALONE, Crew
from partlabel.core.errors import PartlabelWarning, UserError
from partlabel.core.progress import Reporter
from partlabel.images import ImageCheck, find, resolve
from partlabel.images.checking import conclude
from partlabel.images.locate import relative
from partlabel.images.looking import Looked, look, record_folder
from partlabel.labels.table import LabelTable
from partlabel.training.config import ImageConfig


@dataclass(frozen=True)
class Prepared:
    """A table whose images are all there and whole.

    ``paths``: the image of each row. ``contents``: (N,) hash of each file. ``skipped``: (name, reason) of the rows left
    out. ``animated``: images of which only the first frame is used. ``prints``: fingerprints of the images, see
    :func:`partlabel.images.near_copies.fingerprint`.
    """

    table: LabelTable
    paths: list[Path]
    contents: NDArray[np.bytes_]
    skipped: list[tuple[str, str]]
    animated: list[str]
    prints: NDArray[np.uint8]


def check_labels(table: LabelTable, assume_absent: bool) -> None:
    """Refuse labels from which nothing can be learned; warn about those from which little can.

    Raises:
        UserError: the table has no images or no known label.
    """
    if not table.num_images or not table.num_known:
        raise UserError(
            f"nothing can be learned: the table has {table.num_images} images and {table.num_known} known labels"
        )
    present, absent = table.class_counts()
    if not absent.sum() and not assume_absent:
        warnings.warn(
            "no class has a known absent label; the loss is minimal when everything is called present. Add absent "
            "labels, or train with assume_absent (--assume-absent), which takes every unknown label as absent",
            PartlabelWarning,
            stacklevel=2,
        )
    elif not present.sum():
        warnings.warn("no class has a known present label", PartlabelWarning, stacklevel=2)


def prepare(
    table: LabelTable,
    folder: Path,
    config: ImageConfig,
    workers: int | None,
    reporter: Reporter,
    elsewhere: tuple[str, Path] | None = None,
    crew: Crew = ALONE,
) -> Prepared:
    """Find and decode every image of a table; those that were looked at before, and have not changed, are not read.

    Args:
        table: the labels; its image names are files in ``folder``.
        folder: the folder of the images.
        config: what to do with bad images.
        workers: decoding threads.
        reporter: shows the progress.
        crew: the processes that share the work out, and read the same files; all of them call this.
        elsewhere: a beginning of names whose images lie in another folder, see :func:`partlabel.images.find`.

    Raises:
        UserError: images are missing or bad and ``on_bad`` is "error", or none is left.
    """
    names = table.images.to_pylist()
    files = (resolve if config.on_bad == "error" else find)(names, folder, elsewhere)
    missing = [(name, "missing") for name, file in zip(names, files, strict=True) if file is None]
    there = np.array([file is not None for file in files])
    paths = [file for file in files if file is not None]
    checked, contents = _checked(paths, config, workers, reporter, crew)
    good, bad, prints = checked.good, checked.bad, checked.prints
    assert prints is not None
    if bad and config.on_bad == "error":
        raise UserError(f"{len(bad)} of {len(names)} images cannot be used", [f"{p}: {reason}" for p, reason in bad])
    rows = np.flatnonzero(there)[good]
    if not len(rows):
        raise UserError(f"none of the {len(names)} images in {folder} can be used")
    skipped = missing + [(relative(path, folder), reason) for path, reason in bad]
    kept = [path for path, is_good in zip(paths, good, strict=True) if is_good]
    table = table.select(rows) if skipped else table
    return Prepared(table, kept, contents[good], skipped, checked.animated, prints[good])


def _checked(
    paths: Sequence[Path], config: ImageConfig, workers: int | None, reporter: Reporter, crew: Crew
) -> tuple[ImageCheck, NDArray[np.bytes_]]:
    """The check of the images, each by one process of the crew, and the hashes of their files."""
    ends = [round(i * len(paths) / crew.world) for i in range(crew.world + 1)]
    own = paths[ends[crew.rank] : ends[crew.rank + 1]]
    with reporter.bar("checking images") as bar:
        parts = crew.collect(
            lambda: look(
                own, max_pixels=config.max_pixels, workers=workers or None, progress=bar, store=record_folder()
            )
        )
    looked = Looked.of(parts)
    return conclude(paths, looked, with_prints=True), looked.rows["content"]
