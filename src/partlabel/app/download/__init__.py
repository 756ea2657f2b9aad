"""Public data sets, fetched from their official addresses, checked and unpacked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from partlabel.app.download.fetching import FetchError, digest, fetch
from partlabel.app.download.pictures import fetch_pictures, read_list
from partlabel.app.download.sources import DATASETS, Dataset, File, mirrored
from partlabel.app.download.unpacking import ArchiveError, unpack, unpacked
from partlabel.core.errors import UserError
from partlabel.core.files import write_json
from partlabel.core.progress import Bar, Reporter
from partlabel.core.text import as_typed

__all__ = ["DATASETS", "Download", "download"]

#: the file, beside the data, that says what was fetched from where
RECORD = "download.json"
#: the file with the names of the images that the server does not have
ABSENT = "absent.txt"

_MB = 10**6


@dataclass(frozen=True)
class Download:
    """What a download came to.

    Attributes:
        dataset: the data set.
        folder: where it lies.
        files: one entry for each file: ``name``, ``address`` (where it was fetched from, None for one that was put
            there), ``bytes``, ``md5``, ``checked`` (what it was compared with), ``state`` ("fetched", "here already",
            "unpacked already"), ``tree`` (the folder it was unpacked into, or None).
        pictures: how many single images were asked for.
        absent: those of them that the server does not have.
        next: the commands that read the labels.
    """

    dataset: Dataset
    folder: Path
    files: list[dict[str, Any]]
    pictures: int
    absent: list[str]
    next: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Give it as plain values."""
        return {
            "dataset": self.dataset.name,
            "output": str(self.folder),
            "files": self.files,
            "pictures": self.pictures,
            "pictures_absent": self.absent,
            "terms": self.dataset.terms,
            "next": self.next,
        }

    def text(self) -> str:
        """Give it as text for people."""
        lines = [self.dataset.title]
        for file in self.files:
            size = "" if file["bytes"] is None else f", {file['bytes'] / _MB:,.1f} MB"
            lines.append(f"  {file['name']}: {file['state']}{size}, checked: {file['checked']}")
        if self.pictures:
            lines.append(f"  images: {self.pictures - len(self.absent):,} of {self.pictures:,} are here")
        if self.absent:
            lines.append(f"  the server does not have {len(self.absent):,} of them; their names are in {ABSENT}")
        lines.append(f"Terms: {self.dataset.terms}")
        return "\n".join([*lines, *(f"Next: {command}" for command in self.next)])


def download(
    name: str,
    folder: Path,
    parts: Iterable[str] = (),
    pictures: Path | None = None,
    mirror: str | None = None,
    reporter: Reporter | None = None,
) -> Download:
    """Fetch a public data set, check it and unpack it; a later call goes on where an earlier one stopped.

    Archives stay beside what came out of them, so that both can be checked again. They may be deleted: what is
    unpacked is not fetched a second time.

    Args:
        name: one of :data:`DATASETS`.
        folder: where the files go; it is made.
        parts: parts of the data set, see :meth:`Dataset.select`; none for the default.
        pictures: a text file that names single images of Open Images, see :func:`read_list`.
        mirror: an address that serves the same files, see :func:`mirrored`.
        reporter: shows the progress; nothing is shown without one.

    Raises:
        UserError: unknown names; a file cannot be fetched, is wrong, or cannot be unpacked; the disk is full; another
            process downloads into the folder.

    >>> download("voc2007", Path("voc"))  # doctest: +SKIP
    """
    dataset = DATASETS[name]
    files = dataset.select(tuple(parts))
    if pictures is not None and dataset.pictures is None:
        raise UserError(f"{name} has no single images; --pictures belongs to openimages")
    names = read_list(pictures) if pictures is not None else []
    mirrored("", dataset, mirror)  # a wrong mirror is refused before anything is made
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: cannot be made ({error.strerror})") from None
    try:
        with FileLock(folder / ".download.lock", timeout=0):
            job = _Job(dataset, folder, mirror, reporter or Reporter(quiet=True))
            entries = job.files(files)
            absent = job.pictures(names)
    except Timeout:
        raise UserError(f"{folder}: another process is downloading into this folder") from None
    place = as_typed(folder)
    return Download(
        dataset, folder, entries, len(names), absent, [file.then.replace("{}", place) for file in files if file.then]
    )


class _Job:
    """One download into one folder."""

    def __init__(self, dataset: Dataset, folder: Path, mirror: str | None, reporter: Reporter) -> None:
        self._dataset = dataset
        self._folder = folder
        self._mirror = mirror
        self._reporter = reporter
        self._record = _read_record(folder / RECORD)

    def files(self, files: list[File]) -> list[dict[str, Any]]:
        """Have every file here, checked and unpacked."""
        for done, file in enumerate(files):
            try:
                self._have(file)
            except FetchError as error:
                raise UserError(self._by_hand(error), [self._place(file) for file in files[done:]]) from None
        return [self._record[file.name] for file in files]

    def pictures(self, names: list[str]) -> list[str]:
        """Fetch single images and give those that the server does not have."""
        if not names:
            return []

        def address(name: str) -> str:
            return mirrored(f"{self._dataset.pictures}/{name}", self._dataset, self._mirror)

        with self._reporter.bar("fetching images") as bar:
            absent = fetch_pictures(names, self._folder, address, bar)
        (self._folder / ABSENT).write_text("".join(f"{name}\n" for name in absent), encoding="utf-8")
        return absent

    def _have(self, file: File) -> None:
        target, known = self._folder / file.name, self._record.get(file.name, {})
        tree = None if file.tree is None else self._folder / file.tree
        was_unpacked = tree is not None and tree.is_dir() and bool(known.get("tree"))
        if was_unpacked and not target.exists():
            self._note({**known, "state": "unpacked already"})
            return
        entry = {"name": file.name, "tree": None}
        entry |= self._here(file, target, known) or self._fetch(file, target)
        if tree is None:
            self._note(entry)
            return
        if not was_unpacked:
            self._note(entry)  # before the unpacking, which may be stopped
        if not (was_unpacked and unpacked(target, tree, file.limit)):
            self._unpack(file, target, tree)
        self._note({**entry, "tree": file.tree})

    def _note(self, entry: dict[str, Any]) -> None:
        self._record[entry["name"]] = entry
        write_json(self._folder / RECORD, self._record)

    def _unpack(self, file: File, target: Path, tree: Path) -> None:
        try:
            with self._reporter.bar(f"unpacking {file.name}", "files") as bar:
                unpack(target, tree, file.limit, bar)
        except ArchiveError as error:
            bad = self._aside(target)
            message = f"{error.message}; it is kept as {bad}, and the same command fetches it anew"
            raise UserError(message, error.offenders) from None

    def _aside(self, target: Path) -> Path:
        """Rename a file that is wrong, so that it is not taken for the right one again."""
        return target.replace(target.with_name(f"{target.name}.bad"))

    def _here(self, file: File, target: Path, known: dict[str, Any]) -> dict[str, Any] | None:
        """Describe a file that is here and right; one that is wrong is put aside."""
        if not target.is_file():
            return None
        found, wanted = digest(target), file.md5 or known.get("md5")
        if wanted in (None, found):
            checked = "published checksum" if file.md5 else known.get("checked", "nothing")
            size, address = target.stat().st_size, known.get("address")
            return {"address": address, "bytes": size, "md5": found, "checked": checked, "state": "here already"}
        bad = self._aside(target)
        self._reporter.line(f"{target.name}: has the MD5 {found} instead of {wanted}; kept as {bad}, fetched again")
        return None

    def _fetch(self, file: File, target: Path) -> dict[str, Any]:
        address = mirrored(file.address, self._dataset, self._mirror)
        with self._reporter.bar(f"fetching {file.name}", "MB") as bar:
            got = fetch(address, target, file.md5, self._reporter.line, _megabytes(bar))
        return {
            "address": address,
            "bytes": got.bytes,
            "md5": got.md5,
            "checked": got.checked,
            "state": "fetched",
        }

    def _by_hand(self, error: FetchError) -> str:
        hint = f" ({self._dataset.by_hand})" if self._dataset.by_hand else ""
        return (
            f"{error.message}; run the same command again to go on, or put these files in place yourself first{hint}:"
        )

    def _place(self, file: File) -> str:
        return f"{mirrored(file.address, self._dataset, self._mirror)} -> {self._folder / file.name}"


def _megabytes(bar: Bar) -> Callable[[int, int], None]:
    """Let a bar count megabytes; where the size is unknown, it is full all the time."""
    return lambda done, total: bar(done // _MB, max(done, total) // _MB)


def _read_record(path: Path) -> dict[str, dict[str, Any]]:
    """Read what earlier downloads noted; a damaged note is as good as none, as everything can be checked anew."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    fits = isinstance(record, dict) and all(isinstance(entry, dict) for entry in record.values())
    return record if fits else {}
