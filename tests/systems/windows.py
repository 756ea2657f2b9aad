"""The disk of Windows, for Python programs on Linux: what it refuses is refused, and what it lacks is not there.

- ``os.fsync`` of a handle that was opened for reading, and any handle on a folder;
- moving over, moving away, removing or cutting a file that a process of ours has open or mapped into memory, and
  moving a folder that holds one; ``os.rename`` over a file, and moving anything over a folder;
- names that are reserved (CON, NUL) or hold one of ``<>:"|?*``, a control character, or a dot or blank at the end;
- for partlabel itself: ``fcntl``, ``resource`` and their like, and what ``os`` and ``signal`` have on POSIX only.

``PYTHONPATH=tests/systems/as_windows python -m pytest`` runs tests under it, with the processes that they start.
Linux only: it asks /proc which files are open.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import os
import re
import signal
import sys
import types
from collections.abc import Callable
from typing import Any

#: modules that Windows lacks
ABSENT = frozenset({"fcntl", "resource", "pwd", "grp", "termios", "pty", "tty", "posix", "syslog"})
#: what os and signal lack there
_OS = (
    "fork", "getuid", "geteuid", "getgid", "sched_getaffinity", "posix_fallocate", "sysconf", "getloadavg", "mkfifo",
    "uname", "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC", "killpg", "setsid", "statvfs", "nice", "register_at_fork",
)  # fmt: skip
_SIGNAL = ("SIGKILL", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGSTOP", "SIGCONT", "alarm", "setitimer")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[1-9]|lpt[1-9])(\..*)?", re.IGNORECASE)
_FORBIDDEN = re.compile(r'[<>:"|?*\\\x00-\x1f]|[. ]$')
_system: dict[str, Callable[..., Any]] = {}


def name_is_allowed(path: Any) -> bool:
    """Whether Windows takes every name in a path."""
    parts = [part for part in os.fsdecode(path).split("/") if part not in ("", ".", "..")]
    return not any(_RESERVED.fullmatch(part) or _FORBIDDEN.search(part) for part in parts)


def _open_files() -> set[tuple[int, int]]:
    """Device and number of each file that this process has open or mapped into memory."""
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            status = os.stat(f"/proc/self/fd/{descriptor}")
        except OSError:
            continue
        found.add((status.st_dev, status.st_ino))
    with _system["open"]("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            _, _, _, device, number, *_ = line.split(maxsplit=5)
            if number != "0":
                major, minor = device.split(":")
                found.add((os.makedev(int(major, 16), int(minor, 16)), int(number)))
    return found


def _held(path: Any) -> bool:
    """Whether a file, or one in a folder, is open."""
    if isinstance(path, int):
        return False
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return False
    taken = _open_files()
    if not os.path.isdir(path):
        return (status.st_dev, status.st_ino) in taken
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                status = os.lstat(os.path.join(folder, name))
            except OSError:
                continue
            if (status.st_dev, status.st_ino) in taken:
                return True
    return False


def _knows() -> bool:
    """Whether the caller is a library that does otherwise on Windows, and does here as on Linux."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__") == "pathlib":
        frame = frame.f_back
    return str(frame.f_globals.get("__name__")).startswith(("tempfile", "multiprocessing.", "filelock."))


def _refuse(path: Any, *others: Any) -> None:
    paths = [other if other is None else os.fspath(other) for other in (path, *others)]
    raise PermissionError(errno.EACCES, "The process cannot access the file because it is being used", *paths)


def _replace(source: Any, target: Any, **options: Any) -> None:
    if os.path.isdir(target):
        raise PermissionError(errno.EACCES, "Access is denied", os.fspath(source), None, os.fspath(target))
    if _held(source):
        _refuse(source, None, target)
    if _held(target):
        raise PermissionError(errno.EACCES, "Access is denied", os.fspath(source), None, os.fspath(target))
    _name(target)
    _system["replace"](source, target)


def _rename(source: Any, target: Any, **options: Any) -> None:
    if os.path.lexists(target):
        raise FileExistsError(
            errno.EEXIST,
            "Cannot create a file when that file already exists",
            os.fspath(source),
            None,
            os.fspath(target),
        )
    _replace(source, target)


def _unlink(path: Any, **options: Any) -> None:
    if not _knows() and _held(path):
        _refuse(path)
    _system["unlink"](path)


def _fsync(descriptor: Any) -> None:
    number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
    if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(errno.EBADF, "Bad file descriptor")
    _system["fsync"](descriptor)


def _name(path: Any) -> None:
    if isinstance(path, str | bytes | os.PathLike) and not name_is_allowed(path):
        raise OSError(errno.EINVAL, "Invalid argument", os.fspath(path))


def _os_open(path: Any, flags: int, mode: int = 0o777, **options: Any) -> int:
    _name(path)
    if os.path.isdir(path) and not _knows():
        raise PermissionError(errno.EACCES, "Permission denied", os.fspath(path))
    return _system["os_open"](path, flags, mode)


def _open(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
    if not isinstance(file, int):
        _name(file)
        if os.path.isdir(file) and not _knows():
            raise PermissionError(errno.EACCES, "Permission denied", os.fspath(file))
    return _system["open"](file, mode, *arguments, **options)


def _mkdir(path: Any, mode: int = 0o777, **options: Any) -> None:
    _name(path)
    _system["mkdir"](path, mode)


def _truncate(path: Any, length: int) -> None:
    if _held(path):
        _refuse(path)
    _system["truncate"](path, length)


def _import(name: str, scope: Any = None, *arguments: Any, **options: Any) -> Any:
    if name.partition(".")[0] in ABSENT and _of_partlabel(scope):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    if name == "msvcrt" and _of_partlabel(scope):  # others would take it for a sign that this is Windows
        return _msvcrt
    return _system["import"](name, scope, *arguments, **options)


def _of_partlabel(scope: Any) -> bool:
    return bool(scope) and str(scope.get("__name__", "")).startswith("partlabel.")


class _Without(types.ModuleType):
    """A module as partlabel sees it on Windows; for all others it is as it was."""

    absent: frozenset[str] = frozenset()

    def __getattribute__(self, name: str) -> Any:
        if name in type(self).absent and _of_partlabel(sys._getframe(1).f_globals):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return super().__getattribute__(name)


def _locking(descriptor: int, mode: int, count: int) -> None:
    """Lock as msvcrt does: at once or not at all."""
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


_msvcrt = types.SimpleNamespace(locking=_locking, LK_NBLCK=2)


def install() -> None:
    """Let this process, and those that it starts with this folder in PYTHONPATH, find the disk of Windows."""
    if _system:
        return
    _system.update(
        open=builtins.open, os_open=os.open, replace=os.replace, unlink=os.unlink, fsync=os.fsync, mkdir=os.mkdir,
        truncate=os.truncate,
    )  # fmt: skip
    _system["import"] = builtins.__import__
    import io
    import shutil

    builtins.open = io.open = _open  # type: ignore[assignment]
    builtins.__import__ = _import  # type: ignore[assignment]
    os.open, os.replace, os.rename, os.fsync, os.mkdir = _os_open, _replace, _rename, _fsync, _mkdir  # type: ignore
    os.unlink = os.remove = _unlink  # type: ignore[assignment]
    os.truncate = _truncate  # type: ignore[assignment]
    shutil._use_fd_functions = False  # type: ignore[attr-defined]
    for module, names in ((os, _OS), (signal, _SIGNAL)):
        module.__class__ = type("Without", (_Without,), {"absent": frozenset(names)})
