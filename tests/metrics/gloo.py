"""The processes of the test with several processes; imports little, since each of them imports it anew."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.utils.data import DistributedSampler

from partlabel.metrics import Accumulator

SAMPLINGS = ("padded", "uneven", "first")


def split(sampling: str, images: int, rank: int, world: int) -> list[list[int]]:
    """The batches of one process: padded by PyTorch's sampler, uneven, or all images on the first process."""
    if sampling == "padded":
        own = list(DistributedSampler(range(images), world, rank, shuffle=True, seed=1))
        return [own[i : i + 2] for i in range(0, len(own), 2)]
    if sampling == "uneven":
        steps = -(-images // world)  # some processes have nothing in the last step
        return [[i] if i < images else [] for i in range(rank, steps * world, world)]
    return [list(range(images))] if rank == 0 else []


def worker(rank: int, folder: str, problems: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """Process of three: evaluates each problem with the first two and with all three processes, for each sampling."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=3)
    results = {}
    for world in (2, 3):
        group = dist.new_group(list(range(world)))
        if rank >= world:
            continue
        for name, (scores, labels) in problems.items():
            for sampling in SAMPLINGS:
                accumulator = Accumulator(labels.shape[1])
                for batch in split(sampling, len(labels), rank, world):
                    x, y = torch.from_numpy(scores[batch]), torch.from_numpy(labels[batch])
                    accumulator.update(x, y, rows=torch.tensor(batch).long())
                states: list[dict] = [{}] * world
                dist.all_gather_object(states, accumulator.state(), group=group)
                metrics = Accumulator.from_states(states).compute()
                results[f"{world} {sampling} {name}"] = metrics.to_dict()
    Path(folder, f"{rank}.json").write_text(json.dumps(results), encoding="utf-8")
    dist.destroy_process_group()
