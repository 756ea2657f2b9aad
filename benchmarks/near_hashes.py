"""Pairs of perceptual hashes that differ in at most 14 of 63 bits: by parts of them, against comparing all pairs.

Run ``python -m benchmarks.near_hashes PHOTOS`` with a folder of photographs. The hashes are those of 2,000 photographs
and of cut-outs of them (60 of each), and, where more are asked for, hashes that have 16 bits of another. Seconds
are processor seconds of one thread; all pairs are compared up to 100,000 hashes, and both give the same candidates.
Results are in ``benchmarks/results/near_hashes.json``.
"""

from __future__ import annotations

import argparse
import platform
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from partlabel.core.files import write_json
from partlabel.images import near_hashes
from partlabel.images.near_copies import BITS, SIDE, _hashes

RESULT = Path(__file__).parent / "results" / "near_hashes.json"
PHOTOS, CUT_OUTS, COMPARED = 2_000, 60, 100_000
PART = np.uint64(0xFFFF)


def of_photographs(folder: Path, seed: int = 0) -> NDArray[np.uint64]:
    """Hashes of photographs, and of cut-outs of 35 to 80 % of their width, mirrored every second time."""
    random, found = np.random.default_rng(seed), []
    for path in sorted(folder.rglob("*.jpg"))[:PHOTOS]:
        image = Image.open(path).convert("L")
        image.thumbnail((160, 160))
        grey = []
        for number in range(CUT_OUTS):
            share = random.uniform(0.35, 0.8) if number else 1.0
            width, height = max(16, int(image.width * share)), max(16, int(image.height * share))
            x, y = random.integers(0, image.width - width + 1), random.integers(0, image.height - height + 1)
            part = image.crop((x, y, x + width, y + height)).resize((SIDE, SIDE), Image.Resampling.BILINEAR)
            grey.append(np.asarray(part)[:, :: -1 if number % 2 else 1])
        found.append(_hashes(np.stack(grey).astype(np.float32)))
    return random.permutation(np.concatenate(found))


def more(hashes: NDArray[np.uint64], count: int, seed: int = 0) -> NDArray[np.uint64]:
    """So many hashes: these, then such with 16 bits of another."""
    random, parts, there = np.random.default_rng(seed), [hashes], len(hashes)
    while there < count:
        shift = np.uint64(16 * (len(parts) % 4))
        other = random.permutation(hashes)
        parts.append((hashes & ~(PART << shift)) | (other & (PART << shift)))
        there += len(hashes)
    return np.concatenate(parts)[:count]


def candidates(hashes: NDArray[np.uint64], few: int) -> tuple[set[tuple[int, int]] | int, float]:
    """The candidates (above the size that is compared, their number) and the processor seconds."""
    near_hashes.FEW = few
    began, pairs, count = time.process_time(), [], 0
    for one, other in near_hashes.candidates(hashes, BITS):
        count += len(one)
        if len(hashes) <= COMPARED:
            pairs.append(np.stack([one, other], 1))
    seconds = time.process_time() - began
    return (set(map(tuple, np.concatenate(pairs).tolist())) if pairs else count), seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("photos", type=Path)
    parser.add_argument("--counts", type=int, nargs="+", default=[10_000, 100_000, 300_000, 1_000_000])
    given = parser.parse_args()
    hashes, rows = of_photographs(given.photos), []
    for count in given.counts:
        own = more(hashes, count)
        found, seconds = candidates(own, 0)
        row: dict[str, Any] = {"hashes": count, "seconds_by_parts": round(seconds, 2)}
        row["candidates"] = found if isinstance(found, int) else len(found)
        if count <= COMPARED:
            all_found, all_seconds = candidates(own, count)
            row |= {"seconds_all_pairs": round(all_seconds, 2), "equal": found == all_found}
        row["peak_MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        rows.append(row)
        print(row, flush=True)
    result = {"bits": BITS, "photographs": len(hashes) // CUT_OUTS, "rows": rows}
    write_json(RESULT, {**result, "machine": platform.machine(), "python": platform.python_version()})


if __name__ == "__main__":
    main()
