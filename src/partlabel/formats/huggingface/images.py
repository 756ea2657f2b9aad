"""Images that lie inside a data set, written to a folder."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Callable
from contextlib import ExitStack
from io import BytesIO
from itertools import chain, count
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from partlabel.core.errors import UserError
from partlabel.core.files import folder_beside, sweep

#: the longest name in bytes, below the limit of all usual file systems
_LONGEST = 200
#: names of devices in Windows, with any ending
_RESERVED = re.compile(r"con|prn|aux|nul|com\d|lpt\d", re.IGNORECASE)


class ImageFolder:
    """A new folder of images, that appears when the ``with`` block ends well, and otherwise not at all.

    An image is named after the file it came from, without its folders; where two images would have one name, the
    later one gets its row number too.
    """

    def __init__(self, path: str) -> None:
        """Prepare the folder ``path``.

        Raises:
            UserError: there is something with this name already, or no folder to put it in.
        """
        self.target = Path(path)
        if self.target.exists() and (not self.target.is_dir() or any(self.target.iterdir())):
            raise UserError(f"extract: {path} is not empty; name a new folder")
        if not self.target.absolute().parent.is_dir():
            raise UserError(f"extract: the folder {self.target.absolute().parent} does not exist")
        self._held, self._temporary = ExitStack(), Path()
        #: by their names as Windows and macOS tell them apart
        self._saved: dict[str, tuple[str, bytes]] = {}

    def __enter__(self) -> Self:
        sweep(self.target.absolute().parent)
        self._temporary = self._held.enter_context(folder_beside(self.target.absolute()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._held:
            if kind is None:
                if self.target.is_dir():
                    self.target.rmdir()  # an empty one; Windows moves nothing over a folder
                os.replace(self._temporary, self.target)

    def save(self, images: pa.Array, paths: pa.Array, first_row: int, place: Callable[[int], str]) -> list[str]:
        """Write the images of a batch; return the name of the file of each.

        Args:
            images: structs with ``bytes``.
            paths: the path of each, or null.
            first_row: number of the first row.
            place: row -> where it is, for errors.

        Raises:
            UserError: rows without an image (all of the batch are listed), or a folder that cannot be written to.
        """
        contents = pc.call_function("struct_field", [images], pc.StructFieldOptions(["bytes"]))
        empty = [place(first_row + i) for i, content in enumerate(contents) if not content.is_valid]
        if empty:
            raise UserError(f"extract: {len(empty)} rows hold no image, only the path of one", empty)
        try:
            return [
                self._save(content.as_buffer(), path, first_row + i)
                for i, (content, path) in enumerate(zip(contents, paths.to_pylist(), strict=True))
            ]
        except OSError as error:
            raise UserError(f"extract: {self.target} cannot be written ({error.strerror})") from error

    def _save(self, content: pa.Buffer, path: str | None, row: int) -> str:
        digest = hashlib.sha256(content).digest()
        name = _file_name(path or "") or f"row{row + 1}{_ending(content)}"
        stem, ending = os.path.splitext(name)
        # a name with a row number may be that of an image of its own
        others = (f"{stem}.row{row + 1}{'' if again == 1 else f'-{again}'}{ending}" for again in count(1))
        name = next(
            free for free in chain([name], others) if self._saved.get(_key(free), (free, digest)) == (free, digest)
        )
        if _key(name) not in self._saved:
            self._saved[_key(name)] = name, digest
            with open(self._temporary / name, "xb") as file:
                file.write(content)
        return name


def _key(name: str) -> str:
    """What file systems tell files by that know no case and one way to write an accent."""
    return unicodedata.normalize("NFC", name).casefold()


def _file_name(path: str) -> str:
    """Return the last part of a path without what file systems refuse; empty where nothing is left."""
    base = path.replace("\\", "/").rpartition("/")[2]
    base = "".join(character for character in base if character.isprintable() and character not in '<>:"|?*').strip(
        " ."
    )
    stem, ending = os.path.splitext(base)
    if _RESERVED.fullmatch(stem.partition(".")[0].strip()):
        stem = f"_{stem}"
    room = _LONGEST - len(ending.encode())
    return stem.encode()[: max(room, 0)].decode(errors="ignore") + ending if room > 0 else ""


def _ending(content: pa.Buffer) -> str:
    try:
        with Image.open(BytesIO(content)) as image:
            kind = image.format
    except (OSError, ValueError, Image.DecompressionBombError):
        return ""
    return {"JPEG": ".jpg", "TIFF": ".tif", "MPO": ".jpg"}.get(kind or "", f".{(kind or '').lower()}")
