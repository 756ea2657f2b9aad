"""The check before training: decode every image, list all bad ones in one go."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partlabel.core.errors import PartlabelWarning, UserError
from partlabel.images.decoding import MAX_PIXELS
from partlabel.images.looking import BAD, FLAGS, GOOD, Looked, look


@dataclass(frozen=True)
class ImageCheck:
    """What the check found; lists are in the order of the paths given.

    Attributes:
        images: number of files checked.
        good: (N,) bool, True where the file is a whole image.
        bad: (path, reason) of each file that is not.
        animated: paths with several frames; the first one is used.
        turned: number of images turned by their EXIF flag.
        cmyk: number of images converted from CMYK.
        transparent: number of images laid on white.
        deep: number of grey images with more than 8 bits.
        dark: paths of those whose values fit into 12 of 16 bits.
        formats: number of good images by format.
        prints: uint8 (N, BYTES) of :mod:`partlabel.images.near_copies`, 0 in a bad image; None unless asked for.
    """

    images: int
    good: NDArray[np.bool_]
    bad: list[tuple[str, str]]
    animated: list[str]
    turned: int
    cmyk: int
    transparent: int
    deep: int
    dark: list[str]
    formats: dict[str, int]
    prints: NDArray[np.uint8] | None = None

    def raise_if_bad(self) -> None:
        """Raise if any file is bad.

        Raises:
            UserError: with all bad files and their reasons.
        """
        if self.bad:
            offenders = [f"{path}: {reason}" for path, reason in self.bad]
            raise UserError(f"{len(self.bad)} of {self.images} images cannot be used", offenders)

    def to_dict(self) -> dict[str, Any]:
        """Give the numbers and lists as plain values for JSON."""
        return {
            "images": self.images,
            "good": int(self.good.sum()),
            "bad": [{"path": path, "reason": reason} for path, reason in self.bad],
            "animated": self.animated,
            "turned": self.turned,
            "cmyk": self.cmyk,
            "transparent": self.transparent,
            "deep": self.deep,
            "dark": self.dark,
            "formats": self.formats,
        }


def check(
    paths: Iterable[str | os.PathLike[str]],
    *,
    max_pixels: int = MAX_PIXELS,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    with_prints: bool = False,
) -> ImageCheck:
    """Decode all of every image and list the bad ones.

    Opening is not enough: the header of a cut file is fine. A JPEG is decoded at a part of its size, for which libjpeg
    still has to read all of its data. Nothing is remembered; :func:`partlabel.images.looking.look` does.

    Args:
        paths: the files.
        max_pixels: width times height above which an image counts as bad.
        workers: threads (the decoders work outside Python's lock); None: one per core.
        progress: called with (files done, files in all) after each block of files.
        with_prints: also make the fingerprints that near-copies are found by.
    """
    files = [os.fspath(path) for path in paths]
    looked = look(files, max_pixels=max_pixels, workers=workers, progress=progress)
    return conclude(files, looked, with_prints=with_prints)


def conclude(paths: Sequence[str | os.PathLike[str]], looked: Looked, *, with_prints: bool = False) -> ImageCheck:
    """Say what was found in files that were decoded, and warn of images that are read as nearly black."""
    files, rows = [os.fspath(path) for path in paths], looked.rows
    good = rows["state"] == GOOD

    def having(name: str) -> NDArray[np.int64]:
        return np.flatnonzero(good & (rows["flags"] >> FLAGS.index(name) & 1).astype(bool))

    dark = [files[i] for i in having("dark")]
    if dark:
        warnings.warn(
            f"{len(dark)} images of 16 bits hold no value above 4095, as devices of 12 bits write them, and are read "
            f"as nearly black; multiply their values by 16 first (such as {dark[0]})",
            PartlabelWarning,
            stacklevel=3,
        )
    names, counts = np.unique(rows["format"][good], return_counts=True)
    return ImageCheck(
        images=len(files),
        good=good,
        bad=[(files[i], looked.reasons[i]) for i in np.flatnonzero(rows["state"] == BAD).tolist()],
        animated=[files[i] for i in having("animated")],
        turned=len(having("turned")),
        cmyk=len(having("cmyk")),
        transparent=len(having("transparent")),
        deep=len(having("deep")),
        dark=dark,
        formats={name.decode(): count for name, count in zip(names, counts.tolist(), strict=True)},
        prints=rows["print"] if with_prints else None,
    )
