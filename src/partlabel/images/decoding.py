"""One rule for turning an image file into RGB bytes, used by training, prediction and the check before training.

JPEG files go through simplejpeg (libjpeg-turbo), which reports the damage that Pillow lets pass; everything else, and
the odd JPEG (CMYK, headers that simplejpeg refuses), goes through Pillow. The rules:

- EXIF orientation is applied (all eight values), once; the result is upright.
- Transparency (alpha channel, transparent palette entry or colour) is laid on white.
- 16-bit grey is divided by 257; float grey in [0, 1] is multiplied by 255. 32-bit grey is taken as 8-bit or 16-bit
  where its values fit; float and 32-bit grey beyond that is stretched from its least to its greatest value.
- Several frames: the first.
- ICC profiles are ignored: the numbers in the file are taken as sRGB.
- An image that is cut off is never used. What libjpeg calls extraneous bytes is accepted, because many cameras write
  them into whole images; every other complaint about the data of a JPEG counts as damage, as does a wrong checksum in
  a PNG. Other formats hold no checksum: damage that leaves them decodable can't be seen.
"""

from __future__ import annotations

import io
import math
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import simplejpeg
from numpy.typing import NDArray
from PIL import Image, ImageFile, ImageOps

from partlabel.core.errors import UserError
from partlabel.core.trouble import short_of_memory

#: pixels (width times height) above which an image counts as unreadable; Pillow's own limit
MAX_PIXELS = 178_956_970

#: the formats that are read, in the order in which they are tried; left out are those that start other programs (EPS)
#: or have no signature (TGA)
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "JPEG2000", "PPM")

#: pixels that are converted at once
_STRIP = 4_000_000
_ORIENTATION = 0x0112
_NO_MEMORY = "cannot be decoded with the memory that is left"
#: how libjpeg's warnings about the data of an image begin; it fills the rest with grey and goes on
_DAMAGE = ("Corrupt JPEG data", "Premature end")
#: the one of them that whole images of many cameras cause
_STRAY = "extraneous bytes"


#: formats that are images and not read: name, test of the first bytes, what to do
_OTHERS = (
    ("HEIC", lambda start: start[4:12] in (b"ftypheic", b"ftypheix", b"ftypmif1", b"ftyphevc"), "convert it to JPEG"),
    ("DICOM", lambda start: start[128:132] == b"DICM", "convert it to PNG, with the window that shows what matters"),
    ("SVG", lambda start: b"<svg" in start[:256], "draw it to PNG"),
    ("PDF", lambda start: start.startswith(b"%PDF"), "save its pages as PNG"),
)


#: what the largest value of 12 bits becomes when 16 bits are divided by 257
_DARK = 16


class ImageError(UserError):
    """A file that is not a whole, readable image.

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


@dataclass(frozen=True, slots=True)
class Facts:
    """What was special about one image.

    Attributes:
        format: name of the format, as Pillow calls it.
        animated: it has several frames.
        turned: its EXIF flag turned or mirrored it.
        cmyk: it was converted from CMYK.
        transparent: it was laid on white.
        deep: it is grey with more than 8 bits.
        dark: it is such an image, and all its values fit into 12 of 16 bits, so that it is read as nearly black.
    """

    format: str
    animated: bool = False
    turned: bool = False
    cmyk: bool = False
    transparent: bool = False
    deep: bool = False
    dark: bool = False


class _NotReadableError(Exception):
    """The reason why bytes are not a whole image; becomes an ImageError where the path is known."""


def decode(path: str | os.PathLike[str], size: int | None = None, *, max_pixels: int = MAX_PIXELS) -> NDArray[np.uint8]:
    """Decode an image file to upright RGB.

    Args:
        path: the file; its name does not matter, its content does.
        size: a hint: the image will be resized to ``size`` x ``size`` pixels. A JPEG is then decoded at 1/2, 1/4 or
            1/8 of its width and height (which skips most of the inverse DCT) as long as both sides stay at least
            2 x ``size``: the resized image then differs from that of a full decode by about one grey level on average
            (with sides of at least ``size`` only, by up to five: ``benchmarks/decode.py``). None: full size.
        max_pixels: width times height above which the file is refused, before any pixel is decoded.

    Returns:
        uint8 array of shape (H, W, 3).

    Raises:
        ImageError: the file is missing, empty, not an image, cut off or damaged, or has too many pixels.
    """
    return decode_with_facts(path, size, max_pixels=max_pixels)[0]


def decode_with_facts(
    path: str | os.PathLike[str], size: int | None = None, *, max_pixels: int = MAX_PIXELS
) -> tuple[NDArray[np.uint8], Facts]:
    """Decode like `decode`, and tell what was special about the image."""
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):  # a pipe would be waited for
            raise ImageError(path, "is a folder, not an image" if stat.S_ISDIR(mode) else "is not a regular file")
        with open(path, "rb") as file:
            return _decode_file(file, size, max_pixels)
    except _NotReadableError as error:
        raise ImageError(path, str(error)) from None
    except FileNotFoundError:
        broken = os.path.islink(path)
        raise ImageError(path, "is a symbolic link to nothing" if broken else "does not exist") from None
    except OSError as error:
        raise ImageError(path, f"cannot be read ({error.strerror or error})") from None


def decode_bytes(data: bytes, name: str, size: int | None = None, *, max_pixels: int = MAX_PIXELS) -> NDArray[np.uint8]:
    """Decode the content of an image file like `decode`; ``name`` is what an error calls it."""
    try:
        return _decode_file(io.BytesIO(data), size, max_pixels)[0]
    except (_NotReadableError, OSError) as error:
        raise ImageError(name, str(error)) from None


def why_not_an_image(path: str | os.PathLike[str]) -> str | None:
    """Say why a file is no image of a format that is read, from its first bytes; None where it is one."""
    try:
        with open(path, "rb") as file:
            image = _open(file)
            image.close()
    except _NotReadableError as error:
        return str(error)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return None


def _decode_file(file: BinaryIO, size: int | None, max_pixels: int) -> tuple[NDArray[np.uint8], Facts]:
    if file.read(3) == b"\xff\xd8\xff":
        file.seek(0)
        fast = _decode_jpeg(file.read(), size, max_pixels)
        if fast is not None:
            return fast
    file.seek(0)
    return _decode_pillow(file, max_pixels)


def _check_pixels(width: int, height: int, max_pixels: int) -> None:
    if width * height > max_pixels:
        raise _NotReadableError(f"{width} x {height} = {width * height} pixels, over the limit of {max_pixels}")


def _decode_jpeg(data: bytes, size: int | None, max_pixels: int) -> tuple[NDArray[np.uint8], Facts] | None:
    """Decode a JPEG with simplejpeg; None where Pillow has to look at it."""
    try:
        high, wide, colorspace, _ = simplejpeg.decode_jpeg_header(data)
    except (ValueError, KeyError):  # KeyError: unknown colour space or subsampling
        return None
    height, width = int(high), int(wide)
    _check_pixels(width, height, max_pixels)
    cmyk = colorspace in ("CMYK", "YCCK")
    reduction = 1 if cmyk or size is None else _reduction(min(height, width), size)
    try:
        pixels = simplejpeg.decode_jpeg(
            data,
            "CMYK" if cmyk else "RGB",
            min_height=-(-height // reduction),
            min_width=-(-width // reduction),
        )
    except ValueError as error:
        # libjpeg keeps its last complaint only; that a file is cut off comes after all others
        if str(error).startswith(_DAMAGE) and _STRAY not in str(error):
            raise _NotReadableError("cut off or damaged") from error
        return None
    if cmyk:
        return None  # not damaged; Pillow converts it, with the inverted values that Adobe writes
    orientation = _jpeg_orientation(data)
    return _turn(pixels, orientation), Facts("JPEG", turned=orientation > 1)


def _reduction(side: int, size: int) -> int:
    """The greatest of 8, 4, 2, 1 by which ``side`` can be divided and stay at least twice ``size``."""
    return next((r for r in (8, 4, 2) if -(-side // r) >= 2 * size), 1)


def _jpeg_orientation(data: bytes) -> int:
    """EXIF orientation of a JPEG, 1 where there is none; reads markers up to the image data."""
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
    except MemoryError:  # which is no reason to turn an image wrongly
        raise
    except Exception:  # a damaged EXIF block is no reason to refuse the image; Pillow raises many types here
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


def _open(file: BinaryIO) -> Image.Image:
    """Open with Pillow, header only, without its limit of pixels for the whole process (the caller has its own)."""
    Image.init()
    start = file.read(256)
    for name in FORMATS:
        factory, accept = Image.OPEN.get(name, (None, None))
        if factory is None or accept is None or accept(start[:16]) is not True:
            continue
        file.seek(0)
        try:
            return factory(file, "")
        except Exception as error:  # the readers of Pillow raise almost anything
            raise _NotReadableError(_NO_MEMORY if short_of_memory(error) else f"damaged {name} file") from error
    raise _NotReadableError(_what_instead(start))


def _what_instead(start: bytes) -> str:
    """Words for a file that is no image, from its first bytes."""
    if not start:
        return "empty (0 bytes)"
    for name, found, hint in _OTHERS:
        if found(start):
            return f"{name}, which is not read; {hint}"
    text = " ".join(start.decode("utf-8", errors="ignore").split()).lower()
    if text.startswith("<"):
        return "not an image (a web page or XML)"
    if text.startswith("version https://git-lfs"):
        return "not an image (a Git LFS pointer: the file itself was not downloaded)"
    return "not an image (text)" if text.isprintable() else "not an image of a known format"


def _decode_pillow(file: BinaryIO, max_pixels: int) -> tuple[NDArray[np.uint8], Facts]:
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise UserError(
            "PIL.ImageFile.LOAD_TRUNCATED_IMAGES is switched on in this process, which hides images that are cut off;"
            " switch it off"
        )
    image = _open(file)
    _check_pixels(*image.size, max_pixels)
    try:
        if image.format == "PNG":  # load() looks at no checksum
            image.verify()
            file.seek(0)
            image = _open(file)
        turned = _is_turned(image)
        animated = image.format != "MPO" and getattr(image, "is_animated", False)
        image.seek(0)
        image.load()
        if turned:
            ImageOps.exif_transpose(image, in_place=True)  # load() has turned a TIFF already and removed its flag
        transparent, deep = image.has_transparency_data, image.mode.startswith(("I", "F"))
        pixels = _grey_to_rgb(image) if deep else _to_rgb(image)
    except Exception as error:
        raise _NotReadableError(_NO_MEMORY if short_of_memory(error) else "cut off or damaged") from error
    dark = deep and image.mode != "F" and 0 < pixels.max() <= _DARK
    return pixels, Facts(image.format or "", animated, turned, image.mode == "CMYK", transparent, deep, dark)


def _is_turned(image: Image.Image) -> bool:
    try:
        return image.getexif().get(_ORIENTATION, 1) in range(2, 9)
    except MemoryError:  # which is no reason to turn an image wrongly
        raise
    except Exception:  # a damaged EXIF block is no reason to refuse the image; Pillow raises many types here
        return False


def _strips(image: Image.Image) -> Iterator[tuple[slice, Image.Image]]:
    """Cut a large image into strips of rows, so that what is converted takes little memory beside it."""
    width, height = image.size
    rows = max(1, _STRIP // max(1, width))
    if rows >= height:
        yield slice(0, height), image
        return
    for top in range(0, height, rows):
        bottom = min(top + rows, height)
        yield slice(top, bottom), image.crop((0, top, width, bottom))


def _to_rgb(image: Image.Image) -> NDArray[np.uint8]:
    """Bring an 8-bit image of any mode to (H, W, 3)."""
    pixels = np.empty((image.height, image.width, 3), np.uint8)
    transparent = image.has_transparency_data
    for rows, strip in _strips(image):
        if transparent:
            rgba = strip.convert("RGBA")
            strip = Image.new("RGB", rgba.size, "white")
            strip.paste(rgba, mask=rgba.getchannel("A"))
        pixels[rows] = np.asarray(strip.convert("RGB"))
    return pixels


def _grey_to_rgb(image: Image.Image) -> NDArray[np.uint8]:
    """Bring grey of more than 8 bits to (H, W, 3) uint8."""
    low, high = _range(image)
    # Pillow brings a deep PPM to 16 bits in mode I
    sixteen = image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PPM")
    if sixteen or (image.mode == "I" and low >= 0 and 255 < high <= 65535):
        shift, factor, divisor = 0.0, 1, 257.0
    elif image.mode == "F" and low >= 0 and high <= 1:
        shift, factor, divisor = 0.0, 255, 1.0
    elif low >= 0 and high <= 255:
        shift, factor, divisor = 0.0, 1, 1.0
    else:
        shift, factor, divisor = low, 255, high - low or 1.0
    hidden = image.info.get("transparency")
    pixels = np.empty((image.height, image.width, 3), np.uint8)
    for rows, strip in _strips(image):
        values = np.asarray(strip).astype(np.float64)
        values[~np.isfinite(values)] = low
        grey = (values - shift) * factor / divisor
        if isinstance(hidden, int):
            grey[values == hidden] = 255
        pixels[rows] = np.rint(grey).astype(np.uint8)[:, :, None]
    return pixels


def _range(image: Image.Image) -> tuple[float, float]:
    """The least and the greatest finite value of a grey image; 0 where there is none."""
    low, high = math.inf, -math.inf
    for _, strip in _strips(image):
        values = np.asarray(strip)
        values = values[np.isfinite(values)]
        if values.size:
            low, high = min(low, float(values.min())), max(high, float(values.max()))
    return (low, high) if low <= high else (0.0, 0.0)
