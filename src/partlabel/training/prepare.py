"""Before a training: labels that can be learned from, images that are there and whole."""

from __future__ import annotations

import hashlib
import os
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from partlabel.core.errors import PartlabelWarning, UserError
from partlabel.core.files import replacing
from partlabel.core.progress import Reporter
from partlabel.images import check, find, resolve
from partlabel.labels.table import LabelTable
from partlabel.training.batches import cache_folder
from partlabel.training.config import ImageConfig


@dataclass(frozen=True)
class Prepared:
    """A table whose images are all there and whole.

    ``paths``: the image of each row. ``skipped``: (name, reason) of the rows left out. ``animated``: images of
    which only the first frame is used. ``prints``: fingerprints of the images, see
    :func:`partlabel.images.near_copies.fingerprint`.
    """

    table: LabelTable
    paths: list[Path]
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
            "no class has a known absent label; the loss is minimal when everything is called present. "
            "Add absent labels, or train with assume_absent, which takes every unknown label as absent",
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
) -> Prepared:
    """Find and decode every image of a table.

    Args:
        table: the labels; its image names are files in ``folder``.
        folder: the folder of the images.
        config: what to do with bad images.
        workers: decoding threads.
        reporter: shows the progress.
        elsewhere: a beginning of names whose images lie in another folder, see :func:`partlabel.images.find`.

    Raises:
        UserError: images are missing or bad and ``on_bad`` is "error", or none is left.
    """
    names = table.images.to_pylist()
    files = (resolve if config.on_bad == "error" else find)(names, folder, elsewhere)
    missing = [(name, "missing") for name, file in zip(names, files, strict=True) if file is None]
    there = np.array([file is not None for file in files])
    paths = [file for file in files if file is not None]
    good, bad, animated, prints = _checked(paths, config, workers, reporter)
    if bad and config.on_bad == "error":
        raise UserError(f"{len(bad)} of {len(names)} images cannot be used", [f"{p}: {reason}" for p, reason in bad])
    rows = np.flatnonzero(there)[good]
    if not len(rows):
        raise UserError(f"none of the {len(names)} images in {folder} can be used")
    skipped = missing + [(os.path.relpath(path, folder), reason) for path, reason in bad]
    kept = [path for path, is_good in zip(paths, good, strict=True) if is_good]
    return Prepared(table.select(rows) if skipped else table, kept, skipped, animated, prints[good])


def _checked(
    paths: Sequence[Path], config: ImageConfig, workers: int | None, reporter: Reporter
) -> tuple[np.ndarray, list[tuple[str, str]], list[str], NDArray[np.uint8]]:
    """The check of the images; files that passed before and have the same size and time are not decoded again."""
    digest = hashlib.blake2b(str(config.max_pixels).encode(), digest_size=16)
    for path in paths:
        try:
            stat = path.stat()
        except OSError:  # a link to nothing; the check says so
            digest.update(os.urandom(8))
            continue
        digest.update(os.fsencode(path.resolve()) + f"\0{stat.st_size}\0{stat.st_mtime_ns}\0".encode())
    passed = cache_folder() / "checked" / f"{digest.hexdigest()}.npz"
    # not there, or damaged (zip files have checksums): the check is made again
    with suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error), np.load(passed) as stored:
        return np.ones(len(paths), bool), [], stored["animated"].tolist(), stored["prints"]
    with reporter.bar("checking images") as bar:
        result = check(paths, max_pixels=config.max_pixels, workers=workers or None, progress=bar, with_prints=True)
    assert result.prints is not None
    if not result.bad:
        with suppress(OSError, UserError):  # it only saves time
            passed.parent.mkdir(parents=True, exist_ok=True)
            with replacing(passed) as temporary, open(temporary, "wb") as file:
                np.savez(file, animated=np.array(result.animated, np.str_), prints=result.prints)
    return result.good, result.bad, result.animated, result.prints
