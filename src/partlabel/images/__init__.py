"""Images: find, check, decode, resize, load.

``decode``, ``check``, ``resolve`` and the file functions need no torch; the names that do are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from partlabel.images.checking import ImageCheck, check
from partlabel.images.decoding import MAX_PIXELS, ImageError, decode
from partlabel.images.locate import Listed, content_hash, find, identical, list_images, resolve

if TYPE_CHECKING:
    from partlabel.images.loading import ImageDataset, Loader, flip_draw, load, make_loader

__all__ = [
    "MAX_PIXELS",
    "ImageCheck",
    "ImageDataset",
    "ImageError",
    "Listed",
    "Loader",
    "check",
    "content_hash",
    "decode",
    "find",
    "flip_draw",
    "identical",
    "list_images",
    "load",
    "make_loader",
    "resolve",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from partlabel.images import loading

        return getattr(loading, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
