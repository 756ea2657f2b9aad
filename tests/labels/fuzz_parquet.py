"""Parquet files with lying metadata and damaged contents: refused in one sentence, or the same table; nothing else.

    python -m tests.labels.fuzz_parquet --tries 10000 --seed 0

Each file is read in a process of its own kind: one that a crash, ten seconds or too much memory would end, which counts
as wrong. Linux and macOS.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from partlabel import LabelTable, formats
from partlabel.core.errors import UserError

#: seconds that one file may take, and bytes that reading may add
PATIENCE, MEMORY = 10, 2 * 2**30
#: files that one process reads
_BATCH = 100


def label_table(path: Path) -> None:
    """Write a label table with everything that one can hold."""
    rng = np.random.default_rng(0)
    dense = rng.integers(-1, 2, (200, 7)).astype(np.int8)
    table = LabelTable.from_dense([f"{i:04}.jpg" for i in range(200)], [f"class {c}" for c in range(7)], dense)
    image, cls = np.nonzero(table.dense() == 0)
    new = {"score": np.ones(50, np.float32), "round": 1}
    table.with_labels(image[:50], cls[:50], np.ones(50, np.int8), origin="model", **new).write_parquet(path)


def wide_table(path: Path) -> None:
    """Write a Parquet file of another program: an image column and one column for each class."""
    names = [f"{i:04}.jpg" for i in range(200)]
    pq.write_table(pa.table({"image": names, "cat": [1, 0] * 100, "dog": [0, 1] * 100}), path)


def read_labels(path: Path) -> Any:
    """Read a label table as a value."""
    return LabelTable.read_parquet(path).content_hash()


def read_wide(path: Path) -> Any:
    """Import the file of another program; damaged values may come out as other labels, as nothing vouches for them."""
    formats.read("csv", path, coding="zero-absent")


#: what is damaged -> how it is made, how it is read
KINDS: dict[str, tuple[Callable[[Path], None], Callable[[Path], Any]]] = {
    "label table": (label_table, read_labels),
    "wide table": (wide_table, read_wide),
}


@dataclass
class Found:
    """What became of the files: how often they were refused or read, and what went wrong."""

    ends: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest: float = 0.0


def mutated(whole: bytes, rng: np.random.Generator) -> bytes:
    """A copy with some damage: most in the metadata at the end, and half of it a byte or two that stay in place."""
    data = bytearray(whole)
    size, footer = len(data), int.from_bytes(whole[-8:-4], "little") + 8
    if rng.random() < 0.6:  # what reads on for longest
        low = size - footer if rng.random() < 0.8 else 4
        for at in rng.integers(low, size - 8, int(rng.integers(1, 3))):
            data[at] = int(rng.choice([data[at] ^ 1 << int(rng.integers(8)), 0, 0x7F, 0xFF, data[at] + 2 & 255]))
        return bytes(data)
    for _ in range(int(rng.integers(1, 4))):
        low = max(0, len(data) - footer) if rng.random() < 0.6 else 0
        at = int(rng.integers(low, max(len(data), low + 1)))
        kind = int(rng.integers(7))
        if kind == 0 and at < len(data):
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            data[at : at + 4] = int(rng.choice([0, 2**31 - 1, 2**32 - 1, 2**24])).to_bytes(4, "little")
        elif kind == 2:
            data[at : at + 9] = b"\xff" * 8 + b"\x7f"  # a large number in the coding of the metadata
        elif kind == 3:
            data[at : at + int(rng.integers(1, 64))] = rng.bytes(int(rng.integers(1, 64)))
        elif kind == 4:
            del data[at : at + int(rng.integers(1, size))]
        elif kind == 5:
            other = int(rng.integers(0, max(len(data), 1)))
            data[at : at + 32] = data[other : other + 32]
        else:
            data[at:at] = data[at : at + int(rng.integers(1, 256))]
    return bytes(data)


def _reader(kind: str, folder: Path, seeds: list[int], said: Any) -> None:
    """In a process of its own: read file after file, and say before each which it is."""
    make, read = KINDS[kind]
    make(folder / "whole.parquet")
    whole = (folder / "whole.parquet").read_bytes()
    sound = read(folder / "whole.parquet")
    if sys.platform == "linux":
        used = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    for seed in seeds:
        said.send((seed, "begun", 0.0))
        path = folder / "damaged.parquet"
        path.write_bytes(mutated(whole, np.random.default_rng(seed)))
        began = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, PATIENCE)
        try:
            end = "read" if read(path) == sound else "read as something else"
        except UserError as error:
            end = (
                "refused" if "Error(" not in str(error) and len(error.message) < 2_000 else f"odd words: {error}"[:300]
            )
        except BaseException as error:
            end = f"{type(error).__name__}: {error}"[:300]
        signal.setitimer(signal.ITIMER_PROF, 0)
        said.send((seed, end, time.process_time() - began))


def fuzz(kind: str, tries: int, seed: int) -> Found:
    """Read so many damaged files of a kind."""
    found, context = Found(), multiprocessing.get_context("fork")
    left = [int(one) for one in np.random.default_rng(seed).integers(2**62, size=tries)]
    with tempfile.TemporaryDirectory() as folder:
        while left:
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_reader, args=(kind, Path(folder), left[:_BATCH], theirs))
            process.start()
            theirs.close()
            last, done = None, 0
            while True:
                try:
                    last, end, seconds = ours.recv()
                except EOFError:
                    break
                if end == "begun":
                    continue
                done, found.slowest = done + 1, max(found.slowest, seconds)
                found.ends["wrong" if end not in ("read", "refused") else end] += 1
                if end not in ("read", "refused"):
                    found.wrong.append(f"{kind}, seed {last}: {end}")
            process.join()
            if process.exitcode:
                found.wrong.append(f"{kind}, seed {last}: the process ended with {process.exitcode}")
                done += 1
            left = left[done:] if done else left[1:]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    wrong = []
    for kind in KINDS:
        found = fuzz(kind, given.tries, given.seed)
        wrong += found.wrong
        print(f"{kind}: {dict(found.ends)}, slowest {found.slowest:.2f} s", *found.wrong[:20], sep="\n  ", flush=True)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
