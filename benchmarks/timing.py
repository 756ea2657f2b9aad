"""Interleaved timing of the sides of one benchmark in one process, and the file its numbers go to."""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from partlabel.core.files import write_json


def interleaved(sides: Mapping[str, Callable[[], object]], rounds: int, repeats: int) -> dict[str, dict[str, float]]:
    """Median and lowest time of a call in seconds; in each round the sides take turns with ``repeats`` calls.

    With one thread it is processor time of that thread, with more it is wall-clock time. On a machine with other work
    the lowest time says most: a call that is interrupted comes back to cold caches.

    Before, a block of 31 MB is taken and given back, as any training does with its images: until then glibc returns
    every block of a megabyte to the system, and each tensor costs the page faults of a new one.
    """
    torch.empty(31 * 2**20, dtype=torch.uint8)
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, side in sides.items():
            for _ in range(repeats):
                start = clock()
                side()
                if number > 0:  # the first round warms up
                    times[name].append(clock() - start)
    return {name: {"median_s": statistics.median(values), "lowest_s": min(values)} for name, values in times.items()}


def compare(times: Mapping[str, Mapping[str, float]], peer: str, own: str = "partlabel") -> dict[str, Any]:
    """The times, and how many times faster ``own`` is than ``peer``."""
    return {
        **times,
        "times_faster": times[peer]["median_s"] / times[own]["median_s"],
        "times_faster_lowest": times[peer]["lowest_s"] / times[own]["lowest_s"],
    }


def machine() -> dict[str, Any]:
    """Processor, threads and versions."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": len(models),
        "threads": torch.get_num_threads(),
        "clock": "processor time" if torch.get_num_threads() == 1 else "wall-clock time",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def save(name: str, result: dict[str, Any]) -> None:
    """Print the result and write it to ``results/name.json``."""
    print(json.dumps(result, indent=1))
    write_json(Path(__file__).parent / "results" / f"{name}.json", result)
