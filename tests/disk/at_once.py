"""The same command, started several times at once: one writes, the others are told who is at work.

    python -m tests.disk.at_once                          all commands, 50 rounds of 2 to 8 processes
    python -m tests.disk.at_once --rounds 5 train --jsonl results.jsonl

In each round a fresh copy of a folder is laid out and processes start together, or within a second of each other. Each
has to end well, or with one sentence that says who works there or that a run is there already; one at least does the
work; and what lies there afterwards is what one process alone leaves. Linux with a C compiler.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np

from tests.disk import layer
from tests.disk.commands import COMMANDS, run_command
from tests.disk.matrix import NOISE, Bench, Good, compare, fork, left_behind

#: what those are told that did not do the work
TOLD = ("is in use by", "holds a run already")


@dataclass
class Round:
    """What became of one command that was started several times."""

    command: str
    number: int
    codes: list[int | None] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def start(bench: Bench, command: str, waits: list[float]) -> list[tuple[int | None, str]]:
    """Start a command once for each wait, in seconds after all are ready: exit codes (None: it stood still), words."""
    assert fork is not None
    barrier = fork.Barrier(len(waits))
    files = [bench.base / f"said-{number}" for number in range(len(waits))]
    processes = [
        fork.Process(target=_wait_and_run, args=(bench, command, barrier, wait, file))
        for wait, file in zip(waits, files, strict=True)
    ]
    for process in processes:
        process.start()
    codes = [_ended(process) for process in processes]
    return [(code, file.read_text(errors="replace")) for code, file in zip(codes, files, strict=True)]


def _wait_and_run(bench: Bench, command: str, barrier: Any, wait: float, said: Path) -> None:
    target = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(target, 1)
    os.dup2(target, 2)
    barrier.wait()
    time.sleep(wait)
    code = run_command(command, bench.disk / "place", bench.disk / "out")
    sys.stdout.flush()
    os._exit(code)


def _ended(process: BaseProcess) -> int | None:
    process.join(600)
    if process.is_alive():
        process.kill()
        process.join()
        return None
    return process.exitcode


def judge(ends: list[tuple[int | None, str]], alone: int, good: dict[str, str], after: dict[str, str]) -> list[str]:
    """What is wrong with the ends of several; ``alone``: the exit code of one process, ``good`` what it leaves."""
    wrong = []
    for code, said in ends:
        sentences = [line for line in said.splitlines() if line.startswith("partlabel: ")]
        told = code == 2 and len(sentences) == 1 and any(words in said for words in TOLD)
        if code != alone and not told:
            wrong.append(f"ended with {code}: {said[-300:]!r}")
        elif noise := NOISE.search(said):
            wrong.append(f"said {noise[0]!r}")
    codes = [code for code, _ in ends]
    if alone == 0 and 0 not in codes:
        wrong.append("none of them did it")
    if 0 in codes:
        wrong += compare(good, after)
        wrong += left_behind(after)
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", help="beginnings of names; all when left out")
    parser.add_argument("--rounds", type=int, default=50, help="rounds of each command")
    parser.add_argument("--jsonl", type=Path, help="one line for each round; what went well there is not done again")
    given = parser.parse_args()
    layer.under("tests.disk.at_once")
    chosen = [name for name in COMMANDS if not given.commands or name.startswith(tuple(given.commands))]
    rounds: dict[tuple[str, int], Round] = {}
    if given.jsonl and given.jsonl.is_file():
        stored = [Round(**json.loads(line)) for line in given.jsonl.read_text().splitlines()]
        rounds = {(one.command, one.number): one for one in stored if not one.wrong}
    with tempfile.TemporaryDirectory(prefix="at-once-") as base:
        bench = Bench(Path(base).resolve())
        goods = {command: Good.of(bench, command) for command in chosen}
        for number in range(given.rounds):
            for command in chosen:
                if (command, number) in rounds:
                    continue
                rounds[command, number] = one = _round(bench, goods[command], command, number)
                if one.wrong:
                    print(f"{command}, round {number}: {'; '.join(one.wrong)[:900]}", flush=True)
                if given.jsonl:
                    with open(given.jsonl, "a", encoding="utf-8") as file:
                        file.write(json.dumps(one.__dict__) + "\n")
    for command in chosen:
        some = [one for one in rounds.values() if one.command == command]
        codes = Counter(code for one in some for code in one.codes)
        bad = sum(bool(one.wrong) for one in some)
        print(f"{command:20} {len(some):3} rounds, {sum(codes.values()):4} processes, {bad} wrong  {dict(codes)}")
    sys.exit(any(one.wrong for one in rounds.values()))


def _round(bench: Bench, good: Good, command: str, number: int) -> Round:
    rng = np.random.default_rng([number, list(COMMANDS).index(command)])
    count, apart = int(rng.integers(2, 9)), float(rng.choice([0, 0.05, 1]))
    bench.fresh()
    ends = start(bench, command, rng.uniform(0, apart, count).tolist())
    one = Round(command, number, [code for code, _ in ends], judge(ends, 0, good.after, bench.state()))
    if command.startswith("train") and one.codes.count(0) > 1:
        one.wrong.append("more than one trained into the folder")
    return one


if __name__ == "__main__":
    main()
