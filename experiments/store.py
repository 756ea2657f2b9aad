"""Results as lines: one JSONL file for each table, one named record in each line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from partlabel.core.errors import UserError
from partlabel.core.files import replacing

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Store:
    """The records of one table, in the order in which they came; several processes may add to it at the same time.

    A line is ``{"name": ..., "record": ...}``. It is written by one call and ends with a line break. What a killed
    process left without one is no record: readers skip it, and the next writer removes it.
    """

    path: Path

    def read(self) -> dict[str, Any]:
        """Name -> record; empty where there is no file.

        Raises:
            UserError: a line that is no record, or a second one of the same name.
        """
        found: dict[str, Any] = {}
        for number, line in enumerate(self._whole_lines(), 1):
            try:
                entry = json.loads(line)
                name, record = entry["name"], entry["record"]
            except (ValueError, KeyError, TypeError) as error:
                raise UserError(f'{self.path}, line {number}: not {{"name": ..., "record": ...}}') from error
            if name in found:
                raise UserError(f"{self.path}, line {number}: a second record of {name!r}")
            found[name] = record
        return found

    def add(self, name: str, record: Any) -> None:
        """Append a record; one of the same name is replaced where it stands.

        Raises:
            ValueError: the record holds NaN or infinity (use None).
        """
        line = json.dumps({"name": name, "record": record}, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        with locked(self.path, wait=True):
            lines = self._whole_lines()
            names = list(self.read())
            if name not in names:
                self._append(line, after=sum(map(len, lines)))
                return
            lines[names.index(name)] = line
            with replacing(self.path) as temporary:
                temporary.write_bytes(b"".join(lines))

    @contextmanager
    def alone(self, name: str, wait: bool) -> Iterator[bool]:
        """Whether this process alone works on a record; others that do not wait leave it out."""
        with locked(self.path.with_name(f"{self.path.stem}.{name}"), wait) as mine:
            yield mine

    def _whole_lines(self) -> list[bytes]:
        if not self.path.is_file():
            return []
        return [line + b"\n" for line in self.path.read_bytes().split(b"\n")[:-1]]

    def _append(self, line: bytes, after: int) -> None:
        with open(self.path, "r+b" if self.path.is_file() else "xb") as file:
            file.seek(after)
            file.truncate()
            file.write(line)
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def locked(path: Path, wait: bool) -> Iterator[bool]:
    """Whether this process alone has what ``path`` names.

    The operating system gives the lock back where the process is killed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        lock.acquire(timeout=-1 if wait else 0)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()
