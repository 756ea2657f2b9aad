"""The store of answers: an SQLite file beside the run, in which every answer is on disk before it is acknowledged."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from partlabel.app.review.verdicts import Answer, Given, Verdict, judge
from partlabel.core.errors import UserError

VERSION = 3
#: no version is so high, or below 0: such a number is damage
_VERSIONS = 1000
#: seconds that the rate of answers looks back
RECENT = 20 * 60.0
#: a longer pause between two answers is no work
PAUSE = 5 * 60.0
#: labels below which a rate says nothing
ENOUGH = 5

#: image and class by name, so that the answers outlive any change of the label table
Pair = tuple[str, str]

_SCHEMA = """
CREATE TABLE answers (
    number INTEGER PRIMARY KEY,
    browser TEXT NOT NULL,
    batch TEXT NOT NULL,
    image TEXT NOT NULL,
    class TEXT NOT NULL,
    answer TEXT NOT NULL CHECK (answer IN ('yes', 'no', 'skip')),
    queue TEXT NOT NULL,
    settles INTEGER NOT NULL,
    undone INTEGER NOT NULL DEFAULT 0,
    time REAL NOT NULL,
    content TEXT,
    before TEXT,
    person TEXT,
    undone_time REAL,
    checksum INTEGER
);
CREATE TABLE about (id TEXT NOT NULL);
INSERT INTO about VALUES (lower(hex(randomblob(16))));
CREATE INDEX by_pair ON answers (image, class);
CREATE INDEX by_batch ON answers (browser, batch);
CREATE INDEX by_time ON answers (browser, time);
"""
#: from each earlier version to the next one
_CHANGES = {
    1: """
ALTER TABLE answers ADD COLUMN content TEXT;
ALTER TABLE answers ADD COLUMN before TEXT;
CREATE TABLE about (id TEXT NOT NULL);
INSERT INTO about VALUES (lower(hex(randomblob(16))));
""",
    2: """
ALTER TABLE answers ADD COLUMN person TEXT;
ALTER TABLE answers ADD COLUMN undone_time REAL;
ALTER TABLE answers ADD COLUMN checksum INTEGER;
""",
}
#: what SQLite names an error -> words for it
_REASONS = {
    "SQLITE_FULL": "the disk is full",
    "SQLITE_BUSY": "another program holds the file",
    "SQLITE_LOCKED": "another program holds the file",
    "SQLITE_READONLY": "the file or its folder may not be written",
    "SQLITE_CANTOPEN": "the file cannot be opened",
    "SQLITE_PERM": "the file may not be opened",
    "SQLITE_IOERR": "the disk cannot be read or written",
    "SQLITE_NOMEM": "there is not enough memory",
    "SQLITE_CONSTRAINT": "an answer is not one of yes, no and skip",
    "SQLITE_NOTADB": "it is no database",
}
#: what to do about damage
RESCUE = "partlabel review with --rescue keeps a copy of the file and goes on with every answer that is whole"
#: what a row says, which its checksum is made of
SAID = (
    "number, browser, batch, image, class, answer, queue, settles, undone, time, content, before, person, undone_time"
)


def _reason(error: Exception) -> str:
    """Why SQLite does not read or write, in words."""
    name = getattr(error, "sqlite_errorname", "")
    found = [words for code, words in _REASONS.items() if name.startswith(code)]
    return found[0] if found else error.strerror or "" if isinstance(error, OSError) else "the file is damaged"


def checksum(said: Sequence[Any]) -> int:
    """CRC-32 of what a row says."""
    return zlib.crc32(json.dumps(list(said), default=repr).encode())  # of damaged rows, text may come as bytes


@dataclass(frozen=True)
class New:
    """An answer to be stored.

    Attributes:
        image: the image by name.
        cls: the class by name.
        answer: yes, no or skip.
        queue: where it was asked.
        content: the beginning of the hash of what the person saw; None: not known.
        before: what the label was then, such as ``given present``; None: unknown.
    """

    image: str
    cls: str
    answer: Answer
    queue: str
    content: str | None = None
    before: str | None = None


@dataclass(frozen=True)
class Pace:
    """How one browser works: labels ``per_hour`` (None while there are few) and ``minutes`` of work."""

    per_hour: float | None
    minutes: float


class NewerStoreError(UserError):
    """The answers were written by a newer partlabel; they are not damaged."""


class StoreError(Exception):
    """The answers could not be written or read now, such as on a full disk; in words."""


class AnswerStore:
    """Answers of people in one SQLite file; every method may be called from any thread.

    The journal is a write-ahead log and each commit waits for the disk (``synchronous = FULL``), so that a call that
    returned has stored its answers for good: neither a killed process nor a power cut takes them back. Nothing is ever
    deleted; an undone answer is marked.

    Args:
        path: the file, which is made where it does not exist.

    Raises:
        UserError: the file is no such store, is damaged, of a newer version, or cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        opened = False
        try:
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._open()
            self.identity = self._identity()
            opened = True
        except (sqlite3.Error, OSError, ValueError) as error:
            if isinstance(error, UserError):
                raise
            damaged = getattr(error, "sqlite_errorname", "").startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT"))
            hint = f"; {RESCUE}" if damaged else ""
            raise UserError(f"{path}: the answers cannot be read or written ({_reason(error)}){hint}") from error
        finally:
            if not opened and hasattr(self, "_connection"):
                self._connection.close()

    def _open(self) -> None:
        run = self._connection.execute
        version = run("PRAGMA user_version").fetchone()[0]
        if not 0 <= version < _VERSIONS:
            raise UserError(f"{self.path}: the answers are damaged; {RESCUE}")
        if version > VERSION:
            known = f"answers version {version}, known: {VERSION}"
            raise NewerStoreError(f"{self.path}: written by a newer partlabel ({known})")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        if version < VERSION:
            steps = "".join(_CHANGES[number] for number in range(version, VERSION)) if version else _SCHEMA
            self._connection.executescript(f"BEGIN IMMEDIATE; {steps}")
            self._sum()
            run(f"PRAGMA user_version = {VERSION}")
            run("COMMIT")
        if run("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
            raise UserError(f"{self.path}: the answers are damaged; {RESCUE}")
        self._check()

    def _sum(self) -> None:
        """Give the answers of earlier versions their checksums."""
        rows = self._connection.execute(f"SELECT {SAID} FROM answers WHERE checksum IS NULL").fetchall()
        new = [(checksum(said), said[0]) for said in rows]
        self._connection.executemany("UPDATE answers SET checksum = ? WHERE number = ?", new)

    def _check(self) -> None:
        """Compare every answer with its checksum.

        Raises:
            UserError: some do not fit, or are missing.
        """
        wrong, last = [], 0
        for *said, stored in self._connection.execute(f"SELECT {SAID}, checksum FROM answers ORDER BY number"):
            if said[0] != last + 1:
                wrong.append(f"answers {last + 1} to {said[0] - 1} are missing")
            last = said[0]
            if stored != checksum(said):
                wrong.append(f"answer {last}, {said[3]}: {said[4]}")
        if wrong:
            raise UserError(f"{self.path}: answers do not fit their checksums; {RESCUE}", wrong)

    def _identity(self) -> str:
        """What tells this store from that of any other run, a copy of this one included; 16 hexadecimal digits."""
        name = self._connection.execute("SELECT id FROM about").fetchone()[0]
        return hashlib.blake2b(f"{name} {os.stat(self.path).st_ino}".encode(), digest_size=8).hexdigest()

    def close(self) -> None:
        """Bring all answers into the one file, and close it."""
        with self._lock:
            with suppress(sqlite3.Error):  # they are safe beside it too
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._connection.close()

    @contextmanager
    def _reading(self) -> Generator[None]:
        """Hold the connection.

        Raises:
            StoreError: the file could not be read.
        """
        with self._lock:
            try:
                yield
            except sqlite3.Error as error:
                raise StoreError(f"The answers cannot be read now ({_reason(error)})") from error

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        """All of the block is stored, or nothing; when it ends, it is on disk.

        Raises:
            StoreError: it could not be stored.
        """
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise StoreError(f"The answers cannot be written now ({_reason(error)})") from error
            finally:
                if self._connection.in_transaction:
                    with suppress(sqlite3.Error):
                        self._connection.execute("ROLLBACK")

    def add(
        self, browser: str, batch: str, answers: Sequence[New], *, settle: bool = False, person: str | None = None
    ) -> bool:
        """Store answers that belong together; they are on disk when this returns.

        Args:
            browser: where they come from.
            batch: a name that this browser uses once; sending a batch again, because its confirmation was lost, stores
                nothing twice.
            answers: the answers.
            settle: they settle conflicts: earlier answers to the same questions no longer count.
            person: whose they are, where people have addresses of their own.

        Returns:
            Whether they are new; False for a batch that was stored before.
        """
        now = time.time()
        with self._transaction() as connection:
            known = "SELECT 1 FROM answers WHERE browser = ? AND batch = ? LIMIT 1"
            if connection.execute(known, (browser, batch)).fetchone():
                return False
            first = connection.execute("SELECT coalesce(max(number), 0) + 1 FROM answers").fetchone()[0]
            rows = [
                (number, browser, batch, a.image, a.cls, a.answer, a.queue, int(settle), 0, now, a.content, a.before,
                 person, None)
                for number, a in enumerate(answers, first)
            ]  # fmt: skip
            connection.executemany(
                f"INSERT INTO answers ({SAID}, checksum) VALUES ({', '.join('?' * 15)})",
                [(*row, checksum(row)) for row in rows],
            )
        return True

    def undo(self, browser: str) -> list[Pair]:
        """Take back the latest batch of a browser that still counts.

        Returns:
            The pairs that were answered in it; none where there is nothing to take back.
        """
        with self._transaction() as connection:
            latest = "SELECT batch FROM answers WHERE browser = ? AND undone = 0 ORDER BY number DESC LIMIT 1"
            found = connection.execute(latest, (browser,)).fetchone()
            if found is None:
                return []
            key = (browser, found[0])
            where = "WHERE browser = ? AND batch = ? AND undone = 0 ORDER BY number"
            rows = connection.execute(f"SELECT {SAID} FROM answers {where}", key).fetchall()
            now = time.time()
            for row in rows:
                said = (*row[:8], 1, *row[9:13], now)
                change = "UPDATE answers SET undone = 1, undone_time = ?, checksum = ? WHERE number = ?"
                connection.execute(change, (now, checksum(said), row[0]))
        return list(dict.fromkeys((row[3], row[4]) for row in rows))

    def rows(self) -> Generator[dict[str, Any]]:
        """Every answer ever given, in order, taken back ones too, by the names of the columns."""
        names = SAID.split(", ")
        with self._reading():
            found = self._connection.execute(f"SELECT {SAID} FROM answers ORDER BY number").fetchall()
        for row in found:
            yield dict(zip(names, row, strict=True))

    def verdicts(
        self, pairs: Iterable[Pair] | None = None, *, content: Callable[[str], str | None] = lambda image: None
    ) -> dict[Pair, Verdict | None]:
        """What the answers to some questions come to, or to all that were answered.

        Args:
            pairs: the questions; None where an answer was taken back and no other is left.
            content: what an image holds now, by its name; None: not known. Answers that were given when it held
                something else do not count.
        """
        wanted = "image, class, number, browser, answer, settles, time, content, person"
        columns = f"SELECT {wanted} FROM answers WHERE undone = 0"
        with self._reading():
            if pairs is None:
                rows = self._connection.execute(columns).fetchall()
                found: dict[Pair, list[Given]] = {}
            else:
                found = {pair: [] for pair in pairs}
                query = f"{columns} AND image = ? AND class = ?"
                rows = [row for pair in found for row in self._connection.execute(query, pair)]
        for image, cls, number, browser, answer, settles, when, seen, person in rows:
            now = None if seen is None else content(image)
            if now is not None and now != seen:
                continue
            found.setdefault((image, cls), []).append(Given(number, browser, answer, bool(settles), when, person))
        return {pair: judge(answers) for pair, answers in found.items()}

    def outdated(self, content: Callable[[str], str | None]) -> list[str]:
        """Images whose content is not that which some answer was about; see :meth:`verdicts`."""
        with self._reading():
            rows = self._connection.execute(
                "SELECT DISTINCT image, content FROM answers WHERE undone = 0 AND content IS NOT NULL ORDER BY image"
            ).fetchall()
        return list(dict.fromkeys(image for image, seen in rows if content(image) not in (None, seen)))

    def pace(self, browser: str) -> Pace:
        """How fast a browser answers: yes and no over the last 20 minutes, and how long it has worked in 12 hours."""
        now = time.time()
        recent = (
            "WITH recent AS (SELECT time FROM answers WHERE browser = ? AND time > ? AND undone = 0 "
            "AND answer <> 'skip'), ends AS (SELECT min(time) AS first, max(time) AS last FROM recent) "
            "SELECT count(*), total(time > first), max(last - first) FROM recent, ends"
        )
        worked = (
            "SELECT total(gap) FROM (SELECT time - lag(time) OVER (ORDER BY time) AS gap FROM answers "
            "WHERE browser = ? AND time > ?) WHERE gap BETWEEN 0 AND ?"  # a clock may go back
        )
        with self._reading():
            # The time before the first batch is not known, so its labels do not count for the rate either.
            count, later, seconds = self._connection.execute(recent, (browser, now - RECENT)).fetchone()
            work = self._connection.execute(worked, (browser, now - 12 * 3600, PAUSE)).fetchone()[0]
        rate = 3600 * later / seconds if count >= ENOUGH and later and seconds else None
        return Pace(rate, work / 60)
