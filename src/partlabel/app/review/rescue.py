"""What can be read of a damaged store of answers, taken over into a new one; the damaged one is kept beside it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from partlabel.app.review.answers import SAID, AnswerStore, NewerStoreError, checksum
from partlabel.app.review.verdicts import Answer
from partlabel.core.errors import UserError
from partlabel.core.files import make_folder, replacing, temporary_folder

#: bytes of the first page, which holds what the file is
_PAGE = 4096
#: numbers without an answer after which none is looked for
_GAP = 10_000


@dataclass(frozen=True)
class Rescued:
    """What became of a damaged store.

    Attributes:
        kept: folder with the damaged files.
        answers: how many were taken over.
        lost: what was not, in words, each with the numbers of the answers.
    """

    kept: Path
    answers: int
    lost: list[str]


def rescue(path: Path) -> Rescued | None:
    """Make a store sound again: every answer that fits its checksum is in it afterwards, in the same order.

    Nothing is thrown away: the damaged files go into a folder beside it. Answers are read one by one where the file
    cannot be read in one go, and with the beginning of a sound file where its own is damaged.

    Args:
        path: the file, which no server uses.

    Returns:
        What became of it; None where it is sound.

    Raises:
        UserError: there is no such file, nothing of it can be read, a newer partlabel wrote it, or the disk refuses.
    """
    if not path.is_file():
        raise UserError(f"{path}: there is no such file")
    kept = make_folder(path.with_name(f"{path.name}.damaged-{time.strftime('%Y-%m-%d-%H%M%S')}"))
    beside = [path.with_name(path.name + ending) for ending in ("", "-wal", "-shm")]
    for file in beside:  # before anything opens it
        if file.is_file():
            shutil.copy2(file, kept / file.name)
    try:
        AnswerStore(path).close()
    except NewerStoreError:
        shutil.rmtree(kept)
        raise
    except UserError:
        pass
    else:
        shutil.rmtree(kept)
        return None
    found, end = _read(kept / path.name)
    if not found:
        raise UserError(f"{path}: no answer in it can be read; a copy of it is in {kept}")
    sound = {number: row for number, row, stored in found if _is_whole(row, stored)}
    lost = [f"answer {number}, {row[3]}: {row[4]}" for number, row, _ in found if number not in sound]
    known = {number for number, _, _ in found}
    if gone := _ranges(sorted(set(range(1, max(known))) - known)):
        lost.append(f"numbers that cannot be read: {gone}")
    if not end:
        lost.append(f"what came after answer {max(known)}, if anything")
    with replacing(path) as temporary:
        _write(temporary, [sound[number] for number in sorted(sound)])
        for file in beside[1:]:
            file.unlink(missing_ok=True)
    AnswerStore(path).close()
    return Rescued(kept, len(sound), lost)


#: number, values and checksum of an answer
_Entry = tuple[int, list[Any], int | None]


def _is_whole(row: list[Any], stored: int | None) -> bool:
    """Whether a row fits its checksum; without one, as earlier versions wrote it, whether it can be an answer."""
    if stored is not None:
        return stored == checksum(row)
    return row[5] in get_args(Answer) and None not in row[:10]


def _read(path: Path) -> tuple[list[_Entry], bool]:
    """Each answer that can be read, by number, and whether the last one is among them."""
    best: dict[int, _Entry] = {}
    end = False
    with temporary_folder() as folder:
        fresh = folder / "fresh.sqlite"
        AnswerStore(fresh).close()
        for head in (None, fresh.read_bytes()[:_PAGE]):
            copy = _copied(path, folder / ("plain" if head is None else "new-head"))
            if head is not None:
                pages = copy.stat().st_size // _PAGE
                with open(copy, "r+b") as file:  # the number of pages stands at 28, of free ones at 32
                    file.write(head[:28] + pages.to_bytes(4, "big") + bytes(8) + head[40:])
            with suppress(sqlite3.Error), closing(sqlite3.connect(copy)) as connection:
                connection.text_factory = lambda text: text.decode("utf-8", "replace")
                found, whole = _rows(connection)
                end |= whole
                best = {entry[0]: entry for entry in found} | best
            if end and len(best) == max(best, default=0):
                break
    return [best[number] for number in sorted(best)], end


def _copied(path: Path, target: Path) -> Path:
    """Copy the file with what SQLite keeps beside it, so that reading changes nothing of the original."""
    target.mkdir()
    for ending in ("", "-wal"):
        with suppress(FileNotFoundError):
            shutil.copy(f"{path}{ending}", target / f"{path.name}{ending}")
    return target / path.name


def _rows(connection: sqlite3.Connection) -> tuple[list[_Entry], bool]:
    """Rows from the first on, from the last back, and what is between them one by one; whether the end was read."""
    columns = {row[1] for row in connection.execute("PRAGMA table_info(answers)")}
    names = [name if name in columns else "NULL" for name in (*SAID.split(", "), "checksum")]
    chosen = f"SELECT {', '.join(names)} FROM answers NOT INDEXED"
    found: list[_Entry] = []

    def take(rest: str, *values: int) -> bool:
        try:
            for *said, stored in connection.execute(f"{chosen} {rest}", values):
                found.append((said[0], said, stored))
        except sqlite3.Error:
            return False
        return True

    if take("ORDER BY number"):
        return found, True
    number = max((entry[0] for entry in found), default=0)
    before = len(found)
    take("ORDER BY number DESC")
    backward = found[before:]
    last, missed = min((entry[0] for entry in backward), default=None), 0
    while (last is None or number + 1 < last) and missed < _GAP:
        number, before = number + 1, len(found)
        take("WHERE number = ?", number)
        missed = 0 if len(found) > before else missed + 1
    return found, bool(backward)


def _write(path: Path, rows: list[list[Any]]) -> None:
    """A new store with the answers, numbered anew so that none is missing."""
    AnswerStore(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        for number, row in enumerate(rows, 1):
            said = [number, *row[1:]]
            connection.execute(
                f"INSERT INTO answers ({SAID}, checksum) VALUES ({', '.join('?' * (len(said) + 1))})",
                [*said, checksum(said)],
            )
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for ending in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(f"{path}{ending}")


def _ranges(numbers: list[int]) -> str:
    """``1 to 3, 7`` of 1, 2, 3, 7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(low) if low == high else f"{low} to {high}" for low, high in runs)
