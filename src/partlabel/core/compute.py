"""What the machine offers: device, cores, loader processes, batch sizes. The one place where they are chosen."""

from __future__ import annotations

import os

#: images that are run at once; few on a CPU, so that the maps of a stage stay in its cache (benchmarks/export.py)
_BATCH = {"cpu": 8}
_BATCH_ELSEWHERE = 64
#: up to so many images are decoded without processes for it, which take longer to start
_FEW = 64


def cores() -> int:
    """Count the processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_first_process() -> bool:
    """Whether this is the process that writes and speaks, where torchrun started several."""
    return os.environ.get("RANK", "0") == "0"


def loader_workers(device: str, chosen: int | None = None, images: int | None = None) -> int:
    """Choose the number of processes that decode images.

    Args:
        device: where the network runs, a type of torch device; ``cpu`` shares the cores with the loaders.
        chosen: the number that the user wants; None chooses.
        images: how many images there are, where it is known: few are decoded in this process.
    """
    if chosen is not None:
        return chosen
    if images is not None and images <= _FEW:
        return 0
    return min(8, cores()) if device == "cuda" else max(1, cores() // 2)


def has_gpu() -> bool:
    """Whether there is a GPU that torch can use."""
    import torch  # slow to load, and not needed by those who only count cores

    return torch.cuda.is_available()


def default_device() -> str:
    """Choose where a network runs: on the GPU, if there is one."""
    return "cuda" if has_gpu() else "cpu"


def inference_batch(device: str) -> int:
    """Choose how many images go through a network at once without a backward pass."""
    return _BATCH.get(device, _BATCH_ELSEWHERE)
