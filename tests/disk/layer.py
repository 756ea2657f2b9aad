"""A disk that refuses, for the processes that are started under it: see refuse.c.

python -m tests.disk.layer MODULE ...   starts a module under it, without importing it twice
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

SOURCE = Path(__file__).with_name("refuse.c")
COUNT, FROM_ON, ONCE, KILL = range(4)
#: what a disk says, and whether it says so from one call on or once
ERRORS = {
    "full": (FROM_ON, errno.ENOSPC),
    "broken": (ONCE, errno.EIO),
    "read-only": (FROM_ON, errno.EROFS),
    "not allowed": (FROM_ON, errno.EACCES),
}


def usable() -> bool:
    """Whether this machine can build and preload it."""
    return sys.platform == "linux" and shutil.which("cc") is not None


def library(folder: Path) -> Path:
    """Build it in a folder."""
    built = folder / "refuse.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", built, SOURCE, "-ldl"], check=True)
    return built


def under(module: str, words: Sequence[str] | None = None) -> None:
    """Start this process anew, as ``python -m module`` with these or the same words, with the library preloaded."""
    if "refuse.so" in os.environ.get("LD_PRELOAD", ""):
        return
    folder = Path(tempfile.mkdtemp(prefix="refuse-"))
    os.environ["LD_PRELOAD"] = str(library(folder))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    code = subprocess.run(
        [sys.executable, "-m", module, *(sys.argv[1:] if words is None else words)], check=False
    ).returncode
    shutil.rmtree(folder)
    sys.exit(code)


class Disk:
    """The library of this process, which has to be started by :func:`under`."""

    def __init__(self, folder: Path) -> None:
        self.folder = os.path.realpath(folder)
        self._library = ctypes.CDLL(None)
        self._library.refuse_listed.restype = ctypes.c_char_p
        self._library.refuse_calls.restype = ctypes.c_long
        self._library.refuse_arm.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_long, ctypes.c_int]

    def arm(self, mode: int, at: int = 0, error: int = 0) -> None:
        """Count from now on the calls that change something below the folder, and refuse one or all from one on."""
        self._library.refuse_arm(os.fsencode(self.folder), mode, at, error)

    def disarm(self) -> list[str]:
        """Stop, and give the calls as ``write /run/run.json``, in order."""
        self._library.refuse_disarm()
        found = (self._library.refuse_listed(i) for i in range(self._library.refuse_calls()))
        return [os.fsdecode(text) for text in found]


if __name__ == "__main__":
    under(sys.argv[1], sys.argv[2:])
