"""Images cut into shards: some thousand of a folder, of a list, of a bucket, or those of one tar file.

A shard is the unit of work of many processes. Which images belong to which shard is written down once, in a manifest
beside the results, so that every process, today and after a stop, works on the same ones.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from partlabel.core.errors import UserError
from partlabel.images.locate import PICTURES

#: images of a shard
SIZE = 10_000
#: the file that says which images belong to which shard
MANIFEST = "manifest.parquet"
#: an address, also one that lost a slash as a path
_ADDRESS = re.compile(r"^([a-z][a-z0-9]+):/{1,2}(?=[^/])")


@dataclass(frozen=True)
class Place:
    """A folder or file on this machine or in a bucket.

    Attributes:
        files: the file system.
        path: in it.
        text: as a person writes it.
    """

    files: pyarrow.fs.FileSystem
    path: str
    text: str

    @classmethod
    def of(cls, given: str | os.PathLike[str]) -> Place:
        """Read a path, or an address such as ``s3://bucket/photos`` or ``gs://bucket/photos``.

        What a service needs besides stands behind it: ``s3://bucket/photos?region=eu-west-1&endpoint_override=HOST``.

        Raises:
            UserError: an address of a kind that is not known.
        """
        text = os.fspath(given)
        if not _ADDRESS.match(text) or os.path.exists(text):
            return cls(pyarrow.fs.LocalFileSystem(), Path(os.path.abspath(text)).as_posix(), text)
        text = _ADDRESS.sub(r"\1://", text)
        try:
            files, path = pyarrow.fs.FileSystem.from_uri(text)
        except (pa.ArrowInvalid, OSError) as error:
            raise UserError(f"{text}: is no address of a bucket that can be opened") from error
        return cls(files, path.rstrip("/"), text.split("?")[0])

    @property
    def is_local(self) -> bool:
        """Whether it lies in the file system of this machine."""
        return isinstance(self.files, pyarrow.fs.LocalFileSystem)

    def child(self, name: str) -> Place:
        """Return a file in the folder."""
        return Place(self.files, f"{self.path}/{name}", f"{self.text.rstrip('/')}/{name}")

    def kind(self) -> pyarrow.fs.FileType:
        """Say whether it is a file, a folder, or not there."""
        return self.ask(lambda: self.files.get_file_info(self.path)).type

    def names(self) -> list[str]:
        """Return the names of all files below, sorted; hidden ones are left out."""
        selector = pyarrow.fs.FileSelector(self.path, recursive=True, allow_not_found=True)
        found = self.ask(lambda: self.files.get_file_info(selector))
        names = [posixpath.relpath(i.path, self.path) for i in found if i.type == pyarrow.fs.FileType.File]
        return sorted(name for name in names if not any(part.startswith(".") for part in name.split("/")))

    def read(self) -> bytes:
        """Return what a file holds."""
        with self.ask(lambda: self.files.open_input_stream(self.path)) as file:
            return self.ask(lambda: file.read())

    def ask(self, what: Any) -> Any:
        """Call ``what``; where the disk or the service refuses, say what was asked for."""
        try:
            return what()
        except (OSError, pa.ArrowInvalid) as error:
            why = getattr(error, "strerror", None) or "the service refuses"
            raise UserError(f"{self.text}: cannot be read ({why})") from error


@dataclass(frozen=True)
class Manifest:
    """Which images belong to which shard.

    Attributes:
        source: where the images are, as written by a person.
        form: ``files``: images that ``names`` names; ``tar``: each name is a tar file, and a shard.
        names: of all images or tar files.
        start: (S + 1,) where each shard begins in ``names``.
        about: what else was decided for good.
    """

    source: str
    form: str
    names: pa.Array
    start: np.ndarray
    about: Mapping[str, Any]

    def __len__(self) -> int:
        """Return S, the number of shards."""
        return len(self.start) - 1

    def file_name(self, shard: int) -> str:
        """Return the name of the file of results of a shard."""
        return f"part-{shard:06}.parquet"

    def images(self, shard: int, source: Place) -> Iterator[tuple[str, bytes]]:
        """Give name and content of each image of a shard, in order.

        Raises:
            UserError: a file is missing, or a tar file is damaged.
        """
        names = self.names[int(self.start[shard]) : int(self.start[shard + 1])].to_pylist()
        if self.form == "files":
            for name in names:
                place = Place(source.files, name, name) if os.path.isabs(name) else source.child(name)
                yield name, place.read()
            return
        for name in names:
            place = source if source.kind() == pyarrow.fs.FileType.File else source.child(name)
            with place.ask(lambda place=place: place.files.open_input_stream(place.path)) as file:
                yield from _members(file, place.text, name.removesuffix(".tar") if len(self.names) > 1 else "")

    def write(self, path: Path) -> None:
        """Write it as Parquet; use it inside :func:`partlabel.core.files.replacing`."""
        shard = np.repeat(np.arange(len(self)), np.diff(self.start))
        about = {"source": self.source, "form": self.form, **self.about}
        table = pa.table({"shard": pa.array(shard, pa.int32()), "name": self.names})
        pq.write_table(table.replace_schema_metadata({"partlabel": json.dumps(about)}), path, compression="zstd")

    @classmethod
    def read(cls, file: Any, text: str) -> Manifest:
        """Read one; ``text`` names it in errors.

        Raises:
            UserError: it is damaged.
        """
        try:
            table = pq.read_table(file)
            about = json.loads((table.schema.metadata or {})[b"partlabel"])
            shard = table["shard"].to_numpy()
            start = np.concatenate([np.flatnonzero(np.diff(shard, prepend=-1)), [len(shard)]])
            return cls(about.pop("source"), about.pop("form"), table["name"].combine_chunks(), start, about)
        except (OSError, pa.ArrowInvalid, KeyError, ValueError) as error:
            raise UserError(f"{text}: is no whole manifest") from error


def cut(source: Place, about: Mapping[str, Any], names: Sequence[str] | None = None, size: int = SIZE) -> Manifest:
    """Look at what there is and cut it into shards.

    Args:
        source: a folder or bucket of images or of tar files, or one tar file.
        about: what else is decided for good.
        names: the images, where they are listed; None looks for them.
        size: images of a shard.

    Raises:
        UserError: there is no image.
    """
    form = "files"
    if names is None and source.kind() == pyarrow.fs.FileType.File:
        names, form = [source.path.rpartition("/")[2]], "tar"
    elif names is None:
        there = source.names()
        names = [name for name in there if os.path.splitext(name)[1].casefold() in PICTURES]
        if not names:
            names, form = [name for name in there if name.endswith(".tar")], "tar"
    if not names:
        raise UserError(f"{source.text}: no image and no tar file is there")
    step = 1 if form == "tar" else size
    start = np.append(np.arange(0, len(names), step), len(names))
    return Manifest(source.text, form, pa.array(names, pa.string()), start, about)


def _members(file: IO[bytes], text: str, prefix: str) -> Iterator[tuple[str, bytes]]:
    """The images of a tar file, read in one go."""
    try:
        with tarfile.open(fileobj=file, mode="r|*") as tar:
            for member in tar:
                if member.isfile() and os.path.splitext(member.name)[1].casefold() in PICTURES:
                    content = tar.extractfile(member)
                    if content is not None:
                        yield f"{prefix}/{member.name}" if prefix else member.name, content.read()
    except (tarfile.TarError, OSError, EOFError) as error:
        raise UserError(f"{text}: is no whole tar file") from error
