"""The check before training: decode every image, list all bad ones in one go."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partlabel.core.compute import cores
from partlabel.core.errors import PartlabelWarning, UserError
from partlabel.images.decoding import MAX_PIXELS, Facts, ImageError, decode_with_facts
from partlabel.images.near_copies import BYTES, SIDE, fingerprint


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

    Opening is not enough: the header of a cut file is fine. A JPEG is decoded at 1/8 of its size, for which libjpeg
    still has to read all of its data.

    Args:
        paths: the files.
        max_pixels: width times height above which an image counts as bad.
        workers: threads (the decoders work outside Python's lock); None: one per core.
        progress: called with (files done, files in all) after each block of files.
        with_prints: also make the fingerprints that near-copies are found by; JPEGs are decoded larger for it.
    """
    files = [os.fspath(path) for path in paths]
    prints = np.zeros((len(files), BYTES), np.uint8) if with_prints else None

    def one(number: int) -> Facts | str:
        try:
            pixels, fact = decode_with_facts(files[number], 1 if prints is None else SIDE, max_pixels=max_pixels)
        except ImageError as error:
            return error.reason
        if prints is not None:
            prints[number] = fingerprint(pixels)
        return fact

    found: list[Facts | str] = []
    # Pillow warns about oddities that do not matter here; entered once, around all threads
    with warnings.catch_warnings(), ThreadPoolExecutor(workers or cores()) as pool:
        warnings.filterwarnings("ignore", module=r"PIL\.")
        for start in range(0, len(files), 256):
            found += pool.map(one, range(start, min(start + 256, len(files))))
            if progress is not None:
                progress(len(found), len(files))
    facts = [fact for fact in found if isinstance(fact, Facts)]
    formats: dict[str, int] = {}
    for fact in facts:
        formats[fact.format] = formats.get(fact.format, 0) + 1
    pairs = list(zip(files, found, strict=True))
    dark = [path for path, fact in pairs if isinstance(fact, Facts) and fact.dark]
    if dark:
        warnings.warn(
            f"{len(dark)} images of 16 bits hold no value above 4095, as devices of 12 bits write them, and are read "
            f"as nearly black; multiply their values by 16 first (such as {dark[0]})",
            PartlabelWarning,
            stacklevel=2,
        )
    return ImageCheck(
        images=len(files),
        good=np.array([isinstance(fact, Facts) for fact in found], dtype=bool),
        bad=[(path, fact) for path, fact in pairs if isinstance(fact, str)],
        animated=[path for path, fact in pairs if isinstance(fact, Facts) and fact.animated],
        turned=sum(fact.turned for fact in facts),
        cmyk=sum(fact.cmyk for fact in facts),
        transparent=sum(fact.transparent for fact in facts),
        deep=sum(fact.deep for fact in facts),
        dark=dark,
        formats=dict(sorted(formats.items())),
        prints=prints,
    )
