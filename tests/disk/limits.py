"""Every command on a real small file system, and with little memory.

    python -m tests.disk.limits                       both, four times each command
    python -m tests.disk.limits --kinds memory train  one of them, some commands

``disk``: a tmpfs (which takes the right to mount) on which so much is free as the command needs, times a share.
``memory``: the address space may grow by a share of what the command needs. Afterwards as in the matrix: one sentence
and exit code 2, or a good end; old files whole; and the same command once more, without the limit, ends as if nothing
had been.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.disk import layer
from tests.disk.commands import COMMANDS, run_command
from tests.disk.matrix import Bench, Cell, Good, compare, fork, judge, left_behind

#: bytes of the file system
SIZE = 256 << 20
SHARES = (0.05, 0.3, 0.6, 0.9)
#: bytes of address space that a command surely needs to do anything
LEAST = 8 << 20


class LimitedBench(Bench):
    """A bench whose commands may be given a limit of their address space, in bytes beyond what they begin with."""

    more: int | None = None

    def _child(self, command: str, again: bool, mode: int, at: int, error: int, said: Path) -> None:
        if self.more is not None:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            limit = pages * resource.getpagesize() + self.more
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        super()._child(command, again, mode, at, error, said)

    def needed(self, command: str) -> int:
        """How much the address space of a command grows."""
        assert fork is not None
        self.fresh()
        ours, theirs = fork.Pipe(duplex=False)

        def child() -> None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(1, 2)
            size = _peak()
            run_command(command, self.disk / "place", self.disk / "out")
            theirs.send(_peak() - size)
            os._exit(0)

        process = fork.Process(target=child)
        process.start()
        process.join()
        return max(int(ours.recv()), LEAST)


def _peak() -> int:
    """The largest address space that this process had, in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmPeak"))


def used(folder: Path) -> int:
    """Bytes of all files, in whole pages as a file system gives them out."""
    return sum(-(-path.stat().st_size // 4096) * 4096 for path in folder.rglob("*") if path.is_file())


def try_limit(bench: LimitedBench, good: Good, command: str, kind: str, share: float, needs: int) -> Cell:
    """One command under a limit, and once more without."""
    bench.fresh()
    cell = Cell(command, kind, round(100 * share), f"{share:.0%} of {needs:,} bytes")
    filler = bench.base / "filler"
    if kind == "disk":
        free = os.statvfs(bench.base)
        left = free.f_bavail * free.f_frsize - int(share * needs)
        with open(filler, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(left, 1))
    else:
        bench.more = int(share * needs)
    cell.code, cell.said, _ = bench.run(command)
    bench.more = None
    filler.unlink(missing_ok=True)
    judge(cell, good.before, good.after, bench.state())
    again, said, _ = bench.run(command, again=True)
    end = bench.state()
    if again != 0:
        cell.wrong.append(f"once more: ended with {again}: {said[-300:]}")
    else:
        cell.wrong += [f"once more: {what}" for what in compare(good.after, end)]
    cell.wrong += [f"once more: {what}" for what in left_behind(end)]
    return cell


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", help="beginnings of names; all when left out")
    parser.add_argument("--kinds", default="disk,memory")
    parser.add_argument("--shares", default=",".join(map(str, SHARES)))
    parser.add_argument("--jsonl", type=Path, help="one line for each try")
    given = parser.parse_args()
    layer.under("tests.disk.limits")
    kinds = given.kinds.split(",")
    cells: list[Cell] = []
    with tempfile.TemporaryDirectory(prefix="limits-") as base:
        place = Path(base).resolve()
        if "disk" in kinds:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", place], check=True)
        try:
            bench = LimitedBench(place)
            for command in COMMANDS:
                if given.commands and not command.startswith(tuple(given.commands)):
                    continue
                good = Good.of(bench, command)
                needs = {"disk": used(bench.disk), "memory": 0}
                bench.fresh()
                needs["disk"] = max(needs["disk"] - used(bench.disk), 4096)
                if "memory" in kinds:
                    needs["memory"] = bench.needed(command)
                for kind in kinds:
                    for share in map(float, given.shares.split(",")):
                        cell = try_limit(bench, good, command, kind, share, needs[kind])
                        cells.append(cell)
                        if cell.wrong:
                            print(
                                f"{command}, {kind}, {cell.call}: {'; '.join(cell.wrong)[:600]}\n  {cell.said[-400:]!r}"
                            )
                        if given.jsonl:
                            with open(given.jsonl, "a", encoding="utf-8") as file:
                                file.write(json.dumps(cell.__dict__) + "\n")
                    some = [cell for cell in cells if (cell.command, cell.error) == (command, kind)]
                    bad = sum(bool(cell.wrong) for cell in some)
                    codes = ", ".join(f"{n} x {code}" for code, n in Counter(cell.code for cell in some).items())
                    print(f"{command:20} {kind:7} {len(some):3} tries, {bad:2} wrong  ({codes})", flush=True)
        finally:
            if "disk" in kinds:
                subprocess.run(["umount", "--lazy", place], check=False)
    print(f"{sum(not cell.wrong for cell in cells)} of {len(cells)} tries went as they should")
    sys.exit(any(cell.wrong for cell in cells))


if __name__ == "__main__":
    main()
