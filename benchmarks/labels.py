"""Loading 9.4 million known labels of 1.74 million images, and dense labels of batches: partlabel and scipy.sparse.

Run ``python -m benchmarks.labels``. The table is made up: 600 classes, frequent to rare, names of 16 hex digits.
Each load runs in a process of its own, the two sides in turn; partlabel reads and checks one Parquet file, the peer an
uncompressed ``scipy.sparse`` file and a text file of names, unchecked. The run stops where the labels differ.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy
import scipy.sparse

from partlabel.labels.table import LabelTable

IMAGES, CLASSES, KNOWN = 1_743_042, 600, 9_400_000
RUNS = 5
THREADS = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
RESULT = Path(__file__).parent / "results" / "labels.json"

LOAD = """
import json, sys, time
import numpy as np
def memory():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024
folder = sys.argv[1]
{imports}
before, wall, cpu = memory(), time.perf_counter(), time.process_time()
{load}
wall, cpu, peak = time.perf_counter() - wall, time.process_time() - cpu, memory()
weight = np.arange(1, len(indices) + 1) % 8191
check = [len(names), len(indices), int((weight * indices).sum()), int((weight * values).sum()), str(names[-1])]
print(json.dumps(dict(seconds=wall, cpu_seconds=cpu, peak_mb=peak, increase_mb=peak - before, check=check)))
"""
SIDES = {
    "partlabel": (
        "from partlabel.labels.table import LabelTable",
        "table = LabelTable.read_parquet(folder + '/labels.parquet')\n"
        "names, indices, values = table.images, table.indices, table.values",
    ),
    "scipy": (
        "import scipy.sparse",
        "matrix = scipy.sparse.load_npz(folder + '/labels.npz')\n"
        "names = open(folder + '/names.txt').read().splitlines()\n"
        "indices, values = matrix.indices, matrix.data",
    ),
}


def make() -> LabelTable:
    """A table as large as the human-verified labels of Open Images."""
    random = np.random.Generator(np.random.PCG64(0))
    chance = 1 / np.arange(1, CLASSES + 1)
    key = np.zeros(0, np.int64)
    while len(key) < KNOWN:
        size = KNOWN - len(key)
        column = random.choice(CLASSES, size, p=chance / chance.sum())
        key = np.unique(np.concatenate([key, random.integers(0, IMAGES, size) * CLASSES + column]))
    values = np.where(random.random(KNOWN) < 0.3, 1, -1)
    names = pa.array([f"{number:016x}" for number in random.integers(0, 1 << 63, IMAGES)])
    return LabelTable.from_pairs(names, [f"/m/{i:05d}" for i in range(CLASSES)], key // CLASSES, key % CLASSES, values)


def load(side: str, folder: str) -> dict[str, Any]:
    imports, body = SIDES[side]
    code = LOAD.format(imports=imports, load=body)
    done = subprocess.run(
        [sys.executable, "-c", code, folder], check=True, capture_output=True, env=os.environ | THREADS
    )
    return json.loads(done.stdout)


def compare_loading(table: LabelTable, matrix: scipy.sparse.csr_array) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        table.write_parquet(Path(folder, "labels.parquet"))
        scipy.sparse.save_npz(Path(folder, "labels.npz"), matrix, compressed=False)
        Path(folder, "names.txt").write_text("\n".join(table.images.to_pylist()), encoding="utf-8")
        runs: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
        for _ in range(RUNS):
            for side in SIDES:
                runs[side].append(load(side, folder))
        sizes = {
            name: Path(folder, name).stat().st_size / 2**20 for name in ("labels.parquet", "labels.npz", "names.txt")
        }
    checks = {json.dumps(run["check"]) for side in SIDES for run in runs[side]}
    if len(checks) != 1:
        raise SystemExit(f"the two sides loaded different labels: {checks}")
    result: dict[str, Any] = {"file_mb": {name: round(size, 1) for name, size in sizes.items()}, "equal": True}
    for side in SIDES:
        measured = {name: [run[name] for run in runs[side]] for name in runs[side][0] if name != "check"}
        result[side] = {name: round(statistics.median(values), 3) for name, values in measured.items()}
        result[side]["seconds_least"] = round(min(measured["seconds"]), 3)
    return result


def timed(work: Callable[[], object], repeat: int) -> float:
    start = time.perf_counter()
    for _ in range(repeat):
        work()
    return (time.perf_counter() - start) / repeat * 1e6


def compare_batches(table: LabelTable, matrix: scipy.sparse.csr_array) -> dict[str, Any]:
    random = np.random.Generator(np.random.PCG64(1))
    result = {}
    for size in (16, 64, 256):
        rows = random.integers(0, IMAGES, size)
        for name, part in ((f"{size} rows", rows), (f"slice of {size}", slice(1000, 1000 + size))):
            if not np.array_equal(table.dense(part), matrix[part].toarray()):
                raise SystemExit(f"the two sides differ for {name}")
            sides = [[], []]
            for _ in range(RUNS):
                sides[0].append(timed(lambda part=part: table.dense(part), 50))
                sides[1].append(timed(lambda part=part: matrix[part].toarray(), 50))
            ours, theirs = map(statistics.median, sides)
            times = {"partlabel_us": round(ours, 1), "scipy_us": round(theirs, 1)}
            result[name] = {**times, "ratio": round(theirs / ours, 2), "equal": True}
    return result


def machine() -> dict[str, Any]:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    versions = {"python": platform.python_version(), "numpy": np.__version__, "pyarrow": pa.__version__}
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        **THREADS,
        **versions,
        "scipy": scipy.__version__,
    }


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    table = make()
    matrix = scipy.sparse.csr_array((table.values, table.indices, table.indptr), shape=(IMAGES, CLASSES))
    result = {"machine": machine(), "images": IMAGES, "classes": CLASSES, "known": KNOWN, "runs": RUNS}
    result |= {"loading": compare_loading(table, matrix), "dense": compare_batches(table, matrix)}
    operations = {"split": lambda: table.split([0.8, 0.1, 0.1], 0), "cooccurrence": table.cooccurrence}
    operations |= {"content_hash": table.content_hash, "merge": lambda: table.merge(table)}
    result["seconds"] = {name: round(timed(work, 1) / 1e6, 2) for name, work in operations.items()}
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
