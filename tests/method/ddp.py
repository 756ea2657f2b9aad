"""One process of the tests with two: a backward under DistributedDataParallel on its half of the rows."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

from partlabel.method.graph import LabelGraph
from partlabel.method.loss import partial_bce

FEATURES, CLASSES = 6, 5
#: rows of the two processes: the second has no known label; both have some
SPLITS = {"apart": ([0, 1], [2, 3]), "mixed": ([0, 2], [1, 3])}


def model() -> nn.Module:
    """A classifier with a label graph, the same in every process."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(FEATURES, CLASSES), LabelGraph(CLASSES)).double()


def rows() -> tuple[Tensor, Tensor]:
    """Four rows; the second half has no known label."""
    generator = torch.Generator().manual_seed(1)
    labels = torch.tensor([[1, -1, 0, 0, 1], [0, -1, 0, 0, 0], [0] * CLASSES, [0] * CLASSES], dtype=torch.int8)
    return torch.randn(4, FEATURES, generator=generator, dtype=torch.float64), labels


def main(rank: int, folder: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    features, labels = rows()
    results = {}
    for split, shares in SPLITS.items():
        parallel = nn.parallel.DistributedDataParallel(model())
        loss = partial_bce(parallel(features[shares[rank]]), labels[shares[rank]])
        loss.backward()
        results[split] = {"loss": loss.detach(), "gradients": [parameter.grad for parameter in parallel.parameters()]}
    torch.save(results, f"{folder}/{rank}.pt")
    dist.destroy_process_group()
