"""Every command on a disk that refuses, at every call that changes a file: what is said, and what is left.

    python -m tests.disk.matrix                           all commands, each with a full disk at every call
    python -m tests.disk.matrix --errors full,broken train --jsonl results.jsonl
    python -m tests.disk.matrix --points 4                four calls of each command
    python -m tests.disk.matrix --part kinds              of calls of one kind on one file, one for each command

In each cell one command runs in a fresh copy of a folder, and the disk refuses its n-th change of a file (``broken``)
or all from the n-th on (the others), or the process is killed there (``killed``); see refuse.c. Afterwards: one
sentence and exit code 2, or an end that is good without the file; old files whole; nothing by halves; and the same
command, started once more on a sound disk, ends as if nothing had been. Linux with a C compiler.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import multiprocessing
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.disk import layer
from tests.disk.commands import COMMANDS, World, run_command

fork = multiprocessing.get_context("fork") if sys.platform != "win32" else None
PRELOADED = (
    "partlabel.formats",
    "partlabel.app.api",
    "partlabel.app.cli.importing",
    "partlabel.app.report",
    "partlabel.app.review.desk",
    "partlabel.labels.inspect_figure",
    "partlabel.tasks.complete",
    "partlabel.tasks.export",
    "partlabel.tasks.next_labels",
    "partlabel.tasks.question_files",
    "partlabel.tasks.suspects",
    "matplotlib.pyplot",
    "xlsxwriter",
    "onnx",
    "onnxruntime",
    "onnxscript",
    "torch.onnx",
)
#: what only a library says, and no sentence of partlabel
NOISE = re.compile(
    r"Traceback|terminate called|enforce fail|RuntimeError|Exception|Error\(|Errno|std::|PytorchStreamWriter|"
    r"Stack trace|frame #|SafetensorError|sqlite3|core dumped|Bus error|UserWarning|ResourceWarning"
)
#: files of which two good runs differ: times, a random name
VARYING = re.compile(
    r"epoch-\d+\.pt|.*\.sqlite.*|.*\.import\.(json|txt)|report\.(html|json)|.*\.onnx|.*\.pt2|.*\.xlsx|"
    r"labels-\d.*|record\.csv|contents-.*\.npy|.*\.report\.(json|txt)|.*\.lock"
)


@dataclass
class Cell:
    """What became of one command at one fault."""

    command: str
    error: str
    at: int
    call: str
    code: Any = None
    said: str = ""
    wrong: list[str] = field(default_factory=list)


class Bench:
    """A folder to work in, copied anew for each try to the same place, so that results can be compared."""

    def __init__(self, base: Path, world: World | None = None) -> None:
        self.base, self.disk, self.made = base, base / "disk", base / "made"
        os.environ["PARTLABEL_CACHE"] = str(base / "cache")
        (world or World()).make(self.made)
        os.environ["PARTLABEL_CACHE"] = str(self.disk / "cache")
        tempfile.tempdir = str(self.disk / "tmp")
        self.armed = layer.Disk(self.disk)

        for module in PRELOADED:  # once, instead of in each forked process
            importlib.import_module(module)

    def fresh(self) -> None:
        """Lay everything out as it was."""
        shutil.rmtree(self.disk, ignore_errors=True)
        shutil.copytree(self.made, self.disk / "place")
        (self.disk / "out").mkdir()
        (self.disk / "cache").mkdir()
        (self.disk / "tmp").mkdir()

    def run(
        self,
        command: str,
        mode: int = layer.COUNT,
        at: int = 0,
        error: int = 0,
        *,
        again: bool = False,
        stop: float | None = None,
        by: int = signal.SIGKILL,
    ) -> tuple[Any, str, list[str]]:
        """Run a command in a forked process: its exit code (negative: the signal), what was printed, its calls.

        ``stop``: it gets the signal ``by`` after so many seconds.
        """
        assert fork is not None
        said = self.base / "said"
        process = fork.Process(target=self._child, args=(command, again, mode, at, error, said))
        process.start()
        process.join(600 if stop is None else stop)
        if stop is not None and process.is_alive():
            os.kill(process.pid or 0, by)
            process.join(600)
        if process.is_alive():
            process.kill()
            process.join()
            said.write_text("stood still for ten minutes")
        calls = self.armed.disarm()
        code = process.exitcode
        return code, said.read_text(errors="replace"), calls

    def _child(self, command: str, again: bool, mode: int, at: int, error: int, said: Path) -> None:
        target = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(target, 1)
        os.dup2(target, 2)
        self.armed.arm(mode, at, error)
        code: Any = run_command(command, self.disk / "place", self.disk / "out", again)
        sys.stdout.flush()
        os._exit(code)

    def state(self) -> dict[str, str]:
        """Every file with a hash of what it holds, and all else among the temporary ones; not the cache."""
        found = {}
        for path in sorted(self.disk.rglob("*")):
            name = str(path.relative_to(self.disk))
            if path.is_file() and not name.startswith("cache/"):
                found[name] = hashlib.sha256(_lasting(path)).hexdigest()
            elif name.startswith("tmp/"):
                found[name] = "a folder or a socket"
        return found


def _lasting(path: Path) -> bytes:
    """What a file holds, without how long things took."""
    content = path.read_bytes()
    if path.name in ("summary.json", "metrics.jsonl"):
        content = re.sub(rb'"(seconds|images_per_second|checksum)": ("[0-9a-f]*"|[0-9.e-]+)', b"", content)
    return content


def unsaid(code: Any, said: str) -> list[str]:
    """What is wrong with an end: it is good, or one sentence, and nothing that only a library says."""
    wrong = [] if code in (0, 2) else [f"ended with {code}"]
    if noise := NOISE.search(said):
        wrong.append(f"said {noise[0]!r}")
    sentences = [line for line in said.splitlines() if line.startswith("partlabel: ")]
    if code == 2 and len(sentences) != 1:
        wrong.append(f"said {len(sentences)} sentences")
    return wrong


def left_behind(names: Iterable[str]) -> list[str]:
    """What ought to be gone after a command: temporary files beside others, and whatever lies among the system's."""
    found = [name for name in names if Path(name).name.startswith(".") or name.startswith("tmp/")]
    return [f"{name} is left behind" for name in found]


def judge(cell: Cell, before: dict[str, str], good: dict[str, str], after: dict[str, str]) -> None:
    """Note what is wrong after a fault: in what was said, and in what is left."""
    cell.wrong += unsaid(cell.code, cell.said)
    for name, content in before.items():
        if name not in after and name in good:
            cell.wrong.append(f"{name} is gone")
        elif name in after and after[name] not in (content, good.get(name)) and not VARYING.fullmatch(Path(name).name):
            cell.wrong.append(f"{name} is neither old nor new")
    # a disk that refuses to remove files leaves them, and that of a lock that nobody holds does no harm
    if not cell.call.startswith(("unlink", "rmdir")) and cell.error not in ("read-only", "not allowed"):
        cell.wrong += left_behind(name for name in after if not name.endswith((".lock", ".lock.json")))


def compare(good: dict[str, str], after: dict[str, str]) -> list[str]:
    """What differs between two ends that have to be the same."""
    wrong = [f"{name} is missing afterwards" for name in good.keys() - after.keys() if not _varies(name)]
    wrong += [f"{name} was not there before" for name in after.keys() - good.keys() if not _varies(name)]
    common = good.keys() & after.keys()
    return wrong + [f"{name} differs afterwards" for name in common if good[name] != after[name] and not _varies(name)]


def _varies(name: str) -> bool:
    return VARYING.fullmatch(Path(name).name) is not None or "/review/cache/" in name


@dataclass
class Good:
    """What a command does on a sound disk: the files before and after, and its calls."""

    before: dict[str, str]
    after: dict[str, str]
    calls: list[str]

    @classmethod
    def of(cls, bench: Bench, command: str) -> Good:
        bench.fresh()
        before = bench.state()
        code, said, calls = bench.run(command)
        if code != 0:
            raise SystemExit(f"{command} fails on a sound disk: {said}")
        return cls(before, bench.state(), calls)


def spread(count: int) -> list[int]:
    """The numbers below ``count``, so that each beginning of them lies evenly over all."""
    bits = max(count - 1, 1).bit_length()
    turned = (int(f"{number:0{bits}b}"[::-1], 2) for number in range(2**bits))
    return [number for number in turned if number < count]


#: which calls are tried: of all commands one of each kind; of each command; the first and last of equal ones in a row
PARTS = ("first", "kinds", "ends", "all")


def kind_of(call: str) -> str:
    """What a call does to which file, whatever numbers and chance are in its name."""
    call = re.sub(r"[0-9a-f]{6,}|\d+", "#", call)
    return re.sub(r"(partlabel-#-#-|pymp-|quant\.|listener-|\.tmp|/tmp(?=[#\w]))[-#\w]+", r"\1", call)


def chosen_calls(goods: dict[str, Good], part: str) -> dict[str, set[int]]:
    """The numbers of the calls of each command that a part takes."""
    kinds = {command: [kind_of(call) for call in good.calls] for command, good in goods.items()}
    if part == "all":
        return {command: set(range(len(own))) for command, own in kinds.items()}
    if part == "ends":
        padded = {command: ["", *own, ""] for command, own in kinds.items()}
        return {c: {n for n in range(len(own) - 2) if len(set(own[n : n + 3])) > 1} for c, own in padded.items()}
    found = {command: {kind: own.index(kind) for kind in own} for command, own in kinds.items()}
    if part == "first":
        for kind in dict.fromkeys(kind for own in kinds.values() for kind in own):
            having = sorted((c for c in found if kind in found[c]), key=lambda c: len(found[c]))
            for command in having[1:]:
                del found[command][kind]
    return {command: set(own.values()) for command, own in found.items()}


def planned(
    goods: dict[str, Good], errors: list[str], points: int | None, part: str = "all"
) -> list[tuple[str, str, int]]:
    """All cells as command, error and call; each command is through to the same part at any time."""
    found = []
    taken = chosen_calls(goods, part)
    for command, good in goods.items():
        numbers = [number for number in spread(len(good.calls)) if number in taken[command]]
        if points is not None and len(good.calls) > points:
            numbers = np.unique(np.linspace(0, len(good.calls) - 1, points).round().astype(int)).tolist()
        for error in errors:
            some = numbers[:1] if error in ("read-only", "not allowed") else numbers
            found += [(place / len(some), command, error, at) for place, at in enumerate(some)]
    return [(command, error, at) for _, command, error, at in sorted(found, key=lambda cell: cell[0])]


def try_cell(bench: Bench, good: Good, command: str, error: str, at: int) -> Cell:
    """One command at one fault, and once more without."""
    mode, number = (layer.KILL, 0) if error == "killed" else layer.ERRORS[error]
    bench.fresh()
    cell = Cell(command, error, at, good.calls[at])
    cell.code, cell.said, _ = bench.run(command, mode, at, number)
    if error != "killed":
        judge(cell, good.before, good.after, bench.state())
    again, said, _ = bench.run(command, again=True)
    if again != 0:
        cell.wrong.append(f"once more: ended with {again}: {said[-300:]}")
        return cell
    end = bench.state()
    cell.wrong += [f"once more: {what}" for what in compare(good.after, end)]
    cell.wrong += [f"once more: {what}" for what in left_behind(end)]
    return cell


def stored(path: Path | None) -> dict[tuple[str, str, int], Cell]:
    """The cells of earlier runs that went as they should."""
    if path is None or not path.is_file():
        return {}
    cells = [Cell(**json.loads(line)) for line in path.read_text().splitlines()]
    last = {(cell.command, cell.error, cell.at): cell for cell in cells}
    return {key: cell for key, cell in last.items() if not cell.wrong}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", help="beginnings of names; all when left out")
    parser.add_argument("--errors", default="full", help=f"some of {', '.join([*layer.ERRORS, 'killed'])}")
    parser.add_argument("--points", type=int, help="so many calls of each command, instead of all")
    parser.add_argument("--part", choices=PARTS, default="all", help="which calls are tried")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so many minutes")
    parser.add_argument("--jsonl", type=Path, help="one line for each try; what went well there is not tried again")
    given = parser.parse_args()
    layer.under("tests.disk.matrix")
    chosen = [name for name in COMMANDS if not given.commands or name.startswith(tuple(given.commands))]
    cells, end = stored(given.jsonl), time.monotonic() + 60 * given.minutes
    with tempfile.TemporaryDirectory(prefix="matrix-") as base:
        bench = Bench(Path(base).resolve())
        goods = {command: Good.of(bench, command) for command in chosen}
        for key in planned(goods, given.errors.split(","), given.points, given.part):
            if key in cells or time.monotonic() > end:
                continue
            cells[key] = cell = try_cell(bench, goods[key[0]], *key)
            if cell.wrong:
                print(f"{cell.command}, {cell.error} at {cell.at} ({cell.call}): {'; '.join(cell.wrong)[:600]}")
                print(f"      {cell.said[-300:]!r}", flush=True)
            if given.jsonl:
                with open(given.jsonl, "a", encoding="utf-8") as file:
                    file.write(json.dumps(cell.__dict__) + "\n")
    for command in chosen:
        for error in given.errors.split(","):
            some = [cell for cell in cells.values() if (cell.command, cell.error) == (command, error)]
            codes = ", ".join(f"{count} x {code}" for code, count in Counter(cell.code for cell in some).items())
            bad = sum(bool(cell.wrong) for cell in some)
            of = f"{len(some):4} of {len(goods[command].calls):4} calls"
            print(f"{command:20} {error:12} {of}, {bad:3} wrong  ({codes})")
    print(f"{sum(not cell.wrong for cell in cells.values())} of {len(cells)} tries went as they should")
    sys.exit(any(cell.wrong for cell in cells.values()))


if __name__ == "__main__":
    main()
