"""Faults that the tests have to catch: each is put into a copy of the package by itself, and its tests are run.

    python -m tests.mutations                     all of them, with a table at the end
    python -m tests.mutations method/loss labels  those whose file begins with one of these
    python -m tests.mutations --jobs 2 --table docs/mutations.md

A fault survives where its tests pass: something is not tested. It is stale where its text is no longer in the file
exactly once: write it anew. Both end with exit code 1. The tests have to pass without a fault, which is tried first.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.faults import FAULTS, Fault

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "partlabel"


@dataclass(frozen=True)
class Outcome:
    """What became of a fault: the test that caught it, ``survived``, ``stale`` or ``broken`` (no test ran)."""

    fault: Fault
    caught_by: str | None
    else_: str = ""

    def __str__(self) -> str:
        return self.caught_by or self.else_.upper()


def stale(fault: Fault) -> bool:
    """Whether the file is gone, or does not hold the text exactly once."""
    path = PACKAGE / fault.file
    return not path.is_file() or path.read_text(encoding="utf-8").count(fault.old) != 1


def run(tests: Iterable[str], source: Path) -> subprocess.CompletedProcess[str]:
    """Run tests against the package in ``source``, with the same examples each time, up to the first failure."""
    environment = {**os.environ, "PYTHONPATH": str(source), "CI": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rf", "-p", "no:cacheprovider", "--no-header"]
    return subprocess.run([*command, *tests], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def outcome(fault: Fault) -> Outcome:
    """Put the fault into a copy of the package and run its tests."""
    if stale(fault):
        return Outcome(fault, None, "stale")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "partlabel"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        path = copy / fault.file
        path.write_text(path.read_text(encoding="utf-8").replace(fault.old, fault.new), encoding="utf-8")
        done = run(fault.tests, Path(folder))
    if done.returncode == 0:
        return Outcome(fault, None, "survived")
    found = re.search(r"^FAILED (\S+)", done.stdout, re.MULTILINE)
    if done.returncode != 1 or found is None:
        return Outcome(fault, None, f"broken: {done.stdout[-300:]} {done.stderr[-300:]}")
    return Outcome(fault, found[1].partition("[")[0])


HEAD = """\
# Faults that the tests catch

Each fault is put into a copy of the package by itself; the test in the last column fails. `make mutations` tries all of
them again and writes this page; they are listed in `tests/faults/`.

"""


def table(outcomes: Iterable[Outcome]) -> str:
    """Format as a page of Markdown."""
    rows = [f"| `{o.fault.file}` | {o.fault.what} | {(o.caught_by and f'`{o.caught_by}`') or o} |" for o in outcomes]
    return HEAD + "\n".join(["| file | fault | caught by |", "|---|---|---|", *rows]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*", help="beginnings of file names below src/partlabel")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--trust", action="store_true", help="do not run the tests without a fault first")
    parser.add_argument("--table", type=Path, help="write the table here too")
    given = parser.parse_args()
    chosen = [fault for fault in FAULTS if not given.only or fault.file.startswith(tuple(given.only))]
    tests = sorted({test for fault in chosen if not stale(fault) for test in fault.tests})
    if not given.trust and (without := run(tests, PACKAGE.parent)).returncode:
        sys.exit(f"the tests fail without a fault:\n{without.stdout[-3000:]}")
    found = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for each in pool.map(outcome, chosen):
            found.append(each)
            print(f"{each.fault.file:34} {each.fault.what:60} {each}", flush=True)
    if given.table:
        given.table.write_text(table(found), encoding="utf-8")
    left = sum(each.caught_by is None for each in found)
    print(f"{len(found) - left} of {len(found)} faults are caught")
    sys.exit(bool(left))


if __name__ == "__main__":
    main()
