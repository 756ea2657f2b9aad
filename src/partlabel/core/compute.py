"""What the machine offers: device, cores, processes, loaders, batch sizes. The one place where they are chosen."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from partlabel.core.errors import UserError

#: images that are run at once; few on a CPU, so that the maps of a stage stay in its cache (benchmarks/export.py)
_BATCH = {"cpu": 8}
_BATCH_ELSEWHERE = 64
#: images that are read, scored or validated at once where memory alone counts
BATCH = 64
#: what a script lacks whose loader processes do its work again
UNGUARDED = (
    'loader processes import the script that started them: put what it does behind `if __name__ == "__main__":`,'
    " or set workers=0"
)
#: up to so many images are decoded without processes for it, which take longer to start
_FEW = 64
#: where Linux says what a container may use
_GROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Processes:
    """The processes that were started together to work on one thing, and which of them this is.

    ``rank``: its number, from 0, of ``world``. ``local_rank``: its number on its node, of ``local_world``.
    """

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    local_world: int = 1


def processes() -> Processes:
    """Read what ``torchrun``, or ``srun`` of SLURM, says of the processes that it started."""
    said = os.environ
    if "WORLD_SIZE" in said:
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    elif int(said.get("SLURM_STEP_NUM_TASKS", 1)) > 1:
        names = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE")
    else:
        return Processes()
    rank, world, local_rank, here = (said.get(name, other) for name, other in zip(names, "0101", strict=True))
    of_nodes: list[int] = []
    for text in here.split(","):  # 4(x2),3 are three nodes
        count, _, times = text.partition("(x")
        of_nodes += [int(count)] * int(times.rstrip(")") or 1)
    node = int(said.get("SLURM_NODEID", 0)) if len(of_nodes) > 1 else 0
    return Processes(int(rank), int(world), int(local_rank), of_nodes[min(node, len(of_nodes) - 1)])


@dataclass(frozen=True)
class Crew:
    """The processes that share out one piece of work, and which of them this is; by default it is alone.

    Attributes:
        rank: its number, from 0.
        world: how many they are.
        collect: calls a function, which may take long or go wrong, in each process, and gives what each has made, in
            their order, to all of them. All of them have to take part.
        send: called with a rank and a function, calls the function there and gives what it has made to all of them.
    """

    rank: int = 0
    world: int = 1
    collect: Callable[[Callable[[], Any]], list[Any]] = lambda make: [make()]
    send: Callable[[int, Callable[[], Any]], Any] = lambda rank, make: make()


#: a process that works alone
ALONE = Crew()


def refuse_in_loader() -> None:
    """Refuse work in a loader process that has only begun, where a script runs anew because it guards nothing.

    Everywhere but in forked processes (Windows, macOS, Linux from Python 3.14 on), a new process imports the script
    that started it. Without this, it would wait for what its parent holds, and its parent for it.

    Raises:
        UserError: this is such a process.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise UserError(UNGUARDED)


def cores() -> int:
    """Count the processor cores for this process: its share of those that it and its fellows on the node may use.

    They are those that ``taskset`` or SLURM leave them, and no more than a container may use at a time.
    """
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = _limit("cpu.max") or _limit("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")
    here = here if limit is None else min(here, round(limit))
    return max(1, here // processes().local_world)


def _limit(*names: str) -> float | None:
    """What a control group allows: the first number, divided by the second one, if there is one; None without limit."""
    try:
        words = [word for name in names for word in (_GROUP / name).read_text().split()]
        numbers = [int(word) for word in words]  # where there is no limit, the first word is max, or -1
    except (OSError, ValueError):
        return None
    return numbers[0] / (numbers[1] if len(numbers) > 1 else 1) if numbers[0] > 0 else None


def limit_threads() -> None:
    """Let PyTorch use no more threads than there are cores for this process."""
    import torch

    torch.set_num_threads(min(torch.get_num_threads(), cores()))


def is_first_process() -> bool:
    """Whether this is the process that writes and speaks, where several were started together."""
    return processes().rank == 0


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


def memory() -> int:
    """Bytes of memory for this process: its share of the machine's, or of what a container may use."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on every system
        whole = 4 * 2**30
    limit = _limit("memory.max") or _limit("memory/memory.limit_in_bytes")
    whole = whole if limit is None else min(whole, int(limit))
    return whole // processes().local_world


def has_gpu() -> bool:
    """Whether there is a GPU that torch can use."""
    import torch  # slow to load, and not needed by those who only count cores

    return torch.cuda.is_available()


def autocast(device: Any, precision: str) -> Any:
    """The context in which a network runs in a precision of the settings: ``32``, ``bf16`` or ``16``.

    On a GPU, ``32`` lets matrix products use TF32, as convolutions do.

    Args:
        device: a ``torch.device``.
        precision: the setting.
    """
    import torch

    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    kind = {"bf16": torch.bfloat16, "16": torch.float16}.get(precision)
    return torch.autocast(device.type, dtype=kind, enabled=kind is not None)


def default_device() -> str:
    """Choose where a network runs: on the GPU, if there is one."""
    return "cuda" if has_gpu() else "cpu"


def inference_batch(device: str) -> int:
    """Choose how many images go through a network at once without a backward pass."""
    return _BATCH.get(device, _BATCH_ELSEWHERE)
