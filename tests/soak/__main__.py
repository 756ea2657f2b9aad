"""An hour of random commands, kills, full disks and people at the review page, over random tables.

    python -m tests.soak --minutes 60 --seed 0 --log soak.jsonl

After each try: no acknowledged answer is lost, no file is neither old nor new, the next start cleans up and ends as if
nothing had happened, and what is damaged is noticed. Ends with exit code 1 where anything of that failed. The same seed
draws the same tries. Linux with a C compiler.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from tests.disk import layer
from tests.disk.commands import COMMANDS, World
from tests.disk.matrix import Bench
from tests.soak.tries import TRIES, Try

#: tries in one world, before another is drawn
TRIES_IN_A_WORLD = 25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--tries", type=int, help="stop after so many, however long they take")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path, help="one line of JSON for each try")
    parser.add_argument("--commands", default="", help="beginnings of names of commands, with commas")
    given = parser.parse_args()
    layer.under("tests.soak")
    end = float("inf") if given.tries else time.monotonic() + 60 * given.minutes
    rng, tries = np.random.default_rng(given.seed), given.tries or sys.maxsize
    folder = tempfile.gettempdir()
    only = tuple(given.commands.split(","))
    commands = [name for name in COMMANDS if name.startswith(only) and name not in ("review", "evaluate")]
    counts: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    wrong: list[str] = []
    worlds = 0
    while time.monotonic() < end and sum(counts.values()) < tries:
        worlds += 1
        seed = int(rng.integers(2**31))
        with tempfile.TemporaryDirectory(prefix="soak-", dir=folder) as base:
            bench = Bench(Path(base).resolve(), World(seed))
            for _ in range(TRIES_IN_A_WORLD):
                if time.monotonic() > end or sum(counts.values()) >= tries:
                    break
                kind = str(rng.choice(list(TRIES), p=[weight for _, weight in TRIES.values()]))
                tried = Try(bench, np.random.default_rng(rng.integers(2**63)), commands)
                began = time.monotonic()
                TRIES[kind][0](tried)
                counts[kind] += 1
                faults[f"{kind}: {tried.fault}"] += 1
                wrong += [f"world {seed}, {kind}, {tried.about}: {text}" for text in tried.wrong]
                line = {"world": seed, "try": kind, "about": tried.about, "wrong": tried.wrong}
                line["seconds"] = round(time.monotonic() - began, 2)
                if given.log:
                    with open(given.log, "a", encoding="utf-8") as file:
                        file.write(json.dumps(line) + "\n")
                for text in tried.wrong:
                    print(f"WRONG world {seed}, {kind}, {tried.about}: {text}", flush=True)
    print(f"{sum(counts.values())} tries in {worlds} worlds, {len(wrong)} wrong")
    for name, count in sorted(faults.items()):
        print(f"  {count:5} {name}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
