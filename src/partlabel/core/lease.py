"""Work shared out to processes that know nothing of each other: a lease on each piece, which ends with its holder."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from partlabel.core.errors import UserError
from partlabel.core.files import is_running, machine

#: seconds without a sign of life after which a lease is free, and between two signs
SILENCE, SIGN = 60.0, 5.0
#: locked by whoever takes over a lease that is free
_TAKING = ".taking"


class Leases:
    """The leases in a folder, one for each piece of work.

    A holder touches its lease every few seconds. A lease is free again when its process is gone, if that ran on this
    machine, or when no touch was seen for ``SILENCE`` seconds of one's own clock, so that neither a machine that died,
    nor a process that hangs, nor clocks that differ keep a piece for ever. A holder that was only slow finishes all
    the same: two may then do the same piece, which does no harm where results are written whole.

    Args:
        folder: made when it is needed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seen: dict[str, tuple[int, float]] = {}

    @contextmanager
    def holding(self, name: str) -> Generator[bool]:
        """Hold the lease on a piece while the block runs; gives False where somebody else holds it.

        Raises:
            UserError: the folder cannot be written to.
        """
        path = self.folder / name
        if not self._take(path):
            yield False
            return
        ended = threading.Event()
        thread = threading.Thread(target=self._touch, args=(path, ended), daemon=True)
        thread.start()
        try:
            yield True
        finally:
            ended.set()
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def _take(self, path: Path) -> bool:
        return self._make(path) or (self._is_free(path) and self._take_over(path))

    def _make(self, path: Path) -> bool:
        """Make a lease, unless there is one."""
        for _ in range(2):
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            except FileExistsError:
                return False
            except FileNotFoundError:  # whoever finished last removed the folder
                continue
            except OSError as error:
                raise UserError(f"{self.folder}: cannot be written ({error.strerror})") from None
            with os.fdopen(descriptor, "wb") as file:
                file.write(json.dumps({"machine": machine(), "process": os.getpid()}).encode())
            return True
        return False

    def _take_over(self, path: Path) -> bool:
        """Put one's own lease in the place of a free one; two that did so at once would each remove the other's."""
        lock = FileLock(self.folder / _TAKING, timeout=0)
        try:
            lock.acquire()
        except Timeout:
            return False
        except (OSError, NotImplementedError):  # a file system without locks is used without one
            pass
        try:
            if not self._is_free(path):
                return False
            with suppress(OSError):
                path.unlink()
            return self._make(path)
        finally:
            with suppress(OSError):
                lock.release()

    def _is_free(self, path: Path) -> bool:
        """Whether the holder of a lease gives no sign of life any more."""
        try:
            sign = path.stat().st_mtime_ns
            held = json.loads(path.read_bytes() or b"{}")
        except FileNotFoundError:  # it has just ended, and may be another one's the next moment
            return False
        except (OSError, ValueError):
            held, sign = {}, 0
        if held.get("machine") == machine() and not is_running(int(held.get("process", 0))):
            return True
        last, since = self._seen.get(path.name, (None, 0.0))
        if sign != last:
            self._seen[path.name] = (sign, time.monotonic())
            return False
        return time.monotonic() - since > SILENCE

    @staticmethod
    def _touch(path: Path, ended: threading.Event) -> None:
        while not ended.wait(SIGN):
            with suppress(OSError):
                os.utime(path)

    def end(self) -> None:
        """Remove the folder, once all is done."""
        with suppress(OSError):
            for path in self.folder.iterdir():
                path.unlink(missing_ok=True)
            self.folder.rmdir()
