"""What is no plain file where one is expected: pipes, sockets, devices, folders and links, in all that commands read.

    python -m tests.strangers.kinds --tries 600 --seed 0 --jsonl kinds.jsonl

One entry of a run, its review, an image folder, a folder of scores, a cache, a table or a file that a lock is made
of is replaced, then a command is started that meets it. Afterwards as in tests.strangers; nothing stands still, and
nothing outside is written or removed, whatever a link leads to. Linux.
"""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import numpy as np

from tests.strangers.__main__ import READERS, Strangers, Tried, parse_and_try

Rng = np.random.Generator
#: what an entry becomes
KINDS = (
    "pipe",
    "socket",
    "device",
    "folder",
    "link to a pipe",
    "link to a device",
    "loop of links",
    "link to nothing",
    "link to nothing outside",
    "link to itself outside",
    "link to a secret",
    "link to a folder of secrets",
    "link to the folder above",
)
_ALL = ("predict csv", "evaluate", "relabel", "complete", "suspects", "next", "review", "train, closed form")
_WRITES = ("thresholds", "resume", "review", "report")
_OF_SCORES = ("evaluate by scores", "suspects by scores", "next by scores")
#: an area -> the commands that meet it
AREAS: dict[str, tuple[str, ...]] = {
    "run": (*_ALL, *_WRITES, "show"),
    "photos": (*_ALL, "report", "inspect images"),
    "scores": _OF_SCORES,
    "cache": (*_ALL, *_OF_SCORES),
    "labels.parquet": (*_ALL, "inspect", "simulate", "labels merge", "labels undo", "labels hold-out"),
    "labels.csv": ("import csv",),
    "coco.json": ("import coco",),
    "q.csv": ("labels answers",),
    "small.toml": ("train, closed form",),
    "locks": ("thresholds", "resume", "review", "relabel", "predict csv", "next", "train, closed form"),
}
#: files of locks, of a run and of an output
LOCKS = (
    "run/.lock",
    "run/.lock.json",
    "../out/.t.parquet.lock",
    "../out/.t.parquet.lock.json",
    "../out/.p.csv.lock.json",
    "../out/.q.csv.lock",
    "../out/run/.lock",
    "../out/run",
    "../out/t.parquet",
    "../out/p.csv",
)


class Kinds(Strangers):
    """As of strangers; what is changed is changed before the command's process is there."""

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self.keep_scores()

    def tried(self, seed: int) -> Tried:
        """Replace one entry by a seed and start a command."""
        rng = np.random.default_rng(seed)
        out = self.fresh()
        shutil.rmtree(self.trap)
        (self.trap / "folder").mkdir(parents=True)
        for name in ("secret", "folder/epoch-1.pt", "folder/secret.json"):
            (self.trap / name).write_text("secret")
        area = str(rng.choice(list(AREAS)))
        name = self._entry(area, rng)
        command = str(rng.choice(AREAS[area]))
        if area == "run" and rng.random() < 0.6:  # one that surely reads it
            inside = name.removeprefix("run/")
            command = str(rng.choice(next(names for start, names in READERS.items() if inside.startswith(start))))
        found = Tried(seed, name, "", command)
        self.what = found.what = replaced(self.place / name, str(rng.choice(KINDS)), self.trap)
        self.lies_outside = self.outside()
        self._run(found, out, rng)
        found.wrong = []  # links may be read through
        if area == "cache" and set(self.lies_outside) <= set(self.outside()):  # people put theirs on another disk
            self.lies_outside = self.outside()
        self._judge(found)
        if "not enough memory" in found.said:
            found.wrong.append("read on and on")
        return found

    def _entry(self, area: str, rng: Rng) -> str:
        """Draw a file or folder of an area, or the area itself."""
        if area == "locks":
            return str(rng.choice(LOCKS))
        top = self.place / area
        inside = [path for path in sorted(top.rglob("*")) if not path.name.endswith((".md", "-coco.json"))]
        folders = [path for path in inside if path.is_dir()]
        kinds: dict[str, list[Path]] = {}
        for path in inside:  # of hundreds that are alike, one as often as of another kind
            kinds.setdefault(f"{path.parent.name}/{path.suffix}", []).append(path)
        if not inside or rng.random() < 0.1:
            return area
        if folders and rng.random() < 0.25:
            chosen = folders[int(rng.integers(len(folders)))]
        else:
            own = kinds[str(rng.choice(list(kinds)))]
            chosen = own[int(rng.integers(len(own)))]
        return str(chosen.relative_to(self.place))

    def _spoil(self, path: Path, rng: Rng) -> None:
        (self.base / "what").write_text(self.what)


def replaced(path: Path, kind: str, trap: Path) -> str:
    """Put something of another kind in the place of a file or folder; what it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    was_there = os.path.lexists(path)
    if kind == "link to itself outside":
        (trap / "moved").mkdir()
        moved = trap / "moved" / path.name
        if was_there:
            shutil.move(path, moved)
        else:
            moved.write_text("{}")
        path.symlink_to(moved)
        return kind
    if was_there:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        here = os.getcwd()
        os.chdir(path.parent)  # its path may have 107 characters
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name[:90])
        if path.name[:90] != path.name:
            os.rename(path.name[:90], path.name)
        os.chdir(here)
    elif kind == "device":
        try:
            os.mknod(path, 0o20666, os.makedev(1, 5))  # /dev/zero
        except PermissionError:
            path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
        (path / "inner").write_text("inner")
    elif kind == "link to a pipe":
        os.mkfifo(trap / "pipe")
        path.symlink_to(trap / "pipe")
    else:
        path.symlink_to(
            {
                "link to a device": Path("/dev/zero"),
                "loop of links": Path(path.name),
                "link to nothing": Path("nothing"),
                "link to nothing outside": trap / "nothing",
                "link to a secret": trap / "secret",
                "link to a folder of secrets": trap / "folder",
                "link to the folder above": Path(".."),
            }[kind]
        )
    return kind


if __name__ == "__main__":
    parse_and_try(Kinds, __doc__)
