"""Images that a data set of a user's gives, kept in a folder: read once, then found there like all others."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from torchvision.transforms.v2 import functional

from partlabel.core.errors import UserError
from partlabel.core.files import replacing
from partlabel.images.augment import as_pixels
from partlabel.images.locate import find


def keep_images(
    dataset: Any, names: Sequence[str], folder: Path, progress: Callable[[int, int], None] | None = None
) -> int:
    """Write the images of a data set that the folder lacks, each under the name that the table has for it.

    An image that is there is not asked for again (of an iterable: not written again), so that a process that was killed
    goes on. The bytes of a file are kept as they are, all else becomes a PNG file whatever the name ends with; what is
    inside decides how it is read.

    Args:
        dataset: has ``len`` and gives an image for each index, which is its row in the table, or is iterable and gives
            pairs (image, row), in any order; the row is its number or its name. The pairs of both may be dictionaries
            with ``image`` and ``row``. An image is the bytes of an image file, or what
            :func:`partlabel.images.augment.as_pixels` takes.
        names: N image names of the table.
        folder: where they are kept.
        progress: called with (images done, images in all).

    Returns:
        The number of images written.

    Raises:
        UserError: a row that the table does not have, something that is no image, names that lead out of the folder, or
            a folder that cannot be written.
    """
    there = find(list(names), folder) if folder.is_dir() else [None] * len(names)
    outside = [name for name in names if _leads_out(name)]
    if outside:
        raise UserError(f"names of images that lead out of the folder {folder}", outside)
    written, rows = 0, {name: i for i, name in enumerate(names)}
    for done, (row, image) in enumerate(_pairs(dataset, rows, there), 1):
        if there[row] is None:
            _write(folder / names[row], image, f"image {row} ({names[row]}) of the data set")
            there[row] = folder / names[row]
            written += 1
        if progress:
            progress(min(done, len(names)), len(names))
    return written


def _pairs(dataset: Any, rows: dict[str, int], there: Sequence[Path | None]) -> Iterator[tuple[int, Any]]:
    """Rows and images: of a data set with indices only those that are lacking."""
    if hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"):
        if len(dataset) > len(rows):
            raise UserError(f"the data set has {len(dataset)} images, the table {len(rows)}")
        plain = _is_plain(dataset)
        for index in range(len(dataset)):
            if there[index] is None or not plain:
                image, row = _parted(dataset[index], index)
                yield _number(row, rows), image
        return
    if not isinstance(dataset, Iterable):
        raise UserError(f"a data set can be iterated or has indices; {type(dataset).__name__} has neither")
    for place, item in enumerate(dataset):
        image, row = _parted(item, None)
        if row is None:
            raise UserError(f"item {place} of the data set is {type(item).__name__}, not a pair (image, row)")
        yield _number(row, rows), image


def _is_plain(dataset: Any) -> bool:
    """Whether index and row are the same, as the first item has no row of its own."""
    return len(dataset) == 0 or _parted(dataset[0], None)[1] is None


def _parted(item: Any, row: Any) -> tuple[Any, Any]:
    """Image and row of an item; the row given where it has none."""
    if isinstance(item, dict):
        if "image" not in item:
            raise UserError(f"an item of the data set has the keys {', '.join(map(str, item))}, and none is 'image'")
        return item["image"], item.get("row", row)
    if isinstance(item, tuple | list) and len(item) == 2:
        return item[0], item[1]
    return item, row


def _number(row: Any, rows: dict[str, int]) -> int:
    if isinstance(row, str):
        if row not in rows:
            raise UserError("the data set has images that the table does not have", [row])
        return rows[row]
    try:
        number = int(row)
    except (TypeError, ValueError):
        raise UserError(f"{row!r} of the data set is no row: neither a number nor a name") from None
    if not 0 <= number < len(rows):
        raise UserError(f"row {number} of the data set is not one of the {len(rows)} of the table")
    return number


def _write(path: Path, image: Any, what: str) -> None:
    if isinstance(image, dict) and image.get("bytes"):  # an undecoded image of Hugging Face's
        image = image["bytes"]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            if isinstance(image, bytes | bytearray | memoryview):
                temporary.write_bytes(image)
            else:
                functional.to_pil_image(as_pixels(image, what)).save(temporary, "png", compress_level=1)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror or error})") from error


def _leads_out(name: str) -> bool:
    plain = posixpath.normpath(name.replace("\\", "/"))
    return plain.startswith(("../", "/")) or plain in ("..", ".") or ":" in plain.partition("/")[0]
