"""Images as the page shows them: thumbnails kept on disk, larger ones made when they are asked for."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import simplejpeg
from numpy.typing import NDArray
from PIL import Image

from partlabel.core.errors import UserError
from partlabel.core.files import replacing, sweep
from partlabel.images import ImageError, decode
from partlabel.images.contents import facts_of, read_hash

#: longest side in pixels
THUMBNAIL, PHOTO = 256, 1600
#: pixels above which an image is not shown; less than what training takes, because a page waits for it
MAX_PIXELS = 100_000_000
#: pixels above which images are decoded one at a time
_LARGE = 8_000_000
_QUALITY = {THUMBNAIL: 80, PHOTO: 88}
#: hexadecimal digits of the hash of an image's content that stand in its address
TAG = 20


class NoPictureError(UserError):
    """An image that is missing, outside the folder of the images, or damaged; the message names no folder."""


class ChangedError(NoPictureError):
    """An image whose content is no longer what was scored."""


@dataclass(frozen=True)
class Found:
    """An image file whose content is what was scored."""

    path: str
    content: str
    side: int


class Pictures:
    """The images of a table, and nothing else of the disk.

    An image is shown only while its file holds what the model scored.

    Args:
        names: N names as in the table.
        paths: N files. A file is shown only if it lies in one of ``folders`` once all links are followed.
        contents: N rows of :func:`partlabel.images.contents.known_contents`, of what was scored.
        folders: the folders of the images.
        cache: folder for thumbnails.
    """

    def __init__(
        self,
        names: Sequence[str],
        paths: Sequence[Path],
        contents: NDArray[np.void],
        folders: Sequence[Path],
        cache: Path,
    ) -> None:
        self._names = names
        self._roots = [os.path.realpath(folder) for folder in folders]
        self._paths = paths
        self._contents = contents["hash"]
        self._facts = contents["facts"].copy()
        self._cache = cache
        for kept in cache.glob("*"):  # what a killed server left there
            sweep(kept)
        self._large = threading.Lock()

    def content(self, number: int) -> str:
        """What an image was when it was scored, as the digits that stand in its address."""
        return self._contents[number].decode()[:TAG]

    def contents(self) -> NDArray[np.bytes_]:
        """(N,) the same for all images."""
        return self._contents.astype(f"S{TAG}")

    def find(self, number: int, side: int) -> Found:
        """Find an image for a view with this longest side.

        Raises:
            NoPictureError: it is missing, or lies outside the folder.
            ChangedError: its content is no longer what was scored.
        """
        name = self._names[number]
        real = os.path.realpath(self._paths[number])
        if not any(Path(real).is_relative_to(root) for root in self._roots):
            raise NoPictureError(f"{name}: lies outside the folder of the images, so it is not shown")
        self._check(number, real)
        return Found(real, self._contents[number].decode(), side)

    def _check(self, number: int, path: str) -> None:
        name = self._names[number]
        try:
            if facts_of(os.stat(path)) == tuple(self._facts[number].tolist()):
                return
            facts, content = read_hash(path)
        except FileNotFoundError:
            raise NoPictureError(f"{name}: there is no such image any more") from None
        except OSError as error:
            raise NoPictureError(f"{name}: cannot be read ({error.strerror})") from None
        except ImageError as error:
            raise NoPictureError(f"{name}: {error.reason}") from None
        if content != self._contents[number].decode():
            raise ChangedError(
                f"{name}: was changed on disk since it was scored; start partlabel review again to score it anew"
            )
        self._facts[number] = facts

    def jpeg(self, number: int, found: Found) -> bytes:
        """The image as JPEG, upright, its longest side at most ``found.side``; thumbnails are kept.

        Raises:
            NoPictureError: it cannot be decoded, or was changed meanwhile.
        """
        tag = f"{found.content}-{found.side}-{_QUALITY[found.side]}"
        kept = self._cache / tag[:2] / f"{tag}.jpg"
        if found.side == THUMBNAIL:
            with suppress(OSError):
                if data := kept.read_bytes():
                    return data
        image = Image.fromarray(self._pixels(number, found))
        image.thumbnail((found.side, found.side), Image.Resampling.LANCZOS, reducing_gap=2.0)
        data = simplejpeg.encode_jpeg(np.ascontiguousarray(image), _QUALITY[found.side], "RGB", "420")
        self._check(number, found.path)  # before anything is kept under the name of what was scored
        if found.side == THUMBNAIL:
            with suppress(OSError, UserError):  # it only saves time
                kept.parent.mkdir(parents=True, exist_ok=True)
                with replacing(kept) as temporary:
                    temporary.write_bytes(data)
        return data

    def _pixels(self, number: int, found: Found) -> NDArray[np.uint8]:
        width, height = _size(found.path) or (MAX_PIXELS, 1)
        try:
            if width * height <= _LARGE:
                return decode(found.path, found.side, max_pixels=MAX_PIXELS)
            with self._large:  # of those that take hundreds of megabytes, one at a time
                return decode(found.path, found.side, max_pixels=MAX_PIXELS)
        except ImageError as error:
            raise NoPictureError(f"{self._names[number]}: {error.reason}") from None

    def size(self, number: int) -> tuple[int, int] | None:
        """Width and height of an image, as it is shown upright; None where it cannot be read."""
        try:
            return _size(self.find(number, PHOTO).path)
        except NoPictureError:
            return None


def _size(path: str) -> tuple[int, int] | None:
    try:
        with Image.open(path) as image:
            turned = image.getexif().get(0x0112, 1) in (5, 6, 7, 8)
            width, height = image.size
    except Exception:  # Pillow raises many types for damaged files, and the page shows the reason with the image
        return None
    return (height, width) if turned else (width, height)
