"""One rule for turning a picture file into RGB bytes, used by training, prediction and the check before training.

JPEG files go through simplejpeg (libjpeg-turbo), which reports the damage that Pillow lets pass; everything else, and
the odd JPEG (CMYK, headers that simplejpeg refuses), goes through Pillow. The rules:

- EXIF orientation is applied (all eight values), once; the result is upright.
- Transparency (alpha channel, transparent palette entry or colour) is laid on white.
- 16-bit grey is divided by 257; float grey in [0, 1] is multiplied by 255, other float or 32-bit grey that leaves
  [0, 255] is stretched from its least to its greatest value.
- Several frames: the first.
- ICC profiles are ignored: the numbers in the file are taken as sRGB.
"""

from __future__ import annotations

import io
import os
import stat
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import simplejpeg
from numpy.typing import NDArray
from PIL import Image, ImageOps

from partlabel.errors import UserError

#: pixels (width times height) above which a picture counts as unreadable; Pillow's own limit
MAX_PIXELS = 178_956_970

#: the formats that are read, in the order in which they are tried; left out are those that start other programs (EPS)
#: or have no signature (TGA)
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "JPEG2000", "PPM", "ICO")

_ORIENTATION = 0x0112


class ImageError(UserError):
    """A file that is not a whole, readable picture.

    Attributes:
        path: the file.
        reason: what is wrong with it, in words.
    """

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        self.path = os.fspath(path)
        self.reason = reason
        super().__init__(f"{self.path}: {reason}")

    def __reduce__(self) -> tuple[type[ImageError], tuple[str, str]]:
        return type(self), (self.path, self.reason)


@dataclass(frozen=True)
class Facts:
    """What was special about one picture."""

    format: str
    animated: bool = False
    turned: bool = False
    cmyk: bool = False
    transparent: bool = False
    deep: bool = False


class _NotReadableError(Exception):
    """The reason why bytes are not a whole picture; becomes an ImageError where the path is known."""


def decode(path: str | os.PathLike[str], size: int | None = None, *, max_pixels: int = MAX_PIXELS) -> NDArray[np.uint8]:
    """Decode a picture file to upright RGB.

    Args:
        path: the file; its name does not matter, its content does.
        size: a hint: the picture will be resized to ``size`` x ``size`` pixels. A JPEG is then decoded at 1/2, 1/4 or
            1/8 of its width and height (which skips most of the inverse DCT), as long as both sides stay at least
            ``size``. None: full size.
        max_pixels: width times height above which the file is refused, before any pixel is decoded.

    Returns:
        uint8 array of shape (H, W, 3).

    Raises:
        ImageError: the file is missing, empty, not a picture, cut off or damaged, or has too many pixels.
    """
    return decode_with_facts(path, size, max_pixels=max_pixels)[0]


def decode_with_facts(
    path: str | os.PathLike[str], size: int | None = None, *, max_pixels: int = MAX_PIXELS
) -> tuple[NDArray[np.uint8], Facts]:
    """Decode like `decode`, and tell what was special about the picture."""
    data = _read(path)
    try:
        if data.startswith(b"\xff\xd8\xff"):
            fast = _decode_jpeg(data, size, max_pixels)
            if fast is not None:
                return fast
        return _decode_pillow(data, max_pixels)
    except _NotReadableError as error:
        raise ImageError(path, str(error)) from None


def _read(path: str | os.PathLike[str]) -> bytes:
    """Read a file that begins like a picture; the content of anything else is not read."""
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise ImageError(path, "is a folder, not a picture")
        if not stat.S_ISREG(mode):
            raise ImageError(path, "is not a regular file")
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except FileNotFoundError:
        broken = os.path.islink(path)
        raise ImageError(path, "is a symbolic link to nothing" if broken else "does not exist") from None
    except OSError as error:
        raise ImageError(path, f"cannot be read ({error.strerror})") from None


def _check_pixels(width: int, height: int, max_pixels: int) -> None:
    if width * height > max_pixels:
        raise _NotReadableError(f"{width} x {height} = {width * height} pixels, over the limit of {max_pixels}")


def _decode_jpeg(data: bytes, size: int | None, max_pixels: int) -> tuple[NDArray[np.uint8], Facts] | None:
    """Decode a JPEG with simplejpeg; None where Pillow has to look at it."""
    try:
        high, wide, colorspace, _ = simplejpeg.decode_jpeg_header(data)
        height, width = int(high), int(wide)
        _check_pixels(width, height, max_pixels)
        if colorspace in ("CMYK", "YCCK"):
            simplejpeg.decode_jpeg(data, "CMYK")  # only to find damage: Pillow knows the inverted values of Adobe
            return None
        least = [-(-side // _reduction(min(height, width), size)) for side in (height, width)]
        pixels = simplejpeg.decode_jpeg(data, "RGB", min_height=least[0], min_width=least[1])
    except ValueError as error:
        reason = str(error)
        # what libjpeg says of damaged pixel data; it fills the rest with grey, and goes on
        if reason.startswith(("Corrupt JPEG data", "Premature end")):
            raise _NotReadableError(f"cut off or damaged ({reason})") from None
        return None
    orientation = _jpeg_orientation(data)
    return _turn(pixels, orientation), Facts("JPEG", turned=orientation > 1)


def _reduction(side: int, size: int | None) -> int:
    """The greatest of 8, 4, 2, 1 by which ``side`` can be divided and stay at least ``size``."""
    if size is None:
        return 1
    return next((r for r in (8, 4, 2) if -(-side // r) >= size), 1)


def _jpeg_orientation(data: bytes) -> int:
    """EXIF orientation of a JPEG, 1 where there is none; reads markers up to the picture data."""
    position = 2
    while position + 4 <= len(data) and data[position] == 0xFF:
        marker = data[position + 1]
        if marker == 0xFF:  # fill byte
            position += 1
            continue
        if marker == 0xDA:
            break
        length = int.from_bytes(data[position + 2 : position + 4], "big")
        if marker == 0xE1 and data[position + 4 : position + 10] == b"Exif\0\0":
            return _exif_orientation(data[position + 4 : position + 2 + length])
        position += 2 + length
    return 1


def _exif_orientation(block: bytes) -> int:
    exif = Image.Exif()
    try:
        exif.load(block)
        value = exif.get(_ORIENTATION, 1)
    except Exception:  # a damaged EXIF block is no reason to refuse the picture; Pillow raises many types here
        return 1
    return value if value in range(1, 9) else 1


def _turn(pixels: NDArray[np.uint8], orientation: int) -> NDArray[np.uint8]:
    """Undo the EXIF orientation of (H, W, 3) pixels."""
    if orientation >= 5:
        pixels = pixels.transpose(1, 0, 2)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return np.ascontiguousarray(pixels)


def _open(data: bytes) -> Image.Image:
    """Open with Pillow, header only, without its global limit of pixels (ours is checked by the caller)."""
    Image.init()
    for name in FORMATS:
        if name not in Image.OPEN:
            continue
        factory, accept = Image.OPEN[name]
        try:
            if accept is None or accept(data[:16]) is True:
                return factory(io.BytesIO(data), "")
        except (SyntaxError, IndexError, TypeError, KeyError, ValueError, EOFError, struct.error, OSError) as error:
            raise _NotReadableError(f"damaged {name} file ({error})") from None
    raise _NotReadableError(_what_instead(data))


def _what_instead(data: bytes) -> str:
    """Words for a file that is no picture."""
    if not data:
        return "empty (0 bytes)"
    start = data[:200].lstrip().lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml", b"<svg", b"<")):
        return "not a picture (a web page or XML)"
    if start.startswith(b"version https://git-lfs"):
        return "not a picture (a Git LFS pointer: the file itself was not downloaded)"
    try:
        text = data[:200].decode("utf-8")
    except UnicodeDecodeError:
        return "not a picture of a known format"
    return f"not a picture (text that begins {text.splitlines()[0][:40]!r})" if text.strip() else "not a picture"


def _decode_pillow(data: bytes, max_pixels: int) -> tuple[NDArray[np.uint8], Facts]:
    image = _open(data)
    _check_pixels(*image.size, max_pixels)
    try:
        turned = image.getexif().get(_ORIENTATION, 1) in range(2, 9)
    except Exception:
        turned = False
    try:
        animated = image.format not in ("MPO", "ICO") and getattr(image, "is_animated", False)
        image.seek(0)
        image.load()
        ImageOps.exif_transpose(image, in_place=True)  # a TIFF is turned by load() already and has no flag left
        facts = Facts(
            image.format or "",
            animated,
            turned,
            cmyk=image.mode == "CMYK",
            transparent=image.has_transparency_data,
            deep=image.mode.startswith(("I", "F")),
        )
        return _to_rgb(image), facts
    except Exception as error:
        raise _NotReadableError(f"cut off or damaged ({error})") from None


def _to_rgb(image: Image.Image) -> NDArray[np.uint8]:
    """Bring any mode of Pillow to (H, W, 3) uint8."""
    if image.mode.startswith(("I", "F")):
        return np.repeat(_grey_to_8_bits(np.asarray(image), image.info)[:, :, None], 3, axis=2)
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        white = Image.new("RGBA", rgba.size, "white")
        return np.array(Image.alpha_composite(white, rgba).convert("RGB"))
    return np.array(image.convert("RGB"))


def _grey_to_8_bits(grey: NDArray[Any], info: dict[Any, Any]) -> NDArray[np.uint8]:
    if grey.dtype == np.uint16:
        transparent = info.get("transparency")
        eight = ((grey.astype(np.uint32) + 128) // 257).astype(np.uint8)
        if isinstance(transparent, int):
            eight[grey == transparent] = 255
        return eight
    values = grey.astype(np.float64)
    values[~np.isfinite(values)] = 0
    low, high = values.min(), values.max()
    if low >= 0 and high <= 1 and grey.dtype.kind == "f":
        values *= 255
    elif low < 0 or high > 255:
        values = (values - low) * (255 / (high - low)) if high > low else np.full_like(values, 255 * (high > 0))
    return np.rint(values).astype(np.uint8)
