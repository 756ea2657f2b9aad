"""One writer at a time: a lock on a folder or a file, which the system releases when its process dies."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from partlabel.core.compute import refuse_in_loader
from partlabel.core.errors import UserError
from partlabel.core.files import is_running, machine, make_folder
from partlabel.core.special import check_folder

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None
    import msvcrt

_LOCK, _HOLDER = ".lock", ".lock.json"
#: not through a link that somebody put there, and without waiting for a pipe
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
#: files that a lock puts into a folder
LOCK_FILES = (_LOCK, _HOLDER)
#: what this process holds, so that a command may call another that takes the same lock
_held: set[Path] = set()
_open: set[int] = set()


@contextmanager
def holding(path: str | os.PathLike[str], what: str, *, make: bool = False) -> Generator[None]:
    """Be the only one that writes into a folder, or a file, while the block runs.

    Nobody waits: a second process is refused at once and told who is at work. The lock belongs to the process, so that
    a killed one leaves none. A process that holds it already passes.

    Args:
        path: a folder that is there, or a file to be written in a folder that is there.
        what: what this process does, such as ``partlabel thresholds``; shown to others.
        make: make the folder; it is removed again where nothing is in it at the end.

    Raises:
        UserError: another process holds it, the disk refuses, see :func:`refuse_in_loader`; or in the folder lies what
            is no file, or a link that leads out of it (:func:`partlabel.core.special.check_folder`).
    """
    refuse_in_loader()
    place = Path(os.path.realpath(path))
    if place in _held:
        yield
        return
    try:
        with _locked(place, make) as note:
            _held.add(place)
            try:
                if place.is_dir():
                    check_folder(place, written=True)
                _write_note(note, what)
                yield
            finally:
                _held.discard(place)
                with suppress(OSError):
                    note.unlink(missing_ok=True)
    except BlockingIOError:
        holder = _holder(_files(place, make)[1])
        raise UserError(f"{path}: is in use by {holder}; wait for it to end, or stop it") from None


def _write_note(note: Path, what: str) -> None:
    """Say who holds a lock; it only helps others to know."""
    with suppress(OSError):
        note.unlink(missing_ok=True)
        descriptor = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(json.dumps(_about(what)))


def _files(place: Path, make: bool) -> tuple[Path, Path]:
    """The lock of a folder or file, and the note of who holds it."""
    if make or place.is_dir():  # a folder that is to be made may be gone at this moment
        return place / _LOCK, place / _HOLDER
    return place.with_name(f".{place.name}{_LOCK}"), place.with_name(f".{place.name}{_HOLDER}")


@contextmanager
def _locked(place: Path, make: bool) -> Generator[Path]:
    """Hold the lock of a place, and give the note of its holder.

    Its holder removes the file at the end. Who opened it before that finds by its descriptor that the name stands for
    another file now, or for none, and tries again; filelock shows no descriptor, so it cannot be used here. Windows
    removes no file that is open: there it goes after it was closed, unless another process has opened it.

    Raises:
        BlockingIOError: another process holds it.
        UserError: the disk refuses.
    """
    while True:
        if make:
            make_folder(place)
        file, note = _files(place, make)
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | _PLAIN, 0o666)
        except FileNotFoundError:
            if not make:
                raise UserError(f"{file.parent}: no such folder") from None
            continue
        except OSError as error:
            raise UserError(f"{file.parent}: cannot be written ({error.strerror})") from None
        _open.add(descriptor)
        ours = False
        try:
            _lock(descriptor)
            if _stands_for(file, descriptor):
                try:
                    yield note
                    return
                finally:
                    ours = True
                    _remove(file, place, make)
        finally:
            _open.discard(descriptor)
            os.close(descriptor)  # which releases it
            if ours and fcntl is None:
                _remove(file, place, make)


def _remove(file: Path, place: Path, make: bool) -> None:
    """Remove a lock, and the folder that was made for it unless something is in it."""
    with suppress(OSError):
        file.unlink(missing_ok=True)
        if make:
            place.rmdir()


def _lock(descriptor: int) -> None:
    try:
        if fcntl is None:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # pyrefly: ignore[missing-attribute]
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            raise BlockingIOError(*error.args) from None
        raise UserError(f"the file system does not lock files ({error.strerror})") from None


def _stands_for(file: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _forget() -> None:
    """In a forked process: its copies of the descriptors would hold the locks after the death of this one."""
    for descriptor in _open:
        os.close(descriptor)
    _open.clear()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _about(what: str) -> dict[str, Any]:
    since = datetime.now().astimezone().isoformat(timespec="seconds")
    return {"what": what, "process": os.getpid(), "machine": machine(), "since": since}


def _holder(note: Path) -> str:
    """Who holds a lock, in words."""
    try:
        about = json.loads(note.read_text(encoding="utf-8"))
        what, process, since = str(about["what"]), int(about["process"]), datetime.fromisoformat(about["since"])
        elsewhere = about["machine"] != machine()
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
    if not elsewhere and not is_running(process):  # the note of a killed one, before the next has written its own
        return "another process"
    day = "" if since.date() == datetime.now().date() else f"{since:%Y-%m-%d} "
    return f"{what} (process {process}{', on another machine' if elsewhere else ''}, since {day}{since:%H:%M:%S})"
