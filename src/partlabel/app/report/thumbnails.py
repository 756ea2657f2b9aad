"""Small copies of images that go into the page itself."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterable
from pathlib import Path

from PIL import Image

from partlabel.images import decode, find
from partlabel.images.decoding import ImageError

#: longest side in pixels, and the quality of the JPEG: about 6 kB each
_SIDE, _QUALITY = 192, 68


def thumbnails(
    names: Iterable[str], folder: str | os.PathLike[str], elsewhere: tuple[str, Path] | None = None
) -> dict[str, tuple[str, int, int]]:
    """Small JPEG copies as ``data:`` addresses with their width and height; images that cannot be read are left out.

    Args:
        names: image names of a table.
        folder: the folder that they start from.
        elsewhere: see :func:`partlabel.images.find`.
    """
    listed = list(dict.fromkeys(names))
    located = zip(listed, find(listed, folder, elsewhere), strict=True)
    made = {name: thumbnail(path) for name, path in located if path is not None}
    return {name: found for name, found in made.items() if found is not None}


def thumbnail(path: Path) -> tuple[str, int, int] | None:
    """A small JPEG copy of an image file as a ``data:`` address, its width and height; None where it cannot be read."""
    try:
        picture = Image.fromarray(decode(path, _SIDE))
    except ImageError:
        return None
    picture.thumbnail((_SIDE, _SIDE))
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=_QUALITY, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}", *picture.size
