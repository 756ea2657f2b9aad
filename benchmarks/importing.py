"""What the import benchmarks share: each reading runs in a process of its own, so that its peak memory is its own."""

from __future__ import annotations

import hashlib
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

#: an importer gives (image number, class number, value) of the known pairs, sorted by image and class
Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]


def peak_mb() -> float:
    """The most memory that this program has held; this counter starts anew with each program, unlike ru_maxrss."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def child(read: Callable[[str], Any], path: str, count: Callable[[Any], tuple[int, Sequence[np.ndarray]]]) -> None:
    """Read once; print seconds, CPU seconds, peak megabytes and a digest of what was read.

    Args:
        read: what is measured.
        path: given to ``read``.
        count: what ``read`` gave -> number of labels, and whole numbers that all ways must agree on; not measured.
    """
    before = peak_mb()
    wall, cpu = time.perf_counter(), time.process_time()
    content = read(path)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = peak_mb()
    labels, arrays = count(content)
    digest = hashlib.blake2b(digest_size=8)
    for array in arrays:
        digest.update(np.ascontiguousarray(array, np.int64))
    print(json.dumps([wall, cpu, peak, before, labels, digest.hexdigest()]))


def pairs(content: Pairs) -> tuple[int, Sequence[np.ndarray]]:
    """Compare pairs as they are."""
    return len(content[2]), content


def compare(module: str, ways: list[str], path: Path, rounds: int) -> dict[str, Any]:
    """Run all ways in turn, ``rounds`` times; medians, and a stop where the labels differ."""
    runs: dict[str, list[Any]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way in ways:
            command = [sys.executable, "-m", module, "--child", way, str(path)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            runs[way].append(json.loads(output))
    if len({run[-1] for own in runs.values() for run in own}) != 1:
        raise SystemExit(f"{path}: the ways read different labels")
    result: dict[str, Any] = {
        way: {
            "seconds": round(statistics.median(run[0] for run in own), 3),
            "cpu_seconds": round(statistics.median(run[1] for run in own), 3),
            "peak_mb": round(max(run[2] for run in own)),
            "before_mb": round(max(run[3] for run in own)),
        }
        for way, own in runs.items()
    }
    own = result[ways[0]]
    for way in ways[1:]:
        own[f"speed_against_{way}"] = round(result[way]["seconds"] / own["seconds"], 2)
        own[f"cpu_speed_against_{way}"] = round(result[way]["cpu_seconds"] / own["cpu_seconds"], 2)
    return {"megabytes": round(path.stat().st_size / 1e6, 1), "labels": runs[ways[0]][0][4], "equal": True, **result}


def machine() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": len(models),
        "threads": pa.cpu_count(),
        "python": platform.python_version(),
        "pyarrow": pa.__version__,
        "msgspec": msgspec.__version__,
        "numpy": np.__version__,
    }


def save(name: str, result: dict[str, Any]) -> None:
    text = json.dumps(result, indent=1)
    print(text)
    out = Path(__file__).parent / "results" / f"{name}.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(text + "\n")
