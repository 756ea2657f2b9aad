"""Files written whole or not at all, and what a killed process left of them removed."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import DTypeLike

from partlabel.core.errors import UserError

#: characters of a file's name that its temporary name keeps; file systems allow 255 bytes
_KEPT = 40
#: seconds after which a temporary file of another machine counts as left behind
_STALE = 24 * 3600.0
_TEMPORARY = re.compile(r"\..*\.([0-9a-f]{8})-([0-9]+)-[0-9a-f]{12}\.tmp")
_FOLDER = re.compile(r"partlabel-([0-9a-f]{8})-([0-9]+)-.*")
#: what the disk may refuse with; libraries pass it on as an OSError or as words only
_REFUSALS = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EIO,
    errno.EACCES,
    errno.EPERM,
    errno.ENAMETOOLONG,
    errno.EISDIR,
    errno.ENOTDIR,
)
#: held by the thread whose folder gets the temporary files of libraries
_TEMPORARY_FILES = threading.RLock()
#: folders that this process has looked through
_swept: set[Path] = set()


def cache_folder() -> Path:
    """Where features, checks and records of errors lie: ``$PARTLABEL_CACHE``, else in the user's cache folder."""
    if "PARTLABEL_CACHE" in os.environ:
        return Path(os.environ["PARTLABEL_CACHE"])
    if "XDG_CACHE_HOME" in os.environ:
        return Path(os.environ["XDG_CACHE_HOME"]) / "partlabel"
    return Path("~/.cache/partlabel").expanduser()


def machine() -> str:
    """Name this machine in 8 hexadecimal digits, so that process numbers of several are told apart."""
    return hashlib.blake2b(socket.gethostname().encode(), digest_size=4).hexdigest()


def is_running(process: int) -> bool:
    """Whether this machine runs a process with this number."""
    if os.name == "nt":  # where a signal would end it
        return _is_running_on_windows(process)
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _is_running_on_windows(process: int) -> bool:
    import ctypes

    kernel: Any = ctypes.WinDLL("kernel32", use_last_error=True)  # type: ignore[attr-defined]
    handle = kernel.OpenProcess(0x1000, False, process)  # PROCESS_QUERY_LIMITED_INFORMATION
    if not handle:
        return ctypes.get_last_error() != 87  # type: ignore[attr-defined] - ERROR_INVALID_PARAMETER: no such process
    code = ctypes.c_ulong()
    told = kernel.GetExitCodeProcess(handle, ctypes.byref(code))
    kernel.CloseHandle(handle)
    return not told or code.value == 259  # STILL_ACTIVE


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside ``path``; when the block ends well, move it into place, otherwise remove it.

    The name is unique to this write, so that threads and processes never share it. The file is synced to disk before
    the move, and the folder after it, so a crash leaves either the old file or the new one, never half of one.

    Raises:
        UserError: the folder does not exist, or the disk is full or refuses; the old file is as it was.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise UserError(f"{target}: the folder {target.parent} does not exist")
    if target.is_dir():
        raise UserError(f"{target}: is a folder, not a file to write")
    sweep(target.parent)
    temporary = _temporary(target)
    try:
        yield temporary
        with open(temporary, "r+b") as file:
            os.fsync(file.fileno())
        _move(temporary, target)
        _sync(target.parent)
    except UserError as error:  # people know the file by its own name
        if str(temporary) not in error.message:
            raise
        said = error.message.replace(str(temporary), str(target))
        raise UserError(said, error.offenders) from error.__cause__
    except Exception as error:
        reason = refusal(error, temporary)
        if reason is None:
            raise
        raise UserError(f"{target}: cannot be written ({reason})") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def folder_beside(path: Path) -> Generator[Path]:
    """Give a new folder beside ``path``, gone after the block; :func:`sweep` removes that of a killed process.

    For libraries that write a file under a temporary name of their own, of which a killed process would leave it.

    Raises:
        UserError: it cannot be made.
    """
    folder = _temporary(path)
    try:
        folder.mkdir()
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror})") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _temporary(target: Path) -> Path:
    """A name beside a file that is unique to this write."""
    return target.with_name(f".{target.name[:_KEPT]}.{machine()}-{os.getpid()}-{secrets.token_hex(6)}.tmp")


def _move(temporary: Path, target: Path) -> None:
    """Move a file into place; on Windows, where whoever looks at a file for a moment blocks it, try for a second."""
    for wait in (0.01, 0.05, 0.2, 0.7, None):
        try:
            os.replace(temporary, target)
            return
        except PermissionError as error:
            if wait is None or not hasattr(error, "winerror"):
                raise
            time.sleep(wait)


@contextmanager
def replacing_together(path: Path, *beside: Path) -> Generator[list[Path]]:
    """Give temporary paths of a file and of those that are about it; none of them is ever about another one.

    All are written before any is moved. Then the old ones about the file go, the file is moved into place, and those
    about it follow: a crash leaves it whole, old or new, and beside it what is about it or nothing.

    Raises:
        UserError: see :func:`replacing`; the old files are as they were, unless the file was moved and one about it
            could not be: then the file is new, and what was about the old one is gone.
    """
    number = _number(path)
    old: dict[Path, bytes] = {}
    try:
        with ExitStack() as stack:
            others = [stack.enter_context(replacing(other)) for other in reversed(beside)]
            yield [stack.enter_context(replacing(path)), *reversed(others)]
            for other in beside:
                with suppress(OSError):
                    old[other] = other.read_bytes()
                    other.unlink()
    except BaseException:
        for other, content in old.items():
            if _number(path) == number and not other.exists():
                with suppress(OSError):
                    other.write_bytes(content)
        raise


def _number(path: Path) -> int | None:
    """What tells a file from another one under the same name; None where there is none."""
    with suppress(OSError):
        return os.stat(path).st_ino
    return None


def refusal(error: BaseException, *paths: Path) -> str | None:
    """Why the disk refused a write, in words; None where the error is of another kind.

    Args:
        error: what a library raised.
        paths: what was written: an error about another file is of another kind.
    """
    if isinstance(error, OSError):
        about = {error.filename, error.filename2} - {None}
        if about and not about & {os.fspath(path) for path in paths}:
            return None
        if error.errno in _REFUSALS:
            return os.strerror(error.errno)
    text = str(error)
    for number in _REFUSALS:
        if os.strerror(number) in text or f"os error {number})" in text:
            return os.strerror(number)
    # torch and numpy say that a write was cut short, and not why
    cut = re.search(
        r"PytorchStreamWriter failed|unexpected pos|basic_ios|requested and \d+ written|problem writing element", text
    )
    return "the disk may be full" if cut else None


def sweep(folder: Path) -> None:
    """Remove temporary files and folders that killed processes left in one; each is looked through once."""
    if folder in _swept:
        return
    _swept.add(folder)
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = _TEMPORARY.fullmatch(entry.name) if entry.name.endswith(".tmp") else None
            if match is None:
                continue
            here = match[1] == machine()
            with suppress(OSError):
                if not is_running(int(match[2])) if here else time.time() - entry.stat().st_mtime > _STALE:
                    if entry.is_dir(follow_symlinks=False):
                        shutil.rmtree(entry.path, ignore_errors=True)
                    else:
                        os.unlink(entry.path)


@contextmanager
def temporary_folder() -> Generator[Path]:
    """Give a folder where the system keeps such, gone after the block; those of killed processes go before it."""
    sweep_temporary()
    prefix = f"partlabel-{machine()}-{os.getpid()}-"
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    finally:  # tempfile.TemporaryDirectory calls itself without end where removing is not allowed
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def temporary_files_in(folder: Path) -> Generator[None]:
    """Let libraries make their temporary files in ``folder`` for the block, so that they go when it goes.

    It holds for all threads; a second one that asks for it waits, or Python would be left with a folder that is gone.
    """
    with _TEMPORARY_FILES:
        before, tempfile.tempdir = tempfile.tempdir, str(folder)
        try:
            yield
        finally:
            tempfile.tempdir = before


def sweep_temporary() -> None:
    """Remove what :func:`temporary_folder` gave to processes that were killed, or could not remove it."""
    for left in Path(tempfile.gettempdir()).glob("partlabel-*"):
        match = _FOLDER.fullmatch(left.name)
        if match and match[1] == machine() and not is_running(int(match[2])):
            shutil.rmtree(left, ignore_errors=True)


def forget_sweeps() -> None:
    """Let :func:`sweep` look through folders again."""
    _swept.clear()


def _sync(folder: Path) -> None:
    """Write the names in a folder to disk, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Make a folder and those above it, where they are missing.

    Raises:
        UserError: it cannot be made.
    """
    folder = Path(path)
    try:
        os.makedirs(folder, exist_ok=True)
    except FileExistsError as error:
        if os.path.lexists(folder) and not folder.is_dir():
            raise UserError(f"{folder}: cannot be made ({error.strerror})") from None
    except OSError as error:
        raise UserError(f"{folder}: cannot be made ({error.strerror})") from None
    return folder


def new_array(path: Path, shape: tuple[int, ...], kind: DTypeLike) -> np.memmap[Any, Any]:
    """Make an array on disk, of zeros, and map it into memory.

    Its room is taken at once: a full disk is an error here, and not the end of the process at some later write.

    Raises:
        OSError: there is no room for it.
    """
    array = np.lib.format.open_memmap(path, "w+", np.dtype(kind), shape)
    if hasattr(os, "posix_fallocate") and array.nbytes:
        with open(path, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, os.path.getsize(path))
    return array


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` as UTF-8, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write ``value`` as indented JSON, whole or not at all; NaN and infinity are refused (use None)."""
    write_text(path, as_json(value))


def as_json(value: Any) -> str:
    """Indented JSON that ends its line; NaN and infinity are refused (use None)."""
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def to_toml(document: dict[str, Any]) -> str:
    """TOML text of nested dictionaries, without the entries that are None."""

    def known(value: Any) -> Any:
        return {k: known(v) for k, v in value.items() if v is not None} if isinstance(value, dict) else value

    return msgspec.toml.encode(known(document)).decode()
