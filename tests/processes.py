"""Several processes of one group, as torchrun starts them, that fork from one in which torch is imported already."""

from __future__ import annotations

import multiprocessing
import os
import socket
from collections.abc import Callable
from typing import Any

#: imported once, before the first group is started; each process of a group begins with them
PRELOADED = ["torch", "torch.distributed", "partlabel.training.loop", "partlabel.metrics"]


def context() -> Any:
    """How processes are started: forked from one that has imported what is slow to import, where the system can."""
    forking = "forkserver" in multiprocessing.get_all_start_methods()
    found = multiprocessing.get_context("forkserver" if forking else "spawn")
    found.set_forkserver_preload(PRELOADED)
    return found


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def run_ranks(world: int, function: Callable[..., None], *arguments: Any) -> None:
    """Call ``function(rank, *arguments)`` in processes with the environment of torchrun; all of them have to end well.

    Args:
        world: number of processes.
        function: of a module that can be imported.
        arguments: what can be pickled.
    """
    port = free_port()
    processes = [
        context().Process(target=_rank, args=(rank, world, port, function, arguments), daemon=True)
        for rank in range(world)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=600)
    assert [process.exitcode for process in processes] == [0] * world


def _rank(rank: int, world: int, port: int, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "GROUP_RANK": "0",
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "tests",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    import torch

    torch.set_num_threads(1)
    function(rank, *arguments)
