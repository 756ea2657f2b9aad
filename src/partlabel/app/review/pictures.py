"""Pictures as the page shows them: thumbnails kept on disk, larger ones made when they are asked for."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import simplejpeg
from PIL import Image

from partlabel.core.errors import UserError
from partlabel.core.files import replacing
from partlabel.images import ImageError, decode, find

#: longest side in pixels
THUMBNAIL, PHOTO = 256, 1600
#: pixels above which a picture is not shown; less than what training takes, because several are decoded at once
MAX_PIXELS = 100_000_000
_QUALITY = {THUMBNAIL: 80, PHOTO: 88}


class NoPictureError(UserError):
    """A picture that is missing, outside the folder of the pictures, or damaged; the message names no folder."""


@dataclass(frozen=True)
class Found:
    """A picture file: where it is, and a tag that changes with its content (by size and time) and ``side``."""

    path: str
    tag: str
    side: int


class Pictures:
    """The pictures of a table, and nothing else of the disk.

    Args:
        names: N names as in the table.
        folder: the folder of the pictures. A file is shown only if it lies in it once all links are followed.
        cache: folder for thumbnails.

    Raises:
        UserError: ``folder`` is none, or a name fits more than one file.
    """

    def __init__(self, names: Sequence[str], folder: Path, cache: Path) -> None:
        self._names = names
        self._root = os.path.realpath(folder)
        self._paths = find(names, folder)
        self._cache = cache

    def missing(self) -> list[str]:
        """Names of the pictures without a file."""
        return [name for name, path in zip(self._names, self._paths, strict=True) if path is None]

    def find(self, number: int, side: int) -> Found:
        """Find a picture for a view with this longest side.

        Raises:
            NoPictureError: it is missing, or lies outside the folder.
        """
        path, name = self._paths[number], self._names[number]
        if path is None:
            raise NoPictureError(f"{name}: there is no such picture")
        real = os.path.realpath(path)
        if not Path(real).is_relative_to(self._root):
            raise NoPictureError(f"{name}: lies outside the folder of the pictures, so it is not shown")
        try:
            facts = os.stat(real)
        except OSError:
            raise NoPictureError(f"{name}: there is no such picture") from None
        if not stat.S_ISREG(facts.st_mode):  # a pipe would be waited for
            raise NoPictureError(f"{name}: is not a regular file")
        text = f"{side}\0{_QUALITY[side]}\0{facts.st_size}\0{facts.st_mtime_ns}\0{real}"
        return Found(real, hashlib.blake2b(os.fsencode(text), digest_size=16).hexdigest(), side)

    def jpeg(self, number: int, found: Found) -> bytes:
        """The picture as JPEG, upright, its longest side at most ``found.side``; thumbnails are kept.

        Raises:
            NoPictureError: it cannot be decoded.
        """
        kept = self._cache / found.tag[:2] / f"{found.tag}.jpg"
        if found.side == THUMBNAIL and kept.is_file():
            return kept.read_bytes()
        try:
            pixels = decode(found.path, found.side, max_pixels=MAX_PIXELS)
        except ImageError as error:
            raise NoPictureError(f"{self._names[number]}: {error.reason}") from None
        image = Image.fromarray(pixels)
        image.thumbnail((found.side, found.side), Image.Resampling.LANCZOS, reducing_gap=2.0)
        data = simplejpeg.encode_jpeg(np.ascontiguousarray(image), _QUALITY[found.side], "RGB", "420")
        if found.side == THUMBNAIL:
            with suppress(OSError, UserError):  # it only saves time
                kept.parent.mkdir(parents=True, exist_ok=True)
                with replacing(kept) as temporary:
                    temporary.write_bytes(data)
        return data

    def size(self, number: int) -> tuple[int, int] | None:
        """Width and height of a picture, as it is shown upright; None where it cannot be read."""
        try:
            found = self.find(number, PHOTO)
            with Image.open(found.path) as image:
                turned = image.getexif().get(0x0112, 1) in (5, 6, 7, 8)
                width, height = image.size
        except Exception:  # Pillow raises many types for damaged files, and the page shows the reason with the picture
            return None
        return (height, width) if turned else (width, height)
