"""Whole run folders from strangers: each file changed at random, then a command that reads it.

    python -m tests.strangers --tries 2000 --seed 0 --jsonl strangers.jsonl

Afterwards: a good end, or one sentence and exit code 2; no traceback, no crash, no more than ten seconds of processor
time and a bounded memory; no file outside the folder read that only the run names, none written, nothing asked of the
network. Linux.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from partlabel import Run
from partlabel.training.config import Config
from tests.disk.commands import World, _main, run_command
from tests.disk.matrix import PRELOADED, kind_of, unsaid
from tests.strangers.damage import spoil

#: seconds of processor time, seconds in all, and bytes that a command may take beyond what it begins with
PATIENCE, IN_ALL, MEMORY = 60, 600, 3 * 2**30
#: which commands read a file, by the beginning of its name; the first that fits
_SCORE = ("predict csv", "evaluate", "relabel", "complete", "suspects", "next", "review", "go on", "export pt2")
_TELL = ("report", "show", "thresholds", "resume", "complete", "suspects", "next", "review")
READERS: dict[str, tuple[str, ...]] = {
    "review/": ("review",),
    "checkpoints/": ("resume",),
    "last/": ("show", "resume"),
    "best/model.toml": (*_SCORE, "report", "show", "thresholds"),
    "best/": _SCORE,
    "run.json": (*_SCORE, *_TELL),
    "out_of_fold": ("report", "show", "thresholds", "suspects", "complete"),
    "": _TELL,
}
#: what a run may name outside itself, as its owner told it to
NAMED = ("after", "validation images")


@dataclass
class Tried:
    """One file changed, one command."""

    seed: int
    file: str
    what: str
    command: str
    code: Any = None
    said: str = ""
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)


class Strangers:
    """A folder with a run, copied anew for each try."""

    def __init__(self, base: Path) -> None:
        self.base, self.made, self.place = base, base / "made", base / "in" / "place"
        os.environ["PARTLABEL_CACHE"] = str(base / "cache")
        World().make(self.made)
        _in_process(run_command, "review", self.made, base)  # libraries with threads would stand still after a fork
        run = self.made / "run"
        record = json.loads((run / "run.json").read_text())
        from partlabel.core.records import write_record

        record.pop("checksum", None)
        write_record(run / "run.json", record)
        (base / "tmp").mkdir()
        tempfile.tempdir = str(base / "tmp")
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(base / "tmp")
        self.trap = base / "trap"
        self.trap.mkdir()
        (self.trap / "secret").write_text("secret")
        self.lies_outside = self.outside()
        self.files = sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.is_file())
        left_out = (".lock", ".lock.json", ".md", "record.csv", "-coco.json")
        self.files = [name for name in self.files if not name.endswith(left_out)]
        #: by what they hold, as there are more files in the cache of the review than anywhere else
        self.kinds: dict[str, list[str]] = {}
        for name in self.files:
            cached = name.startswith("review/cache/")
            self.kinds.setdefault("review/cache/" if cached else kind_of(name), []).append(name)

    def fresh(self) -> Path:
        """Lay everything out as it was; the folder for outputs."""
        shutil.rmtree(self.place.parent, ignore_errors=True)
        shutil.copytree(self.made, self.place, ignore=shutil.ignore_patterns("photos"))
        shutil.copytree(self.made / "photos", self.place / "photos", copy_function=os.link)
        out = self.place.parent / "out"
        out.mkdir()
        return out

    def keep_scores(self) -> None:
        """Add a folder of scores, and a cache of its own that is laid out anew each time, to what there is."""
        os.environ["PARTLABEL_CACHE"] = str(self.made / "cache")
        words = [
            "predict",
            str(self.made / "run"),
            str(self.made / "photos"),
            "-o",
            str(self.made / "scores"),
            "--dense",
        ]
        _in_process(_main_of, words)
        _in_process(run_command, "complete", self.made, self.base)
        os.environ["PARTLABEL_CACHE"] = str(self.place / "cache")

    def tried(self, seed: int) -> Tried:
        """Change one file by a seed and start a command."""
        rng = np.random.default_rng(seed)
        out = self.fresh()
        name = str(rng.choice(self.kinds[str(rng.choice(list(self.kinds)))]))
        command = str(rng.choice(next(names for start, names in READERS.items() if name.startswith(start))))
        found = Tried(seed, name, "", command)
        self._run(found, out, rng)
        found.what = (self.base / "what").read_text()
        self._judge(found)
        return found

    def _spoil(self, path: Path, rng: np.random.Generator) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (self.base / "what").write_text(spoil(path, rng, str(self.trap)))

    def _run(self, found: Tried, out: Path, rng: np.random.Generator) -> None:
        context = multiprocessing.get_context("fork")
        said, opened = self.base / "said", self.base / "opened"
        said.write_text("")
        opened.write_text("")
        began = time.monotonic()
        process = context.Process(target=self._child, args=(found, out, rng, said, opened))
        process.start()
        process.join(IN_ALL)
        if process.is_alive():
            process.kill()
            process.join()
        found.code, found.seconds = process.exitcode, round(time.monotonic() - began, 2)
        found.said = said.read_text(errors="replace")
        found.wrong += sorted(set(opened.read_text(errors="replace").splitlines()))[:5]

    def _child(self, found: Tried, out: Path, rng: np.random.Generator, said: Path, opened: Path) -> None:
        self._spoil(self.place / "run" / found.file, rng)
        target = os.open(said, os.O_WRONLY | os.O_APPEND)
        os.dup2(target, 1)
        os.dup2(target, 2)
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, PATIENCE)
        self._watch(os.open(opened, os.O_WRONLY | os.O_APPEND))
        code = _start(found.command, self.place, out)
        sys.stdout.flush()
        os._exit(code)

    def _watch(self, log: int) -> None:
        """Note what is opened outside, and what is asked of the network."""
        trap, inside = str(self.trap), str(self.place.parent)
        allowed = (str(self.base / "cache"), str(self.base / "tmp"), "/dev/", "/proc/")

        def hook(event: str, given: tuple[Any, ...]) -> None:
            if event == "socket.connect" and isinstance(given[1], tuple):
                os.write(log, f"asked the network: {given[1]}\n".encode())
            if event in ("open", "os.listdir", "os.scandir", "os.mkdir", "os.remove", "os.rename", "sqlite3.connect"):
                if not given or not isinstance(given[0], str | bytes | os.PathLike):
                    return
                path = os.path.realpath(os.fsdecode(given[0])) if "\0" not in os.fsdecode(given[0]) else ""
                relative = given[-1] not in (-1, None) and event in ("os.mkdir", "os.remove", "os.rename")
                writes = (event in ("os.mkdir", "os.remove", "os.rename") and not relative) or (
                    event == "open" and isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR)
                )
                if path.startswith(trap):
                    os.write(log, f"{event} of {path}\n".encode("utf-8", "replace"))
                elif writes and not path.startswith((inside, *allowed)):
                    os.write(log, f"{event} (to write) of {path}\n".encode("utf-8", "replace"))

        sys.addaudithook(hook)

    def _judge(self, found: Tried) -> None:
        if found.what.startswith(NAMED):
            found.wrong = [text for text in found.wrong if "to write" in text]
        if found.code == 1:
            files = sorted((self.base / "cache" / "errors").glob("*.txt"), key=lambda path: path.stat().st_mtime)
            found.said += "".join(path.read_text(encoding="utf-8") for path in files[-1:])[-3000:]
        found.wrong += unsaid(found.code, found.said)
        if max(map(len, found.said.splitlines()), default=0) > 3000:
            found.wrong.append("said a line of more than 3,000 characters")
        if self.outside() != self.lies_outside:
            found.wrong.append(f"outside is not as it was: {sorted(set(self.outside()) ^ set(self.lies_outside))[:4]}")

    def outside(self) -> list[tuple[str, str]]:
        """What lies in the trap: each name with what it holds."""
        paths = sorted(self.trap.rglob("*"))
        return [(str(p.relative_to(self.trap)), p.read_bytes().hex() if p.is_file() else "no file") for p in paths]


def _in_process(function: Callable[..., Any], *given: Any) -> None:
    process = multiprocessing.get_context("fork").Process(target=function, args=given)
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"{function.__name__} ended with {process.exitcode}")


def _start(command: str, place: Path, out: Path) -> int:
    from partlabel.app.cli import main

    table, images = str(place / "labels.parquet"), str(place / "photos")
    if command.endswith(" by scores"):
        first = command.split()[0]
        output = [] if first == "evaluate" else ["-o", str(out / "q.csv")]
        more = [*output, "--budget", "10"] if first == "next" else output
        return main([first, str(place / "run"), table, "--images", images, "--scores", str(place / "scores"), *more])
    if command == "inspect images":
        return main(["inspect", table, "--images", images, "--html", str(out / "i.html")])
    if command == "show":
        return _main(lambda: _show(place / "run"))
    if command in ("resume", "go on"):
        if command == "resume":
            with suppress(OSError):
                (place / "run" / "summary.json").unlink()  # as if it had been stopped at the end
        config = Config.read(place / "small.toml")
        if command == "go on":
            config = config.replace(model__weights=str(place / "run"))
        config.write(place / "config.toml")
        where = ["-o", str(place / "run"), "--resume"] if command == "resume" else ["-o", str(out / "run")]
        return main(["train", table, "--images", images, "--config", str(place / "config.toml"), *where])
    return run_command(command, place, out)


def _main_of(words: list[str]) -> int:
    from partlabel.app.cli import main

    return main(words)


def _show(folder: Path) -> None:
    """Read every part of a run."""
    run = Run(folder)
    print(run, run.after, run.elsewhere, run.same_content)
    print(len(run.epochs), len(run.rounds), len(run.thresholds), len(run.headline or ""))
    for value in (run.summary, run.all_labels, run.relabelled, run.held_out.scores.shape, run.metrics):
        print(str(value)[:200])
    print(sorted(run.description("last")))


def parse_and_try(kind: type[Strangers], about: str | None) -> None:
    """Try as the command line says."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the seed of one try, to see it again")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--jsonl", type=Path, help="one line for each try; those there are not tried again")
    given = parser.parse_args()
    torch.set_num_threads(1)  # threads do not go along into a forked process
    for module in PRELOADED:
        importlib.import_module(module)
    seeds = [int(one) for one in np.random.default_rng(given.seed).integers(2**62, size=given.tries)]
    done = [] if given.jsonl is None or not given.jsonl.is_file() else given.jsonl.read_text().splitlines()
    ends: Counter[str] = Counter()
    end, wrong = time.monotonic() + 60 * given.minutes, 0
    with tempfile.TemporaryDirectory(prefix="strangers-") as base:
        strangers = kind(Path(base).resolve())
        for seed in [given.only] if given.only is not None else seeds[len(done) :]:
            if time.monotonic() > end:
                break
            found = strangers.tried(seed)
            ends["good end" if found.code == 0 else "a sentence" if found.code == 2 else str(found.code)] += 1
            if given.jsonl:
                with open(given.jsonl, "a", encoding="utf-8") as file:
                    file.write(json.dumps(found.__dict__) + "\n")
            if found.wrong or given.only is not None:
                wrong += bool(found.wrong)
                about = f"{found.seed} {found.command}, {found.file}, {found.what}"
                print(f"{about}: {'; '.join(found.wrong)[:600]}\n      {found.said[-500:]!r}", flush=True)
    print(f"{sum(ends.values())} tries, {wrong} wrong  ({dict(ends)})")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    parse_and_try(Strangers, __doc__)
