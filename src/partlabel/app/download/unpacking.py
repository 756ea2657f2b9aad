"""Archives: unpacked whole or not at all, and never outside their folder."""

from __future__ import annotations

import lzma
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from partlabel.core.errors import UserError

#: most members an archive may have
MEMBERS = 1_000_000

_DAMAGED = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, NotImplementedError)
_CHUNK = 1 << 20


class ArchiveError(UserError):
    """What is wrong is the archive itself."""


@dataclass(frozen=True)
class Member:
    """One entry of an archive.

    Attributes:
        name: its name, with forward slashes.
        size: its declared size in bytes; reading gives no more than that.
        folder: whether it is a folder.
        odd: what it is when it is neither a file nor a folder; empty otherwise.
        open: opens its content.
    """

    name: str
    size: int
    folder: bool
    odd: str
    open: Callable[[], IO[bytes]]


def unpack(archive: Path, target: Path, limit: int, bar: Callable[[int, int], None] = lambda done, total: None) -> int:
    """Unpack a zip or an uncompressed tar archive.

    The files are written into a temporary folder beside ``target``, which is then moved into place, so that a stop
    leaves nothing that looks whole. What is in ``target`` already stays, except where the archive has a file of the
    same name. A folder of the archive that holds everything else and is called like ``target`` is not repeated.
    Only plain files and folders are made: the archive's links, owners and permissions are not.

    Args:
        archive: the file.
        target: the folder that is filled.
        limit: most bytes that may come out.
        bar: is told (files done, files in all).

    Returns:
        The number of files.

    Raises:
        ArchiveError: the archive is damaged, would write outside ``target``, holds links or devices, or is larger than
            it may be.
        UserError: it does not fit on the disk, or the disk refuses it.
    """
    tree, target = target.name, target.resolve()  # the user may have put a link to another disk there
    temporary, old = (target.with_name(f".{target.name}.{word}") for word in ("unpacking", "old"))
    _recover(target, temporary, old)
    with _opened(archive) as members:
        files = _files(archive, members, tree, limit)
        _room(archive, target, sum(member.size for member in files.values()))
        try:
            if target.is_dir():
                shutil.copytree(target, temporary, symlinks=True, copy_function=_link)
            temporary.mkdir(exist_ok=True)
            for done, (name, member) in enumerate(files.items(), start=1):
                _write(archive, member, temporary / name)
                bar(done, len(files))
            if target.is_dir():
                target.rename(old)
            temporary.rename(target)
        except OSError as error:
            raise UserError(f"{archive}: cannot be unpacked to {target} ({error.strerror or error})") from error
        finally:
            _recover(target, temporary, old)
    return len(files)


def unpacked(archive: Path, target: Path, limit: int) -> bool:
    """Tell whether every file of an archive is in ``target`` with its size.

    Raises:
        ArchiveError: as :func:`unpack`.
    """
    with _opened(archive) as members:
        files = _files(archive, members, target.name, limit)
        return all(_size(target / name) == member.size for name, member in files.items())


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _recover(target: Path, temporary: Path, old: Path) -> None:
    """Remove what an unpacking left behind; one that stopped between its two moves gets its old folder back."""
    if old.is_dir() and not target.exists():
        old.rename(target)
    for folder in (temporary, old):
        shutil.rmtree(folder, ignore_errors=True)


def _link(source: str, copy: str) -> None:
    """Have the same file under a second name, or copy it where the file system has no such thing."""
    try:
        os.link(source, copy)
    except OSError:
        shutil.copy2(source, copy)


def _write(archive: Path, member: Member, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # it may be a second name of a file that is still in use
    try:
        with member.open() as source, open(path, "xb") as file:
            shutil.copyfileobj(source, file, _CHUNK)
            written = file.tell()
    except _DAMAGED as error:
        raise ArchiveError(f"{archive}: is damaged at {member.name}") from error
    if written != member.size:
        raise ArchiveError(f"{archive}: is damaged at {member.name} ({written} of {member.size} bytes)")


def _room(archive: Path, target: Path, needed: int) -> None:
    free = shutil.disk_usage(target.parent).free
    if needed > free:
        raise UserError(
            f"{archive}: unpacks to {needed / 1e9:,.2f} GB, and the disk of {target} has {free / 1e9:,.2f} GB left"
        )


@contextmanager
def _opened(archive: Path) -> Generator[list[Member]]:
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as opened:
                yield _counted(archive, (_of_zip(opened, info) for info in opened.infolist()))
        else:
            with tarfile.open(archive, "r:") as opened:
                yield _counted(archive, (_of_tar(opened, info) for info in opened))
    except _DAMAGED as error:
        raise ArchiveError(f"{archive}: is damaged, or no zip or tar archive") from error


def _counted(archive: Path, members: Iterator[Member]) -> list[Member]:
    """List the members, but not more of them than there may be."""
    listed = list(islice(members, MEMBERS + 1))
    if len(listed) > MEMBERS:
        raise ArchiveError(f"{archive}: was not unpacked, because it has more than {MEMBERS:,} members")
    return listed


def _of_zip(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member:
    kind = stat.S_IFMT(info.external_attr >> 16)
    odd = "" if kind in (0, stat.S_IFREG, stat.S_IFDIR) else "a link" if kind == stat.S_IFLNK else "a device"
    if info.flag_bits & 1:
        odd = "encrypted"
    return Member(info.filename.replace("\\", "/"), info.file_size, info.is_dir(), odd, lambda: archive.open(info))


def _of_tar(archive: tarfile.TarFile, info: tarfile.TarInfo) -> Member:
    def content() -> IO[bytes]:
        file = archive.extractfile(info)
        assert file is not None  # only files are opened
        return file

    odd = "" if info.isreg() or info.isdir() else "a link" if info.issym() or info.islnk() else "a device"
    return Member(info.name.replace("\\", "/"), info.size, info.isdir(), odd, content)


def _files(archive: Path, members: list[Member], tree: str, limit: int) -> dict[str, Member]:
    """Check every member and give the files: their path in the target -> the member.

    Raises:
        ArchiveError: members that must not be unpacked, all of them; more than the limit.
    """
    wrong = [f"{member.name!r}: {fault}" for member in members if (fault := _fault(member))]
    paths = [PurePosixPath(member.name) for member in members]
    if all(path.parts[:1] in ((), (tree,)) for path in paths):
        paths = [PurePosixPath(*path.parts[1:]) for path in paths]
    files: dict[str, Member] = {}
    for path, member in zip(paths, members, strict=True):
        if member.folder or _fault(member):
            continue
        if str(path) in files:
            wrong.append(f"{member.name!r}: is there twice")
        files[str(path)] = member
    folders = {str(parent) for name in files for parent in PurePosixPath(name).parents}
    wrong += [f"{member.name!r}: is a file and a folder" for name, member in files.items() if name in folders]
    if wrong:
        raise ArchiveError(f"{archive}: was not unpacked, because of what it holds", wrong)
    if not files:
        raise ArchiveError(f"{archive}: is damaged, or no zip or tar archive (it holds no file)")
    total = sum(member.size for member in files.values())
    if total > limit:
        raise ArchiveError(
            f"{archive}: was not unpacked, because {total / 1e9:,.2f} GB would come out of it where at most "
            f"{limit / 1e9:,.2f} GB are expected"
        )
    return files


def _fault(member: Member) -> str:
    if member.odd:
        return f"is {member.odd}"
    path = PurePosixPath(member.name)
    if path.is_absolute() or PureWindowsPath(member.name).drive or ".." in path.parts:
        return "lies outside the folder"
    if "\0" in member.name:
        return "has no valid name"
    return ""
